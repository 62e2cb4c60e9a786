"""Records the space on disk of partitions behind a transaction, and of the log directories that have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.snapshot.partitions import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """A log directory of a broker, with the space of its volume; None from brokers before Kafka 3.3."""

    broker: int
    path: str
    total_bytes: int | None
    usable_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSize:
    """Size of the leader's replica of a partition, without segments that are only in remote storage."""

    log_dir: LogDir
    size_bytes: int
    log_start_offset: int | None
    """None if the leader did not return it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """One reading of log directories; a later cycle may use it again."""

    at_ms: int
    """Time of the reading, by the cluster's clock."""
    requested: frozenset[TopicPartition]
    sizes: Mapping[TopicPartition, ReplicaSize]
    log_dirs: tuple[LogDir, ...]
    failures: tuple[str, ...]
    """Sizes that are unknown, one sentence for each broker and reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedBytes:
    """Estimate of the bytes behind one transaction by earlier cycles."""

    broker: int
    size_bytes: int
    """Size of the whole log."""
    held_bytes: int
    first_held_bytes: int
    """The first estimate, made at `first_at_ms` by the cluster's clock."""
    first_at_ms: int
