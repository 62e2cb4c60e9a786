"""Evaluates a snapshot: verdicts, durations, lateness, and the memory for the next cycle.

The three durations are never mixed: *duration* since the start, with the start's source; *idle* since the last
write by the client's clock; *late* when the duration exceeds `transaction.max.timeout.ms` plus padding, strictly.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from exporter.baseline import NO_BASELINE, Baseline, UsualDuration
from exporter.evaluation.blocked import blocked_groups, lasting_groups, remembered_groups
from exporter.evaluation.disk import held_bytes, remembered_bytes
from exporter.evaluation.evidence import Evidence, gather
from exporter.evaluation.memory import Facts, Memory
from exporter.evaluation.owner import silent_ms
from exporter.evaluation.remembering import facts_of_others, remember, remembered_silences
from exporter.evaluation.rules import verdict_of, with_offset_facts
from exporter.evaluation.start import start_of, starts_without_evidence
from exporter.evaluation.stuck import remembered_completing, stuck_transactions
from exporter.evaluation.table import transaction_row
from exporter.evaluation.verdicts import (
    IS_SUSPECT,
    Evaluation,
    OwnerState,
    PartitionColumns,
    Policy,
    StartSource,
    TransactionColumns,
    TransactionRow,
    Verdict,
)
from exporter.snapshot import NULL, UNKNOWN_OFFSET, Int32Column, Int64Column, Snapshot
from exporter.transaction_log.journal import NO_JOURNAL, Journal

_BEHIND_SUSPECT, _BEHIND_SILENT, _BEHIND_LIVE = range(3)
"""The order of blocked groups. Outputs have limits, and a busy cluster has hundreds of groups behind live transactions."""
LONGEST_OTHERS_MAX = 10
"""Transactions that are not suspects and have a row all the same."""


def evaluate(
    snapshot: Snapshot,
    memory: Memory,
    policy: Policy,
    journal: Journal = NO_JOURNAL,
    baseline: Baseline = NO_BASELINE,
) -> Evaluation:
    """Evaluates `snapshot` with the memory of earlier cycles, the transaction log, and the baseline."""
    timeout_ms = snapshot.max_timeout.timeout_ms
    max_timeout_ms = policy.max_timeout_fallback_ms if timeout_ms is None else timeout_ms
    late_after_ms = max_timeout_ms + policy.late_padding_ms
    join = memory.join(snapshot)
    evidence = tuple(map(with_offset_facts, gather(snapshot, memory, join, journal)))
    verdicts = tuple(verdict_of(e, policy) for e in evidence)
    usual = tuple(baseline.usual(snapshot.cluster_id, e.transactional_id, e.key.topic) for e in evidence)
    starts = tuple(
        start_of(e, verdict, snapshot.cluster_time_ms) for e, verdict in zip(evidence, verdicts, strict=True)
    )
    others = facts_of_others(snapshot, join)
    transactions = _transaction_columns(snapshot, evidence, verdicts, starts, others, late_after_ms, usual)
    partitions = partition_columns(snapshot, transactions)
    suspect_rows = _suspect_rows(transactions, len(evidence))
    holding_rows = _holding_rows(snapshot, transactions, policy)
    blocked = blocked_groups(snapshot, [*suspect_rows, *holding_rows], memory)
    lasting = lasting_groups(blocked, snapshot, memory, transactions.duration_ms >= policy.blocked_after_ms)
    seen = remembered_bytes(snapshot, memory, [e.key for e in evidence])
    evaluation = Evaluation(
        snapshot=snapshot,
        transactions=transactions,
        partitions=partitions,
        evidence=evidence,
        suspects=(),
        blocked_groups=lasting,
        stuck=stuck_transactions(snapshot, memory, policy),
        held=held_bytes(snapshot, seen),
        max_timeout_ms=max_timeout_ms,
        max_timeout_is_fallback=timeout_ms is None,
        has_baseline=snapshot.cluster_id in baseline.cluster_ids,
        usual=usual,
        policy=policy,
        memory=replace(
            remember(snapshot, memory, join.keys, zip(evidence, verdicts, starts, strict=True), others),
            offsets={e.key: e.offset_facts for e in evidence if e.offset_facts is not None},
            blocked=remembered_groups(snapshot, [*suspect_rows, *holding_rows], memory, blocked),
            completing=remembered_completing(snapshot, memory),
            held=seen,
            silences=remembered_silences(snapshot, memory, journal, evidence, transactions.silent_ms.tolist()),
        ),
    )
    blocking = [
        transaction_row(evaluation, row) for row in holding_rows if evidence[row].key[:2] in evaluation.blocked_at
    ]
    urgency = {
        (row.topic, row.partition): _BEHIND_SILENT if row.owner is OwnerState.SILENT else _BEHIND_LIVE
        for row in blocking
    }
    return replace(
        evaluation,
        blocking=tuple(sorted(blocking, key=lambda row: (row.owner is not OwnerState.SILENT, *by_impact(row)))),
        blocked_groups=tuple(sorted(lasting, key=lambda of: urgency.get((of.topic, of.partition), _BEHIND_SUSPECT))),
        suspects=tuple(sorted((transaction_row(evaluation, row) for row in suspect_rows), key=by_impact)),
        longest_others=tuple(transaction_row(evaluation, row) for row in _longest_others(transactions, len(evidence))),
    )


def _transaction_columns(
    snapshot: Snapshot,
    evidence: tuple[Evidence, ...],
    verdicts: tuple[Verdict, ...],
    starts: tuple[tuple[int, StartSource], ...],
    facts: Facts,
    late_after_ms: int,
    usual: tuple[UsualDuration | None, ...],
) -> TransactionColumns:
    """The columns of all open transactions; `evidence`, `verdicts`, `starts` and `usual` are of the examined ones."""
    now, open_ = snapshot.cluster_time_ms, snapshot.open_transactions
    last_write = open_.last_timestamp
    others_ms, others_source = starts_without_evidence(facts)
    just_begun = np.where(open_.is_completing, int(Verdict.COMPLETING), int(Verdict.OPEN_WITHIN_TIMEOUT))
    others = np.where(open_.needs_examination, int(Verdict.INCONCLUSIVE), just_begun)
    start_ms: Int64Column = np.concatenate((np.array([start for start, _ in starts], dtype=np.int64), others_ms))
    duration_ms = np.maximum(now - start_ms, 0)
    is_unusually_long = np.zeros(len(open_), dtype=np.bool_)
    for row, usual_duration in enumerate(usual):
        is_unusually_long[row] = usual_duration is not None and duration_ms[row] > usual_duration.threshold_ms
    return TransactionColumns(
        verdict=np.concatenate((np.array(verdicts, dtype=np.int8), others.astype(np.int8))),
        start_ms=start_ms,
        start_source=np.concatenate((np.array([source for _, source in starts], dtype=np.int8), others_source)),
        duration_ms=duration_ms,
        # A timestamp of -1 (or 0) is no timestamp: brokers accept it.
        idle_ms=np.where(last_write > 0, np.maximum(now - last_write, 0), NULL),
        silent_ms=silent_ms(open_.producer_id, evidence),
        is_late=duration_ms > late_after_ms,
        is_unusually_long=is_unusually_long,
    )


def partition_columns(snapshot: Snapshot, transactions: TransactionColumns) -> PartitionColumns:
    count, open_ = len(snapshot.partitions), snapshot.open_transactions
    row = open_.partition_row
    duration, idle = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    np.maximum.at(duration, row, transactions.duration_ms)
    np.maximum.at(idle, row, transactions.idle_ms)
    is_prepared = transactions.verdict == int(Verdict.PREPARED_TWO_PHASE_COMMIT)
    lag = np.full(count, -1, dtype=np.int64)
    known = np.flatnonzero((open_.high_watermark != UNKNOWN_OFFSET) & (open_.last_stable_offset != UNKNOWN_OFFSET))
    lag[row[known]] = np.maximum(open_.high_watermark[known] - open_.last_stable_offset[known], 0)

    def count_of(rows: Int32Column) -> Int32Column:
        return np.bincount(rows, minlength=count).astype(np.int32)

    return PartitionColumns(
        open_transactions=count_of(row),
        late_transactions=count_of(row[transactions.is_late]),
        late_prepared_transactions=count_of(row[transactions.is_late & is_prepared]),
        unusually_long_transactions=count_of(row[transactions.is_unusually_long]),
        duration_ms_max=duration,
        idle_ms_max=idle,
        last_stable_offset_lag=lag,
    )


def _suspect_rows(transactions: TransactionColumns, examined_count: int) -> list[int]:
    """The suspects among the examined ones: the others have no evidence."""
    rows: list[int] = np.flatnonzero(IS_SUSPECT[transactions.verdict[:examined_count]]).tolist()
    return rows


def _holding_rows(snapshot: Snapshot, transactions: TransactionColumns, policy: Policy) -> list[int]:
    """Returns those that are not suspects, and at which the last stable offset has stood for the policy's time."""
    open_, count = snapshot.open_transactions, snapshot.open_transactions.examined_count
    is_lasting = transactions.duration_ms[:count] >= policy.blocked_after_ms
    rows: list[int] = np.flatnonzero(open_.holds_back & is_lasting & ~IS_SUSPECT[transactions.verdict[:count]]).tolist()
    return rows


def by_impact(row: TransactionRow) -> tuple[int, ...]:
    """The order of rows, worst first: proved hangs before all others, by verdict; then by who stands still.

    Blocked groups, then the number of digits of the offsets held back, then the age. The number itself grows in every
    cycle: where there are more suspects than series, it would exchange them all the time.
    """
    rank = 0 if row.verdict.is_hanging else int(row.verdict)
    return rank, -len(row.groups), -len(str(row.last_stable_offset_lag or 0)), -row.duration_ms


def _longest_others(transactions: TransactionColumns, examined_count: int) -> list[int]:
    """The longest open of those that are not suspects."""
    rows = np.flatnonzero(~IS_SUSPECT[transactions.verdict[:examined_count]])
    chosen: list[int] = rows[np.argsort(-transactions.duration_ms[rows], kind="stable")[:LONGEST_OTHERS_MAX]].tolist()
    return chosen


def all_rows(evaluation: Evaluation) -> tuple[TransactionRow, ...]:
    """Returns every examined transaction as a row, in the order of the snapshot."""
    return tuple(transaction_row(evaluation, row) for row in range(len(evaluation.evidence)))


def worst_first(evaluation: Evaluation) -> tuple[TransactionRow, ...]:
    """Returns every examined transaction as a row, worst first."""
    return tuple(sorted(all_rows(evaluation), key=by_impact))
