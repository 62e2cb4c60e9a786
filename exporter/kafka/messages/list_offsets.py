"""ListOffsets (API key 2, version 6): the request, and a decoder for its response.

Version 6 is the first flexible one; every broker that knows DescribeProducers offers it. The response, after the response
header (ListOffsetsResponse.json; every length is an unsigned varint of n + 1):

    throttle_time_ms i32 | topics n+1, each:
        name compact string | partitions n+1, each:
            +0 partition i32   +4 error i16   +6 timestamp i64   +14 offset i64   +22 leader_epoch i32   +26 tagged fields
        | tagged fields
    | tagged fields

A request may name every partition of a cluster, so the entries of a topic are read as one array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.messages.response import Fields, decode_response
from exporter.kafka.messages.versions import LIST_OFFSETS
from exporter.primitives import MalformedBytesError, compact, compact_string, length, no_tags, uvarint
from exporter.snapshot import Int32Column, Int64Column, TopicPartition

Offsets = dict[TopicPartition, tuple[int, int]]
"""(topic, partition) -> (Kafka error code, offset)."""

_REQUEST: Final = np.dtype([("partition", ">i4"), ("leader_epoch", ">i4"), ("timestamp", ">i8"), ("tags", "u1")])
_RESPONSE: Final = np.dtype(
    [
        ("partition", ">i4"),
        ("error", ">i2"),
        ("timestamp", ">i8"),
        ("offset", ">i8"),
        ("leader_epoch", ">i4"),
        ("tags", "u1"),
    ]
)
_FIELDS: Fields = (4, ("string", (_RESPONSE.itemsize - 1,)))
_ANY_EPOCH = -1
_NO_REPLICA = (-1).to_bytes(4, "big", signed=True)


@dataclass(frozen=True, slots=True)
class OffsetColumns:
    """A response in columns (N), one row per partition."""

    topics: tuple[str, ...]
    topic: Int64Column
    """(N,) index into `topics`."""
    partition: Int32Column
    error: Int32Column
    """(N,) Kafka error code."""
    offset: Int64Column
    leader_epoch: Int32Column
    """(N,) of the leader at the end of the log, -1 if it does not say."""


def request(partitions: Mapping[str, npt.ArrayLike], isolation_level: int, timestamp_ms: int) -> RawRequest:
    """Requests the offset at `timestamp_ms` (-1: the end) of each partition."""
    parts = [_NO_REPLICA, isolation_level.to_bytes(1, "big"), uvarint(len(partitions) + 1)]
    for topic, indexes in partitions.items():
        numbers = np.asarray(indexes)
        requested = np.zeros(len(numbers), dtype=_REQUEST)
        requested["partition"], requested["leader_epoch"], requested["timestamp"] = numbers, _ANY_EPOCH, timestamp_ms
        parts += [compact(topic), uvarint(len(numbers) + 1), requested.tobytes(), b"\0"]
    return RawRequest(LIST_OFFSETS, b"".join([*parts, b"\0"]))


def decode(body: memoryview) -> Offsets:
    """The result of each partition. Raises MalformedResponseError if `body` is not exactly such a response."""
    columns = decode_columns(body)
    names = (columns.topics[index] for index in columns.topic.tolist())
    keys = zip(names, columns.partition.tolist(), strict=True)
    return dict(zip(keys, zip(columns.error.tolist(), columns.offset.tolist(), strict=True), strict=True))


def decode_columns(body: memoryview) -> OffsetColumns:
    """Decodes the same response as columns."""
    return decode_response(body, "ListOffsets", _FIELDS, _columns)


def _columns(body: memoryview) -> OffsetColumns:
    topics, counts, parts = [], [], []
    count, at = length(body, 4)
    for _ in range(count):
        topic, at = compact_string(body, at)
        rows, at = length(body, at)
        end = at + rows * _RESPONSE.itemsize
        if end > len(body):
            raise MalformedBytesError("it ends too early")
        parts.append(body[at:end])
        counts.append(rows)
        topics.append(topic)
        at = no_tags(body, end)
    if no_tags(body, at) != len(body):
        raise MalformedBytesError("bytes after its end")
    # At once: each topic's own array costs more than its rows.
    response = np.frombuffer(b"".join(parts), dtype=_RESPONSE)
    if response["tags"].any():
        raise MalformedBytesError("tagged fields")
    return OffsetColumns(
        topics=tuple(topics),
        topic=np.repeat(np.arange(len(topics)), counts),
        partition=response["partition"].astype(np.int32),
        error=response["error"].astype(np.int32),
        offset=response["offset"].astype(np.int64),
        leader_epoch=response["leader_epoch"].astype(np.int32),
    )
