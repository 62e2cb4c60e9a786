"""Notes which partitions a cycle has read: a transaction that a later cycle shows there first was not open then."""

from __future__ import annotations

from typing import Final

import numpy as np

from exporter.evaluation.memory import LastReading, Memory
from exporter.snapshot import PartitionResult, Snapshot

UNREAD_MAX: Final = 10_000
"""Partitions without a response; with more of them the reading before it stays."""


def last_reading(snapshot: Snapshot, memory: Memory) -> LastReading | None:
    """The reading of this cycle; that of an earlier one, which is still true, where this one has gaps in its view."""
    before = memory.last_reading if memory.cluster_id == snapshot.cluster_id else None
    partitions = snapshot.partitions
    # Transactions that were not examined are in the memory of this process only.
    open_ = snapshot.open_transactions
    # Offsets show the first open transaction of a partition only.
    is_unread = partitions.is_unread | (partitions.answer == int(PartitionResult.BY_OFFSETS))
    rows = np.union1d(np.flatnonzero(is_unread), open_.partition_row[open_.examined_count :])
    if snapshot.visibility.gaps or len(rows) > UNREAD_MAX:
        return before
    is_included = partitions.answer != int(PartitionResult.EXCLUDED)
    count = len(partitions.topics)
    return LastReading(
        at_ms=snapshot.cluster_time_ms,
        topics=partitions.topics,
        topic_ids=partitions.topic_ids or ("",) * count,
        partitions=tuple(np.bincount(partitions.topic[is_included], minlength=count).tolist()),
        unread=frozenset(partitions.name(row) for row in rows.tolist()),
    )
