"""Evaluates a snapshot: verdicts, durations, lateness, and the memory for the next cycle.

The three durations are never mixed: *duration* since the start, with the start's source; *idle* since the last
write by the client's clock; *late* when the duration exceeds `transaction.max.timeout.ms` plus padding, strictly.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from exporter.baseline import NO_BASELINE, Baseline, Usual
from exporter.evaluation.blocked import blocked_groups, remembered_groups
from exporter.evaluation.evidence import (
    CLOCKS_AGREE_WITHIN_MS,
    Evidence,
    gather,
    is_another_start,
    was_completing,
)
from exporter.evaluation.last_reading import last_reading
from exporter.evaluation.memory import Memory, Remembered, SeenUnexamined
from exporter.evaluation.reasons import transaction_row
from exporter.evaluation.rules import verdict_of
from exporter.evaluation.unexamined import (
    REMEMBERED_UNREAD_MAX,
    deleted_topics,
    judge_unexamined,
    still_possible,
)
from exporter.evaluation.verdicts import (
    IS_SUSPECT,
    Evaluation,
    PartitionColumns,
    Policy,
    StartSource,
    TransactionColumns,
    TransactionRow,
    UnexaminedColumns,
    Verdict,
)
from exporter.snapshot import ENDED_STATES, UNKNOWN_OFFSET, Int64Column, Ownership, Snapshot, TransactionKey
from exporter.transaction_log.journal import NO_JOURNAL, Journal

FORGET_UNREAD_AFTER_MS = 24 * 60 * 60 * 1000
"""A transaction on an unread partition stays in the memory for a day."""
LONGEST_OTHERS_MAX = 10
"""Transactions that are not suspects and have a row all the same."""

_OF_THE_CLIENT = frozenset({StartSource.LAST_WRITE, StartSource.NOT_OPEN_BEFORE})
_OWNED = frozenset({Ownership.OWNED, Ownership.COMPLETING})


def evaluate(
    snapshot: Snapshot,
    memory: Memory,
    policy: Policy,
    journal: Journal = NO_JOURNAL,
    baseline: Baseline = NO_BASELINE,
) -> Evaluation:
    """Evaluate `snapshot` with the memory of earlier cycles, the transaction log, and the baseline."""
    told_ms = snapshot.max_timeout.timeout_ms
    max_timeout_ms = policy.max_timeout_fallback_ms if told_ms is None else told_ms
    late_after_ms = max_timeout_ms + policy.late_padding_ms
    evidence = tuple(gather(snapshot, memory, journal))
    verdicts = tuple(verdict_of(e, policy) for e in evidence)
    usual = tuple(baseline.usual(snapshot.cluster_id, e.transactional_id, e.key.topic) for e in evidence)
    transactions = _transaction_columns(snapshot, evidence, verdicts, late_after_ms, usual)
    unexamined, seen = judge_unexamined(snapshot, memory, late_after_ms)
    partitions = partition_columns(snapshot, transactions, unexamined)
    suspect_rows = np.flatnonzero(IS_SUSPECT[transactions.verdict]).tolist()
    blocked = blocked_groups(snapshot, suspect_rows, memory)
    evaluation = Evaluation(
        snapshot=snapshot,
        transactions=transactions,
        unexamined=unexamined,
        partitions=partitions,
        evidence=evidence,
        suspects=(),
        blocked_groups=blocked,
        max_timeout_ms=max_timeout_ms,
        max_timeout_is_fallback=told_ms is None,
        has_baseline=snapshot.cluster_id in baseline.cluster_ids,
        usual=usual,
        policy=policy,
        memory=replace(
            _remember(snapshot, memory, evidence, transactions, seen),
            blocked=remembered_groups(snapshot, suspect_rows, memory, blocked),
        ),
    )
    return replace(
        evaluation,
        suspects=tuple(
            sorted((transaction_row(evaluation, row) for row in _suspect_rows(transactions)), key=by_impact)
        ),
        longest_others=tuple(transaction_row(evaluation, row) for row in _longest_others(transactions)),
    )


def _transaction_columns(
    snapshot: Snapshot,
    evidence: tuple[Evidence, ...],
    verdicts: tuple[Verdict, ...],
    late_after_ms: int,
    usual: tuple[Usual | None, ...],
) -> TransactionColumns:
    now = snapshot.cluster_time_ms
    last_write = snapshot.open_transactions.last_timestamp
    starts = [
        start_of(e, verdict, int(last), now) for e, verdict, last in zip(evidence, verdicts, last_write, strict=True)
    ]
    start_ms: Int64Column = np.array([start for start, _ in starts], dtype=np.int64)
    duration_ms = np.maximum(now - start_ms, 0)
    return TransactionColumns(
        verdict=np.array(verdicts, dtype=np.int8),
        start_timestamp_ms=start_ms,
        start_source=np.array([source for _, source in starts], dtype=np.int8),
        duration_ms=duration_ms,
        # A timestamp of -1 (or 0) is no timestamp: brokers accept it.
        idle_ms=np.where(last_write > 0, np.maximum(now - last_write, 0), 0),
        is_late=duration_ms > late_after_ms,
        is_unusually_long=np.fromiter(
            (
                usual_duration is not None and ms > usual_duration.threshold_ms
                for usual_duration, ms in zip(usual, duration_ms.tolist(), strict=True)
            ),
            dtype=np.bool_,
            count=len(usual),
        ),
    )


def start_of(evidence: Evidence, verdict: Verdict, last_timestamp_ms: int, now_ms: int) -> tuple[int, StartSource]:
    """The start of each transaction, in milliseconds, and its source.

    The start is the coordinator's while it owns the transaction. Otherwise it is the earliest that was known since the
    transaction is open: what is known in this cycle, what was known in an earlier one, or the first cycle with it.
    """
    transaction, before = evidence.transaction, evidence.remembered
    if evidence.ownership in _OWNED and transaction is not None and transaction.start_time_ms >= 0:
        return transaction.start_time_ms, StartSource.COORDINATOR
    start = _start_in_this_cycle(evidence, verdict, last_timestamp_ms, now_ms)
    if before is None or before.start_ms < 0:
        return start
    earlier = _bounded(before.start_ms, StartSource(before.start_source), evidence)
    return earlier if earlier[0] < start[0] else start


def _bounded(start_ms: int, source: StartSource, evidence: Evidence) -> tuple[int, StartSource]:
    """The start, or the instant at which it is known not to have been open, if its client's clock says that it was."""
    if source in _OF_THE_CLIENT and start_ms < evidence.not_open_at_ms:
        return evidence.not_open_at_ms, StartSource.NOT_OPEN_BEFORE
    return start_ms, source


def _start_in_this_cycle(
    evidence: Evidence, verdict: Verdict, last_timestamp_ms: int, now_ms: int
) -> tuple[int, StartSource]:
    """The start by the sources of this cycle.

    In this order: the coordinator that last owned this transaction; the transaction log, if it is open there; for a proved
    hang the timestamp of its last write: a client's clock alone never makes a live transaction late. It is never later than
    the first cycle with it.
    """
    remembered, open_at_ms = evidence.remembered, _open_at_ms(evidence, now_ms)
    start_ms, source = open_at_ms, StartSource.FIRST_SEEN
    if (
        remembered is not None
        and remembered.coordinator_start_ms >= 0
        and remembered.producer_epoch == evidence.producer_epoch
    ):
        start_ms, source = remembered.coordinator_start_ms, StartSource.COORDINATOR
    elif evidence.start_in_log_ms is not None and not verdict.is_hanging:
        start_ms, source = evidence.start_in_log_ms, StartSource.TRANSACTION_LOG
    elif verdict.is_hanging and last_timestamp_ms > 0:
        start_ms, source = _bounded(last_timestamp_ms, StartSource.LAST_WRITE, evidence)
    return (start_ms, source) if start_ms < open_at_ms else (open_at_ms, StartSource.FIRST_SEEN)


def _open_at_ms(evidence: Evidence, now_ms: int) -> int:
    """The first cycle with it, by the cluster's clock of now.

    That clock may have been ahead then, or is set back since: the monotonic clock bounds it.
    """
    if evidence.remembered is None:
        return now_ms
    first_seen_ms, watched_since_ms = evidence.remembered.first_seen_ms, now_ms - evidence.watched_ms
    # Not for less, because the cluster's clock is read again and again.
    return watched_since_ms if watched_since_ms < first_seen_ms - CLOCKS_AGREE_WITHIN_MS else first_seen_ms


def partition_columns(
    snapshot: Snapshot, transactions: TransactionColumns, unexamined: UnexaminedColumns
) -> PartitionColumns:
    count = len(snapshot.partitions)
    open_, aside = snapshot.open_transactions, snapshot.unexamined.partition_row
    row = open_.partition_row
    duration, idle = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for rows, columns in ((row, transactions), (aside, unexamined)):
        np.maximum.at(duration, rows, columns.duration_ms)
        np.maximum.at(idle, rows, columns.idle_ms)
    is_prepared = transactions.verdict == int(Verdict.PREPARED_TWO_PHASE_COMMIT)
    late = np.concatenate((row[transactions.is_late], aside[unexamined.is_late]))
    lag = np.full(count, -1, dtype=np.int64)
    known = (open_.high_watermark != UNKNOWN_OFFSET) & (open_.last_stable_offset != UNKNOWN_OFFSET)
    lag[row[known]] = np.maximum(open_.high_watermark[known] - open_.last_stable_offset[known], 0)
    return PartitionColumns(
        open_transactions=np.bincount(np.concatenate((row, aside)), minlength=count).astype(np.int32),
        late_transactions=np.bincount(late, minlength=count).astype(np.int32),
        late_prepared_transactions=np.bincount(row[transactions.is_late & is_prepared], minlength=count).astype(
            np.int32
        ),
        unusually_long_transactions=np.bincount(row[transactions.is_unusually_long], minlength=count).astype(np.int32),
        duration_ms_max=duration,
        idle_ms_max=idle,
        last_stable_offset_lag=lag,
    )


def _suspect_rows(transactions: TransactionColumns) -> list[int]:
    rows: list[int] = np.flatnonzero(IS_SUSPECT[transactions.verdict]).tolist()
    return rows


def by_impact(row: TransactionRow) -> tuple[int, ...]:
    """The order of rows, worst first: proved hangs before all others, by verdict; then by who stands still.

    Blocked groups, then the number of digits of the offsets held back, then the age. The number itself grows in every
    cycle: where there are more suspects than series, it would exchange them all the time.
    """
    rank = 0 if row.verdict.is_hanging else int(row.verdict)
    return rank, -len(row.groups), -len(str(row.last_stable_offset_lag or 0)), -row.duration_ms


def _longest_others(transactions: TransactionColumns) -> list[int]:
    """The longest open of those that are not suspects."""
    rows = np.flatnonzero(~IS_SUSPECT[transactions.verdict])
    chosen: list[int] = rows[np.argsort(-transactions.duration_ms[rows], kind="stable")[:LONGEST_OTHERS_MAX]].tolist()
    return chosen


def all_rows(evaluation: Evaluation) -> tuple[TransactionRow, ...]:
    """Every open transaction as a row, in the order of the snapshot."""
    return tuple(transaction_row(evaluation, row) for row in range(len(evaluation.evidence)))


def worst_first(evaluation: Evaluation) -> tuple[TransactionRow, ...]:
    """Every open transaction as a row, worst first."""
    return tuple(sorted(all_rows(evaluation), key=by_impact))


def _remember(
    snapshot: Snapshot,
    memory: Memory,
    evidence: tuple[Evidence, ...],
    transactions: TransactionColumns,
    unexamined: SeenUnexamined,
) -> Memory:
    """The memory of open transactions, and of those on partitions that are unread in this cycle."""
    sources = map(StartSource, transactions.start_source.tolist())
    starts = zip(transactions.start_timestamp_ms.tolist(), sources, strict=True)
    verdicts = map(Verdict.ranked, transactions.verdict.tolist())
    current = {
        e.key: _remembered(e, verdict, snapshot, _earliest_start(e.remembered, *start))
        for e, verdict, start in zip(evidence, verdicts, starts, strict=True)
    }
    kept = _still_possible(snapshot, memory, current) if memory.cluster_id == snapshot.cluster_id else {}
    kept.update(current)
    oldest_ms = snapshot.cluster_time_ms - FORGET_UNREAD_AFTER_MS
    return Memory(
        last_reading=last_reading(snapshot, memory),
        cluster_id=snapshot.cluster_id,
        transactions=MappingProxyType(kept),
        unexamined=unexamined.with_others(still_possible(snapshot, memory, oldest_ms)),
    )


def _still_possible(
    snapshot: Snapshot, memory: Memory, current: Collection[TransactionKey]
) -> dict[TransactionKey, Remembered]:
    """Remembered transactions on unread partitions, which may still be open: the newest, up to REMEMBERED_UNREAD_MAX."""
    oldest_ms = snapshot.cluster_time_ms - FORGET_UNREAD_AFTER_MS
    known = {*current, *(key._replace(topic_id="") for key in current)}
    gone = deleted_topics(snapshot, {key.topic for key in memory.transactions})
    possible = [
        (key, remembered)
        for key, remembered in memory.transactions.items()
        if key not in known
        and remembered.last_seen_ms >= oldest_ms
        and key.topic not in gone
        and not snapshot.partitions.is_read(key.topic, key.partition)
    ]
    possible.sort(key=lambda one: one[1].last_seen_ms)
    return dict(possible[-REMEMBERED_UNREAD_MAX:])


def _earliest_start(before: Remembered | None, start_ms: int, source: StartSource) -> tuple[int, StartSource | int]:
    """The start of this cycle, or an earlier one of an earlier cycle unless it is known to be too early."""
    if before is not None and 0 <= before.start_ms < start_ms and source is not StartSource.NOT_OPEN_BEFORE:
        return before.start_ms, before.start_source
    return (-1, -1) if source is StartSource.FIRST_SEEN else (start_ms, source)


def _remembered(
    evidence: Evidence, verdict: Verdict, snapshot: Snapshot, earliest: tuple[int, StartSource | int]
) -> Remembered:
    before, transaction = evidence.remembered, evidence.transaction
    now_ms, took_ms, monotonic_ms = snapshot.cluster_time_ms, snapshot.took_ms, snapshot.monotonic_ms
    coordinator_start_ms, (start_ms, start_source) = -1, earliest
    if evidence.ownership in _OWNED and transaction is not None:
        coordinator_start_ms = transaction.start_time_ms
    elif before is not None and before.producer_epoch == evidence.producer_epoch:
        coordinator_start_ms = before.coordinator_start_ms
    completing_since_ms, completing_from_ms = -1, None
    if before is not None and not verdict.is_hanging and was_completing(before, evidence.ownership, transaction):
        completing_since_ms, completing_from_ms = before.completing_since_ms, before.completing_from_ms
    elif evidence.ownership is Ownership.COMPLETING:
        # It may have been decided during this cycle: it was completing at the cycle's end, not necessarily at its start.
        completing_since_ms = now_ms + took_ms
        completing_from_ms = None if monotonic_ms is None else monotonic_ms + took_ms
    return Remembered(
        first_seen_ms=now_ms if before is None else before.first_seen_ms,
        last_seen_ms=now_ms,
        producer_epoch=evidence.producer_epoch,
        coordinator_start_ms=coordinator_start_ms,
        start_ms=start_ms,
        start_source=int(start_source),
        not_open_at_ms=evidence.not_open_at_ms,
        clock_offset_ms=snapshot.clock_offset_ms if before is None else before.clock_offset_ms,
        open_at_ms=_open_at_ms(evidence, now_ms),
        completing_since_ms=completing_since_ms,
        completing_from_ms=completing_from_ms,
        superseded_epoch=_superseded_epoch(evidence, verdict),
        watched_from_ms=_watched_from_ms(evidence, monotonic_ms),
    )


def _superseded_epoch(evidence: Evidence, verdict: Verdict) -> int | None:
    """The epoch of the open records, if it is proved that their id has a newer epoch without them."""
    before, transaction = evidence.remembered, evidence.transaction
    if (
        verdict is Verdict.HANGING_NOT_IN_TRANSACTION
        and transaction is not None
        and transaction.state in ENDED_STATES
        and transaction.producer_epoch > evidence.producer_epoch
    ):
        return evidence.producer_epoch
    return None if before is None or before.superseded_epoch != evidence.producer_epoch else before.superseded_epoch


def _watched_from_ms(evidence: Evidence, monotonic_ms: int | None) -> int | None:
    """Since when this transaction is watched: a producer that continues takes old records into its next transaction."""
    before, transaction = evidence.remembered, evidence.transaction
    if before is None or before.watched_from_ms is None:
        return monotonic_ms
    if evidence.ownership is Ownership.OWNED and transaction is not None and is_another_start(before, transaction):
        return monotonic_ms
    return before.watched_from_ms
