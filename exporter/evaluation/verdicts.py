"""The words of an evaluation: verdicts, what they rest on, and the rows that a person reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

import numpy as np

from exporter.baseline import Usual
from exporter.evaluation.evidence import Evidence
from exporter.evaluation.memory import Memory
from exporter.snapshot import BoolColumn, Int8Column, Int32Column, Int64Column, Snapshot


class Kind(Enum):
    """What a verdict means for an operator."""

    HANGING = "hanging"
    """A proof: nothing will ever end the transaction."""
    SUSPECT = "suspect"
    """It needs attention."""
    ORDINARY = "ordinary"


class Verdict(IntEnum):
    """What is the matter with one open transaction, the worst first: the order is the rank, and is stored nowhere.

    This is the only list of verdicts: schema, dashboards and tests are made of it.
    """

    kind: Kind

    def __new__(cls, kind: Kind) -> Verdict:
        """The next rank."""
        rank = len(cls.__members__)
        verdict = int.__new__(cls, rank)
        verdict._value_ = rank
        verdict.kind = kind
        return verdict

    HANGING_STALE_EPOCH = Kind.HANGING
    HANGING_NO_TRANSACTIONAL_ID = Kind.HANGING
    HANGING_NOT_IN_TRANSACTION = Kind.HANGING
    REPLICA_DIVERGED = Kind.SUSPECT
    STUCK_COMPLETING = Kind.SUSPECT
    OVERDUE_AT_COORDINATOR = Kind.SUSPECT
    INCONCLUSIVE = Kind.SUSPECT
    COMPLETING = Kind.ORDINARY
    PREPARED_TWO_PHASE_COMMIT = Kind.ORDINARY
    OPEN_WITHIN_TIMEOUT = Kind.ORDINARY

    @property
    def label(self) -> str:
        """The value of the metric label `verdict`."""
        return self.name.lower()

    @classmethod
    def ranked(cls, rank: int) -> Verdict:
        """The verdict that a column has as this number."""
        return _BY_RANK[rank]

    @property
    def is_hanging(self) -> bool:
        """True for the verdicts that are proofs: nothing will ever end the transaction."""
        return self.kind is Kind.HANGING

    @property
    def is_suspect(self) -> bool:
        """True for the verdicts that need attention."""
        return self.kind is not Kind.ORDINARY


_BY_RANK = tuple(Verdict)
IS_SUSPECT = np.array([verdict.is_suspect for verdict in Verdict])
"""(V,) by rank: `IS_SUSPECT[column]` is true where a column of verdicts holds a suspect."""


class StartSource(IntEnum):
    """Where the start of a transaction, and so its duration, comes from."""

    COORDINATOR = 0
    FIRST_SEEN = 1
    LAST_WRITE = 2
    TRANSACTION_LOG = 3

    @property
    def label(self) -> str:
        """The name used in JSON and on the status page."""
        return self.name.lower()


class InconclusiveReason(Enum):
    """Which part of a proof is missing. The values are published."""

    ID_LISTED_NOT_DESCRIBED = "id_listed_not_described"
    CHANGED_BETWEEN_READS = "changed_between_reads"
    SECOND_READ_FAILED = "second_read_failed"
    CHANGED_WHILE_ASKED = "changed_while_asked"
    TOPICS_HIDDEN = "topics_hidden"
    IDS_MAY_BE_DENIED = "ids_may_be_denied"
    IDS_VISIBLE_BY_NAME_ONLY = "ids_visible_by_name_only"
    COORDINATOR_BEHIND = "coordinator_behind"
    LEADERSHIP_UNCONFIRMED = "leadership_unconfirmed"
    REPLICA_UNREAD = "replica_unread"
    MAY_BE_FENCED = "may_be_fenced"
    CLOCK_UNVERIFIED = "clock_unverified"
    UNKNOWN_STATE = "unknown_state"
    TRANSACTION_STATE_HIDDEN = "transaction_state_hidden"
    TRANSACTION_STATE_UNKNOWN = "transaction_state_unknown"
    STATE_PARTITION_OFFLINE = "state_partition_offline"
    LOADING = "loading"
    TRANSACTIONAL_IDS_HIDDEN = "transactional_ids_hidden"
    COORDINATOR_UNANSWERED = "coordinator_unanswered"
    COORDINATOR_MOVED = "coordinator_moved"
    NOT_ASKED = "not_asked"
    NOT_EXAMINED = "not_examined"


class OutcomeEvidence(Enum):
    """How this producer's transaction ended elsewhere, as far as can be seen."""

    COMMITTED = "committed"
    """Something tells of a commit that may be this transaction's."""
    ABORTED = "aborted"
    """Proved: everything that could tell of a commit was read to its end."""
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What an evaluation may be told: all durations in milliseconds."""

    late_padding_ms: int = 5 * 60 * 1000
    """Added to `transaction.max.timeout.ms`; the broker's own LATE_TRANSACTION_BUFFER_MS."""
    max_timeout_fallback_ms: int = 15 * 60 * 1000
    """Used when no broker lets us read `transaction.max.timeout.ms`; Kafka's default."""
    overdue_slack_ms: int = 30 * 1000
    """How far past its own timeout a transaction may be before it is overdue: the coordinator scans every 10 s."""
    stuck_after_ms: int = 60 * 1000
    """How long a transaction may be seen completing before it is stuck."""


@dataclass(frozen=True, kw_only=True)
class TransactionColumns:
    """One row per open transaction, in the order of `Snapshot.open_transactions`."""

    verdict: Int8Column
    """(N,) `Verdict`."""
    start_timestamp_ms: Int64Column
    start_source: Int8Column
    """(N,) `StartSource`."""
    duration_ms: Int64Column
    """(N,) snapshot instant - start, never negative."""
    idle_ms: Int64Column
    """(N,) snapshot instant - timestamp of the producer's last write, never negative: a client's clock."""
    is_late: BoolColumn
    is_unusually_long: BoolColumn
    """(N,) longer than what is usual for it: a warning, and no verdict."""


@dataclass(frozen=True, kw_only=True)
class UnexaminedColumns:
    """One row per open transaction that was not examined, in the order of `Snapshot.unexamined`."""

    verdict: Int8Column
    """(U,) `Verdict`: INCONCLUSIVE because it was not examined, unless it began just now."""
    duration_ms: Int64Column
    idle_ms: Int64Column
    is_late: BoolColumn


NONE_UNEXAMINED = UnexaminedColumns(
    verdict=np.empty(0, dtype=np.int8),
    duration_ms=np.empty(0, dtype=np.int64),
    idle_ms=np.empty(0, dtype=np.int64),
    is_late=np.empty(0, dtype=np.bool_),
)


@dataclass(frozen=True, kw_only=True)
class PartitionColumns:
    """One row per partition, in the order of `Snapshot.partitions`."""

    open_transactions: Int32Column
    late_transactions: Int32Column
    unusually_long_transactions: Int32Column
    duration_ms_max: Int64Column
    """(P,) the longest duration of any open transaction, 0 where none is open."""
    idle_ms_max: Int64Column
    """(P,) the longest idle time of any open transaction, 0 where none is open."""
    last_stable_offset_lag: Int64Column
    """(P,) high watermark - LSO where a transaction is open and both could be read, else -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGroup:
    """A consumer group behind a suspect."""

    group: str
    committed_offset: int | None
    """None for a group that keeps its own offsets on the suspect's partition."""
    waiting_records: int | None
    """High watermark - committed offset; None where either is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow:
    """One open transaction with its verdict and evidence, for people and JSON. Durations and instants in ms."""

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
    start_timestamp_ms: int
    start_source: StartSource
    duration_ms: int
    idle_ms: int
    is_late: bool
    unusual: Usual | None
    """What it is longer than; None where it is not unusually long, or nobody knows."""
    transactional_id: str | None
    """None where no coordinator names one, nor did one in the log."""
    coordinator_state: str | None
    """The state as Kafka names it, None where no coordinator lists the producer id."""
    coordinator: int | None
    """Broker id of the coordinator that answered for the transactional id."""
    coordinator_producer_epoch: int | None
    """None where the transaction was not described."""
    timeout_ms: int | None
    """The transaction's own timeout, None where it was not described."""
    last_stable_offset_lag: int | None
    groups: tuple[WaitingGroup, ...] = ()
    """Who waits, the longest queue first; only for suspects, and only groups that we may see."""
    outcome_evidence: OutcomeEvidence = OutcomeEvidence.NONE
    outcome_seen: tuple[str, ...] = ()
    """Where that was seen, and what may hide a commit, a phrase each."""
    outcome_unsearched: tuple[str, ...] = ()
    """Those of them that may be searched another time."""
    verdict: Verdict
    inconclusive_reason: InconclusiveReason | None
    reason: str
    """A sentence that a person can check: who said what."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A snapshot and what is to be thought of it."""

    snapshot: Snapshot
    transactions: TransactionColumns
    unexamined: UnexaminedColumns = NONE_UNEXAMINED
    partitions: PartitionColumns
    evidence: tuple[Evidence, ...]
    """One per open transaction: what the verdicts rest on."""
    usual: tuple[Usual | None, ...]
    """One per open transaction: how long such ones usually take."""
    suspects: tuple[TransactionRow, ...]
    """Every suspect that was examined, worst first: by verdict, then the longest duration."""
    max_timeout_ms: int
    """The limit used for *late*, without padding."""
    max_timeout_is_fallback: bool
    """True when no broker let us read it and the policy's value was used."""
    has_baseline: bool
    """False when it is not known what is usual."""
    memory: Memory
    """For the next cycle, and for the state file."""
    policy: Policy = Policy()
    """What it went by."""

    @property
    def open_count(self) -> int:
        """Open transactions, examined or not."""
        return len(self.transactions.verdict) + len(self.unexamined.verdict)

    @property
    def late_count(self) -> int:
        """Late ones, examined or not."""
        return int(np.count_nonzero(self.transactions.is_late) + np.count_nonzero(self.unexamined.is_late))

    @property
    def not_examined_count(self) -> int:
        """Inconclusive because they were not examined; they have no row among `suspects`."""
        return int(np.count_nonzero(self.unexamined.verdict == Verdict.INCONCLUSIVE))

    @property
    def suspect_count(self) -> int:
        """All suspects."""
        return len(self.suspects) + self.not_examined_count

    def verdict_counts(self) -> list[int]:
        """How many have each verdict."""
        verdicts = np.concatenate((self.transactions.verdict, self.unexamined.verdict))
        counts: list[int] = np.bincount(verdicts, minlength=len(Verdict)).tolist()
        return counts
