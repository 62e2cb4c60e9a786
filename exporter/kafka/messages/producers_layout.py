"""Finds where the partitions of a DescribeProducers response begin, without an object for a partition.

`describe_producers` shows the layout. `walk` steps from partition to partition by the byte with the number of producers, in
one stride if all partitions of a topic have the same number. The next response to the same request has the same layout
unless a producer was added or removed, which `Layout.is_of` checks with two comparisons of all partitions at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from exporter.kafka.messages.response import unaligned_view
from exporter.primitives import MalformedBytesError, compact_string, length, no_tags
from exporter.snapshot import Int32Column, Int64Column

ENTRIES: Final = {
    0: np.dtype(
        [
            ("producer_id", ">i8"),
            ("producer_epoch", ">i4"),
            ("last_sequence", ">i4"),
            ("last_timestamp", ">i8"),
            ("coordinator_epoch", ">i4"),
            ("current_txn_start_offset", ">i8"),
            ("tags", "u1"),
        ]
    ),
}
"""Version of the API -> an entry without tagged fields."""
ENTRY_BYTES = max(entry.itemsize for entry in ENTRIES.values())
"""The most that an entry without tagged fields takes."""
PARTITION_BYTES = 9
"""Length of a partition without producers and without a message."""

THROTTLE_TIME_BYTES = 4
MESSAGE_AT = 6

LENGTHS_MAX = 1_048_576
"""Bytes that contain lengths, including messages, that are kept for the next response."""
_COUNT_AT = 7
"""Value if there is no message."""
_SIGN_BIT = 0x80
"""Bit of the first byte of a big-endian number: this byte or a higher one makes it negative."""
_NOWHERE: Int64Column = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Positions of the partitions of a response: columns of P, in the order of the response."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    """Number of partitions of each topic."""
    head_at: Int32Column
    entries_at: Int32Column
    count: Int32Column
    size: int
    """Bytes of the response; -1 if no response can be compared with it."""
    mark: npt.NDArray[np.uint16]
    """The two bytes that are the whole message and the whole count, or the beginning of either."""
    lengths_at: Int32Column
    lengths: npt.NDArray[np.uint8]
    """Positions of the other bytes with a length, and their values."""
    entry: np.dtype[Any]
    """One of ENTRIES."""

    def is_of(self, body: memoryview, bytes_: npt.NDArray[np.uint8]) -> bool:
        """True if `body` has this layout: every length is at the same place with the same value.

        The beginning of the first partition is known, and from there each one's length leads to the next.
        """
        return (
            len(body) == self.size
            and np.array_equal(unaligned_view(body, ">u2")[self.head_at + MESSAGE_AT], self.mark)
            and np.array_equal(bytes_[self.lengths_at], self.lengths)
        )

    def open_entries(self, bytes_: npt.NDArray[np.uint8]) -> Int64Column:
        """(N,) where each entry with an open transaction begins.

        Like the next two methods it raises MalformedBytesError if an entry has tagged fields.
        """
        entry_at = self.all_entries(bytes_)
        return entry_at[bytes_[entry_at + _at(self.entry, "current_txn_start_offset")] < _SIGN_BIT]

    def entries_of(self, body: memoryview, producer_ids: Collection[int]) -> Int64Column:
        """(N,) where each entry of `producer_ids` begins."""
        entry_at = self.all_entries(unaligned_view(body, "u1"))
        ids = np.fromiter(producer_ids, dtype=np.int64)
        return entry_at[np.isin(unaligned_view(body, ">i8")[entry_at], ids)]

    def all_entries(self, bytes_: npt.NDArray[np.uint8]) -> Int64Column:
        """(E,) where each entry begins, in order."""
        before = np.cumsum(self.count, dtype=np.int64) - self.count
        first: Int64Column = np.repeat(self.entries_at - before * self.entry.itemsize, self.count)
        entry_at = first + np.arange(len(first)) * self.entry.itemsize
        if np.any(bytes_[entry_at + tags_of(self.entry)]):
            raise MalformedBytesError("tagged fields")
        return entry_at


def tags_of(entry: np.dtype[Any]) -> int:
    """The bytes of an entry before its tagged fields."""
    return _at(entry, "tags")


def _at(entry: np.dtype[Any], field: str) -> int:
    assert entry.fields is not None
    return entry.fields[field][1]


@cache
def _steps(entry_bytes: int) -> tuple[int, ...]:
    """Returns how far the next partition is from one without a message, by the byte at _COUNT_AT; 0 if that needs more."""
    return tuple(PARTITION_BYTES + (byte - 1) * entry_bytes if 0 < byte < 0x80 else 0 for byte in range(256))  # noqa: PLR2004


def walk(body: bytes, entry: np.dtype[Any]) -> Layout:
    """Steps from partition to partition, assuming that nothing has tagged fields."""
    topics: list[str] = []
    partitions: list[int] = []
    heads = array("q")
    unusual: list[tuple[int, int, int]] = []
    lengths = [THROTTLE_TIME_BYTES]
    topic_count, at = length(body, THROTTLE_TIME_BYTES)
    for _ in range(topic_count):
        name, at = compact_string(body, at)
        count, at = length(body, at)
        topics.append(name)
        partitions.append(count)
        lengths.append(at)
        at = _step_over_topic(body, at, count, entry.itemsize, heads, unusual)
        lengths.append(at)
        at = no_tags(body, at)
    if no_tags(body, at) != len(body):
        raise MalformedBytesError(f"{len(body) - at} bytes after the end of the response")
    lengths.append(len(body))
    bytes_ = np.frombuffer(body, dtype=np.uint8)
    head_at = np.frombuffer(heads, dtype=np.int64)
    entries_at = head_at + _COUNT_AT + 1
    count_of = bytes_[head_at + _COUNT_AT].astype(np.int64) - 1
    if unusual:
        index, counts, at_entries = np.array(unusual, dtype=np.int64).T
        count_of[index], entries_at[index] = counts, at_entries
        lengths += [boundary for i, _, end in unusual for boundary in (heads[i] + MESSAGE_AT, end)]
    # Finding a position takes twelve bytes: long messages are not compared in the next response.
    is_like_none = sum(lengths[1::2]) - sum(lengths[::2]) > LENGTHS_MAX
    lengths_at = _positions([] if is_like_none else lengths)
    return Layout(
        topics=tuple(topics),
        partitions=tuple(partitions),
        head_at=head_at.astype(np.int32),
        entries_at=entries_at.astype(np.int32),
        count=count_of.astype(np.int32),
        size=-1 if is_like_none else len(body),
        mark=unaligned_view(memoryview(body), ">u2")[head_at + MESSAGE_AT],
        lengths_at=lengths_at,
        lengths=bytes_[lengths_at],
        entry=entry,
    )


def _positions(bounds: list[int]) -> Int32Column:
    """All positions from the first bound to the second, from the third to the fourth, and so on."""
    start, end = np.array(bounds, dtype=np.int64).reshape(-1, 2).T if bounds else (_NOWHERE, _NOWHERE)
    size = end - start
    positions: Int64Column = np.repeat(start - (np.cumsum(size) - size), size) + np.arange(size.sum())
    return positions.astype(np.int32)


def _step_over_topic(
    body: bytes, at: int, count: int, entry_bytes: int, heads: array[int], unusual: list[tuple[int, int, int]]
) -> int:
    """Notes in `heads` where each of `count` partitions begins; returns where the last one ends."""
    if count == 0:
        return at
    steps = _steps(entry_bytes)
    step = steps[body[at + _COUNT_AT]]
    end = at + step * count
    if step and _are_alike(body, at, end, step):
        heads.frombytes(np.arange(at, end, step, dtype=np.int64).tobytes())
        return end
    for _ in range(count):
        step = 0 if body[at + MESSAGE_AT] else steps[body[at + _COUNT_AT]]
        if step:
            heads.append(at)
            at += step
        else:
            at = _step_over_unusual(body, at, entry_bytes, heads, unusual)
    return at


def _are_alike(body: bytes, at: int, end: int, step: int) -> bool:
    """True if partitions `step` bytes apart, without messages and all as long as the first, fill `at` to `end`.

    Each one's length shows where the next begins, so the stride is proved from one to the next.
    """
    if end > len(body):
        return False
    counts, messages = body[at + _COUNT_AT : end : step], body[at + MESSAGE_AT : end : step]
    return counts == counts[:1] * len(counts) and messages == bytes(len(messages))


def _step_over_unusual(
    body: bytes, at: int, entry_bytes: int, heads: array[int], unusual: list[tuple[int, int, int]]
) -> int:
    """Length of a partition with a message, or with so many producers that their number takes more than a byte."""
    message_at = at + MESSAGE_AT
    count_at = message_at + 1 if body[message_at] == 0 else compact_string(body, message_at)[1]
    count, entries_at = length(body, count_at)
    end = entries_at + count * entry_bytes
    if end >= len(body):
        raise MalformedBytesError("entries reach beyond the response")
    unusual.append((len(heads), count, entries_at))
    heads.append(at)
    return end + 1
