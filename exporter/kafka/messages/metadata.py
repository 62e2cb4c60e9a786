"""Metadata (API key 3, version 11): the request, and a decoder for its response that makes no object for a partition.

Version 10 adds the topic id, without which a topic that was deleted and created again looks like the old one; version 11
only drops a field. Every broker that knows DescribeProducers (Kafka 2.8) offers it. The response, after the response header
(MetadataResponse.json; every length is an unsigned varint of n + 1):

    throttle_time_ms i32 | brokers n+1, each: id i32, host compact string, port i32, rack compact nullable string, tags
    cluster_id compact nullable string | controller_id i32 | topics n+1, each:
        error i16 | name compact string | topic_id uuid | is_internal bool | partitions n+1, each:
            +0 error i16   +2 partition i32   +6 leader i32   +10 leader_epoch i32
            +14 replicas n+1, i32 each | in-sync replicas n+1, i32 each | offline replicas n+1, i32 each | tagged fields
        | authorized_operations i32 | tagged fields
    | tagged fields

`decode` steps from partition to partition by the three lengths, in one stride where a topic's partitions all have the
same, and notes where each begins; numpy reads the rest at once.
"""

from __future__ import annotations

import re
import struct
from array import array
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.messages.response import NUMBERS, STRING, decode_response, unaligned_view
from exporter.kafka.messages.versions import METADATA
from exporter.primitives import (
    MalformedBytesError,
    compact,
    compact_string,
    length,
    no_tags,
    nullable_string,
    uvarint,
)
from exporter.snapshot import Int32Column, Int64Column

_HEAD_BYTES = 14
_POSITIONS = (0, 1, 3, 5)
"""Indices of positions in a row of `_Walk.rows`; the others are counts."""
FIELDS: Final = (4, (4, STRING, 4, STRING), STRING, 4, (2, STRING, 17, (14, NUMBERS, NUMBERS, NUMBERS), 4))
"""Fields as drawn above."""
_ONE_BYTE = 0x80
_OPTIONS = b"\0\0"
"""allow_auto_topic_creation and include_topic_authorized_operations: no."""
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_TOPIC_ID_BYTES = 16
_NO_TOPIC_ID = bytes(_TOPIC_ID_BYTES)
"""A request names topics by name; brokers without topic ids respond with it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MetadataColumns:
    """One response: T topics, and columns of their P partitions in the order of the response."""

    throttle_time_ms: int
    brokers: tuple[tuple[int, str, int], ...]
    """(id, host, port)"""
    cluster_id: str | None
    topics: tuple[str, ...]
    topic_ids: tuple[str, ...]
    """(T,) 32 hexadecimal digits, which no later topic of the same name has; "" if the broker has none."""
    topic_errors: tuple[int, ...]
    """(T,) Kafka error codes."""
    partitions: tuple[int, ...]
    """(T,) how many partitions each topic has."""
    partition: Int32Column
    leader: Int32Column
    leader_epoch: Int32Column
    replica_count: Int32Column
    replicas: Int32Column
    """Broker ids of all partitions, one after the other."""
    in_sync_count: Int32Column
    in_sync: Int32Column


def is_topic_name(name: str) -> bool:
    """True if Kafka accepts it (org.apache.kafka.common.internals.Topic)."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in {".", ".."}


def request(topics: tuple[str, ...] | None) -> RawRequest:
    """Requests `topics`, or every visible topic. Never creates one."""
    names = b"\0"
    if topics is not None:
        names = uvarint(len(topics) + 1) + b"".join(_NO_TOPIC_ID + compact(topic) + b"\0" for topic in topics)
    return RawRequest(METADATA, names + _OPTIONS + b"\0")


def decode(body: memoryview) -> MetadataColumns:
    """The columns of the response. Raises MalformedResponseError if `body` is not exactly such a response."""
    return decode_response(body, "Metadata", FIELDS, _decode)


def _decode(body: memoryview) -> MetadataColumns:
    walk = _Walk(body.tobytes())
    walk.take_all()
    bytes_, numbers = np.frombuffer(body, dtype=np.uint8), unaligned_view(body, ">i4")
    rows = np.frombuffer(walk.rows, dtype=np.int64).reshape(-1, 6)
    at, replicas_at, replica_count, in_sync_at, in_sync_count, end = np.ascontiguousarray(rows.T)
    if np.any(bytes_[end]):
        raise MalformedBytesError("tagged fields")
    return walk.answer(
        partition=numbers[at + 2],
        leader=numbers[at + 6],
        leader_epoch=numbers[at + 10],
        replica_count=replica_count,
        replicas=numbers[_each(replicas_at, replica_count)],
        in_sync_count=in_sync_count,
        in_sync=numbers[_each(in_sync_at, in_sync_count)],
    )


def _each(first_at: Int64Column, count: Int64Column) -> Int64Column:
    """Offsets of all elements of lists of i32 that begin at `first_at`."""
    before = np.cumsum(count) - count
    at: Int64Column = np.repeat(first_at - 4 * before, count) + 4 * np.arange(count.sum())
    return at


class _Walk:
    """Walks from the first byte of a response to the last, and decodes everything outside of partitions on the way."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.rows = array("q")
        """Row of each partition: where it begins, where its replicas begin, how many, how many are in sync, its end."""
        self._topics: list[str] = []
        self._topic_ids: list[str] = []
        self._errors: list[int] = []
        self._partitions: list[int] = []

    def take_all(self) -> None:
        """Raises one of UNREADABLE, also if there are tagged fields."""
        body = self.body
        at = self._take_brokers()
        topic_count, at = length(body, at)
        for _ in range(topic_count):
            count, at = self._take_topic(at)
            at = no_tags(body, self._step_over(at, count) + 4)
        if no_tags(body, at) != len(body):
            raise MalformedBytesError("bytes after its end")

    def _take_brokers(self) -> int:
        """Reads everything before the topics."""
        body = self.body
        (self._throttle_time_ms,) = struct.unpack_from(">i", body, 0)
        broker_count, at = length(body, 4)
        brokers = []
        for _ in range(broker_count):
            (broker,) = struct.unpack_from(">i", body, at)
            host, at = compact_string(body, at + 4)
            (port,) = struct.unpack_from(">i", body, at)
            _, at = nullable_string(body, at + 4)
            at = no_tags(body, at)
            brokers.append((broker, host, port))
        self._brokers = tuple(brokers)
        self._cluster_id, at = nullable_string(body, at)
        return at + 4

    def _take_topic(self, at: int) -> tuple[int, int]:
        """Returns the number of a topic's partitions, and where they begin."""
        (error,) = struct.unpack_from(">h", self.body, at)
        name, at = compact_string(self.body, at + 2)
        topic_id, at = self.body[at : at + _TOPIC_ID_BYTES], at + _TOPIC_ID_BYTES
        count, at = length(self.body, at + 1)
        self._topics.append(name)
        self._topic_ids.append("" if topic_id == _NO_TOPIC_ID else topic_id.hex())
        self._errors.append(error)
        self._partitions.append(count)
        return count, at

    def _step_over(self, at: int, count: int) -> int:
        if count == 0:
            return at
        row, offline = self._partition(at)
        step = row[-1] + 1 - at
        if self._are_alike(at, count, (row[2], row[4], offline), step):
            rows = np.tile(np.array(row, dtype=np.int64), (count, 1))
            rows[:, _POSITIONS] += np.arange(0, step * count, step)[:, np.newaxis]
            self.rows.frombytes(rows.tobytes())
            return at + step * count
        for _ in range(count):
            row, _ = self._partition(at)
            self.rows.extend(row)
            at = row[-1] + 1
        return at

    def _partition(self, at: int) -> tuple[tuple[int, ...], int]:
        """Returns a partition's row, and how many replicas are offline."""
        body, end = self.body, at + _HEAD_BYTES
        lists = []
        for _ in range(3):
            count = body[end] - 1
            if 0 <= count < _ONE_BYTE - 1:
                end += 1
            else:
                count, end = length(body, end)
            lists.append((end, count))
            end += 4 * count
        (replicas_at, replicas), (in_sync_at, in_sync), (_, offline) = lists
        return (at, replicas_at, replicas, in_sync_at, in_sync, end), offline

    def _are_alike(self, at: int, count: int, lists: tuple[int, int, int], step: int) -> bool:
        """True if the lists of all partitions are as long as those of the first one, which shows where each begins."""
        end = at + step * count
        if end > len(self.body) or max(lists) + 1 >= _ONE_BYTE:
            return False
        at += _HEAD_BYTES
        for elements in lists:
            if self.body[at:end:step] != bytes((elements + 1,)) * count:
                return False
            at += 1 + 4 * elements
        return True

    def answer(self, **columns: npt.NDArray[np.integer]) -> MetadataColumns:
        """Builds the columns from the values that the walk has decoded."""
        return MetadataColumns(
            throttle_time_ms=self._throttle_time_ms,
            brokers=self._brokers,
            cluster_id=self._cluster_id,
            topics=tuple(self._topics),
            topic_ids=tuple(self._topic_ids),
            topic_errors=tuple(self._errors),
            partitions=tuple(self._partitions),
            **{name: column.astype(np.int32) for name, column in columns.items()},
        )
