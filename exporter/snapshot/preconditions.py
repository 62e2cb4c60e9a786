"""Records what a proof of a hang would need, and has: read before there is a hang."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from exporter.snapshot.proof import IdVisibility, StatePartitionProof, StateTopic


class Provable(Enum):
    """Extent to which hangs of the included topics would be found and proved."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


class ProofLevel(Enum):
    """The kind of proof that this cluster allows this principal (docs/platforms.md). The values are published."""

    FULL = "full"
    """A proof with the producer, from two reads of it."""
    BY_OFFSETS = "by_offsets"
    """A proof by the last stable offset, on some partitions at least."""
    WATCH_ONLY = "watch_only"
    """No proof: open transactions, their durations and the groups behind them are shown."""
    NONE = "none"
    """Nothing is read."""

    @property
    def in_words(self) -> str:
        """A sentence; empty if nothing is read."""
        return _LEVELS[self]


_LEVELS = {
    ProofLevel.FULL: "Level of proof there: full, with the producer.",
    ProofLevel.BY_OFFSETS: "Level of proof there: by offsets, where producers are not shown.",
    ProofLevel.WATCH_ONLY: "Level of proof: watch only; open transactions, their durations and groups are shown.",
    ProofLevel.NONE: "",
}


class Resource(Enum):
    """Resource of an ACL; the values are the options of kafka-acls.sh."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class DenyRule:
    """An ACL that denies an operation which the exporter needs, to some principal."""

    principal: str
    host: str
    operation: str
    """Name of the operation for kafka-acls.sh: `Describe`."""
    resource: Resource
    name: str
    is_prefixed: bool

    def concerns(self, principal: str | None) -> bool:
        """True if it is about this principal, or about all; also if the principal is unknown."""
        return principal is None or self.principal in {principal, "User:*"}

    def matches(self, resource: Resource, name: str) -> bool:
        """True if it is about this resource."""
        if resource is not self.resource:
            return False
        return name.startswith(self.name) if self.is_prefixed else self.name in {"*", name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Acls:
    """The cluster's ACLs, as far as they are needed and readable."""

    has_authorizer: bool = True
    unread: str = ""
    """Reason why the ACLs could not be read: an error of Kafka, or a sentence; empty if they were."""
    denied: tuple[DenyRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerContact:
    """Contact with a broker, or a bootstrap address: whether it responds."""

    broker: int | None
    """Id of the broker; None for a bootstrap address that no broker has as its own."""
    address: str
    latency_ms: float | None = None
    """Latency of a request over an open connection; None if the broker does not respond."""
    release: str = ""
    """The Kafka release whose APIs it offers; empty if that is unknown."""
    failure: str = ""
    """A sentence; empty if it responds."""
    out_of_date: str = ""
    """Reason why the metadata may be old, a sentence: the broker has no contact with its controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """Everything that a proof rests on but the partitions themselves, which a snapshot has.

    The defaults claim nothing: what was not asked is not there.
    """

    contacts: tuple[BrokerContact, ...]
    state_topic: StateTopic
    state_partitions: tuple[StatePartitionProof, ...] = ()
    id_visibility: IdVisibility = IdVisibility.NOT_ANSWERED
    is_id_refused: bool = False
    """A broker refused a made-up transactional id: no id is visible, or few are."""
    acls: Acls = Acls(unread="no broker was queried")
    hidden_topics: str = "some topics may not be visible: no broker was queried"
    """Reason why some topics may not be visible, a sentence; empty if every topic is visible."""
    are_groups_refused: bool = False
    """A broker refused a made-up consumer group."""
    groups_hidden: str = "some consumer groups may not be visible: no broker was queried"
    """Reason why some consumer groups may not be visible, a sentence; empty if every group is visible."""
