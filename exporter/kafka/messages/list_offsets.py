"""ListOffsets (API key 2, version 6): the request, and a decoder for its response.

Version 6 is the first flexible one; every broker that knows DescribeProducers offers it. The response, after the response
header (ListOffsetsResponse.json; every length is an unsigned varint of n + 1):

    throttle_time_ms i32 | topics n+1, each:
        name compact string | partitions n+1, each:
            +0 partition i32   +4 error i16   +6 timestamp i64   +14 offset i64   +22 leader_epoch i32   +26 tagged fields
        | tagged fields
    | tagged fields

Requests name only partitions with something open, so the response is read field by field.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.messages.response import reading
from exporter.kafka.messages.versions import LIST_OFFSETS
from exporter.primitives import MalformedBytesError, compact, compact_string, length, skip_tags, uvarint
from exporter.snapshot import TopicPartition

Offsets = dict[TopicPartition, tuple[int, int]]
"""(topic, partition) -> (Kafka error code, offset)."""

_ASKED = struct.Struct(">iiqb")
_TOLD = struct.Struct(">ihqqi")
_ANY_EPOCH = -1
_NO_REPLICA = -1


def request(partitions: Mapping[str, Sequence[int]], isolation_level: int, timestamp_ms: int) -> RawRequest:
    """Requests the offset at `timestamp_ms` (-1: the end) of each partition."""
    parts = [struct.pack(">ib", _NO_REPLICA, isolation_level), uvarint(len(partitions) + 1)]
    for topic, indexes in partitions.items():
        parts += [compact(topic), uvarint(len(indexes) + 1)]
        parts += [_ASKED.pack(index, _ANY_EPOCH, timestamp_ms, 0) for index in indexes]
        parts.append(b"\0")
    return RawRequest(LIST_OFFSETS, b"".join([*parts, b"\0"]))


def decode(body: memoryview) -> Offsets:
    """The result of each partition. Raises MalformedResponseError if `body` is not exactly such a response."""
    offsets: Offsets = {}
    with reading("ListOffsets", body):
        topic_count, at = length(body, 4)
        for _ in range(topic_count):
            topic, at = compact_string(body, at)
            count, at = length(body, at)
            for _ in range(count):
                partition, error, _, offset, _ = _TOLD.unpack_from(body, at)
                offsets[topic, partition] = error, offset
                at = skip_tags(body, at + _TOLD.size)
            at = skip_tags(body, at)
        if skip_tags(body, at) != len(body):
            raise MalformedBytesError("bytes after its end")
    return offsets
