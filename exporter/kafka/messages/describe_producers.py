"""DescribeProducers (KIP-664, API key 61, version 0): the request, and a decoder for its answer that makes no objects.

The answer, after the response header (DescribeProducersResponse.json; every length is an unsigned varint of n + 1):

    throttle_time_ms i32 | topics n+1, each:
        name compact string | partitions n+1, each:
            partition i32 | error i16 | message compact nullable string | producers n+1, each 37 bytes without tags:
                +0 producer_id i64   +8 producer_epoch i32   +12 last_sequence i32   +16 last_timestamp i64
                +24 coordinator_epoch i32   +28 current_txn_start_offset i64   +36 tagged fields, uvarint count, 0 so far
            | tagged fields
        | tagged fields
    | tagged fields

`decode` finds where each partition begins (`producers_layout`), and then has numpy look at the sign byte of every start
offset: only open transactions are unpacked, or whatever certain producers have left. `decode_slowly`, the specification,
reads the answer field by field; it is asked wherever something is not as drawn above, such as tagged fields. No length is
believed before the bytes behind it are there.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from exporter.kafka.errors import MalformedAnswerError
from exporter.kafka.messages.columns import unaligned_view
from exporter.kafka.messages.producers_layout import (
    ENTRY_BYTES,
    MESSAGE_AT,
    TAGS_AT,
    THROTTLE_TIME_BYTES,
    Layout,
    walk,
)
from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.messages.versions import DESCRIBE_PRODUCERS
from exporter.primitives import (
    UNREADABLE,
    compact,
    compact_string,
    length,
    skip_tags,
    uvarint,
)
from exporter.snapshot import ENTRY_FIELDS, Int16Column, Int32Column, ProducerEntries

_ENTRY = struct.Struct(">qiiqiq")
_ENTRY_ROWS = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i4"),
        ("last_sequence", ">i4"),
        ("last_timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("current_txn_start_offset", ">i8"),
        ("tags", "u1"),
    ]
)
_PARTITION_HEAD = struct.Struct(">ih")


@dataclass(frozen=True, kw_only=True)
class ProducersAnswer(ProducerEntries):
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
    layout: Layout | None = field(compare=False)
    """For the next answer to the same request; None where this one was read slowly."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducersAnswer):
            return NotImplemented
        return all(np.array_equal(getattr(self, it.name), getattr(other, it.name)) for it in fields(self) if it.compare)

    __hash__ = None  # type: ignore[assignment]


def request(partitions: Mapping[str, npt.ArrayLike]) -> RawRequest:
    """Ask for the producers of `partitions`: topic -> partition indexes."""
    parts = [uvarint(len(partitions) + 1)]
    for topic, indexes in partitions.items():
        packed = np.asarray(indexes, dtype=">i4")
        parts += [compact(topic), uvarint(len(packed) + 1), packed.tobytes(), b"\0"]
    parts.append(b"\0")
    return RawRequest(DESCRIBE_PRODUCERS, b"".join(parts))


def decode(
    body: memoryview,
    producer_ids: Collection[int] | None = None,
    *,
    every: bool = False,
    like: Layout | None = None,
) -> ProducersAnswer:
    """The answer's columns: its open transactions, the entries of `producer_ids`, or `every` entry.

    `like` is how the last answer to the same request was laid out. Raises MalformedAnswerError when `body` is not such an
    answer to its last byte.
    """
    bytes_ = np.frombuffer(body, dtype=np.uint8)
    layout = like
    if layout is None or not layout.is_of(body, bytes_):
        try:
            layout = walk(body.tobytes())  # a byte of `bytes` is had in half the time
        except UNREADABLE:  # it may be tagged fields that threw the quick walk off its feet
            return decode_slowly(body, producer_ids, every=every)
    if every:
        entry_at = layout.all_entries(bytes_)
    else:
        entry_at = layout.open_entries(bytes_) if producer_ids is None else layout.entries_of(body, producer_ids)
    if entry_at is None or np.any(bytes_[layout.entries_at + layout.count * ENTRY_BYTES]):
        return decode_slowly(body, producer_ids, every=every)
    (throttle_time_ms,) = struct.unpack_from(">i", body, 0)
    return _answer(
        throttle_time_ms,
        layout.topics,
        layout.partitions,
        partition=unaligned_view(body, ">i4")[layout.head_at],
        error=unaligned_view(body, ">i2")[layout.head_at + 4],
        producers=layout.count,
        entry_partition=(np.searchsorted(layout.entries_at, entry_at, side="right") - 1).astype(np.int32),
        rows=unaligned_view(body, _ENTRY_ROWS)[entry_at],
        layout=layout,
    )


def _answer(
    throttle_time_ms: int,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    *,
    partition: npt.NDArray[Any],
    error: npt.NDArray[Any],
    producers: npt.NDArray[Any],
    entry_partition: npt.NDArray[np.int32],
    rows: npt.NDArray[np.void],
    layout: Layout | None = None,
) -> ProducersAnswer:
    return ProducersAnswer(
        throttle_time_ms=throttle_time_ms,
        topics=topics,
        topic=np.repeat(np.arange(len(topics), dtype=np.int32), partitions),
        partition=partition.astype(np.int32),
        error=error.astype(np.int16),
        producers=producers.astype(np.int32),
        entry_partition=entry_partition,
        **{name: rows[name].astype(rows[name].dtype.newbyteorder("=")) for name in ENTRY_FIELDS},
        layout=layout,
    )


def decode_slowly(
    body: memoryview, producer_ids: Collection[int] | None = None, *, every: bool = False
) -> ProducersAnswer:
    """Read the answer field by field, tagged fields included. Raises MalformedAnswerError like `decode`."""
    try:
        return _decode_slowly(body, producer_ids, every=every)
    except UNREADABLE as error:
        raise MalformedAnswerError(f"DescribeProducers answer of {len(body)} bytes: {error}") from error


def _decode_slowly(body: memoryview, producer_ids: Collection[int] | None, *, every: bool) -> ProducersAnswer:
    (throttle_time_ms,) = struct.unpack_from(">i", body, 0)
    topics: list[str] = []
    partitions: list[int] = []
    heads: list[tuple[int, int, int]] = []
    picked: list[tuple[int, ...]] = []
    entry_partition: list[int] = []
    topic_count, at = length(body, THROTTLE_TIME_BYTES)
    for _ in range(topic_count):
        name, at = compact_string(body, at)
        partition_count, at = length(body, at)
        topics.append(name)
        partitions.append(partition_count)
        for _ in range(partition_count):
            head, entries, at = _read_partition(body, at)
            chosen = [it for it in entries if every or (it[5] >= 0 if producer_ids is None else it[0] in producer_ids)]
            entry_partition += [len(heads)] * len(chosen)
            picked += chosen
            heads.append((*head, len(entries)))
        at = skip_tags(body, at)
    at = skip_tags(body, at)
    if at != len(body):
        raise MalformedAnswerError(f"{len(body) - at} bytes after the end of the DescribeProducers answer")
    columns = np.array(heads, dtype=np.int64).reshape(-1, 3)
    return _answer(
        throttle_time_ms,
        tuple(topics),
        tuple(partitions),
        partition=columns[:, 0],
        error=columns[:, 1],
        producers=columns[:, 2],
        entry_partition=np.asarray(entry_partition, dtype=np.int32),
        rows=np.array([(*entry, 0) for entry in picked], dtype=_ENTRY_ROWS),
    )


def _read_partition(body: memoryview, at: int) -> tuple[tuple[int, int], list[tuple[int, ...]], int]:
    """(partition, error) and the entries of one partition, and where the next begins."""
    head = _PARTITION_HEAD.unpack_from(body, at)
    at += MESSAGE_AT
    at = at + 1 if body[at] == 0 else compact_string(body, at)[1]
    count, at = length(body, at)
    entries = []
    for _ in range(count):
        entries.append(_ENTRY.unpack_from(body, at))
        at = skip_tags(body, at + TAGS_AT)
    return head, entries, skip_tags(body, at)
