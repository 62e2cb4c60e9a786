"""Records partitions, and how much their leaders show of them, in columns (numpy)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import pairwise

import numpy as np

from exporter.snapshot.keys import TransactionKey
from exporter.snapshot.producers import NO_PRODUCER_ID, BoolColumn, Int8Column, Int16Column, Int32Column, Int64Column

TopicPartition = tuple[str, int]
"""A partition by its topic and number."""
NO_LEADER = -1


UNKNOWN_OFFSET = -1


OFFSETS_TOPIC = "__consumer_offsets"


STATE_TOPIC = "__transaction_state"


class PartitionResult(IntEnum):
    """Result of the request for one partition."""

    READ = 0
    UNAUTHORIZED = 1
    UNAVAILABLE = 2
    EXCLUDED = 3
    """The partition was not requested: the settings exclude its topic."""
    BY_OFFSETS = 4
    """This principal may not read its producers; its leader responded with its offsets."""

    @property
    def label(self) -> str:
        """The value of the metric label `answer`."""
        return self.name.lower()


def was_read(answer: Int8Column) -> BoolColumn:
    """(P,) true where the leader responded."""
    read: BoolColumn = answer == int(PartitionResult.READ)
    return read


def is_covered(answer: Int8Column) -> BoolColumn:
    """(P,) true where it is known whether a transaction is open: the leader showed its producers, or its offsets."""
    covered: BoolColumn = was_read(answer) | (answer == int(PartitionResult.BY_OFFSETS))
    return covered


def shows(answer: Int8Column, producer_id: Int64Column) -> BoolColumn:
    """(N,) true where an open transaction of that producer would be seen, by the answer of its partition.

    Offsets show one whose producer is unknown, and nothing of one whose producer was read before.
    """
    shown: BoolColumn = was_read(answer) | ((producer_id == NO_PRODUCER_ID) & is_covered(answer))
    return shown


def is_unread(answer: Int8Column) -> BoolColumn:
    """(P,) true where a response is missing: the partition is not covered, and its topic is not excluded."""
    unread: BoolColumn = ~is_covered(answer) & (answer != int(PartitionResult.EXCLUDED))
    return unread


class SecondRead(IntEnum):
    """Result of the second DescribeProducers, after the coordinators responded, for a transaction.

    A transaction that the second read no longer shows has ended and is not part of the snapshot.
    """

    NOT_ASKED = 0
    UNCHANGED = 1
    CHANGED = 2
    UNREAD = 3
    UNCONFIRMED = 4
    """Unchanged, but the broker of the read is not confirmed as the leader: `CoordinatorProof.unconfirmed`."""


NO_ROWS = range(0)


def rows_by_topic(topics: Sequence[str], topic: Int32Column) -> Mapping[str, range]:
    """The rows of each of `topics` in a sorted column of indexes into them.

    Computed once: a search for an index of another type than the column's would copy the column.
    """
    bounds = np.searchsorted(topic, np.arange(len(topics) + 1, dtype=np.int32)).tolist()
    return {name: range(first, end) for name, (first, end) in zip(topics, pairwise(bounds), strict=True)}


@dataclass(frozen=True, kw_only=True)
class Partitions:
    """One row per partition in the metadata, in the order of topic and partition."""

    topics: tuple[str, ...]
    topic_ids: tuple[str, ...] = ()
    """(T,) topic ids; "" from brokers without topic ids, empty if unknown."""
    topic: Int32Column
    """(P,) index into `topics`."""
    partition: Int32Column
    leader: Int32Column
    """(P,) broker id, NO_LEADER if there is none."""
    answer: Int8Column
    """(P,) `PartitionResult`."""
    reasons: tuple[str, ...]
    """Reasons why partitions could not be read, such as `no_leader`, `timed_out`, `TOPIC_AUTHORIZATION_FAILED`."""
    reason: Int16Column
    """(P,) index into `reasons`, -1 where the partition was read, or excluded."""
    producers: Int32Column
    """(P,) producer entries in the response, idle and idempotent ones included."""

    def __len__(self) -> int:
        return len(self.topic)

    def name(self, row: int) -> TopicPartition:
        """(topic, partition) of one row."""
        return self.topics[self.topic[row]], int(self.partition[row])

    def topic_id(self, row: int) -> str:
        """The topic id of one row; "" if it is unknown."""
        return self.topic_ids[self.topic[row]] if self.topic_ids else ""

    @property
    def id_of_topic(self) -> Mapping[str, str]:
        """Topics whose id is known."""
        return {topic: topic_id for topic, topic_id in zip(self.topics, self.topic_ids, strict=False) if topic_id}

    @cached_property
    def _rows_of_topic(self) -> Mapping[str, range]:
        return rows_by_topic(self.topics, self.topic)

    def row(self, topic: str, partition: int) -> int | None:
        """The row of one partition; None if it is missing."""
        rows = self._rows_of_topic.get(topic, NO_ROWS)
        row = rows.start + int(np.searchsorted(self.partition[rows.start : rows.stop], partition))
        return row if row < rows.stop and self.partition[row] == partition else None

    @property
    def was_read(self) -> BoolColumn:
        return was_read(self.answer)

    @property
    def is_covered(self) -> BoolColumn:
        return is_covered(self.answer)

    @property
    def is_unread(self) -> BoolColumn:
        return is_unread(self.answer)

    def count_of(self, result: PartitionResult) -> int:
        """Number of partitions with this result."""
        return int(np.count_nonzero(self.answer == int(result)))

    @property
    def covered_count(self) -> int:
        """Partitions of which it is known whether a transaction is open."""
        return int(np.count_nonzero(self.is_covered))

    @property
    def by_offsets_count(self) -> int:
        """Partitions of which only the offsets are known."""
        return self.count_of(PartitionResult.BY_OFFSETS)

    @property
    def excluded_count(self) -> int:
        """Partitions of topics that the settings exclude."""
        return self.count_of(PartitionResult.EXCLUDED)

    @property
    def included_count(self) -> int:
        """Number of partitions that are not excluded, read or not."""
        return len(self) - self.excluded_count

    def shows(self, key: TransactionKey) -> bool:
        """True if the transaction would be in this snapshot, were it still open where it was."""
        row = self.row(key.topic, key.partition)
        return row is not None and bool(shows(self.answer[[row]], np.array([key.producer_id]))[0])
