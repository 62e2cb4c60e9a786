"""Makes the memory of a cycle for the next one: the open transactions, and those on partitions that were not read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from exporter.evaluation.evidence import Evidence, is_another_start, was_completing
from exporter.evaluation.last_reading import last_reading
from exporter.evaluation.memory import (
    FACTS,
    NO_FACTS,
    Facts,
    Memory,
    MemoryJoin,
    RememberedTransaction,
    RememberedTransactions,
)
from exporter.evaluation.silences import NO_SILENCES, OwnerSilences, Silences, SilencesBuilder
from exporter.evaluation.start import OWNED, open_at_ms
from exporter.evaluation.verdicts import StartSource, Verdict
from exporter.snapshot import (
    ENDED_STATES,
    NULL,
    BoolColumn,
    Int64Column,
    Ownership,
    Partitions,
    Snapshot,
    TransactionKeys,
    shows,
)
from exporter.snapshot.keys import partition_keys
from exporter.transaction_log.events import Outcome
from exporter.transaction_log.journal import Journal

FORGET_UNREAD_AFTER_MS = 24 * 60 * 60 * 1000
"""A transaction on an unread partition stays in the memory for a day."""
REMEMBERED_UNREAD_MAX = 50_000
"""Transactions on unread partitions that the memory keeps, of those that were examined and of the others, as many as a
cycle examines: a broker that shows other topics in every cycle must not fill it."""
_KEPT = ("start_ms", "start_source", "not_open_at_ms")
"""Fields from the time when the transaction was examined, whatever its epoch is now."""


def remember(
    snapshot: Snapshot,
    memory: Memory,
    keys: TransactionKeys,
    judged: Iterable[tuple[Evidence, Verdict, tuple[int, StartSource]]],
    others: Facts,
) -> Memory:
    """The memory of open transactions, and of those on partitions that are unread in this cycle.

    `keys` are those of all open transactions. `judged` has (evidence, verdict, (start in ms, its source)) of each examined
    one; `others` are the `facts_of_others`.
    """
    rows = (_remembered(e, verdict, snapshot, _earliest_start(e.remembered, *start)) for e, verdict, start in judged)
    current = RememberedTransactions(keys, tuple(rows), others)
    return Memory(
        last_reading=last_reading(snapshot, memory),
        cluster_id=snapshot.cluster_id,
        transactions=RememberedTransactions.joined((current, _still_possible(snapshot, memory))),
    )


def remembered_silences(
    snapshot: Snapshot, memory: Memory, journal: Journal, evidence: Sequence[Evidence], silent_ms: Iterable[int]
) -> Silences:
    """Returns the silences of all owners; `silent_ms` has the present one of each examined transaction."""
    builder = SilencesBuilder(memory.silences if memory.is_of(snapshot) else NO_SILENCES)
    seen, now_ms = set(), snapshot.cluster_time_ms
    for each, present_ms in zip(evidence, silent_ms, strict=False):
        transaction, name = each.transaction, each.transactional_id
        if transaction is None or name is None or name in seen or present_ms == NULL:
            continue
        seen.add(name)
        # What has just begun is listed only. What was seen before is described, unless its coordinator did not respond.
        has_just_begun = each.ownership is Ownership.LISTED_ACTIVE and not each.was_seen_before
        if each.ownership is not Ownership.OWNED and not has_just_begun:
            continue
        start_ms = transaction.start_ms if transaction.is_described else None
        latest = builder.latest(name)
        if latest is not None and not latest.is_of(start_ms):
            at_ms = now_ms if start_ms is None else start_ms
            builder.end(name, at_ms, was_aborted=_was_aborted(journal, latest))
        now = OwnerSilences(
            producer_id=each.key.producer_id,
            place=each.key[:2],
            start_ms=start_ms,
            timeout_ms=transaction.timeout_ms,
            silent_ms=present_ms,
        )
        builder.see(name, now)
    if snapshot.open_transactions.examined_count == len(snapshot.open_transactions):
        _end_absent(builder, snapshot, journal, evidence)
    return builder.silences()


def _end_absent(builder: SilencesBuilder, snapshot: Snapshot, journal: Journal, evidence: Iterable[Evidence]) -> None:
    """Ends the transactions of ids that are not open any more, on partitions that were read.

    By their producers: a coordinator that does not respond has not ended anything.
    """
    open_now = {(each.key.producer_id, each.key[:2]) for each in evidence}
    for name, latest in builder.still_open():
        if (latest.producer_id, latest.place) in open_now:
            continue
        row = snapshot.partitions.row(*latest.place)
        if row is None:  # the topic is gone
            builder.forget(name)
        elif snapshot.partitions.was_read[row]:
            builder.leave(name, snapshot.cluster_time_ms, was_aborted=_was_aborted(journal, latest))


def _was_aborted(journal: Journal, latest: OwnerSilences) -> bool:
    logged = journal.producers.get(latest.producer_id)
    end = None if logged is None else logged.ended.get(latest.place)
    is_its = end is not None and latest.start_ms in {None, end.start_ms}
    return end is not None and is_its and end.outcome is not Outcome.COMMITTED


def facts_of_others(snapshot: Snapshot, join: MemoryJoin) -> Facts:
    """The columns of FACTS of the open transactions that this cycle did not examine."""
    open_, now = snapshot.open_transactions, snapshot.cluster_time_ms
    first, count = open_.examined_count, len(open_) - open_.examined_count
    if not count:
        return NO_FACTS
    facts: dict[str, npt.NDArray[np.signedinteger[Any]]]
    facts = {name: np.full(count, NULL, dtype=np.int64) for name in FACTS}
    facts["first_seen_ms"][:] = facts["last_seen_ms"][:] = now
    facts["producer_epoch"] = open_.producer_epoch[first:]
    place = join.place[first:]
    is_known = place >= 0
    before = join.transactions.facts_at(place[is_known])
    for name in ("first_seen_ms", *_KEPT):
        facts[name][is_known] = before[name]
    is_same = before["producer_epoch"] == facts["producer_epoch"][is_known]
    facts["coordinator_start_ms"][is_known] = np.where(is_same, before["coordinator_start_ms"], NULL)
    return facts


def _still_possible(snapshot: Snapshot, memory: Memory) -> RememberedTransactions:
    """Remembered transactions on unread partitions, which may still be open: the newest, up to a limit.

    A partition that is not listed is deleted, unless topics are missing in the list, or no broker shows its topic to this
    login any more.
    """
    before = memory.transactions
    if memory.cluster_id != snapshot.cluster_id:
        return before.those(np.zeros(len(before), dtype=np.bool_))
    row = partition_rows(snapshot.partitions, before.identity)
    is_shown = row >= 0
    is_shown[is_shown] = shows(snapshot.partitions.answer[row[is_shown]], before.identity.producer_id[is_shown])
    hidden = [topic in snapshot.visibility.hidden_topics for topic in before.identity.topics]
    is_gone = (row < 0) & ~np.array(hidden, dtype=np.bool_)[before.identity.topic] & snapshot.shows_every_topic
    last_seen_ms = before.last_seen_ms()
    is_possible = ~is_shown & ~is_gone & (last_seen_ms >= snapshot.cluster_time_ms - FORGET_UNREAD_AFTER_MS)
    is_examined = np.arange(len(before)) < before.examined_count
    return before.those(
        _newest(is_possible & is_examined, last_seen_ms) | _newest(is_possible & ~is_examined, last_seen_ms)
    )


def _newest(among: BoolColumn, last_seen_ms: Int64Column) -> BoolColumn:
    """(N,) the newest of `among`, up to REMEMBERED_UNREAD_MAX."""
    rows = np.flatnonzero(among)
    newest = rows[np.argsort(last_seen_ms[rows], kind="stable")][-REMEMBERED_UNREAD_MAX:]
    is_newest = np.zeros(len(among), dtype=np.bool_)
    is_newest[newest] = True
    return is_newest


def partition_rows(partitions: Partitions, keys: TransactionKeys) -> Int64Column:
    """(N,) the row of each one's partition; -1 if there is none."""
    if not len(partitions):
        return np.full(len(keys), -1, dtype=np.int64)
    index = {name: at for at, name in enumerate(partitions.topics)}
    topic = np.array([index.get(name, -1) for name in keys.topics], dtype=np.int64)[keys.topic]
    known = partition_keys(partitions.topic, partitions.partition)
    wanted = partition_keys(topic, keys.partition)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where((topic >= 0) & (known[place] == wanted), place, -1)


_Start = tuple["int | None", "int | None"]


def _earliest_start(before: RememberedTransaction | None, start_ms: int, source: StartSource) -> _Start:
    """The start of this cycle, or an earlier one of an earlier cycle unless it is known to be too early."""
    given = (None, None) if source is StartSource.FIRST_SEEN else (start_ms, int(source))
    if before is None or before.start_ms is None or source is StartSource.NOT_OPEN_BEFORE:
        return given
    return (before.start_ms, before.start_source) if before.start_ms < start_ms else given


def _remembered(evidence: Evidence, verdict: Verdict, snapshot: Snapshot, earliest: _Start) -> RememberedTransaction:
    before, transaction = evidence.remembered, evidence.transaction
    now_ms, monotonic_ms = snapshot.cluster_time_ms, snapshot.monotonic_ms
    coordinator_start_ms, (start_ms, start_source) = None, earliest
    if evidence.held_offset is not None:
        start_ms = start_source = None  # that of the transaction that may own it now
    if evidence.ownership in OWNED and transaction is not None:
        coordinator_start_ms = transaction.start_ms
    elif before is not None and before.producer_epoch == evidence.producer_epoch:
        coordinator_start_ms = before.coordinator_start_ms
    completing_since_ms, completing_from_ms = _completing_times(evidence, verdict, snapshot)
    return RememberedTransaction(
        first_seen_ms=now_ms if before is None else before.first_seen_ms,
        last_seen_ms=now_ms,
        producer_epoch=evidence.producer_epoch,
        coordinator_start_ms=coordinator_start_ms,
        start_ms=start_ms,
        start_source=start_source,
        not_open_at_ms=evidence.not_open_at_ms,
        clock_offset_ms=snapshot.clock_offset_ms if before is None else before.clock_offset_ms,
        open_at_ms=open_at_ms(evidence, now_ms),
        completing_since_ms=completing_since_ms,
        completing_from_ms=completing_from_ms,
        superseded_epoch=_superseded_epoch(evidence, verdict),
        watched_from_ms=_watched_from_ms(evidence, monotonic_ms),
        last_sequence=evidence.last_sequence,
        last_timestamp_ms=evidence.last_timestamp_ms,
        unchanged_from_ms=None if monotonic_ms is None else monotonic_ms - (evidence.silent_ms or 0),
    )


def _completing_times(evidence: Evidence, verdict: Verdict, snapshot: Snapshot) -> tuple[int | None, int | None]:
    """Returns since when it is completing, by the cluster's clock and by the monotonic one.

    It may have been decided during this cycle: it was completing at the cycle's end, not necessarily at its start.
    """
    before = evidence.remembered
    from_ms = None if snapshot.monotonic_ms is None else snapshot.monotonic_ms + snapshot.took_ms
    if (
        before is not None
        and not verdict.is_hanging
        and was_completing(before, evidence.ownership, evidence.transaction)
    ):
        # After a restart without the cluster's clock, no other clock would ever count.
        is_uncounted = before.completing_from_ms is None and not evidence.is_clock_sure
        return before.completing_since_ms, from_ms if is_uncounted else before.completing_from_ms
    if evidence.ownership is Ownership.COMPLETING:
        return snapshot.cluster_time_ms + snapshot.took_ms, from_ms
    return None, None


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
    """Returns since when this transaction is watched: a producer that continues takes old records into its next one."""
    before, transaction = evidence.remembered, evidence.transaction
    if before is None or before.watched_from_ms is None:
        return monotonic_ms
    if evidence.ownership is Ownership.OWNED and transaction is not None and is_another_start(before, transaction):
        return monotonic_ms
    return before.watched_from_ms
