"""Records transactions whose outcome is decided and whose coordinator still waits for end markers.

None of their partitions needs to have anything open: a coordinator whose marker a partition has refused waits for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from exporter.snapshot.transactions import CoordinatorTransaction


class MarkerFinding(Enum):
    """The end marker of a completing transaction in a partition's log, compared with the decision. Worst first.

    The values are published, for one marker and as the worst of a transaction.
    """

    CONTRADICTED = "contradicted"
    """The log has the opposite marker: a commit is lost, or an abort is visible."""
    MISSING = "missing"
    """The transaction is open there."""
    UNKNOWN = "unknown"
    AS_DECIDED = "as_decided"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMarker:
    """A partition whose end marker the coordinator of a completing transaction waits for."""

    topic: str
    partition: int
    finding: MarkerFinding
    offset: int | None = None
    """Offset of the marker, or the start offset of the transaction if the marker is missing; None if unknown."""
    timestamp_ms: int | None = None
    """Time of the marker, by the clock of the partition's leader; None if it was not found."""
    coordinator_epoch: int = -1
    """The newest coordinator epoch that the partition has seen of this producer; it refuses an older one. -1 if none."""
    detail: str = ""
    """Reason for an unknown finding."""


class CompletingId(NamedTuple):
    """Identity of a completing transaction in a coordinator's list."""

    transactional_id: str
    producer_id: int

    @classmethod
    def of(cls, transaction: CoordinatorTransaction) -> CompletingId:
        return cls(transaction.transactional_id, transaction.producer_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletingTransaction:
    """A transaction that an earlier cycle and this one have seen completing, as its coordinator describes it."""

    transaction: CoordinatorTransaction
    state_partition: int
    coordinator_epoch: int
    """Leader epoch of its partition of `__transaction_state`, which its markers carry; -1 if unknown."""
    unconfirmed: str = ""
    """Reason to doubt that the broker that describes it is still its coordinator."""
    markers: tuple[PendingMarker, ...] = ()
    """Empty until a second cycle has described it."""

    @property
    def identity(self) -> CompletingId:
        return CompletingId.of(self.transaction)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completions:
    """All transactions that coordinators list as completing, with those that stay so."""

    listed: frozenset[CompletingId] = frozenset()
    lasting: tuple[CompletingTransaction, ...] = ()
    undescribed: frozenset[CompletingId] = frozenset()
    """Lasting ones beyond the limit of what a cycle describes, or whose coordinator has not described them."""


NOTHING_COMPLETES: Final = Completions()


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedCompletion:
    """Facts about a completing transaction from earlier cycles."""

    start_ms: int | None = None
    """Start of the described transaction; None if it was only listed."""
    since_ms: int = 0
    """Time of the first cycle that has described it, by the cluster's clock."""
    from_ms: int | None = None
    """`since_ms` by the monotonic clock of this process; never carried over a restart."""
    markers: tuple[PendingMarker, ...] = ()

    def is_of(self, transaction: CoordinatorTransaction) -> bool:
        """True if this very transaction was described, and not an earlier one of its id."""
        return self.start_ms is not None and self.start_ms == transaction.start_ms


RememberedCompletions = Mapping[CompletingId, RememberedCompletion]
NOTHING_REMEMBERED: Final[RememberedCompletions] = MappingProxyType({})
