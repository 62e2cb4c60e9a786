"""Records the coordinators' responses about suspects, and what is missing for a proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from exporter.snapshot.partitions import STATE_TOPIC, TopicPartition
from exporter.snapshot.transactions import CoordinatorTransaction


class StateTopic(Enum):
    """Visibility of `__transaction_state`."""

    PRESENT = "present"
    ABSENT = "absent"
    """Brokers respond that there is no such topic: a proxy hides it, or the cluster never had a transactional producer."""
    HIDDEN = "hidden"
    """The principal is not authorized to describe the topic."""
    UNKNOWN = "unknown"
    """No broker responded to the request."""


class IdVisibility(Enum):
    """Visibility of all transactional ids, according to the ACLs; made-up ids alone do not show it."""

    ALL = "all"
    """No authorizer, or the ACLs are readable, and every kind of id that they name is visible."""
    ACLS_UNREAD = "acls_unread"
    """The principal is not authorized to read the ACLs: one may hide an id."""
    ACLS_NOT_LISTED = "acls_not_listed"
    """The authorizer, or the broker, does not list ACLs at all (Open Policy Agent, Keycloak, proxies)."""
    NOT_ANSWERED = "not_answered"
    """A coordinator did not respond to the request for the ACLs, or for the ids that they name."""
    BY_NAME_ONLY = "by_name_only"
    """The ACLs name ids that are not visible: some are visible by prefix or name, and not all."""


IDS_IN_WORDS: Mapping[IdVisibility, str] = {
    IdVisibility.ACLS_UNREAD: "visible, but whether an ACL hides some is unknown",
    IdVisibility.ACLS_NOT_LISTED: "visible, but the authorizer does not list ACLs: whether it hides some is unknown",
    IdVisibility.BY_NAME_ONLY: "some are visible, and not all that the ACLs name",
    IdVisibility.NOT_ANSWERED: "a coordinator did not respond about them",
}

IDS_HIDDEN = "transactional_ids_hidden"
FAILURES_IN_WORDS: Mapping[str, str] = {
    "state_partition_offline": "offline",
    "loading": "still loading",
    "coordinator_unanswered": "without a response from their leader",
    "transaction_state_unknown": "without a response that names their leaders",
    "coordinator_moved": "moving to another broker",
    "not_coordinator": "not coordinated by their leader (moving, or partitions were added: then restart brokers)",
    "transactions_not_offered": "at brokers that do not offer DescribeTransactions: Kafka 3.0 or later is needed",
    "address_of_another_broker": "at brokers that are not reached at an address of their own",
    "leadership_unconfirmed": "at leaders that could not be confirmed",
    IDS_HIDDEN: "not authorized (needs DESCRIBE on all transactional ids)",
}
"""Failures of a state partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePartitionProof:
    """One partition of `__transaction_state`, probed before and after the coordinators were queried.

    `failure` is None if both probes returned TRANSACTIONAL_ID_NOT_FOUND at the same leader and leader epoch: the partition
    is loaded there and ids that hash to it are visible. Otherwise it is a short name of the problem:
    `state_partition_offline`, `loading`, `transactional_ids_hidden`, `coordinator_unanswered`, `transactions_not_offered`,
    `transaction_state_unknown` (no response named the leaders again), `coordinator_moved`, `not_coordinator`,
    `leadership_unconfirmed`, `address_of_another_broker`.
    """

    partition: int
    leader: int
    failure: str | None
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfirmed:
    """A partition whose leader could not be confirmed: it may be cut off from its controller."""

    topic: str
    partition: int
    why: str
    """A sentence without its full stop."""


@dataclass(frozen=True, kw_only=True)
class CoordinatorProof:
    """The coordinators' responses between the two reads of unverified transactions, and what is missing for a proof.

    Order in time: first read of the partition, probes, listing, descriptions, probes again, followers, second read,
    confirmation of every leader whose response was used.
    """

    state_topic: StateTopic
    state_partitions: tuple[StatePartitionProof, ...]
    listing_failures: tuple[tuple[int, str], ...]
    """(broker id, reason) of coordinators whose ListTransactions failed."""
    transactions: tuple[CoordinatorTransaction, ...]
    """Transactions of the unverified producer ids, in any state, listed and described between the probes."""
    later: tuple[tuple[CoordinatorTransaction, ...], ...] = ()
    """Further descriptions, where only the offset of a transaction is known; the last one is after the second read."""
    unclear_producer_ids: frozenset[int]
    """Listed, but the description failed or named another producer id: it changed between the requests."""
    hidden_topics: frozenset[str]
    """Topics that a coordinator does not show: it omits them from descriptions silently."""
    id_visibility: IdVisibility
    state_topic_id: str = ""
    unconfirmed: tuple[Unconfirmed, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if every request got a response, and every leader is confirmed."""
        return (
            self.failure is None
            and not self.unconfirmed
            and not self.unclear_producer_ids
            and not self.hidden_topics
            and self.id_visibility is not IdVisibility.NOT_ANSWERED
        )

    def failure_for(self, transaction: CoordinatorTransaction | None) -> str | None:
        """Returns why these responses prove nothing about the producer of `transaction`; None if they prove something.

        A producer id belongs to one transactional id permanently: if a coordinator names it, only the state partition to
        which that id hashes counts. If `transaction` is None, no coordinator knows the producer id: all state partitions
        count.
        """
        if transaction is None or not 0 <= transaction.state_partition < len(self.state_partitions):
            return self.failure
        owner = self.state_partitions[transaction.state_partition]
        if owner.failure is None and transaction.coordinator != owner.leader:
            return "coordinator_moved"
        return owner.failure

    def why_unconfirmed(self, topic: str, partition: int) -> str | None:
        """Returns why the leader of this partition is not confirmed; None if it is, or need not be."""
        return self._why_unconfirmed.get((topic, partition))

    @cached_property
    def _why_unconfirmed(self) -> Mapping[TopicPartition, str]:
        return {(partition.topic, partition.partition): partition.why for partition in reversed(self.unconfirmed)}

    @cached_property
    def why_state_unconfirmed(self) -> str | None:
        """Reason why the leader of some state partition is not confirmed; None if all are."""
        return next((partition.why for partition in self.unconfirmed if partition.topic == STATE_TOPIC), None)

    @cached_property
    def failure(self) -> str | None:
        """Reason why these responses do not prove that no coordinator knows a producer id; None if they do."""
        if self.state_topic is not StateTopic.PRESENT:
            return f"transaction_state_{self.state_topic.value}"
        failures = [proof.failure for proof in self.state_partitions if proof.failure is not None]
        if failures:
            return failures[0]
        if self.listing_failures or not self.state_partitions:
            return "coordinator_unanswered"
        return None
