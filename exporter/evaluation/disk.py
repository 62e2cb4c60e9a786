"""Estimates the bytes of a partition that Kafka can neither compact nor tier because of an open transaction.

A broker returns the size of a log, and not the size from an offset on. At its first measurement a transaction gets the same
part of the size as its offsets are of the log's. From then on every byte that the log grows by is behind it. So the growth
is right on a compacted topic, too, whose offsets before the transaction are sparse. The first estimate is too small there,
and on a tiered topic, whose first offsets are in remote storage; a command has only this one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from exporter.evaluation.memory import Memory
from exporter.snapshot import LogDir, RememberedBytes, ReplicaSize, Snapshot, TopicPartition, TransactionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBytes:
    """The estimate of one partition, with its growth since the first measurement."""

    bytes: int
    bytes_per_second: float | None
    """None without an earlier measurement."""
    log_dir_full_ms: int | None
    """Time until the log directory is full at the growth of all its held partitions; None if unknown or not growing."""


def remembered_bytes(
    snapshot: Snapshot, memory: Memory, keys: Sequence[TransactionKey]
) -> Mapping[TransactionKey, RememberedBytes]:
    """Returns the estimates for the next cycle; earlier ones where this cycle has read no size.

    `keys` has one for each examined transaction (K).
    """
    open_, partitions, disk = snapshot.open_transactions, snapshot.partitions, snapshot.disk
    known = memory.held if memory.cluster_id == snapshot.cluster_id else {}
    seen = {}
    for row in np.flatnonzero(open_.holds_back).tolist():
        key = keys[row]
        replica = None if disk is None else disk.sizes.get(key[:2])
        if disk is not None and replica is not None:
            high_watermark = int(open_.high_watermark[row])
            seen[key] = estimate(known.get(key), replica, disk.at_ms, key.start_offset, high_watermark)
        elif key in known:
            seen[key] = known[key]
    is_covered = partitions.is_covered
    for key, before in known.items():
        if key not in seen and (at := partitions.row(key.topic, key.partition)) is not None and not is_covered[at]:
            seen[key] = before
    return seen


def estimate(
    before: RememberedBytes | None, replica: ReplicaSize, at_ms: int, start_offset: int, high_watermark: int
) -> RememberedBytes:
    """Returns the estimate of one transaction: the former one plus the growth of the log since, at most the log's size.

    A log that shrinks loses what is before the transaction. Another leader's log may be compacted in another way: its
    difference to the former leader's is not growth.
    """
    size, broker = replica.size_bytes, replica.log_dir.broker
    if before is None:
        held = _first_estimate(replica, start_offset, high_watermark)
        first_held, first_at_ms = held, at_ms
    else:
        grown = max(size - before.size_bytes, 0) if broker == before.broker else 0
        held = min(before.held_bytes + grown, size)
        first_held, first_at_ms = before.first_held_bytes, before.first_at_ms
    return RememberedBytes(
        broker=broker, size_bytes=size, held_bytes=held, first_held_bytes=first_held, first_at_ms=first_at_ms
    )


def _first_estimate(replica: ReplicaSize, start_offset: int, high_watermark: int) -> int:
    """Returns the size times the part of the log's offsets that are behind the start; 0 if the log start is unknown."""
    log_start = replica.log_start_offset
    if log_start is None or not 0 <= log_start < high_watermark:
        return 0
    return replica.size_bytes * (high_watermark - max(start_offset, log_start)) // (high_watermark - log_start)


def held_bytes(
    snapshot: Snapshot, seen: Mapping[TransactionKey, RememberedBytes]
) -> Mapping[TopicPartition, HeldBytes]:
    """Returns the estimate of each partition whose size is known in this cycle, with its growth."""
    disk = snapshot.disk
    if disk is None:
        return {}
    of = {key[:2]: each for key, each in seen.items() if key[:2] in disk.sizes}
    growth = {partition: _bytes_per_second(each, disk.at_ms) for partition, each in of.items()}
    of_log_dir: dict[LogDir, float] = defaultdict(float)
    for partition, bytes_per_second in growth.items():
        of_log_dir[disk.sizes[partition].log_dir] += bytes_per_second or 0
    full_ms = {log_dir: _full_ms(log_dir, bytes_per_second) for log_dir, bytes_per_second in of_log_dir.items()}
    return {
        partition: HeldBytes(
            bytes=each.held_bytes,
            bytes_per_second=growth[partition],
            log_dir_full_ms=full_ms[disk.sizes[partition].log_dir],
        )
        for partition, each in of.items()
    }


def _bytes_per_second(seen: RememberedBytes, at_ms: int) -> float | None:
    took_ms = at_ms - seen.first_at_ms
    return max(seen.held_bytes - seen.first_held_bytes, 0) * 1000 / took_ms if took_ms > 0 else None


def _full_ms(log_dir: LogDir, bytes_per_second: float) -> int | None:
    if log_dir.usable_bytes is None or bytes_per_second <= 0:
        return None
    return int(log_dir.usable_bytes * 1000 / bytes_per_second)
