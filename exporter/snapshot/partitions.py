"""Partitions and what is open on them, as their leaders show it. Whatever grows with them is a column (numpy)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import pairwise

import numpy as np

from exporter.snapshot.producers import Int8Column, Int16Column, Int32Column, Int64Column, ProducerEntries

NO_LEADER = -1


UNKNOWN_OFFSET = -1


OFFSETS_TOPIC = "__consumer_offsets"


STATE_TOPIC = "__transaction_state"


class Answer(IntEnum):
    """What became of the question about one partition."""

    READ = 0
    UNAUTHORIZED = 1
    UNAVAILABLE = 2

    @property
    def label(self) -> str:
        """The value of the metric label `answer`."""
        return self.name.lower()


class SecondRead(IntEnum):
    """What a second DescribeProducers, after the coordinators were asked, said of a transaction.

    A transaction that the second read no longer shows has ended and is not part of the snapshot at all.
    """

    NOT_ASKED = 0
    UNCHANGED = 1
    CHANGED = 2
    UNREAD = 3
    UNCONFIRMED = 4
    """Unchanged, but the broker that was read is not confirmed to lead the partition: `CoordinatorProof.unconfirmed`."""


NO_ROWS = range(0)


def rows_by_topic(topics: Sequence[str], topic: Int32Column) -> Mapping[str, range]:
    """The rows of each of `topics` in a sorted column of indexes into them.

    To be worked out once: an index of another type than the column would copy that, at every look.
    """
    bounds = np.searchsorted(topic, np.arange(len(topics) + 1, dtype=np.int32)).tolist()
    return {name: range(first, end) for name, (first, end) in zip(topics, pairwise(bounds), strict=True)}


@dataclass(frozen=True, kw_only=True)
class Partitions:
    """One row per partition of the cluster that the metadata shows us, in the order of topic and partition."""

    topics: tuple[str, ...]
    topic_ids: tuple[str, ...] = ()
    """(T,) what tells a topic from a later one of the same name; "" from brokers without topic ids, empty where unknown."""
    topic: Int32Column
    """(P,) index into `topics`."""
    partition: Int32Column
    leader: Int32Column
    """(P,) broker id, NO_LEADER when there is none."""
    answer: Int8Column
    """(P,) `Answer`."""
    reasons: tuple[str, ...]
    """Why partitions could not be read: short names such as `no_leader`, `timed_out`, `TOPIC_AUTHORIZATION_FAILED`."""
    reason: Int16Column
    """(P,) index into `reasons`, -1 where the partition was read."""
    producers: Int32Column
    """(P,) producer entries in the answer, idle and idempotent ones included."""

    def __len__(self) -> int:
        return len(self.topic)

    def name(self, row: int) -> tuple[str, int]:
        """(topic, partition) of one row."""
        return self.topics[self.topic[row]], int(self.partition[row])

    def topic_id(self, row: int) -> str:
        """Of one row's topic; "" where it is not known."""
        return self.topic_ids[self.topic[row]] if self.topic_ids else ""

    @cached_property
    def _rows_of_topic(self) -> Mapping[str, range]:
        return rows_by_topic(self.topics, self.topic)

    def row(self, topic: str, partition: int) -> int | None:
        """The row of one partition; None when it is not there."""
        rows = self._rows_of_topic.get(topic, NO_ROWS)
        row = rows.start + int(np.searchsorted(self.partition[rows.start : rows.stop], partition))
        return row if row < rows.stop and self.partition[row] == partition else None

    def is_read(self, topic: str, partition: int) -> bool:
        """True if it is there and was read."""
        row = self.row(topic, partition)
        return row is not None and bool(self.answer[row] == Answer.READ)


@dataclass(frozen=True, kw_only=True)
class OpenTransactions(ProducerEntries):
    """One row per open transaction: an entry of DescribeProducers with a start offset of 0 or more.

    Rows that were seen to end within the cycle are left out.
    """

    partition_row: Int32Column
    """(N,) row in `Partitions`."""
    second_read: Int8Column
    """(N,) `SecondRead`."""
    diverged_replicas: tuple[tuple[int, ...], ...] = ()
    """(N,) brokers that follow the partition and have seen the transaction end; empty when no follower has."""
    silent_replicas: tuple[tuple[int, ...], ...] = ()
    """(N,) in-sync followers that did not respond, or do not show the transaction open; empty when all of them do."""
    unconfirmed: tuple[str | None, ...] = ()
    """(N,) why the leaders behind what its coordinator keeps too long are not confirmed; empty when all of them are."""
    high_watermark: Int64Column
    """(N,) of the partition, UNKNOWN_OFFSET when it could not be read."""
    last_stable_offset: Int64Column
    """(N,) of the partition, UNKNOWN_OFFSET when it could not be read."""
