"""The nouns: what one cycle read from the cluster, and how much of it could be read.

Law of this file: plain data and pure relations between data. It imports only such data, and reads no clock and no socket.
Whatever grows with partitions or producers is a column (numpy); whatever stays small is a frozen record.

Instants are milliseconds since 1970 UTC, as Kafka writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from exporter.end_markers import EndMarkers

Int8Column = npt.NDArray[np.int8]
Int16Column = npt.NDArray[np.int16]
Int32Column = npt.NDArray[np.int32]
Int64Column = npt.NDArray[np.int64]
BoolColumn = npt.NDArray[np.bool_]

NO_LEADER = -1
UNKNOWN_OFFSET = -1
OFFSETS_TOPIC = "__consumer_offsets"
STATE_TOPIC = "__transaction_state"


class Answer(IntEnum):
    """What became of the question about one partition."""

    READ = 0
    UNAUTHORIZED = 1
    UNAVAILABLE = 2

    @property
    def label(self) -> str:
        """The value of the metric label `answer`."""
        return self.name.lower()


class SecondRead(IntEnum):
    """What a second DescribeProducers, after the coordinators were asked, said of a transaction.

    A transaction that the second read no longer shows has ended and is not part of the snapshot at all.
    """

    NOT_ASKED = 0
    UNCHANGED = 1
    CHANGED = 2
    UNREAD = 3
    UNCONFIRMED = 4
    """Unchanged, but the broker that was read is not confirmed to lead the partition: `CoordinatorProof.unconfirmed`."""


class TransactionState(Enum):
    """States of a transaction as coordinators write them (Kafka's TransactionState); any other name is UNKNOWN."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"
    UNKNOWN = "Unknown"

    @classmethod
    def of(cls, name: str) -> TransactionState:
        """The state called `name`; UNKNOWN for a name that a later Kafka may invent."""
        return _STATES.get(name, cls.UNKNOWN)


_STATES = {state.value: state for state in TransactionState}

ENDED_STATES = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
COMPLETING_STATES = frozenset(
    {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT, TransactionState.PREPARE_EPOCH_FENCE}
)
ACTIVE_STATES = COMPLETING_STATES | {TransactionState.ONGOING}

TIMEOUT_MS_TWO_PHASE_COMMIT = 2**31 - 1
"""KIP-939: a prepared transaction carries this timeout and is exempt from the coordinator's time-outs."""


@dataclass(frozen=True, kw_only=True)
class Partitions:
    """One row per partition of the cluster that the metadata shows us, in the order of topic and partition."""

    topics: tuple[str, ...]
    topic_ids: tuple[str, ...] = ()
    """(T,) what tells a topic from a later one of the same name; "" from brokers without topic ids, empty where unknown."""
    topic: Int32Column
    """(P,) index into `topics`."""
    partition: Int32Column
    leader: Int32Column
    """(P,) broker id, NO_LEADER when there is none."""
    answer: Int8Column
    """(P,) `Answer`."""
    reasons: tuple[str, ...]
    """Why partitions could not be read: short names such as `no_leader`, `timed_out`, `TOPIC_AUTHORIZATION_FAILED`."""
    reason: Int16Column
    """(P,) index into `reasons`, -1 where the partition was read."""
    producers: Int32Column
    """(P,) producer entries in the answer, idle and idempotent ones included."""

    def __len__(self) -> int:
        return len(self.topic)

    def name(self, row: int) -> tuple[str, int]:
        """(topic, partition) of one row."""
        return self.topics[self.topic[row]], int(self.partition[row])

    def topic_id(self, row: int) -> str:
        """Of one row's topic; "" where it is not known."""
        return self.topic_ids[self.topic[row]] if self.topic_ids else ""

    def row(self, topic: str, partition: int) -> int | None:
        """The row of one partition; None when it is not there."""
        if topic not in self.topics:
            return None
        index = self.topics.index(topic)
        first, end = np.searchsorted(self.topic, (index, index + 1)).tolist()
        row = first + int(np.searchsorted(self.partition[first:end], partition))
        return row if row < end and self.partition[row] == partition else None


@dataclass(frozen=True, kw_only=True)
class OpenTransactions:
    """One row per open transaction: an entry of DescribeProducers with a start offset of 0 or more.

    Rows that were seen to end within the cycle are left out.
    """

    partition_row: Int32Column
    """(N,) row in `Partitions`."""
    producer_id: Int64Column
    producer_epoch: Int32Column
    last_sequence: Int32Column
    last_timestamp_ms: Int64Column
    """(N,) timestamp of the producer's last write: the client's clock unless the topic uses LogAppendTime."""
    coordinator_epoch: Int32Column
    """(N,) -1 until the producer's first marker on this partition."""
    start_offset: Int64Column
    second_read: Int8Column
    """(N,) `SecondRead`."""
    diverged_replicas: tuple[tuple[int, ...], ...] = ()
    """(N,) brokers that follow the partition and have seen the transaction end; empty when no follower has."""
    silent_replicas: tuple[tuple[int, ...], ...] = ()
    """(N,) in-sync followers that did not respond, or do not show the transaction open; empty when all of them do."""
    high_watermark: Int64Column
    """(N,) of the partition, UNKNOWN_OFFSET when it could not be read."""
    last_stable_offset: Int64Column
    """(N,) of the partition, UNKNOWN_OFFSET when it could not be read."""

    def __len__(self) -> int:
        return len(self.partition_row)


class Ownership(Enum):
    """How a coordinator's transaction relates to an open transaction of the same producer id on one partition."""

    UNLISTED = "unlisted"
    """No coordinator listed the producer id."""
    LISTED_ACTIVE = "listed_active"
    """Listed in an active state, and not described: its partitions are not known."""
    NOT_IN_TRANSACTION = "not_in_transaction"
    """The coordinator's transaction has ended or does not include the partition."""
    OWNED = "owned"
    """Ongoing, same epoch, lists the partition."""
    COMPLETING = "completing"
    """Its outcome is decided and the partition's marker is still owed."""
    STALE_EPOCH = "stale_epoch"
    """Ongoing at a newer epoch with the partition listed: the new transaction's marker would close the old records."""
    COORDINATOR_BEHIND = "coordinator_behind"
    """Ongoing, and the partition has seen a newer epoch than the coordinator: nothing can be concluded."""
    UNKNOWN_STATE = "unknown_state"
    """The coordinator names a state that this version does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorTransaction:
    """What a coordinator says of one transactional id: a row of ListTransactions, and of DescribeTransactions if asked.

    A transaction that was only listed has `partitions` None, and then neither epoch, timeout nor start.
    """

    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator: int
    """Broker id."""
    producer_epoch: int = -1
    timeout_ms: int = -1
    start_time_ms: int = -1
    """-1 where the transaction has not begun."""
    partitions: frozenset[tuple[str, int]] | None = None
    state_partition: int = -1
    """The partition of `__transaction_state` to which the id hashes; -1 where it was not worked out."""

    @property
    def is_described(self) -> bool:
        """True when the coordinator was asked for epoch, timeout, start and partitions."""
        return self.partitions is not None

    @property
    def is_active(self) -> bool:
        """True while the coordinator has it Ongoing or is completing it."""
        return self.state in ACTIVE_STATES


def ownership(transaction: CoordinatorTransaction | None, partition: tuple[str, int], producer_epoch: int) -> Ownership:
    """How `transaction` relates to the open transaction of its producer id at `producer_epoch` on `partition`.

    TransactionVersion 2 bumps the epoch at Prepare (and a time-out once more), so a coordinator that is ahead while
    completing is normal; ahead while Ongoing is not (KIP-890).
    """
    if transaction is None:
        return Ownership.UNLISTED
    if transaction.state in ENDED_STATES:
        return Ownership.NOT_IN_TRANSACTION
    if transaction.state not in ACTIVE_STATES:
        return Ownership.UNKNOWN_STATE
    if transaction.partitions is None:
        return Ownership.LISTED_ACTIVE
    if partition not in transaction.partitions:
        return Ownership.NOT_IN_TRANSACTION
    if transaction.state in COMPLETING_STATES:
        return Ownership.COMPLETING  # also behind the partition's epoch: then its marker is refused for ever
    if transaction.producer_epoch < producer_epoch:
        return Ownership.COORDINATOR_BEHIND
    return Ownership.OWNED if transaction.producer_epoch == producer_epoch else Ownership.STALE_EPOCH


class StateTopic(Enum):
    """Whether `__transaction_state` can be seen."""

    PRESENT = "present"
    ABSENT = "absent"
    """It does not exist: the cluster never had a transactional producer."""
    HIDDEN = "hidden"
    """We may not describe it."""
    UNKNOWN = "unknown"
    """The question was not answered."""


class IdVisibility(Enum):
    """Whether every transactional id is visible to us, as far as the ACLs tell; made-up ids alone do not tell."""

    ALL = "all"
    """No authorizer, or the ACLs are readable, hold no DENY on describing ids, and allow us every kind of id they name."""
    DENY_POSSIBLE = "deny_possible"
    """There is a DENY on describing transactional ids, or the ACLs cannot be read."""
    BY_NAME_ONLY = "by_name_only"
    """The ACLs name ids that are not visible to us: we see some by prefix or name, and not all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePartitionProof:
    """One partition of `__transaction_state`, probed before and after the coordinators were asked.

    `failure` is None when both probes answered TRANSACTIONAL_ID_NOT_FOUND at the same leader and leader epoch: the
    partition is loaded there and ids that hash to it are visible to us. Otherwise it is a short name of what went wrong:
    `state_partition_offline`, `loading`, `transactional_ids_hidden`, `coordinator_unanswered`, `coordinator_moved`,
    `leadership_unconfirmed`.
    """

    partition: int
    leader: int
    failure: str | None
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfirmed:
    """A partition whose leader was believed and could not be confirmed: it may be cut off from its controller."""

    topic: str
    partition: int
    why: str
    """A sentence without its full stop."""


@dataclass(frozen=True, kw_only=True)
class CoordinatorProof:
    """What was asked of the coordinators between the two reads of doubtful transactions, and what stands in the way.

    Order in time: first read of the partition, probes, listing, descriptions, probes again, followers, second read,
    confirmation of every leader that was believed.
    """

    state_topic: StateTopic
    state_partitions: tuple[StatePartitionProof, ...]
    listing_failures: tuple[tuple[int, str], ...]
    """(broker id, reason) of coordinators whose ListTransactions failed."""
    transactions: tuple[CoordinatorTransaction, ...]
    """Those of the doubtful producer ids, in any state, listed and described between the probes."""
    unclear_producer_ids: frozenset[int]
    """Listed, but the description failed or named another producer id: it changed while it was asked for."""
    hidden_topics: frozenset[str]
    """Topics that a coordinator does not let us see: it leaves them out of descriptions without a word."""
    id_visibility: IdVisibility
    state_topic_id: str = ""
    unconfirmed: tuple[Unconfirmed, ...] = ()

    def failure_for(self, transaction: CoordinatorTransaction | None) -> str | None:
        """Why these responses prove nothing about the producer of `transaction`; None when they do.

        A producer id belongs to one transactional id for ever: where a coordinator names it, only the state partition to
        which that id hashes counts. None as `transaction` rests on nobody knowing the producer id: all of them count.
        """
        if transaction is None or not 0 <= transaction.state_partition < len(self.state_partitions):
            return self.failure
        owner = self.state_partitions[transaction.state_partition]
        if owner.failure is None and transaction.coordinator != owner.leader:
            return "coordinator_moved"
        return owner.failure

    def why_unconfirmed(self, topic: str, partition: int) -> str | None:
        """Why the leader of this partition is not confirmed; None where it is, or need not be."""
        return next((it.why for it in self.unconfirmed if (it.topic, it.partition) == (topic, partition)), None)

    @cached_property
    def failure(self) -> str | None:
        """Why these responses do not prove that nobody knows a producer id; None when they do."""
        if self.state_topic not in {StateTopic.PRESENT, StateTopic.ABSENT}:
            return f"transaction_state_{self.state_topic.value}"
        failures = [proof.failure for proof in self.state_partitions if proof.failure is not None]
        if failures:
            return failures[0]
        return "coordinator_unanswered" if self.listing_failures else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """What a consumer group has committed on one partition."""

    group: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, kw_only=True)
class Impact:
    """The consumer groups behind the transactions that want a person, as far as we may see groups."""

    offsets: tuple[GroupOffset, ...]
    residents: tuple[tuple[int, str], ...]
    """(partition of `__consumer_offsets`, group): groups that keep their own offsets on a suspect's partition."""
    failures: tuple[str, ...]
    """Brokers whose groups are not known, a sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCoverage:
    """One broker that had to be asked."""

    broker: int
    host: str
    port: int
    partitions: int
    """Partitions it leads and that were asked of it."""
    failure: str | None
    """None when every request was answered; else what went wrong, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorCoverage:
    """One coordinator (a leader of `__transaction_state` partitions) that was asked for active transactions."""

    broker: int
    failure: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxTimeout:
    """`transaction.max.timeout.ms` as the brokers have it configured."""

    timeout_ms: int | None
    """The largest of all brokers; None when no broker let us read it."""
    timeout_ms_min: int | None
    unread: tuple[tuple[int, str], ...]
    """(broker id, reason) of brokers that did not tell."""
    two_phase_commit: bool = False
    """True where some broker allows transactions without a time-out (KIP-939)."""

    @property
    def is_binding(self) -> bool:
        """True when no transaction can be open for longer: every broker was read, and none allows two-phase commit."""
        return self.timeout_ms is not None and not self.unread and not self.two_phase_commit


class ClockSource(Enum):
    """Whose clock `Snapshot.cluster_time_ms` goes by."""

    CONTROLLER = "controller"
    """The active controller's, read by DescribeQuorum and carried on by our monotonic clock."""
    EXPORTER = "exporter"
    """Our own wall clock as it was at the start, carried on by our monotonic clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """What of the cluster is not shown to us, beyond partitions that refuse to be read."""

    hidden_topics: tuple[str, ...] = ()
    """Topics that were visible to us and are no more, though no broker says that they are deleted."""
    gaps: tuple[str, ...] = ()
    """A sentence for each thing that cannot be seen, with the grant that is missing."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What one cycle read: facts, and how much of the cluster they cover."""

    cluster_id: str
    taken_at_ms: int
    """The instant at which reading began, by our own wall clock: nothing in here is older."""
    finished_at_ms: int
    clock_offset_ms: int = 0
    """What the cluster's clock is ahead of our wall clock."""
    clock_source: ClockSource = ClockSource.CONTROLLER
    monotonic_ms: int | None = None
    """`taken_at_ms` by a clock that only goes on, for differences within one process; None where there is no such clock."""
    visibility: Visibility = Visibility()
    partitions: Partitions
    open_transactions: OpenTransactions
    transactions: tuple[CoordinatorTransaction, ...]
    """Active transactions as the coordinators listed them; described where they matter."""
    unclear_producer_ids: frozenset[int] = frozenset()
    """Listed as active and asked for, but the description failed or named another producer id."""
    proof: CoordinatorProof | None
    """None when no transaction was in doubt."""
    impact: Impact | None = None
    """None when nobody needed to be asked."""
    end_markers: EndMarkers | None = None
    """None when no log was searched: only a person's question is worth it."""
    brokers: tuple[BrokerCoverage, ...]
    coordinators: tuple[CoordinatorCoverage, ...]
    """Empty when nothing was open: the coordinators were not asked."""
    max_timeout: MaxTimeout

    @property
    def cluster_time_ms(self) -> int:
        """`taken_at_ms` by the cluster's clock: what the brokers' own instants are compared with."""
        return self.taken_at_ms + self.clock_offset_ms

    @property
    def is_complete(self) -> bool:
        """True when everything was visible and responded; partitions refused for lack of READ count as unread."""
        return (
            not self.visibility.gaps
            and not np.any(self.partitions.answer != Answer.READ)
            and all(broker.failure is None for broker in self.brokers)
            and all(coordinator.failure is None for coordinator in self.coordinators)
            and not self.unclear_producer_ids
            and (self.proof is None or (self.proof.failure is None and not self.proof.unconfirmed))
            and not np.any(self.open_transactions.second_read == SecondRead.UNREAD)
            and not any(self.open_transactions.silent_replicas)
        )
