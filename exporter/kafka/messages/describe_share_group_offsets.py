"""DescribeShareGroupOffsets (API key 90, version 1: KIP-1226): the request, and the lags in its response.

Version 0 has no lag. After the response header (every length is an unsigned varint of n + 1; strings are compact):

    throttle_time_ms i32 | groups n+1, each:
        group_id | topics n+1, each:
            topic_name | topic_id 16 bytes | partitions n+1, each:
                partition i32 | start_offset i64 | leader_epoch i32 | lag i64 | error i16 | message or null | tagged fields
            | tagged fields
        | error i16 | message or null | tagged fields
    | tagged fields
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from typing import NamedTuple

from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.messages.response import reading
from exporter.kafka.messages.versions import DESCRIBE_SHARE_GROUP_OFFSETS
from exporter.primitives import (
    MalformedBytesError,
    compact,
    compact_string,
    length,
    nullable_string,
    skip_tags,
    uvarint,
)
from exporter.snapshot import TopicPartition

_PARTITION = struct.Struct(">iqiqh")
_ERROR = struct.Struct(">h")
_TOPIC_ID_BYTES = 16


class ShareOffset(NamedTuple):
    """One partition of a share group, as its coordinator has stored it; the error of a group has no topic."""

    group: str
    topic: str
    partition: int
    start_offset: int
    """The start offset (SPSO) as of an earlier write, records behind it may be complete; -1: the group has read nothing."""
    lag: int
    """Number of offsets below the high watermark whose delivery is not complete; -1: unknown."""
    error: int


def request(groups: Iterable[str], partitions: Collection[TopicPartition] | None) -> RawRequest:
    """Requests these partitions of share groups; None: all of each group."""
    by_topic: dict[str, list[bytes]] = {}
    for topic, partition in partitions or ():
        by_topic.setdefault(topic, []).append(struct.pack(">i", partition))
    encoded = _array(compact(topic) + _array(indexes) + b"\0" for topic, indexes in by_topic.items())
    topics = b"\0" if partitions is None else encoded
    return RawRequest(DESCRIBE_SHARE_GROUP_OFFSETS, _array(compact(group) + topics + b"\0" for group in groups) + b"\0")


def _array(items: Iterable[bytes]) -> bytes:
    parts = list(items)
    return uvarint(len(parts) + 1) + b"".join(parts)


def decode(body: memoryview) -> list[ShareOffset]:
    """The partitions and errors. Raises MalformedResponseError if `body` is not exactly such a response."""
    rows: list[ShareOffset] = []
    with reading("DescribeShareGroupOffsets", body):
        groups, at = length(body, 4)
        for _ in range(groups):
            group, at = compact_string(body, at)
            topics, at = length(body, at)
            for _ in range(topics):
                topic, at = compact_string(body, at)
                partitions, at = length(body, at + _TOPIC_ID_BYTES)
                for _ in range(partitions):
                    partition, start_offset, _, lag, error = _PARTITION.unpack_from(body, at)
                    rows.append(ShareOffset(group, topic, partition, start_offset, lag, error))
                    at = skip_tags(body, nullable_string(body, at + _PARTITION.size)[1])
                at = skip_tags(body, at)
            (error,) = _ERROR.unpack_from(body, at)
            if error:
                rows.append(ShareOffset(group, "", -1, -1, -1, error))
            at = skip_tags(body, nullable_string(body, at + _ERROR.size)[1])
        if skip_tags(body, at) != len(body):
            raise MalformedBytesError("bytes after its end")
    return rows
