"""Declares verdicts, their reasons, and the columns and rows of an evaluation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property

import numpy as np

from exporter.baseline import UsualDuration
from exporter.evaluation.disk import HeldBytes
from exporter.evaluation.evidence import Evidence
from exporter.evaluation.memory import GroupKey, Memory
from exporter.evaluation.stuck_transaction import StuckTransaction
from exporter.snapshot import (
    NO_PRODUCER_ID,
    BoolColumn,
    Int8Column,
    Int32Column,
    Int64Column,
    Snapshot,
    TopicPartition,
    TransactionKey,
)


class VerdictKind(Enum):
    """The kind of a verdict for an operator."""

    HANGING = "hanging"
    """A proof: no coordinator will write the transaction's marker."""
    SUSPECT = "suspect"
    """The transaction needs attention."""
    ORDINARY = "ordinary"


class Verdict(IntEnum):
    """The verdicts on an open transaction, worst first: the order is the rank, which is never stored.

    This is the only list of verdicts: schema, dashboards and tests are made from it.
    """

    kind: VerdictKind

    def __new__(cls, kind: VerdictKind) -> Verdict:
        """The next rank."""
        rank = len(cls.__members__)
        verdict = int.__new__(cls, rank)
        verdict._value_ = rank
        verdict.kind = kind
        return verdict

    HANGING_STALE_EPOCH = VerdictKind.HANGING
    HANGING_NO_TRANSACTIONAL_ID = VerdictKind.HANGING
    HANGING_NOT_IN_TRANSACTION = VerdictKind.HANGING
    HANGING_BY_OFFSETS = VerdictKind.HANGING
    REPLICA_DIVERGED = VerdictKind.SUSPECT
    STUCK_COMPLETING = VerdictKind.SUSPECT
    OVERDUE_AT_COORDINATOR = VerdictKind.SUSPECT
    INCONCLUSIVE = VerdictKind.SUSPECT
    COMPLETING = VerdictKind.ORDINARY
    PREPARED_TWO_PHASE_COMMIT = VerdictKind.ORDINARY
    OPEN_WITHIN_TIMEOUT = VerdictKind.ORDINARY

    @property
    def label(self) -> str:
        """The value of the metric label `verdict`."""
        return self.name.lower()

    @classmethod
    def ranked(cls, rank: int) -> Verdict:
        """The verdict of a number in a column."""
        return _BY_RANK[rank]

    @property
    def is_hanging(self) -> bool:
        """True for the verdicts that are proofs of a hang."""
        return self.kind is VerdictKind.HANGING

    @property
    def is_suspect(self) -> bool:
        """True for the verdicts that need attention."""
        return self.kind is not VerdictKind.ORDINARY


_BY_RANK = tuple(Verdict)
IS_SUSPECT = np.array([verdict.is_suspect for verdict in Verdict])
"""(V,) by rank: `IS_SUSPECT[column]` is true where a column of verdicts holds a suspect."""


class StartSource(IntEnum):
    """The source of a transaction's start, and so of its duration."""

    COORDINATOR = 0
    FIRST_SEEN = 1
    LAST_WRITE = 2
    TRANSACTION_LOG = 3
    NOT_OPEN_BEFORE = 4
    """A broker's clock shows it not open before, although its last write, by the client's clock, is older."""

    @property
    def label(self) -> str:
        """The name used in JSON and on the status page."""
        return self.name.lower()


class InconclusiveReason(Enum):
    """The missing part of a proof. The values are published."""

    ID_LISTED_NOT_DESCRIBED = "id_listed_not_described"
    CHANGED_BETWEEN_READS = "changed_between_reads"
    SECOND_READ_FAILED = "second_read_failed"
    CHANGED_WHILE_ASKED = "changed_while_asked"
    TOPICS_HIDDEN = "topics_hidden"
    IDS_MAY_BE_DENIED = "ids_may_be_denied"
    ACLS_NOT_LISTED = "acls_not_listed"
    IDS_VISIBLE_BY_NAME_ONLY = "ids_visible_by_name_only"
    COORDINATOR_BEHIND = "coordinator_behind"
    LEADERSHIP_UNCONFIRMED = "leadership_unconfirmed"
    REPLICA_UNREAD = "replica_unread"
    REPLICA_UNAWARE = "replica_unaware"
    MAY_BE_FENCED = "may_be_fenced"
    CLOCK_UNVERIFIED = "clock_unverified"
    UNKNOWN_STATE = "unknown_state"
    TRANSACTION_STATE_HIDDEN = "transaction_state_hidden"
    TRANSACTION_STATE_ABSENT = "transaction_state_absent"
    TRANSACTION_STATE_UNKNOWN = "transaction_state_unknown"
    STATE_PARTITION_OFFLINE = "state_partition_offline"
    LOADING = "loading"
    TRANSACTIONAL_IDS_HIDDEN = "transactional_ids_hidden"
    COORDINATOR_UNANSWERED = "coordinator_unanswered"
    COORDINATOR_MOVED = "coordinator_moved"
    ADDRESS_OF_ANOTHER_BROKER = "address_of_another_broker"
    NOT_COORDINATOR = "not_coordinator"
    TRANSACTIONS_NOT_OFFERED = "transactions_not_offered"
    NOT_ASKED = "not_asked"
    NOT_EXAMINED = "not_examined"
    OWNER_UNKNOWN = "owner_unknown"


class OutcomeEvidence(Enum):
    """The outcome of this producer's transaction on other partitions, by the evidence."""

    COMMITTED = "committed"
    """Evidence shows a commit that may be this transaction's."""
    ABORTED = "aborted"
    """Proved: every possible place of a commit was read to its end."""
    NONE = "none"


class OwnerState(Enum):
    """The producer of a live transaction. The values are published."""

    WRITING = "writing"
    SILENT = "silent"
    """A producer that has written nothing for longer than is usual, or than a part of its time-out. It may still commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings of an evaluation; all durations in milliseconds."""

    late_padding_ms: int = 5 * 60 * 1000
    """Added to `transaction.max.timeout.ms`; the broker's own LATE_TRANSACTION_BUFFER_MS."""
    max_timeout_fallback_ms: int = 15 * 60 * 1000
    """Used if `transaction.max.timeout.ms` could not be read from any broker; Kafka's default."""
    overdue_slack_ms: int = 30 * 1000
    """A transaction is overdue this long after its own timeout: the coordinator scans every 10 s."""
    stuck_after_ms: int = 60 * 1000
    """A transaction that is completing for longer is stuck."""
    blocked_after_ms: int = 30 * 1000
    """Groups behind a live transaction that is open for longer are blocked."""
    owner_silent_after_ms: int = 60 * 1000
    """An owner that writes nothing for less is not silent."""


@dataclass(frozen=True, kw_only=True)
class TransactionColumns:
    """One row per open transaction, in the order of `Snapshot.open_transactions`."""

    verdict: Int8Column
    """(N,) `Verdict`. One that was not examined is INCONCLUSIVE, unless it began just now."""
    start_ms: Int64Column
    start_source: Int8Column
    """(N,) `StartSource`."""
    duration_ms: Int64Column
    """(N,) snapshot instant - start, never negative."""
    idle_ms: Int64Column
    """(N,) snapshot instant - timestamp of the producer's last write, never negative: a client's clock. NULL if unknown."""
    silent_ms: Int64Column
    """(N,) time for which this process has seen no write of its producer; NULL if unknown."""
    is_late: BoolColumn
    is_unusually_long: BoolColumn
    """(N,) longer than its usual duration: a warning, not a verdict. False for those that were not examined."""


@dataclass(frozen=True, kw_only=True)
class PartitionColumns:
    """One row per partition, in the order of `Snapshot.partitions`."""

    open_transactions: Int32Column
    late_transactions: Int32Column
    late_prepared_transactions: Int32Column
    """(P,) those of the late ones that are prepared for two-phase commit: no coordinator ends them by a time-out."""
    unusually_long_transactions: Int32Column
    duration_ms_max: Int64Column
    """(P,) the longest duration of any open transaction, 0 where none is open."""
    idle_ms_max: Int64Column
    """(P,) the longest idle time of any open transaction, -1 where the time of no last write is known."""
    last_stable_offset_lag: Int64Column
    """(P,) high watermark - LSO if a transaction is open and both could be read, otherwise -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGroup:
    """A consumer group behind a transaction: blocked by it, or not there yet."""

    group: str
    committed_offset: int | None
    """Committed offset, or up to where a share group has delivered; None for an offset that is pending on the partition."""
    waiting_records: int | None
    """High watermark - committed offset; None if either is unknown."""
    blocked_since_ms: int | None = None
    """Time of the first cycle in which the group was at the last stable offset; None if it is not there."""

    @property
    def stands_still(self) -> bool:
        """True if it is blocked, or cannot read its own pending offset."""
        return self.blocked_since_ms is not None or self.committed_offset is None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedGroup:
    """A consumer group at the last stable offset of a partition, where a transaction holds it."""

    group: str
    topic: str
    partition: int
    records: int
    """Records between the last stable offset and the high watermark."""
    since_ms: int
    """Time of the first cycle in which the group was there, by the cluster's clock."""
    topic_id: str = ""
    """"" if it is unknown."""

    @property
    def key(self) -> GroupKey:
        return GroupKey(self.group, self.topic, self.partition, self.topic_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow:
    """One open transaction with its verdict and evidence, for texts and JSON. Durations and instants in ms."""

    topic: str
    partition: int
    producer_id: int
    topic_id: str = ""
    """"" from brokers without topic ids."""
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_sequence: int
    last_timestamp_ms: int
    start_ms: int
    start_source: StartSource
    duration_ms: int
    idle_ms: int | None
    """None where its producer is unknown, or wrote no timestamp."""
    silent_ms: int | None = None
    """Time for which this process has seen no write of its producer; None without a monotonic clock, or not examined."""
    usual_silence_ms: int | None = None
    """The longest usual silence of its transactional id; None until enough of its transactions have ended."""
    owner: OwnerState | None = None
    takes_new_ids: bool = False
    """True if its application takes a new transactional id each time, as far as the transaction log shows it."""
    ends_at_ms: int | None = None
    """Time by which its coordinator aborts it; None if that is unknown, or it never does."""
    is_late: bool
    unusual: UsualDuration | None
    """The exceeded baseline; None if it is not unusually long, or has no baseline."""
    transactional_id: str | None
    """Transactional id; None if neither a coordinator nor the transaction log has one."""
    coordinator_state: str | None
    """Kafka's name of the state, None if no coordinator lists the producer id."""
    coordinator: int | None
    """Broker id of the coordinator of the transactional id."""
    coordinator_producer_epoch: int | None
    """Epoch at the coordinator; None if the transaction was not described."""
    timeout_ms: int | None
    """The transaction's own timeout, None where it was not described."""
    last_stable_offset_lag: int | None
    held_bytes: int | None = None
    """Bytes on disk that are held back, an estimate; None if they were not measured."""
    groups: tuple[WaitingGroup, ...] = ()
    """Visible groups behind it, most waiting records first: of suspects, and of those that hold the last stable offset."""
    outcome_evidence: OutcomeEvidence = OutcomeEvidence.NONE
    outcome_seen: tuple[str, ...] = ()
    """The sources of the outcome, and what may hide a commit, one phrase each."""
    outcome_unsearched: tuple[str, ...] = ()
    """Phrases of `outcome_seen` that a later search may find."""
    verdict: Verdict
    inconclusive_reason: InconclusiveReason | None
    reason: str
    """A sentence with the evidence and its sources, for the operator to check."""

    @property
    def has_producer(self) -> bool:
        """False if only the offset of the transaction is known."""
        return self.producer_id != NO_PRODUCER_ID

    @property
    def age_by_last_write_ms(self) -> int | None:
        """The time since its last write, if that is before the exporter has seen it first, and nothing names its start."""
        is_older = self.start_source is StartSource.FIRST_SEEN and (self.idle_ms or 0) > self.duration_ms
        return self.idle_ms if is_older else None

    @property
    def key(self) -> TransactionKey:
        """Identity of the transaction over cycles."""
        return TransactionKey(self.topic, self.partition, self.producer_id, self.start_offset, self.topic_id)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A snapshot with its verdicts."""

    snapshot: Snapshot
    transactions: TransactionColumns
    partitions: PartitionColumns
    evidence: tuple[Evidence, ...]
    """The evidence of each examined transaction: the first ones of `transactions`."""
    usual: tuple[UsualDuration | None, ...]
    """The usual duration of each examined transaction."""
    suspects: tuple[TransactionRow, ...]
    """Every suspect that was examined, worst first: see `by_impact`."""
    longest_others: tuple[TransactionRow, ...] = ()
    """The examined transactions that are not suspects, longest first, as many as a reader looks at."""
    blocking: tuple[TransactionRow, ...] = ()
    """The live transactions that block a visible group and are not suspects: of silent owners first, then worst first."""
    blocked_groups: tuple[BlockedGroup, ...] = ()
    """The visible groups that a transaction blocks: behind suspects first, then behind silent owners."""
    stuck: tuple[StuckTransaction, ...] = ()
    """Transactions that their coordinators cannot complete, worst first; they may be open on no partition."""
    held: Mapping[tuple[str, int], HeldBytes] = field(default_factory=dict)
    """Bytes on disk behind the transactions that hold a last stable offset, by partition, as far as they are known."""
    max_timeout_ms: int
    """The limit used for *late*, without padding."""
    max_timeout_is_fallback: bool
    """True if it could not be read from any broker, and the policy's value is used."""
    has_baseline: bool
    memory: Memory
    """Memory for the next cycle, and for the state file."""
    policy: Policy = Policy()

    @cached_property
    def blocked_at(self) -> Mapping[TopicPartition, frozenset[str]]:
        """The names of `blocked_groups` by partition."""
        names = defaultdict[TopicPartition, set[str]](set)
        for each in self.blocked_groups:
            names[each.topic, each.partition].add(each.group)
        return {place: frozenset(groups) for place, groups in names.items()}

    @property
    def examined_count(self) -> int:
        """Open transactions that were examined: the first ones."""
        return self.snapshot.open_transactions.examined_count

    def examined_verdicts(self) -> Iterator[tuple[Evidence, Verdict]]:
        """(evidence, verdict) of each examined transaction; `transactions` goes on with those that were not examined."""
        ranks = self.transactions.verdict[: self.examined_count].tolist()
        return zip(self.evidence, map(Verdict.ranked, ranks), strict=True)

    @property
    def open_count(self) -> int:
        """Open transactions, examined or not."""
        return len(self.transactions.verdict)

    @property
    def late_count(self) -> int:
        """Late ones, examined or not."""
        return int(np.count_nonzero(self.transactions.is_late))

    @property
    def not_examined_count(self) -> int:
        """Inconclusive because they were not examined; they have no row among `suspects`."""
        return int(np.count_nonzero(self.transactions.verdict[self.examined_count :] == int(Verdict.INCONCLUSIVE)))

    @property
    def suspect_count(self) -> int:
        return len(self.suspects) + self.not_examined_count

    def verdict_counts(self) -> list[int]:
        """Number of open transactions by verdict."""
        counts: list[int] = np.bincount(self.transactions.verdict, minlength=len(Verdict)).tolist()
        return counts
