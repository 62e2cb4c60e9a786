"""Reads record batches of a fetched piece of a partition's log: their headers, and the markers of one producer in them.

A header of magic 2 has 61 bytes (DefaultRecordBatch); only control batches of the producer of the search are decoded any
further, so a peer cannot make decompression expensive.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka.errors import KafkaError
from kafka.record.memory_records import MemoryRecords

from exporter.kafka.errors import MalformedResponseError
from exporter.snapshot import EndMarker

_PREFIX = struct.Struct(">qiib")
"""Offset, length of the rest, leader epoch (or a checksum in older batches), magic."""
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_AT_END_OF = 12
_MAGIC_WITH_PRODUCERS = 2
_COMPRESSION, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_VARINT_SHIFT_MAX = 63
_MAGIC_AT = 16
_MARKER_VALUE = struct.Struct(">hi")
"""Version and coordinator epoch (EndTransactionMarker)."""


class Batch(NamedTuple):
    """Batch that may have a producer, without its records."""

    base_offset: int
    next_offset: int
    """The offset after its last record, also if compaction has removed that record."""
    first_timestamp_ms: int
    """Timestamp of the first record, -1 in older batches."""
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    leader_epoch: int
    """Epoch of the leader that appended the batch; -1 in older batches."""
    attributes: int
    records: int
    start: int
    """Offset of the batch's first byte; `end` is after its last."""
    end: int

    @property
    def is_compressed(self) -> bool:
        return bool(self.attributes & _COMPRESSION)

    @property
    def has_log_append_time(self) -> bool:
        """True if its timestamps are the broker's (message.timestamp.type=LogAppendTime)."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)


def batches(records: bytes) -> Iterator[Batch]:
    """The batches in order; older ones have no producer (-1). A batch that is cut off at the end is left out.

    Raises MalformedResponseError.
    """
    at = 0
    while at + _PREFIX.size <= len(records):
        offset, length, _, magic = _PREFIX.unpack_from(records, at)
        end = at + _LENGTH_AT_END_OF + length
        if not 0 <= magic <= _MAGIC_WITH_PRODUCERS or length < 0 or offset < 0:
            raise MalformedResponseError(f"no record batch at byte {at} of the records")
        if end > len(records):
            return
        if magic < _MAGIC_WITH_PRODUCERS:
            yield Batch(offset, offset + 1, -1, -1, -1, -1, -1, -1, 0, 1, at, end)
        else:
            yield _batch(records, at, end)
        at = end


def batches_from(records: bytes, offset: int) -> Iterator[Batch]:
    """Yields the batches with a record at or after `offset`, each offset once: a leader returns whole batches.

    Raises MalformedResponseError.
    """
    for batch in batches(records):
        if batch.next_offset > offset:
            offset = batch.next_offset
            yield batch


def _batch(records: bytes, at: int, end: int) -> Batch:
    if end - at < _HEADER.size:
        raise MalformedResponseError(f"the record batch at byte {at} of the records is shorter than its header")
    header = _HEADER.unpack_from(records, at)
    base_offset, attributes, last_delta = header[0], header[5], header[6]
    if last_delta < 0:
        raise MalformedResponseError(f"the record batch at byte {at} of the records ends before it begins")
    return Batch(
        base_offset=base_offset,
        next_offset=base_offset + last_delta + 1,
        first_timestamp_ms=header[7],
        max_timestamp_ms=header[8],
        producer_id=header[9],
        producer_epoch=header[10],
        base_sequence=header[11],
        leader_epoch=header[2],
        attributes=attributes,
        records=header[12],
        start=at,
        end=end,
    )


class Record(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def records_in(batch: Batch, records: bytes) -> Iterator[Record]:
    """The records of a batch of magic 2 that is not compressed (DefaultRecord). Raises MalformedResponseError.

    Each: length varint | attributes i8 | timestamp delta varint | offset delta varint | key and value, each with its length
    as a varint, -1 for null | headers. Varints are in zigzag coding.
    """
    if batch.is_compressed or records[batch.start + _MAGIC_AT] != _MAGIC_WITH_PRODUCERS:
        raise MalformedResponseError("its records are compressed, or older than Kafka 0.11")
    at, end = batch.start + _HEADER.size, batch.end
    try:
        for _ in range(batch.records):
            size, at = _varint(records, at)
            record_end = at + size
            if not at < record_end <= end:
                raise MalformedResponseError(f"a record at byte {at} of the records ends outside of its batch")
            timestamp_delta, at = _varint(records, at + 1)
            offset_delta, at = _varint(records, at)
            key_size, at = _varint(records, at)
            key = None
            if key_size >= 0:
                key = records[at : at + key_size]
                at += key_size
            value_size, at = _varint(records, at)
            value = None
            if value_size >= 0:
                value = records[at : at + value_size]
                at += value_size
            if at > record_end or not 0 <= offset_delta < batch.next_offset - batch.base_offset:
                raise MalformedResponseError(f"a record before byte {record_end} of the records is not one")
            at_ms = batch.max_timestamp_ms if batch.has_log_append_time else batch.first_timestamp_ms + timestamp_delta
            yield Record(batch.base_offset + offset_delta, at_ms, key, value)
            at = record_end
    except IndexError as error:
        raise MalformedResponseError("the records end within a record") from error


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, where it ends) of a zigzag varint of up to ten bytes. Raises IndexError and MalformedResponseError."""
    byte = data[at]
    if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint, as of most
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
        if shift > _VARINT_SHIFT_MAX:
            raise MalformedResponseError("a varint of the records is longer than ten bytes")


class Marker(NamedTuple):
    """A COMMIT or ABORT marker of the producer of its batch."""

    offset: int
    timestamp_ms: int
    commit: bool
    coordinator_epoch: int
    """Epoch of the coordinator that had the marker written; -1 if the marker does not say it."""


def markers_in(batch: Batch, records: bytes) -> list[Marker]:
    """The end markers of a control batch. Raises MalformedResponseError."""
    if batch.is_compressed:  # brokers never do that
        raise MalformedResponseError("an end marker is compressed")
    try:
        return [
            Marker(record.offset, record.timestamp, record.commit, _coordinator_epoch(record.value))
            for record in MemoryRecords(records[batch.start : batch.end]).next_batch()
            if record.commit or record.abort
        ]
    except (KafkaError, struct.error, ValueError, IndexError, TypeError, AttributeError) as error:
        raise MalformedResponseError(f"an end marker cannot be read: {error}") from error


def _coordinator_epoch(value: bytes | None) -> int:
    return -1 if value is None or len(value) < _MARKER_VALUE.size else int(_MARKER_VALUE.unpack_from(value)[1])


@dataclass(slots=True)
class Stretch:
    """A stretch of one partition's log, whose batches are taken in order, with the data of one producer."""

    topic: str
    partition: int
    producer_id: int
    newest: tuple[int, int]
    """(epoch, timestamp in ms) of the producer's newest batch, as the partition's leader remembers it."""
    markers: dict[int, EndMarker] = field(default_factory=dict)
    """Markers by offset."""
    oldest_epoch: int | None = None
    """Epoch of the producer's first batch in here."""
    has_newest: bool = False
    has_gaps: bool = False
    """Offsets are missing: compaction has removed whole batches."""
    has_empty_marker: bool = False
    """Compaction has left a marker's batch without its record: COMMIT or ABORT."""
    _open_epoch: int | None = None

    def take(self, batch: Batch, records: bytes, offset: int) -> None:
        """Takes the next batch of a log that was read from `offset` on. Raises MalformedResponseError."""
        self.has_gaps |= batch.base_offset > offset
        if batch.producer_id != self.producer_id:
            return
        if self.oldest_epoch is None:
            self.oldest_epoch = batch.producer_epoch
        self.has_newest |= (batch.producer_epoch, batch.max_timestamp_ms) == self.newest
        if batch.is_control:
            self.has_empty_marker |= batch.records == 0
            self._take_markers(batch, records)
        elif batch.is_transactional:
            self._open_epoch = batch.producer_epoch

    def _take_markers(self, batch: Batch, records: bytes) -> None:
        for marker in markers_in(batch, records):
            self.markers[marker.offset] = EndMarker(
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                ended_epoch=self._open_epoch,
                topic=self.topic,
                partition=self.partition,
                offset=marker.offset,
                timestamp_ms=marker.timestamp_ms,
                commit=marker.commit,
            )
            self._open_epoch = None
