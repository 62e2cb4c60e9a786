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

`decode` steps from partition to partition by the byte that tells how many producers there are, in one stride where all
partitions of a topic have as many, and notes where each begins, in an array: no object is kept for a partition. Then numpy
looks at all of them at once, and at the sign byte of every start offset: only open transactions are unpacked, or whatever
certain producers have left. `decode_slowly`, the specification, reads the answer field by field; it is asked wherever
something is not as drawn above, such as tagged fields. No length is believed before the bytes behind it are there.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from exporter.kafka.errors import MalformedAnswerError
from exporter.kafka.flexible import UNREADABLE, compact, compact_string, everywhere, length, no_tags, skip_tags, uvarint
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
_MESSAGE_AT = 6
_COUNT_AT = 7
"""Where there is no message."""
_STEPS = tuple(PARTITION_BYTES + (byte - 1) * ENTRY_BYTES if 0 < byte < 0x80 else 0 for byte in range(256))  # noqa: PLR2004
"""How far the next partition is from one without a message, by the byte at _COUNT_AT; 0 where it takes more to tell."""


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
    parts = [uvarint(len(partitions) + 1)]
    for topic, indexes in partitions.items():
        packed = np.asarray(indexes, dtype=">i4")
        parts += [compact(topic), uvarint(len(packed) + 1), packed.tobytes(), b"\0"]
    parts.append(b"\0")
    return RawRequest(name="DescribeProducers", api_key=API_KEY, api_version=0, body=b"".join(parts))


def decode(body: memoryview, producer_ids: Collection[int] | None = None) -> ProducersAnswer:
    """The answer's columns: its open transactions, or every entry of `producer_ids`.

    Raises MalformedAnswerError when `body` is not such an answer to its last byte.
    """
    try:
        layout = _walk(body.tobytes())  # a byte of `bytes` is had in half the time
    except UNREADABLE:
        return decode_slowly(body, producer_ids)  # it may be tagged fields that threw the quick walk off its feet
    bytes_ = np.frombuffer(body, dtype=np.uint8)
    entry_at = _entry_offsets(layout)
    ends = layout.entries_at + layout.count * ENTRY_BYTES
    if np.any(bytes_[ends]) or np.any(bytes_[entry_at + _TAGS_AT]):
        return decode_slowly(body, producer_ids)
    if producer_ids is None:
        is_picked = bytes_[entry_at + _START_OFFSET_AT] < 0x80  # noqa: PLR2004 - the sign bit of a big-endian i64
    else:
        is_picked = np.isin(everywhere(body, ">i8")[entry_at], np.fromiter(producer_ids, dtype=np.int64))
    return _answer(
        layout,
        partition=everywhere(body, ">i4")[layout.head_at],
        error=everywhere(body, ">i2")[layout.head_at + 4],
        entry_partition=np.repeat(np.arange(len(layout.count), dtype=np.int32), layout.count)[is_picked],
        rows=everywhere(body, _ENTRY_ROWS)[entry_at[is_picked]],
    )


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the partitions of an answer are: columns of P."""

    throttle_time_ms: int
    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    """How many each topic has."""
    head_at: Int64Column
    entries_at: Int64Column
    count: Int64Column


def _walk(body: bytes) -> _Layout:
    """Step from partition to partition, assuming that nothing has tagged fields."""
    (throttle_time_ms,) = struct.unpack_from(">i", body, 0)
    topics: list[str] = []
    partitions: list[int] = []
    heads = array("q")
    unusual: list[tuple[int, int, int]] = []
    topic_count, at = length(body, 4)
    for _ in range(topic_count):
        name, at = compact_string(body, at)
        count, at = length(body, at)
        topics.append(name)
        partitions.append(count)
        at = no_tags(body, _step_over_topic(body, at, count, heads, unusual))
    if no_tags(body, at) != len(body):
        raise MalformedAnswerError(f"{len(body) - at} bytes after the end of the answer")
    head_at = np.frombuffer(heads, dtype=np.int64)
    count_of = np.frombuffer(body, dtype=np.uint8)[head_at + _COUNT_AT].astype(np.int64) - 1
    entries_at = head_at + _COUNT_AT + 1
    if unusual:
        index, counts, at_entries = np.array(unusual, dtype=np.int64).T
        count_of[index], entries_at[index] = counts, at_entries
    return _Layout(throttle_time_ms, tuple(topics), tuple(partitions), head_at, entries_at, count_of)


def _step_over_topic(body: bytes, at: int, count: int, heads: array[int], unusual: list[tuple[int, int, int]]) -> int:
    """Note in `heads` where each of `count` partitions begins; where the last one ends."""
    if count == 0:
        return at
    step = _STEPS[body[at + _COUNT_AT]]
    end = at + step * count
    if step and _are_alike(body, at, end, step):
        heads.frombytes(np.arange(at, end, step, dtype=np.int64).tobytes())
        return end
    for _ in range(count):
        step = 0 if body[at + _MESSAGE_AT] else _STEPS[body[at + _COUNT_AT]]
        if step:
            heads.append(at)
            at += step
        else:
            at = _step_over_unusual(body, at, heads, unusual)
    return at


def _are_alike(body: bytes, at: int, end: int, step: int) -> bool:
    """True when partitions `step` bytes apart, without messages and each as long as the first, take all from `at` to `end`.

    Each one's length shows where the next begins: that they are where the stride says follows from one to the next.
    """
    if end > len(body):
        return False
    counts, messages = body[at + _COUNT_AT : end : step], body[at + _MESSAGE_AT : end : step]
    return counts == counts[:1] * len(counts) and messages == bytes(len(messages))


def _step_over_unusual(body: bytes, at: int, heads: array[int], unusual: list[tuple[int, int, int]]) -> int:
    """A partition with a message, or with so many producers that their number takes more than a byte."""
    message_at = at + _MESSAGE_AT
    count_at = message_at + 1 if body[message_at] == 0 else compact_string(body, message_at)[1]
    count, entries_at = length(body, count_at)
    end = entries_at + count * ENTRY_BYTES
    if end >= len(body):
        raise MalformedAnswerError("entries reach beyond the answer")
    unusual.append((len(heads), count, entries_at))
    heads.append(at)
    return end + 1


def _entry_offsets(layout: _Layout) -> Int64Column:
    """(E,) where each entry begins, in order."""
    count = layout.count
    before = np.cumsum(count) - count
    at: Int64Column = np.repeat(layout.entries_at - before * ENTRY_BYTES, count) + np.arange(count.sum()) * ENTRY_BYTES
    return at


def _answer(
    layout: _Layout,
    *,
    partition: npt.NDArray[Any],
    error: npt.NDArray[Any],
    entry_partition: npt.NDArray[np.int32],
    rows: npt.NDArray[np.void],
) -> ProducersAnswer:
    return ProducersAnswer(
        throttle_time_ms=layout.throttle_time_ms,
        topics=layout.topics,
        topic=np.repeat(np.arange(len(layout.topics), dtype=np.int32), layout.partitions),
        partition=partition.astype(np.int32),
        error=error.astype(np.int16),
        producers=layout.count.astype(np.int32),
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
    topics: list[str] = []
    partitions: list[int] = []
    heads: list[tuple[int, int, int]] = []
    picked: list[tuple[int, ...]] = []
    entry_partition: list[int] = []
    topic_count, at = length(body, 4)
    for _ in range(topic_count):
        name, at = compact_string(body, at)
        partition_count, at = length(body, at)
        topics.append(name)
        partitions.append(partition_count)
        for _ in range(partition_count):
            head, entries, at = _read_partition(body, at)
            chosen = [it for it in entries if (it[5] >= 0 if producer_ids is None else it[0] in producer_ids)]
            entry_partition += [len(heads)] * len(chosen)
            picked += chosen
            heads.append((*head, len(entries)))
        at = skip_tags(body, at)
    at = skip_tags(body, at)
    if at != len(body):
        raise MalformedAnswerError(f"{len(body) - at} bytes after the end of the DescribeProducers answer")
    columns = np.array(heads, dtype=np.int64).reshape(-1, 3)
    return _answer(
        _Layout(throttle_time_ms, tuple(topics), tuple(partitions), columns[:, 0], columns[:, 0], columns[:, 2]),
        partition=columns[:, 0],
        error=columns[:, 1],
        entry_partition=np.asarray(entry_partition, dtype=np.int32),
        rows=np.array([(*entry, 0) for entry in picked], dtype=_ENTRY_ROWS),
    )


def _read_partition(body: memoryview, at: int) -> tuple[tuple[int, int], list[tuple[int, ...]], int]:
    """(partition, error) and the entries of one partition, and where the next begins."""
    head = _PARTITION_HEAD.unpack_from(body, at)
    at += _MESSAGE_AT
    at = at + 1 if body[at] == 0 else compact_string(body, at)[1]
    count, at = length(body, at)
    entries = []
    for _ in range(count):
        entries.append(_ENTRY.unpack_from(body, at))
        at = skip_tags(body, at + _TAGS_AT)
    return head, entries, skip_tags(body, at)
