"""ListOffsets (API key 2, version 6): the request, and a decoder for its answer.

Version 6 is the first flexible one; every broker that knows DescribeProducers offers it. The answer, after the response
header (ListOffsetsResponse.json; every length is an unsigned varint of n + 1):

    throttle_time_ms i32 | topics n+1, each:
        name compact string | partitions n+1, each 27 bytes without tags:
            +0 partition i32   +4 error i16   +6 timestamp i64   +14 offset i64   +22 leader_epoch i32   +26 tagged fields
        | tagged fields
    | tagged fields

`decode` takes the partitions of a topic as one table. `decode_slowly`, the specification, reads the answer field by field;
it is asked wherever something is not as drawn above, such as tagged fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from exporter.kafka.errors import MalformedAnswerError
from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.messages.versions import LIST_OFFSETS
from exporter.primitives import UNREADABLE, compact, compact_string, length, no_tags, skip_tags, uvarint

Offsets = dict[tuple[str, int], tuple[int, int]]
"""(topic, partition) -> (Kafka error code, offset)."""

_ASKED = struct.Struct(">iiqb")
_TOLD = struct.Struct(">ihqqi")
_ROWS = np.dtype(
    [("partition", ">i4"), ("error", ">i2"), ("time", ">i8"), ("offset", ">i8"), ("epoch", ">i4"), ("tags", "u1")]
)
_ANY_EPOCH = -1
_NO_REPLICA = -1


def request(partitions: Mapping[str, Sequence[int]], isolation_level: int, timestamp_ms: int) -> RawRequest:
    """Ask for the offset at `timestamp_ms` (-1: the end) of each partition."""
    parts = [struct.pack(">ib", _NO_REPLICA, isolation_level), uvarint(len(partitions) + 1)]
    for topic, indexes in partitions.items():
        parts += [compact(topic), uvarint(len(indexes) + 1)]
        parts += [_ASKED.pack(index, _ANY_EPOCH, timestamp_ms, 0) for index in indexes]
        parts.append(b"\0")
    return RawRequest(LIST_OFFSETS, b"".join([*parts, b"\0"]))


def decode(body: memoryview) -> Offsets:
    """What is said of each partition. Raises MalformedAnswerError when `body` is not such an answer to its last byte."""
    try:
        return _decode(body, _table, no_tags)
    except UNREADABLE:
        return decode_slowly(body)  # it may be tagged fields


def decode_slowly(body: memoryview) -> Offsets:
    """Read the answer field by field, tagged fields included. Raises MalformedAnswerError like `decode`."""
    try:
        return _decode(body, _one_by_one, skip_tags)
    except UNREADABLE as error:
        raise MalformedAnswerError(f"ListOffsets answer of {len(body)} bytes: {error}") from error


_Rows = tuple[list[tuple[int, int, int]], int]
"""(partition, error, offset) of a topic's partitions, and where they end."""


def _decode(
    body: memoryview, rows: Callable[[memoryview, int, int], _Rows], tags: Callable[[memoryview, int], int]
) -> Offsets:
    offsets: Offsets = {}
    topic_count, at = length(body, 4)
    for _ in range(topic_count):
        topic, at = compact_string(body, at)
        count, at = length(body, at)
        told, at = rows(body, at, count)
        at = tags(body, at)
        offsets.update({(topic, partition): (error, offset) for partition, error, offset in told})
    if tags(body, at) != len(body):
        raise MalformedAnswerError("bytes after the end of the ListOffsets answer")
    return offsets


def _table(body: memoryview, at: int, count: int) -> _Rows:
    end = at + count * _ROWS.itemsize
    if end > len(body):
        raise MalformedAnswerError("partitions reach beyond the answer")
    rows = np.frombuffer(body[at:end], dtype=_ROWS)
    if np.any(rows["tags"]):
        raise MalformedAnswerError("tagged fields")
    return list(zip(rows["partition"].tolist(), rows["error"].tolist(), rows["offset"].tolist(), strict=True)), end


def _one_by_one(body: memoryview, at: int, count: int) -> _Rows:
    rows = []
    for _ in range(count):
        partition, error, _, offset, _ = _TOLD.unpack_from(body, at)
        rows.append((partition, error, offset))
        at = skip_tags(body, at + _TOLD.size)
    return rows, at
