"""Finds the consumer groups that a transaction blocks: they stand at the last stable offset, and records wait behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from exporter.evaluation.memory import GroupKey, Memory, RememberedBlock
from exporter.evaluation.verdicts import BlockedGroup, TransactionRow, WaitingGroup
from exporter.snapshot import OFFSETS_TOPIC, UNKNOWN_OFFSET, BoolColumn, Impact, Snapshot, TopicPartition

MARKER: Final = 1
"""Clients that commit the offset after their last record (Flink does) stop one short: the end marker has an offset too.
That is taken for granted where the log could not be read."""


def blocked_groups(snapshot: Snapshot, rows: Iterable[int], memory: Memory) -> tuple[BlockedGroup, ...]:
    """Groups that stand at the last stable offset of the partitions of these transactions, most waiting records first.

    A group that has not come so far still reads. One that is beyond it reads uncommitted records, or its offsets were set
    past the transaction, which no response says apart. Neither is called blocked.
    """
    impact = snapshot.impact
    if impact is None:
        return ()
    is_known = memory.cluster_id == snapshot.cluster_id
    found = {}
    for (topic, partition), (stable, high_watermark) in _ends(snapshot, rows).items():
        groups = [
            committed.group
            for committed in impact.on(topic, partition)
            if is_held(committed.offset, stable, high_watermark, committed.next_offset)
        ]
        if topic == OFFSETS_TOPIC:  # no consumer of a group can read its own offset while that is pending
            groups += [group for number, group in impact.residents if number == partition]
        row = snapshot.partitions.row(topic, partition)
        topic_id = "" if row is None else snapshot.partitions.topic_id(row)
        for group in groups:
            key = GroupKey(group, topic, partition, topic_id)
            known = memory.block(key) if is_known else None
            if known is not None and UNKNOWN_OFFSET < known.last_stable_offset < stable:
                known = None  # it has read on since, and stands at another transaction
            found[key] = BlockedGroup(
                group=group,
                topic=topic,
                partition=partition,
                records=high_watermark - stable,
                since_ms=snapshot.cluster_time_ms if known is None else known.since_ms,
                topic_id=topic_id,
            )
    return tuple(
        sorted(found.values(), key=lambda blocked: (-blocked.records, blocked.group, blocked.topic, blocked.partition))
    )


def lasting_groups(
    blocked: tuple[BlockedGroup, ...], snapshot: Snapshot, memory: Memory, is_old: BoolColumn
) -> tuple[BlockedGroup, ...]:
    """Returns those that an earlier cycle has found there too, or behind a transaction that is old (N).

    A group that keeps up stands at one that has just begun for a moment, also a reader of uncommitted records. The first
    cycle takes all.
    """
    new = {(each.topic, each.partition) for each in blocked if each.since_ms == snapshot.cluster_time_ms}
    if not new or memory.cluster_id != snapshot.cluster_id:
        return blocked
    open_, partitions = snapshot.open_transactions, snapshot.partitions
    rows = [row for place in new if (row := partitions.row(*place)) is not None]
    old = {partitions.name(row) for row in open_.partition_row[np.isin(open_.partition_row, rows) & is_old].tolist()}
    return tuple(
        each for each in blocked if each.since_ms != snapshot.cluster_time_ms or (each.topic, each.partition) in old
    )


def is_held(
    committed_offset: int, last_stable_offset: int, high_watermark: int, next_offset: int | None = None
) -> bool:
    """True if a group stands at the last stable offset, with something behind it; False if the ends are unknown.

    `next_offset` is that of the next record that it can read; None where that is unknown.
    """
    if not UNKNOWN_OFFSET < last_stable_offset < high_watermark or committed_offset > last_stable_offset:
        return False
    if next_offset is not None:
        return next_offset >= last_stable_offset
    return committed_offset >= last_stable_offset - MARKER


def is_assumed(row: TransactionRow, group: WaitingGroup) -> bool:
    """True if the one offset before a transaction is taken for an end marker, and may be a record: READ is missing."""
    return not row.has_producer and group.committed_offset == row.start_offset - MARKER


def group_failures(impact: Impact, on: TopicPartition | None = None) -> tuple[str, ...]:
    """Says which groups are unknown, on one partition or on all: each transaction on `__consumer_offsets` has some."""
    unseen = [number for number in impact.unseen if on in {None, (OFFSETS_TOPIC, number)}]
    return (
        *impact.failures,
        *(
            f"no visible group has an offset pending on {OFFSETS_TOPIC}-{number}: the transaction has ended, "
            "or the group is not visible, or this is the first commit of the group"
            for number in unseen
        ),
    )


def names_of_blocked(rows: Iterable[TransactionRow]) -> set[str]:
    """The groups that stand still behind these transactions, also those that cannot read their own pending offset."""
    return {group.group for row in rows for group in row.groups if group.stands_still}


def remembered_groups(
    snapshot: Snapshot, rows: Iterable[int], memory: Memory, blocked: Sequence[BlockedGroup]
) -> Mapping[GroupKey, RememberedBlock]:
    """Returns each group's block; groups whose broker did not respond in this cycle are included.

    So are those of partitions that were not read: a leader that is gone for a while ends no block.
    """
    is_partial = bool(snapshot.impact is None or snapshot.impact.failures or snapshot.impact.unseen)
    ends = _ends(snapshot, rows) if blocked or is_partial else {}
    kept = {
        group.key: RememberedBlock(
            group.since_ms, UNKNOWN_OFFSET if group.topic == OFFSETS_TOPIC else ends[group.key[1:3]][0]
        )
        for group in blocked
    }
    if memory.blocked and memory.cluster_id == snapshot.cluster_id:
        partitions, unread = snapshot.partitions, snapshot.partitions.is_unread
        held = ends.keys() if is_partial else set()
        row_of = {place: partitions.row(*place) for place in {key[1:3] for key in memory.blocked}}
        topic_ids = {
            place: partitions.topic_id(row)
            for place, row in row_of.items()
            if row is not None and (place in held or unread[row])
        }
        for key, known in memory.blocked.items() if topic_ids else ():
            topic_id = topic_ids.get(key[1:3])
            if topic_id is not None and key.topic_id in {"", topic_id}:
                kept.setdefault(key._replace(topic_id=topic_id), known)
    return kept


def _ends(snapshot: Snapshot, rows: Iterable[int]) -> Mapping[TopicPartition, tuple[int, int]]:
    """(last stable offset, high watermark) of each one's partition, where they are known."""
    open_, partitions = snapshot.open_transactions, snapshot.partitions
    ends = {}
    for row in rows:
        stable, high_watermark = int(open_.last_stable_offset[row]), int(open_.high_watermark[row])
        at = int(open_.partition_row[row])
        if UNKNOWN_OFFSET not in {stable, high_watermark}:
            ends[partitions.name(at)] = stable, high_watermark
    return ends
