"""DescribeProducers (KIP-664, API key 61, version 0): the request, and a decoder for its answer that makes no objects.

The answer, after the response header (DescribeProducersResponse.json; every length is an unsigned varint of n + 1):

    throttle_time_ms i32 | topics n+1, each:
        name compact string | partitions n+1, each:
            partition i32 | error i16 | message compact nullable string | producers n+1, each 37 bytes without tags:
                +0 producer_id i64   +8 producer_epoch i32   +12 last_sequence i32   +16 last_timestamp i64
                +24 coordinator_epoch i32   +28 start_offset i64   +36 tagged fields, uvarint count, 0 so far
            | tagged fields
        | tagged fields
    | tagged fields

`decode` walks the partitions, notes where their entries begin, and looks at the sign byte of every start offset at once:
only open transactions are unpacked, or whatever certain producers have left. When any entry carries tagged fields,
`decode_slowly`, the specification of both, reads the answer field by field. No length is believed before the bytes behind
it are known to be there.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from exporter.kafka.errors import MalformedAnswerError
from exporter.kafka.raw_request import RawRequest
from exporter.snapshot import Int16Column, Int32Column, Int64Column

API_KEY = 61
ENTRY_BYTES = 37
PARTITION_BYTES = 9
"""What a partition without producers and without a message takes."""

_ENTRY = struct.Struct(">qiiqiq")
_ENTRY_ROWS = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i4"),
        ("last_sequence", ">i4"),
        ("last_timestamp_ms", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("start_offset", ">i8"),
        ("tags", "u1"),
    ]
)
_START_OFFSET_AT = 28
_TAGS_AT = 36
_PARTITION_HEAD = struct.Struct(">ih")
_MAX_UVARINT_BYTES = 5


@dataclass(frozen=True, kw_only=True)
class ProducersAnswer:
    """One answer as columns: P partitions, and N of their entries: open transactions, unless producers were named."""

    throttle_time_ms: int
    topics: tuple[str, ...]
    topic: Int32Column
    """(P,) index into `topics`."""
    partition: Int32Column
    error: Int16Column
    """(P,) Kafka error code."""
    producers: Int32Column
    """(P,) entries, idle and idempotent ones included."""
    entry_partition: Int32Column
    """(N,) index into the P partitions of this answer."""
    producer_id: Int64Column
    producer_epoch: Int32Column
    last_sequence: Int32Column
    last_timestamp_ms: Int64Column
    coordinator_epoch: Int32Column
    start_offset: Int64Column
    """(N,) -1 where nothing is open."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducersAnswer):
            return NotImplemented
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]


def request(partitions: Mapping[str, npt.ArrayLike]) -> RawRequest:
    """Ask for the producers of `partitions`: topic -> partition indexes."""
    parts = [_uvarint(len(partitions) + 1)]
    for topic, indexes in partitions.items():
        name = topic.encode()
        packed = np.asarray(indexes, dtype=">i4")
        parts += [_uvarint(len(name) + 1), name, _uvarint(len(packed) + 1), packed.tobytes(), b"\0"]
    parts.append(b"\0")
    return RawRequest(name="DescribeProducers", api_key=API_KEY, api_version=0, body=b"".join(parts))


def decode(body: memoryview, producer_ids: Collection[int] | None = None) -> ProducersAnswer:
    """The answer's columns: its open transactions, or every entry of `producer_ids`.

    Raises MalformedAnswerError when `body` is not such an answer to its last byte.
    """
    try:
        layout = _walk_partitions(body)
    except (IndexError, struct.error, UnicodeDecodeError, MalformedAnswerError):
        # An entry with tagged fields throws the quick walk off its feet; the slow walk knows whether it is that.
        return decode_slowly(body, producer_ids)
    bytes_ = np.frombuffer(body, dtype=np.uint8)
    at = _entry_offsets(layout)
    if np.any(bytes_[at + _TAGS_AT]):
        return decode_slowly(body, producer_ids)
    if producer_ids is None:
        is_picked = bytes_[at + _START_OFFSET_AT] < 0x80  # noqa: PLR2004 - the sign bit of a big-endian i64
    else:
        told = bytes_[at[:, None] + np.arange(8)].reshape(-1).view(">i8")
        is_picked = np.isin(told, np.fromiter(producer_ids, dtype=np.int64))
    rows = bytes_[at[is_picked][:, None] + np.arange(ENTRY_BYTES)].reshape(-1).view(_ENTRY_ROWS)
    entry_partition = np.repeat(np.arange(len(layout.count), dtype=np.int32), layout.count)[is_picked]
    return _answer(layout, entry_partition, rows)


@dataclass(slots=True)
class _Layout:
    """Where the walk found what: lists, because one append per partition is the cheapest thing Python has."""

    throttle_time_ms: int
    topics: list[str]
    topic: list[int]
    partition: list[int]
    error: list[int]
    first_entry_at: list[int]
    count: list[int]

    @classmethod
    def empty(cls, throttle_time_ms: int) -> _Layout:
        return cls(throttle_time_ms, [], [], [], [], [], [])


def _walk_partitions(body: memoryview) -> _Layout:
    """Step from partition to partition, assuming that no entry has tagged fields."""
    (throttle_time_ms,) = struct.unpack_from(">i", body, 0)
    layout = _Layout.empty(throttle_time_ms)
    topic_count, at = _length(body, 4)
    for topic in range(topic_count):
        name, at = _compact_string(body, at)
        layout.topics.append(name)
        partition_count, at = _length(body, at)
        for _ in range(partition_count):
            at = _step_over_partition(body, at, topic, layout)
        at = _no_tags(body, at)
    at = _no_tags(body, at)
    if at != len(body):
        raise MalformedAnswerError(f"{len(body) - at} bytes after the end of the answer")
    return layout


def _step_over_partition(body: memoryview, at: int, topic: int, layout: _Layout) -> int:
    partition, error = _PARTITION_HEAD.unpack_from(body, at)
    at += 6
    if body[at] == 0:
        at += 1
    else:
        _, at = _compact_string(body, at)
    count, at = (body[at] - 1, at + 1) if 0 < body[at] < 0x80 else _length(body, at)  # noqa: PLR2004
    end = at + count * ENTRY_BYTES
    if end >= len(body) or body[end] != 0:
        raise MalformedAnswerError("entries reach beyond the answer, or carry tagged fields")
    layout.topic.append(topic)
    layout.partition.append(partition)
    layout.error.append(error)
    layout.first_entry_at.append(at)
    layout.count.append(count)
    return end + 1


def _entry_offsets(layout: _Layout) -> npt.NDArray[np.int64]:
    """(E,) where each entry begins, in order."""
    count = np.asarray(layout.count, dtype=np.int64)
    first = np.asarray(layout.first_entry_at, dtype=np.int64)
    before = np.cumsum(count) - count
    at: npt.NDArray[np.int64] = np.repeat(first - before * ENTRY_BYTES, count) + np.arange(count.sum()) * ENTRY_BYTES
    return at


def _answer(layout: _Layout, entry_partition: npt.NDArray[np.int32], rows: npt.NDArray[np.void]) -> ProducersAnswer:
    return ProducersAnswer(
        throttle_time_ms=layout.throttle_time_ms,
        topics=tuple(layout.topics),
        topic=np.asarray(layout.topic, dtype=np.int32),
        partition=np.asarray(layout.partition, dtype=np.int32),
        error=np.asarray(layout.error, dtype=np.int16),
        producers=np.asarray(layout.count, dtype=np.int32),
        entry_partition=entry_partition,
        producer_id=rows["producer_id"].astype(np.int64),
        producer_epoch=rows["producer_epoch"].astype(np.int32),
        last_sequence=rows["last_sequence"].astype(np.int32),
        last_timestamp_ms=rows["last_timestamp_ms"].astype(np.int64),
        coordinator_epoch=rows["coordinator_epoch"].astype(np.int32),
        start_offset=rows["start_offset"].astype(np.int64),
    )


def decode_slowly(body: memoryview, producer_ids: Collection[int] | None = None) -> ProducersAnswer:
    """Read the answer field by field, tagged fields included. Raises MalformedAnswerError like `decode`."""
    try:
        return _decode_slowly(body, producer_ids)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise MalformedAnswerError(f"DescribeProducers answer of {len(body)} bytes ends too early: {error}") from error


def _decode_slowly(body: memoryview, producer_ids: Collection[int] | None) -> ProducersAnswer:
    (throttle_time_ms,) = struct.unpack_from(">i", body, 0)
    layout = _Layout.empty(throttle_time_ms)
    picked: list[tuple[int, ...]] = []
    entry_partition: list[int] = []
    topic_count, at = _length(body, 4)
    for topic in range(topic_count):
        name, at = _compact_string(body, at)
        layout.topics.append(name)
        partition_count, at = _length(body, at)
        for _ in range(partition_count):
            entries, at = _read_partition(body, at, topic, layout)
            entries = [it for it in entries if (it[5] >= 0 if producer_ids is None else it[0] in producer_ids)]
            picked += entries
            entry_partition += [len(layout.count) - 1] * len(entries)
        at = _skip_tags(body, at)
    at = _skip_tags(body, at)
    if at != len(body):
        raise MalformedAnswerError(f"{len(body) - at} bytes after the end of the DescribeProducers answer")
    rows = np.array([(*entry, 0) for entry in picked], dtype=_ENTRY_ROWS)
    return _answer(layout, np.asarray(entry_partition, dtype=np.int32), rows)


def _read_partition(body: memoryview, at: int, topic: int, layout: _Layout) -> tuple[list[tuple[int, ...]], int]:
    """The entries of one partition, and where the next begins; everything else goes into `layout`."""
    partition, error = _PARTITION_HEAD.unpack_from(body, at)
    at += 6
    _, at = (None, at + 1) if body[at] == 0 else _compact_string(body, at)
    count, at = _length(body, at)
    layout.first_entry_at.append(at)
    entries = []
    for _ in range(count):
        entries.append(_ENTRY.unpack_from(body, at))
        at = _skip_tags(body, at + _TAGS_AT)
    layout.topic.append(topic)
    layout.partition.append(partition)
    layout.error.append(error)
    layout.count.append(count)
    return entries, _skip_tags(body, at)


def _uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:  # noqa: PLR2004 - seven bits a byte
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_uvarint(body: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MAX_UVARINT_BYTES, 7):
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            return value, at
    raise MalformedAnswerError("a length takes more than five bytes")


def _length(body: memoryview, at: int) -> tuple[int, int]:
    """A compact array's length; null arrays do not occur in this answer."""
    value, at = _read_uvarint(body, at)
    if value == 0:
        raise MalformedAnswerError("null where an array must be")
    return value - 1, at


def _compact_string(body: memoryview, at: int) -> tuple[str, int]:
    length, at = _length(body, at)
    if at + length > len(body):
        raise MalformedAnswerError("a string reaches beyond the answer")
    return str(body[at : at + length], "utf-8"), at + length


def _no_tags(body: memoryview, at: int) -> int:
    if body[at] != 0:
        raise MalformedAnswerError("tagged fields")
    return at + 1


def _skip_tags(body: memoryview, at: int) -> int:
    count, at = _read_uvarint(body, at)
    for _ in range(count):
        _, at = _read_uvarint(body, at)
        size, at = _read_uvarint(body, at)
        if at + size > len(body):
            raise MalformedAnswerError("a tagged field reaches beyond the answer")
        at += size
    return at
