"""Evaluates open transactions that were not examined, and keeps their memory, in columns only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from exporter.evaluation.memory import FACTS, Memory, Remembered, SeenUnexamined
from exporter.evaluation.verdicts import UnexaminedColumns, Verdict
from exporter.snapshot import Int64Column, Partitions, Snapshot, TransactionKey, TransactionKeys
from exporter.snapshot.unexamined import keys_of, partition_keys

REMEMBERED_UNREAD_MAX = 50_000
"""Transactions on unread partitions that the memory keeps, as many as a cycle examines: a broker that shows other topics in
every cycle must not fill it."""
_NEVER = -1
_KEPT = ("start_ms", "start_source", "not_open_at_ms")
"""From the time when it was examined, whatever its epoch is now."""


def judge_unexamined(
    snapshot: Snapshot, memory: Memory, late_after_ms: int
) -> tuple[UnexaminedColumns, SeenUnexamined]:
    """Verdicts, durations, and the memory for the next cycle.

    The start is the earliest that was known while it was examined, otherwise the first cycle with it.
    """
    now, open_ = snapshot.cluster_time_ms, snapshot.unexamined
    seen = _seen_now(snapshot, memory)
    start_ms = np.where(seen.coordinator_start_ms >= 0, seen.coordinator_start_ms, seen.first_seen_ms)
    start_ms = np.where(seen.start_ms >= 0, np.minimum(seen.start_ms, start_ms), start_ms)
    duration_ms = np.maximum(now - start_ms, 0)
    last_write = open_.last_timestamp
    just_begun = np.where(open_.is_completing, int(Verdict.COMPLETING), int(Verdict.OPEN_WITHIN_TIMEOUT))
    return (
        UnexaminedColumns(
            verdict=np.where(open_.needs_examination, int(Verdict.INCONCLUSIVE), just_begun).astype(np.int8),
            duration_ms=duration_ms,
            idle_ms=np.where(last_write > 0, np.maximum(now - last_write, 0), 0),
            is_late=duration_ms > late_after_ms,
        ),
        seen,
    )


def _seen_now(snapshot: Snapshot, memory: Memory) -> SeenUnexamined:
    open_, now = snapshot.unexamined, snapshot.cluster_time_ms
    count = len(open_)
    first_seen_ms = np.full(count, now, dtype=np.int64)
    coordinator_start_ms = np.full(count, _NEVER, dtype=np.int64)
    kept = {name: np.full(count, _NEVER, dtype=np.int64) for name in _KEPT}
    keys = keys_of(snapshot.partitions, open_)
    if count and memory.cluster_id in {"", snapshot.cluster_id}:
        for before in (memory.unexamined, _as_columns(memory.transactions)):
            place = keys.places_in(before.keys)
            known = np.flatnonzero(place >= 0)
            place = place[known]
            first_seen_ms[known] = before.first_seen_ms[place]
            for name, column in kept.items():
                column[known] = getattr(before, name)[place]
            same = before.producer_epoch[place] == open_.producer_epoch[known]
            coordinator_start_ms[known[same]] = before.coordinator_start_ms[place[same]]
    return SeenUnexamined(
        keys=keys,
        first_seen_ms=first_seen_ms,
        last_seen_ms=np.full(count, now, dtype=np.int64),
        producer_epoch=open_.producer_epoch,
        coordinator_start_ms=coordinator_start_ms,
        **kept,
    )


def _as_columns(transactions: Mapping[TransactionKey, Remembered]) -> SeenUnexamined:
    """The memory of transactions that were examined: up to the limit, and unread ones of one day."""
    facts = [tuple(getattr(known, name) for name in FACTS) for known in transactions.values()]
    table = np.array(facts, dtype=np.int64).reshape(-1, len(FACTS))
    columns: dict[str, Any] = {name: table[:, at] for at, name in enumerate(FACTS)}
    columns["producer_epoch"] = columns["producer_epoch"].astype(np.int32)
    return SeenUnexamined(keys=TransactionKeys.of(transactions), **columns)


def still_possible(snapshot: Snapshot, memory: Memory, oldest_ms: int) -> SeenUnexamined:
    """Transactions of the last cycle on partitions that are unread in this one: they may still be open."""
    before = memory.unexamined
    if not len(before) or memory.cluster_id != snapshot.cluster_id:
        return before.those(np.zeros(len(before), dtype=np.bool_))
    row = _rows(snapshot.partitions, before.keys)
    is_read = (row >= 0) & snapshot.partitions.was_read[row]
    gone = deleted_topics(snapshot, before.keys.topics)
    is_gone = np.array([topic in gone for topic in before.keys.topics], dtype=np.bool_)[before.keys.topic]
    kept = np.flatnonzero(~is_read & ~is_gone & (before.last_seen_ms >= oldest_ms))
    newest = kept[np.argsort(before.last_seen_ms[kept], kind="stable")][-REMEMBERED_UNREAD_MAX:]
    return before.those(np.isin(np.arange(len(before)), newest))


def deleted_topics(snapshot: Snapshot, topics: Iterable[str]) -> frozenset[str]:
    """Those of `topics` that are deleted: a complete cycle does not have them, and no broker refuses to show them."""
    if not snapshot.is_complete:
        return frozenset()
    return frozenset(topics) - {*snapshot.partitions.topics, *snapshot.visibility.hidden_topics}


def _rows(partitions: Partitions, keys: TransactionKeys) -> Int64Column:
    """(N,) the row of each one's partition; -1 if there is none."""
    if not len(partitions):
        return np.full(len(keys), -1, dtype=np.int64)
    index = {name: at for at, name in enumerate(partitions.topics)}
    topic = np.array([index.get(name, -1) for name in keys.topics], dtype=np.int64)[keys.topic]
    known = partition_keys(partitions.topic, partitions.partition)
    wanted = partition_keys(topic, keys.partition)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where((topic >= 0) & (known[place] == wanted), place, -1)
