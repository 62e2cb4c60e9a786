"""Derives transactions from the batches of a partition's log: their records' batches, and the marker that ends them.

Only headers and control records are looked at. A range of the log is read by itself, so a transaction may be in two of
them: `joined` puts the parts of one producer together again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from exporter.kafka.messages.log_batches import Batch, markers_in


class MarkerKind(Enum):
    COMMIT = "commit"
    ABORT = "abort"
    GONE = "gone"
    """Compaction has left the batch of a marker without its record: COMMIT or ABORT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTransaction:
    """A transaction in the log of one partition, or the part of it that a range has. Instants in ms since 1970 UTC.

    A marker without records has no first offset; a transaction that the log does not end has no marker.
    """

    topic: str
    topic_id: str
    partition: int
    producer_id: int
    first_epoch: int | None = None
    """Epoch of its first record; it differs from `last_epoch` where a newer transaction has adopted older records."""
    last_epoch: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    records: int = 0
    """Records that the batches have now: compaction may have removed others."""
    size_bytes: int = 0
    first_timestamp_ms: int | None = None
    """Timestamp by the client's clock, or the broker's where the topic has LogAppendTime."""
    last_timestamp_ms: int | None = None
    first_leader_epoch: int | None = None
    last_leader_epoch: int | None = None
    marker: str | None = None
    """A `MarkerKind`."""
    marker_offset: int | None = None
    marker_epoch: int | None = None
    """The producer epoch of the marker's batch."""
    coordinator_epoch: int | None = None
    marker_timestamp_ms: int | None = None
    """Timestamp by the clock of the partition's leader."""
    marker_leader_epoch: int | None = None
    other_records: int = 0
    """Records of the same producer since its transaction before that belong to no transaction."""
    replica: int | None = None
    """Broker whose copy of the log has it; None for the leader's."""

    @property
    def has_records(self) -> bool:
        return self.first_offset is not None

    @property
    def is_ended(self) -> bool:
        return self.marker is not None

    @property
    def begins_at(self) -> int:
        """The offset of its first record, or of its marker."""
        at = self.marker_offset if self.first_offset is None else self.first_offset
        assert at is not None
        return at


@dataclass(slots=True)
class _Records:
    """The records of a transaction so far: changed with every batch of it."""

    first: Batch
    last: Batch
    other_records: int
    records: int = 0
    size_bytes: int = 0

    def fields(self) -> dict[str, Any]:
        """Returns the fields of a `LogTransaction`."""
        return {
            "first_epoch": self.first.producer_epoch,
            "last_epoch": self.last.producer_epoch,
            "first_offset": self.first.base_offset,
            "last_offset": self.last.next_offset - 1,
            "records": self.records,
            "size_bytes": self.size_bytes,
            "first_timestamp_ms": self.first.first_timestamp_ms,
            "last_timestamp_ms": self.last.max_timestamp_ms,
            "first_leader_epoch": self.first.leader_epoch,
            "last_leader_epoch": self.last.leader_epoch,
            "other_records": self.other_records,
        }


@dataclass(slots=True)
class RangeOfLog:
    """A range of one partition's log, from `first_offset` to before `end_offset`, whose batches are taken in order."""

    topic: str
    topic_id: str
    partition: int
    first_offset: int
    end_offset: int
    next_offset: int = field(init=False)
    first_gap: int | None = None
    """Offset of the first record that is missing with its whole batch: compaction removes them. None without one."""
    last_gap: int | None = None
    size_bytes: int = 0
    batches: int = 0
    leader_epoch: int = -1
    """Epoch of the last batch's leader."""
    replica: int | None = None
    """Broker whose copy it is; None for the leader's."""
    _open: dict[int, _Records] = field(default_factory=dict)
    _others: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.next_offset = self.first_offset

    @property
    def is_read(self) -> bool:
        return self.next_offset >= self.end_offset

    def take(self, batch: Batch, records: bytes) -> Iterator[LogTransaction]:
        """Takes the next batch; yields the transactions that it ends. Raises MalformedResponseError.

        A batch belongs to the range in which it begins.
        """
        if batch.base_offset > self.next_offset:
            self.skip_to(batch.base_offset)
        if self.is_read:
            return
        size = batch.end - batch.start
        self.next_offset = batch.next_offset
        self.size_bytes += size
        self.batches += 1
        self.leader_epoch = batch.leader_epoch
        producer_id = batch.producer_id
        if producer_id < 0:
            return
        if batch.is_control:
            yield from self._end(batch, records)
        elif batch.is_transactional:
            own = self._open.get(producer_id)
            if own is None:
                others = self._others.pop(producer_id, 0)
                own = self._open[producer_id] = _Records(batch, batch, others)
            own.last = batch
            own.records += batch.records
            own.size_bytes += size
        else:
            self._others[producer_id] = self._others.get(producer_id, 0) + batch.records

    def skip_to(self, offset: int) -> None:
        """Notes that the log has nothing from `next_offset` to before `offset`."""
        offset = min(offset, self.end_offset)
        if offset > self.next_offset:
            if self.first_gap is None:
                self.first_gap = self.next_offset
            self.last_gap = offset - 1
            self.next_offset = offset

    def rest(self) -> list[LogTransaction]:
        """The transactions that the range does not end."""
        return [self._transaction(producer_id, **own.fields()) for producer_id, own in self._open.items()]

    def _transaction(self, producer_id: int, **fields: Any) -> LogTransaction:
        return LogTransaction(
            topic=self.topic,
            topic_id=self.topic_id,
            partition=self.partition,
            producer_id=producer_id,
            replica=self.replica,
            **fields,
        )

    def _end(self, batch: Batch, records: bytes) -> Iterator[LogTransaction]:
        markers: list[tuple[str, int, int | None]] = [
            ((MarkerKind.COMMIT if marker.commit else MarkerKind.ABORT).value, marker.offset, marker.coordinator_epoch)
            for marker in (markers_in(batch, records) if batch.records else ())
        ]
        if not batch.records:
            markers = [(MarkerKind.GONE.value, batch.next_offset - 1, None)]
        for kind, offset, coordinator_epoch in markers:
            own = self._open.pop(batch.producer_id, None)
            begun = {"other_records": self._others.pop(batch.producer_id, 0)} if own is None else own.fields()
            yield self._transaction(
                batch.producer_id,
                **begun,
                marker=kind,
                marker_offset=offset,
                marker_epoch=batch.producer_epoch,
                coordinator_epoch=coordinator_epoch,
                marker_timestamp_ms=batch.max_timestamp_ms,
                marker_leader_epoch=batch.leader_epoch,
            )


def joined(parts: Iterable[LogTransaction]) -> list[LogTransaction]:
    """The transactions of one producer on one partition, in the order of their offsets, from the parts in any order."""
    whole: list[LogTransaction] = []
    for part in sorted(parts, key=lambda part: part.begins_at):
        if whole and not whole[-1].is_ended:
            whole[-1] = _together(whole[-1], part)
        else:
            whole.append(part)
    return whole


def _together(first: LogTransaction, second: LogTransaction) -> LogTransaction:
    """`first` has records and no marker, so that what comes next of its producer belongs to it."""
    marker = {
        name: getattr(second, name)
        for name in (
            "marker",
            "marker_offset",
            "marker_epoch",
            "coordinator_epoch",
            "marker_timestamp_ms",
            "marker_leader_epoch",
        )
    }
    if not second.has_records:
        return replace(first, **marker)
    return replace(
        first,
        last_epoch=second.last_epoch,
        last_offset=second.last_offset,
        records=first.records + second.records,
        size_bytes=first.size_bytes + second.size_bytes,
        last_timestamp_ms=second.last_timestamp_ms,
        last_leader_epoch=second.last_leader_epoch,
        **marker,
    )
