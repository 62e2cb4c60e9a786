"""Holds brokers, topics and partition leaders of one Metadata response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from exporter.kafka.client.connections import Address
from exporter.kafka.errors import MalformedResponseError
from exporter.kafka.messages.metadata import MetadataColumns, is_topic_name
from exporter.snapshot import NO_LEADER, BoolColumn, ClusterIdentity, Int32Column, Int64Column, TopicPartition
from exporter.snapshot.partitions import NO_ROWS, rows_by_topic

PARTITIONS_OF_A_TOPIC_MAX = 1_000_000
"""Gaps are filled, so an invalid partition index must not be used. Kafka clusters have at most about this many in total."""

GAPS_MAX = 10_000
"""Rows of partitions that the response does not name, beyond one for each partition that it names: a response of 8 kB must
not fill the memory. Brokers omit no partition."""


@dataclass(frozen=True)
class Replicas:
    """Broker ids of every partition, flat: those of row r are from `start[r]` to `start[r + 1]`."""

    start: Int32Column
    broker: Int32Column

    def of(self, row: int) -> tuple[int, ...]:
        """The brokers of one partition."""
        return tuple(self.broker[self.start[row] : self.start[row + 1]].tolist())

    def cut(self) -> Replicas:
        """Returns the lists of no partition."""
        return Replicas(start=self.start[:0], broker=self.broker[:0])

    def rows_on(self, broker: int) -> Int64Column:
        """The partitions with a replica on `broker`."""
        return np.searchsorted(self.start, np.flatnonzero(self.broker == broker), side="right") - 1


@dataclass(frozen=True, kw_only=True)
class Topology:
    """The cluster at one moment. Rows are in the order of topic name and partition, without gaps in a topic."""

    cluster_id: str
    brokers: Mapping[int, Address]
    topics: tuple[str, ...]
    topic_ids: tuple[str, ...]
    """(T,) "" if the broker has none."""
    first_row: Mapping[str, int]
    """Topic -> row of its partition 0."""
    topic: Int32Column
    partition: Int32Column
    leader: Int32Column
    leader_epoch: Int32Column
    """(P,) -1 from brokers that do not send it."""
    replicas: Replicas
    in_sync: Replicas
    topic_errors: Mapping[str, int]
    """Topic -> Kafka error code, for topics that were requested by name and are not shown."""
    left_out: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Topic -> how many of its partitions have no row, because too many before them are not named."""
    refused_names: int = 0
    """Topics whose name no broker of Kafka accepts: they have no rows. Such a name may be made to harm who reads it."""

    def __len__(self) -> int:
        return len(self.topic)

    @cached_property
    def identity(self) -> ClusterIdentity:
        """The ids by which its cluster is recognized."""
        return ClusterIdentity(
            cluster_id=self.cluster_id, topic_ids=dict(zip(self.topics, self.topic_ids, strict=True))
        )

    def name(self, row: int) -> TopicPartition:
        """(topic, partition) of one row."""
        return self.topics[self.topic[row]], int(self.partition[row])

    def rows_of(self, topic: str) -> range:
        """The rows of one topic; empty if it is missing."""
        return self._rows_of_topic.get(topic, NO_ROWS)

    @cached_property
    def _rows_of_topic(self) -> Mapping[str, range]:
        return rows_by_topic(self.topics, self.topic)

    def rows_in(self, other: Topology, rows: Int64Column) -> Int64Column:
        """The rows of `other` with the partitions of `rows` of this one; -1 if it has none."""
        topics = np.flatnonzero(np.bincount(self.topic[rows], minlength=len(self.topics)))
        first = np.zeros(len(self.topics), dtype=np.int64)
        count = np.zeros(len(self.topics), dtype=np.int64)
        found = [other.rows_of(self.topics[index]) for index in topics.tolist()]
        first[topics] = [topic_rows.start for topic_rows in found]
        count[topics] = [len(topic_rows) for topic_rows in found]
        topic, partition = self.topic[rows], self.partition[rows]
        return np.where(partition < count[topic], first[topic] + partition, -1)

    def by_topic(self, rows: Int64Column) -> dict[str, Int32Column]:
        """Topic -> partitions, of ascending rows: those of a topic are neighbours."""
        topics, starts = np.unique(self.topic[rows], return_index=True)
        partitions = np.split(self.partition[rows], starts[1:])
        return {self.topics[topic]: of_it for topic, of_it in zip(topics.tolist(), partitions, strict=True)}

    def rows_named(
        self, topics: Sequence[str], topic: Int32Column | Int64Column, partition: Int32Column
    ) -> Int64Column:
        """(N,) the row of each partition of a response, where `topic` is the index into `topics`; -1 if there is none."""
        if not len(topic) or not len(self):
            return np.full(len(topic), -1, dtype=np.int64)
        first = np.array([self.first_row.get(name, -1) for name in topics], dtype=np.int64)[topic]
        row = np.where((first >= 0) & (partition >= 0), first + partition, -1)
        row[row >= len(self)] = -1
        return np.where(self.partition[row] == partition, row, -1)

    def row(self, topic: str, partition: int) -> int | None:
        """The row of one partition; None if it is missing."""
        rows = self.rows_of(topic)
        return rows[partition] if 0 <= partition < len(rows) else None

    def topic_id_of(self, topic: str) -> str:
        """The topic id, which differs for a later topic of the same name; "" if topic or topic id is missing."""
        first = self.first_row.get(topic)
        return "" if first is None else self.topic_ids[self.topic[first]]

    def leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        """(broker id, leader epoch) of one partition; NO_LEADER if it or its leader is missing."""
        row = self.row(topic, partition)
        return (NO_LEADER, -1) if row is None else (int(self.leader[row]), int(self.leader_epoch[row]))


def topology_of(answer: MetadataColumns) -> Topology:
    """The topology in a Metadata response. Partitions that it omits from a topic appear without a leader.

    Raises MalformedResponseError.
    """
    if not answer.brokers:
        # A broker that has not caught up with its controller: an empty cluster would look like one without transactions.
        raise MalformedResponseError("its metadata names no broker")
    counts = np.array(answer.partitions, dtype=np.int64)
    shown = [
        i
        for i, (error, count) in enumerate(zip(answer.topic_errors, answer.partitions, strict=True))
        if count or not error
    ]
    legal = [i for i in shown if is_topic_name(answer.topics[i])]
    refused_names, shown = len(shown) - len(legal), legal
    shown.sort(key=answer.topics.__getitem__)
    topics = tuple(answer.topics[i] for i in shown)
    if len(set(topics)) != len(topics):
        raise MalformedResponseError("a topic twice")
    # The partitions of refused names count for a topic of their own, the last one, which gets no rows.
    rank = np.full(len(counts), len(topics), dtype=np.int64)
    rank[shown] = np.arange(len(shown))
    topic_of_entry = np.repeat(rank, counts)
    sizes = _sizes(answer, len(topics) + 1, topic_of_entry)
    sizes[-1] = 0
    has_row = answer.partition < sizes[topic_of_entry]
    sizes = sizes[:-1]
    first = np.cumsum(sizes) - sizes
    row = first[topic_of_entry[has_row]] + answer.partition[has_row]
    count = int(sizes.sum())
    leader = np.full(count, NO_LEADER, dtype=np.int32)
    leader_epoch = np.full(count, -1, dtype=np.int32)
    leader[row], leader_epoch[row] = answer.leader[has_row], answer.leader_epoch[has_row]
    left_out = np.bincount(topic_of_entry[~has_row], minlength=len(topics))[: len(topics)]
    return Topology(
        cluster_id=answer.cluster_id or "",
        brokers={broker: Address(host, port) for broker, host, port in answer.brokers},
        topics=topics,
        topic_ids=tuple(answer.topic_ids[i] for i in shown),
        first_row=dict(zip(topics, first.tolist(), strict=True)),
        topic=np.repeat(np.arange(len(topics), dtype=np.int32), sizes),
        partition=(np.arange(count) - np.repeat(first, sizes)).astype(np.int32),
        leader=leader,
        leader_epoch=leader_epoch,
        replicas=_replicas(count, row, has_row, answer.replica_count, answer.replicas),
        in_sync=_replicas(count, row, has_row, answer.in_sync_count, answer.in_sync),
        topic_errors={
            name: error
            for name, error, count in zip(answer.topics, answer.topic_errors, answer.partitions, strict=True)
            if error and not count
        },
        refused_names=refused_names,
        left_out={topics[index]: int(left_out[index]) for index in np.flatnonzero(left_out).tolist()},
    )


def _sizes(answer: MetadataColumns, topics: int, topic_of_entry: Int64Column) -> Int64Column:
    """(T,) rows of each topic, gaps included. Raises MalformedResponseError if that is impossible.

    If all gaps together are too many, the topics that lack most get no more rows than partitions that they name.
    """
    sizes = np.zeros(topics, dtype=np.int64)
    np.maximum.at(sizes, topic_of_entry, answer.partition.astype(np.int64) + 1)
    if np.any(answer.partition < 0) or np.any(sizes > PARTITIONS_OF_A_TOPIC_MAX):
        raise MalformedResponseError(f"partitions from {answer.partition.min()} to {answer.partition.max()}")
    named = np.bincount(topic_of_entry, minlength=topics)
    gaps = np.maximum(sizes - named, 0)
    fewest_first = np.argsort(gaps, kind="stable")
    is_too_many = np.cumsum(gaps[fewest_first]) > len(topic_of_entry) + GAPS_MAX
    cut = fewest_first[is_too_many]
    sizes[cut] = np.minimum(sizes[cut], named[cut])
    return sizes


def _replicas(
    count: int, row: Int64Column, has_row: BoolColumn, lengths: Int32Column, brokers: Int32Column
) -> Replicas:
    """The lists of the response, each at its row; the last one if a row occurs twice."""
    last_entry = np.full(count, -1, dtype=np.int64)
    last_entry[row] = np.flatnonzero(has_row)
    has_entry = last_entry >= 0
    length = np.zeros(count, dtype=np.int64)
    length[has_entry] = lengths[last_entry[has_entry]]
    first_broker = np.cumsum(lengths, dtype=np.int64) - lengths
    start = np.concatenate(([0], np.cumsum(length)))
    of_row = np.repeat(np.arange(count), length)
    within = np.arange(len(of_row)) - start[of_row]
    return Replicas(start=start.astype(np.int32), broker=brokers[first_broker[last_entry[of_row]] + within])
