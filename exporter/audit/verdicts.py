"""Declares the verdicts of the audit, and what they are made from and with. docs/audit.md has the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from exporter.audit.decisions import Decision
from exporter.audit.log_transactions import LogTransaction

SETTLED_MS: Final = 60_000
"""A decision is compared when its markers have been written for so long: a new leader's high watermark may lag."""
CLOCKS_APART_MS: Final = 1_000
"""Brokers' clocks differ by less, where an accusation needs them."""
REPEATED_WITHIN_MS: Final = 600_000
"""A coordinator sends a marker again within this time after its transaction, where a response was lost."""


class AuditVerdict(Enum):
    """Worst first."""

    TORN = "torn"
    """Committed on one partition, aborted on another."""
    CONTRADICTED = "contradicted"
    """The marker is the opposite of the decision."""
    CLOSED_BY_ANOTHER = "closed_by_another"
    """Records of an older epoch were ended by the marker of a newer transaction."""
    MARKER_MISSING = "marker_missing"
    """Decided and completed, and the log has no marker."""
    RECORDS_OUTSIDE = "records_outside"
    """The decision does not include the partition."""
    MARKER_WITHOUT_DECISION = "marker_without_decision"
    REPLICAS_DISAGREE = "replicas_disagree"
    """A replica has another marker than the leader, or none."""
    UNKNOWN = "unknown"
    OPEN = "open"
    AS_DECIDED = "as_decided"


ACCUSATIONS: Final = frozenset(
    {
        AuditVerdict.TORN,
        AuditVerdict.CONTRADICTED,
        AuditVerdict.CLOSED_BY_ANOTHER,
        AuditVerdict.MARKER_MISSING,
        AuditVerdict.RECORDS_OUTSIDE,
        AuditVerdict.MARKER_WITHOUT_DECISION,
        AuditVerdict.REPLICAS_DISAGREE,
    }
)


class Reason(Enum):
    """Reason why a verdict is unknown."""

    COMPACTED = "compacted"
    """Compaction has removed records where the evidence would be."""
    NOT_READ_THEN = "not_read_then"
    """The partition's log begins later than the transaction, or was not yet read by the audit."""
    HIDDEN = "hidden"
    """The topic does not exist any more, or is not visible to this login."""
    NOT_RECORDED = "not_recorded"
    """`transaction_log` has no decision: it begins later, or records are missing in it."""
    TWO_FIT = "two_fit"
    """Several decisions fit one marker, or the brokers' clocks contradict each other."""


class NotRead(Enum):
    """Reason why a run has not read a partition that exists."""

    FAILED = "failed"
    """A later run reads it, and judges then."""
    LEFT_OUT = "left_out"
    """The settings exclude its topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRead:
    """Part of one partition's log that the audit has read."""

    topic_id: str
    judged: Mapping[int, int]
    """Decisions that earlier runs have compared with it: offset of the last one, by partition of the transaction log."""
    read_from_ms: int | None = None
    """Instant at which its end was first read: it has been read without a break since. None in a first run."""
    read_from: int = 0
    """Offset of that end."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Stretches of offsets in which records are missing, from the first missing one to the last, of all runs."""

    def has_gap(self, first: int, last: int | None) -> bool:
        """True if a record may be missing at or after `first`, and before `last`."""
        return any(end >= first and (last is None or begin < last) for begin, end in self.gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """Limits up to which a run may judge."""

    settled: Mapping[int, int]
    """Offset of the last settled record, by partition of the transaction log."""
    log_read_to_ms: int
    """Every record of the transaction log that is older was read."""
    log_complete_from_ms: int
    """Nothing is missing in it that was written later."""
    first_judged: Mapping[int, int] = field(default_factory=dict)
    """Same as `settled`, of the run before: later decisions are new to this run."""

    def is_settled(self, decision: Decision) -> bool:
        return is_reached(self.settled, decision)

    def is_newer(self, in_log: LogTransaction) -> bool:
        """True for a marker that is newer than the transaction log as it was read."""
        return (in_log.marker_timestamp_ms or 0) > self.log_read_to_ms

    def is_new(self, decision: Decision) -> bool:
        """True if it is settled, and was not in the run before."""
        return self.is_settled(decision) and not is_reached(self.first_judged, decision)


def read_to_ms(newest_ms: Mapping[int, int], behind: Iterable[int]) -> int:
    """Returns up to when the transaction log was read, of which these partitions have newer records that were not."""
    return min((newest_ms[number] for number in behind), default=max(newest_ms.values(), default=0))


def is_reached(offsets: Mapping[int, int], decision: Decision) -> bool:
    """True if the decision is completed up to these offsets, by partition of the transaction log."""
    offset = decision.completed_offset
    return offset is not None and offset <= offsets.get(decision.log_partition, -1)


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """The verdict on one decision on one partition, or on what a log has without one."""

    verdict: AuditVerdict
    topic: str
    partition: int
    reason: Reason | None = None
    decision: Decision | None = None
    in_log: LogTransaction | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result for one producer id."""

    findings: tuple[AuditFinding, ...]
    """Findings of every verdict but OPEN."""
    pending: tuple[LogTransaction, ...]
    """Open transactions, and those that wait for their decision."""
    transactions: Counter[AuditVerdict]
    """Number of decisions that are new to this run, by their worst verdict."""
