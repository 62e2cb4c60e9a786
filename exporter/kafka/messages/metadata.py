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
same, and notes where each begins; numpy reads the rest at once. `decode_slowly`, the specification, reads the answer field
by field; it is asked wherever something is not as drawn above, such as tagged fields.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from exporter.kafka.errors import MalformedAnswerError
from exporter.kafka.messages.columns import unaligned_view
from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.messages.versions import METADATA
from exporter.primitives import (
    UNREADABLE,
    compact,
    compact_string,
    length,
    no_tags,
    nullable_string,
    read_uvarint,
    skip_tags,
    uvarint,
)
from exporter.snapshot import Int32Column, Int64Column

Tags = Callable[[bytes, int], int]
"""Behind tagged fields: `no_tags` or `skip_tags`."""

_HEAD = struct.Struct(">hiii")
_LISTS = 3
"""Replicas, in-sync replicas, offline replicas."""
_ONE_BYTE = 0x80
_OPTIONS = b"\0\0"
"""allow_auto_topic_creation and include_topic_authorized_operations: no."""
_TOPIC_ID_BYTES = 16
_NO_TOPIC_ID = bytes(_TOPIC_ID_BYTES)
"""Topics are asked for by name; brokers without topic ids answer with it."""


@dataclass(frozen=True, kw_only=True)
class MetadataAnswer:
    """One answer: T topics, and columns of their P partitions in the order in which they were told."""

    throttle_time_ms: int
    brokers: tuple[tuple[int, str, int], ...]
    """(id, host, port)"""
    cluster_id: str | None
    topics: tuple[str, ...]
    topic_ids: tuple[str, ...]
    """(T,) 32 hexadecimal digits, which no later topic of the same name has; "" where the broker has none."""
    topic_errors: tuple[int, ...]
    """(T,) Kafka error codes."""
    partitions: tuple[int, ...]
    """(T,) how many each topic has."""
    partition: Int32Column
    leader: Int32Column
    leader_epoch: Int32Column
    replica_count: Int32Column
    replicas: Int32Column
    """Broker ids of all partitions, one after the other."""
    in_sync_count: Int32Column
    in_sync: Int32Column

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MetadataAnswer):
            return NotImplemented
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]


def request(topics: tuple[str, ...] | None) -> RawRequest:
    """Ask for `topics`, or for every topic that we may see. Never creates one."""
    names = b"\0" if topics is None else uvarint(len(topics) + 1) + b"".join(_by_name(it) for it in topics)
    return RawRequest(METADATA, names + _OPTIONS + b"\0")


def _by_name(topic: str) -> bytes:
    return _NO_TOPIC_ID + compact(topic) + b"\0"


def decode(body: memoryview) -> MetadataAnswer:
    """The answer's columns. Raises MalformedAnswerError when `body` is not such an answer to its last byte."""
    try:
        walk = _Walk(body.tobytes())
        walk.take_all()
    except UNREADABLE:
        return decode_slowly(body)  # it may be tagged fields that threw the quick walk off its feet
    bytes_, numbers = np.frombuffer(body, dtype=np.uint8), unaligned_view(body, ">i4")
    at = np.frombuffer(walk.heads, dtype=np.int64)
    counts = np.frombuffer(walk.counts, dtype=np.int64).reshape(-1, _LISTS)
    ends = at + _HEAD.size + _LISTS + 4 * counts.sum(axis=1)
    if np.any(bytes_[ends]):
        return decode_slowly(body)
    replicas_at = at + _HEAD.size + 1
    in_sync_at = replicas_at + 4 * counts[:, 0] + 1
    return walk.answer(
        partition=numbers[at + 2],
        leader=numbers[at + 6],
        leader_epoch=numbers[at + 10],
        replica_count=counts[:, 0],
        replicas=numbers[_each(replicas_at, counts[:, 0])],
        in_sync_count=counts[:, 1],
        in_sync=numbers[_each(in_sync_at, counts[:, 1])],
    )


def _each(first_at: Int64Column, count: Int64Column) -> Int64Column:
    """Offsets of all elements of lists of i32 that begin at `first_at`."""
    before = np.cumsum(count) - count
    at: Int64Column = np.repeat(first_at - 4 * before, count) + 4 * np.arange(count.sum())
    return at


class _Walk:
    """From the first byte of an answer to the last; what is not of a partition is taken on the way."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.heads = array("q")
        self.counts = array("q")
        self._topics: list[str] = []
        self._topic_ids: list[str] = []
        self._errors: list[int] = []
        self._partitions: list[int] = []

    def take_all(self) -> None:
        """Raises one of UNREADABLE, also where there are tagged fields."""
        body = self.body
        at = self.take_brokers(no_tags)
        topic_count, at = length(body, at)
        for _ in range(topic_count):
            count, at = self.take_topic(at)
            at = no_tags(body, self._step_over(at, count) + 4)
        if no_tags(body, at) != len(body):
            raise MalformedAnswerError("bytes after the end of the answer")

    def take_brokers(self, tags: Tags) -> int:
        """Everything before the topics."""
        body = self.body
        (self._throttle_time_ms,) = struct.unpack_from(">i", body, 0)
        broker_count, at = length(body, 4)
        brokers = []
        for _ in range(broker_count):
            (broker,) = struct.unpack_from(">i", body, at)
            host, at = compact_string(body, at + 4)
            (port,) = struct.unpack_from(">i", body, at)
            _, at = nullable_string(body, at + 4)
            at = tags(body, at)
            brokers.append((broker, host, port))
        self._brokers = tuple(brokers)
        self._cluster_id, at = nullable_string(body, at)
        return at + 4

    def take_topic(self, at: int) -> tuple[int, int]:
        """How many partitions it has, and where they begin."""
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
        lists, end = self._lists(at)
        step = end - at
        if self._are_alike(at, count, lists, step):
            self.heads.frombytes(np.arange(at, at + step * count, step, dtype=np.int64).tobytes())
            self.counts.frombytes(np.tile(np.array(lists, dtype=np.int64), count).tobytes())
            return at + step * count
        for _ in range(count):
            lists, end = self._lists(at)
            self.heads.append(at)
            self.counts.extend(lists)
            at = end
        return at

    def _lists(self, at: int) -> tuple[tuple[int, ...], int]:
        """How long the three lists of the partition at `at` are, and where it ends."""
        body = self.body
        at += _HEAD.size
        lists = []
        for _ in range(_LISTS):
            count = body[at] - 1
            if not 0 <= count < _ONE_BYTE - 1:
                raise MalformedAnswerError("null, or more replicas than a byte can count")
            lists.append(count)
            at += 1 + 4 * count
        return tuple(lists), at + 1

    def _are_alike(self, at: int, count: int, lists: tuple[int, ...], step: int) -> bool:
        """True when the lists of all partitions are as long as the first one's, which shows where each begins."""
        end = at + step * count
        if end > len(self.body):
            return False
        at += _HEAD.size
        for elements in lists:
            if self.body[at:end:step] != bytes((elements + 1,)) * count:
                return False
            at += 1 + 4 * elements
        return True

    def answer(self, **columns: npt.NDArray[np.integer]) -> MetadataAnswer:
        """With what was taken on the way."""
        return MetadataAnswer(
            throttle_time_ms=self._throttle_time_ms,
            brokers=self._brokers,
            cluster_id=self._cluster_id,
            topics=tuple(self._topics),
            topic_ids=tuple(self._topic_ids),
            topic_errors=tuple(self._errors),
            partitions=tuple(self._partitions),
            **{name: column.astype(np.int32) for name, column in columns.items()},
        )


def decode_slowly(body: memoryview) -> MetadataAnswer:
    """Read the answer field by field, tagged fields included. Raises MalformedAnswerError like `decode`."""
    try:
        return _decode_slowly(body.tobytes())
    except UNREADABLE as error:
        raise MalformedAnswerError(f"Metadata answer of {len(body)} bytes: {error}") from error


def _decode_slowly(body: bytes) -> MetadataAnswer:
    walk = _Walk(body)
    at = walk.take_brokers(skip_tags)
    partitions: list[tuple[int, ...]] = []
    lists: tuple[list[list[int]], ...] = ([], [], [])
    topic_count, at = length(body, at)
    for _ in range(topic_count):
        count, at = walk.take_topic(at)
        for _ in range(count):
            partitions.append(_HEAD.unpack_from(body, at)[1:])
            at += _HEAD.size
            for told in lists:
                elements, at = _numbers(body, at)
                told.append(elements)
            at = skip_tags(body, at)
        at = skip_tags(body, at + 4)
    at = skip_tags(body, at)
    if at != len(body):
        raise MalformedAnswerError(f"{len(body) - at} bytes after the end of the Metadata answer")
    columns = np.array(partitions, dtype=np.int64).reshape(-1, 3)
    return walk.answer(
        partition=columns[:, 0],
        leader=columns[:, 1],
        leader_epoch=columns[:, 2],
        replica_count=np.array([len(it) for it in lists[0]], dtype=np.int64),
        replicas=np.array([broker for it in lists[0] for broker in it], dtype=np.int64),
        in_sync_count=np.array([len(it) for it in lists[1]], dtype=np.int64),
        in_sync=np.array([broker for it in lists[1] for broker in it], dtype=np.int64),
    )


def _numbers(body: bytes, at: int) -> tuple[list[int], int]:
    count, at = read_uvarint(body, at)
    if count == 0 or at + 4 * (count - 1) > len(body):
        raise MalformedAnswerError("null, or a list that reaches beyond the answer")
    return list(struct.unpack_from(f">{count - 1}i", body, at)), at + 4 * (count - 1)
