"""Encodes and decodes the APIs that the exporter handles as bytes: Metadata, producers, offsets and listings.

Written by hand and without objects, because the checker makes millions of them. `test_model.py` holds them to the
exporter's own decoders.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from exporter.kafka.messages.raw_request import RawResponse
from tests.verification.model.image import TopicPartition
from tests.verification.model.logs import Entry

_HEAD = struct.Struct(">hiii")
_ENTRY = struct.Struct(">qiiqiqB")
_OFFSET = struct.Struct(">ihqqiB")
_ASKED = struct.Struct(">iiqB")


def answer(body: bytes) -> RawResponse:
    """As the client hands it to the reader."""
    return RawResponse(body=memoryview(body), throttle_time_ms=0, version=0)


def body_of(request: Any) -> bytes:
    """The body of a RawRequest."""
    body: bytes = request._body
    return body


@lru_cache(maxsize=10_000)
def _compact(text: str) -> bytes:
    name = text.encode()
    assert len(name) < 127
    return bytes((len(name) + 1,)) + name


def _count(number: int) -> bytes:
    """A length as an unsigned varint of n + 1."""
    number += 1
    return bytes((number,)) if number < 128 else bytes((number & 0x7F | 0x80, number >> 7))


def _numbers(numbers: tuple[int, ...]) -> bytes:
    return _count(len(numbers)) + struct.pack(f">{len(numbers)}i", *numbers)


class _Reader:
    """Walks a request body; every count in it is small."""

    __slots__ = ("at", "body")

    def __init__(self, body: bytes, at: int = 0) -> None:
        self.body, self.at = body, at

    def length(self) -> int:
        """Of an array or string; -1 for null."""
        value = shift = 0
        while True:
            byte = self.body[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 128:
                return value - 1
            shift += 7

    def text(self) -> str | None:
        """A compact nullable string."""
        size = self.length()
        if size < 0:
            return None
        self.at += size
        return self.body[self.at - size : self.at].decode()


def topic_id_bytes(topic_id: int) -> bytes:
    """The uuid of one incarnation of a topic."""
    return topic_id.to_bytes(16, "big")


@lru_cache(maxsize=10_000)
def read_metadata(body: bytes, version: int) -> tuple[str | int, ...] | None:
    """The names (or ids, as numbers) of the requested topics; None for all."""
    reader = _Reader(body)
    count = reader.length()
    if count < 0:
        return None
    topics: list[str | int] = []
    for _ in range(count):
        topic_id = 0
        if version >= 10:
            topic_id = int.from_bytes(body[reader.at : reader.at + 16], "big")
            reader.at += 16
        name = reader.text()
        topics.append(topic_id if name is None else name)
        reader.at += 1
    return tuple(topics)


class ShownPartition(NamedTuple):
    """One partition in a Metadata response."""

    error: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


class ShownTopic(NamedTuple):
    """One topic in a Metadata response."""

    name: str | None
    topic_id: int
    error: int = 0
    partitions: tuple[ShownPartition, ...] = ()


def metadata(
    version: int, cluster_id: str, brokers: Iterable[tuple[int, str, int]], controller: int, topics: list[ShownTopic]
) -> bytes:
    """A Metadata response of version 9 to 12."""
    shown = tuple(brokers)
    parts = [b"\0\0\0\0", _count(len(shown))]
    parts += [
        struct.pack(">i", node) + _compact(host) + struct.pack(">i", port) + b"\0\0" for node, host, port in shown
    ]
    parts += [_compact(cluster_id), struct.pack(">i", controller), _count(len(topics))]
    for topic in topics:
        parts.append(struct.pack(">h", topic.error))
        parts.append(b"\0" if topic.name is None else _compact(topic.name))
        if version >= 10:
            parts.append(topic_id_bytes(topic.topic_id))
        is_internal = topic.name is not None and topic.name.startswith("__")
        parts += [b"\1" if is_internal else b"\0", _count(len(topic.partitions))]
        for index, partition in enumerate(topic.partitions):
            parts += [
                _HEAD.pack(partition.error, index, partition.leader, partition.leader_epoch),
                _numbers(partition.replicas),
                _numbers(partition.in_sync),
                _numbers(partition.offline),
                b"\0",
            ]
        parts.append(b"\x80\0\0\0\0")
    parts.append(b"\x80\0\0\0\0" if version <= 10 else b"\0")
    return b"".join(parts)


@lru_cache(maxsize=10_000)
def read_producers(body: bytes) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """(topic, partitions) that a DescribeProducers request names."""
    reader = _Reader(body)
    topics = []
    for _ in range(reader.length()):
        name = reader.text()
        count = reader.length()
        indexes = struct.unpack_from(f">{count}i", body, reader.at)
        reader.at += 4 * count + 1
        assert name is not None
        topics.append((name, indexes))
    return tuple(topics)


def producers(topics: Iterable[tuple[str, list[tuple[int, int, dict[int, Entry]]]]], count: int) -> bytes:
    """A DescribeProducers response: by topic (partition, error, entries)."""
    parts = [b"\0\0\0\0", _count(count)]
    for name, partitions in topics:
        parts += [_compact(name), _count(len(partitions))]
        for index, error, entries in partitions:
            parts += [struct.pack(">ihB", index, error, 0), _count(len(entries))]
            parts += [_ENTRY.pack(producer_id, *entry, 0) for producer_id, entry in entries.items()]
            parts.append(b"\0")
        parts.append(b"\0")
    parts.append(b"\0")
    return b"".join(parts)


class AskedOffset(NamedTuple):
    """One partition of a ListOffsets request."""

    partition: TopicPartition
    leader_epoch: int
    timestamp_ms: int


@lru_cache(maxsize=10_000)
def read_offsets(body: bytes) -> tuple[int, tuple[AskedOffset, ...]]:
    """(isolation level, partitions) of a ListOffsets request of version 6 or 7."""
    isolation = body[4]
    reader = _Reader(body, 5)
    rows = []
    for _ in range(reader.length()):
        name = reader.text()
        assert name is not None
        for _ in range(reader.length()):
            index, epoch, timestamp_ms, _ = _ASKED.unpack_from(body, reader.at)
            reader.at += _ASKED.size
            rows.append(AskedOffset((name, index), epoch, timestamp_ms))
        reader.at += 1
    return isolation, tuple(rows)


def offsets(topics: dict[str, list[tuple[int, int, int, int]]]) -> bytes:
    """A ListOffsets response: topic -> (partition, error, offset, leader epoch)."""
    parts = [b"\0\0\0\0", _count(len(topics))]
    for name, rows in topics.items():
        parts += [_compact(name), _count(len(rows))]
        parts += [_OFFSET.pack(index, error, -1, offset, epoch, 0) for index, error, offset, epoch in rows]
        parts.append(b"\0")
    parts.append(b"\0")
    return b"".join(parts)


class AskedListing(NamedTuple):
    """A ListTransactions request of version 0, under kafka-python's names."""

    state_filters: tuple[str, ...]
    producer_id_filters: tuple[int, ...]


@lru_cache(maxsize=10_000)
def read_listing(body: bytes) -> AskedListing:
    """What is asked for."""
    reader = _Reader(body)
    states = tuple(reader.text() or "" for _ in range(reader.length()))
    count = reader.length()
    return AskedListing(states, struct.unpack_from(f">{count}q", body, reader.at))


def listing(error: int, rows: Iterable[tuple[str, int, str]]) -> bytes:
    """A ListTransactions response: transactional id, producer id, state."""
    shown = [
        _compact(name) + struct.pack(">q", producer_id) + _compact(state) + b"\0" for name, producer_id, state in rows
    ]
    return b"".join([struct.pack(">ih", 0, error), _count(0), _count(len(shown)), *shown, b"\0"])
