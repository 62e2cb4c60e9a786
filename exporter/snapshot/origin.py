"""Records what the logs show about one open transaction: its producer's batches and markers, and who appended them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedBatch:
    """A batch of records of the producer, in offset order."""

    offset: int
    next_offset: int
    producer_epoch: int
    base_sequence: int
    """Sequence number of the first record."""
    records: int
    first_timestamp_ms: int
    """Timestamp by the client's clock, or by the leader's if `has_log_append_time`."""
    max_timestamp_ms: int
    leader_epoch: int
    """Epoch of the leader that appended the batch."""
    is_transactional: bool
    has_log_append_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedMarker:
    """A COMMIT or ABORT marker of the producer."""

    topic: str
    partition: int
    offset: int
    producer_epoch: int
    coordinator_epoch: int
    """Epoch of the coordinator that requested the marker, that is of its `__transaction_state` partition; -1 if unknown."""
    timestamp_ms: int
    """Timestamp by the clock of the partition's leader."""
    leader_epoch: int
    commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLog:
    """A part of one partition's log as its leader has it, seen for one producer."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    """The current one; -1 from brokers without leader epochs."""
    read_from: int = -1
    """The first offset that was read."""
    read_to: int = -1
    """The offset after the last one that was read."""
    gaps: tuple[int, ...] = ()
    """Offsets before which batches are missing (compaction)."""
    oldest_by_broker_ms: int = -1
    """The smallest timestamp of a broker that was read, of any end marker or LogAppendTime; -1 if none was."""
    batches: tuple[LoggedBatch, ...] = ()
    """Batches of the producer."""
    markers: tuple[LoggedMarker, ...] = ()
    """Markers of the producer."""
    ended_before: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """Other producers with a marker in this part: producer id -> the offset of its first one."""
    marker_before_ms: int = -1
    """Time of the last marker of any producer before the start offset, by the leader's clock; -1 if none was read."""
    unread: str = ""
    """Reason why less was read than requested, as a phrase; empty if all was."""

    def is_whole(self, from_offset: int, to_offset: int) -> bool:
        """True if every batch between these offsets is in the log, and was read."""
        return (
            0 <= self.read_from <= from_offset
            and to_offset <= self.read_to
            and not any(from_offset < gap <= to_offset for gap in self.gaps)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPartitionEntry:
    """The producer's entry on another partition."""

    topic: str
    partition: int
    producer_epoch: int
    coordinator_epoch: int
    last_timestamp_ms: int
    start_offset: int
    """Negative if no transaction is open there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLogs:
    """The log of the transaction's partition, and what is known of its producer on others."""

    own: PartitionLog
    markers: tuple[LoggedMarker, ...]
    """Markers of the producer on other partitions, by time."""
    entry: OtherPartitionEntry | None
    """The producer's entry on the partition itself; None if the leader has forgotten the producer."""
    unread: tuple[str, ...] = ()
    """Gaps in what was read, a sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """Settings of the cluster that prevent hanging transactions, as far as they can be read."""

    features: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Finalized feature levels by name, such as `transaction.version`."""
    broker_configs: Mapping[int, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    """Broker -> name -> value, of the brokers that responded."""
    releases: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    """Broker -> the Kafka release whose APIs it offers; empty if unknown."""
    state_topic_replicas: int | None = None
    """The fewest of any partition of `__transaction_state`; None if the topic is not visible."""
    state_topic_lagging: int | None = None
    """Partitions of `__transaction_state` with a replica that is not in sync."""
    state_topic_configs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Configuration of `__transaction_state`."""
    is_state_topic_refused: bool = False
    """True if that configuration needs DESCRIBE_CONFIGS on the topic."""
    unread: tuple[str, ...] = ()
    """Gaps in what was read, a sentence each."""
