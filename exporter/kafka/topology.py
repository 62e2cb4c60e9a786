"""Who leads what: brokers, topics and partition leaders as one Metadata answer tells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from kafka.protocol.metadata import MetadataRequest

from exporter.kafka.connections import Address
from exporter.kafka.errors import ErrorCode, MalformedAnswerError
from exporter.snapshot import NO_LEADER, Int32Column, Int64Column

STATE_TOPIC = "__transaction_state"

_REQUEST_MAX_VERSION = 12
"""Version 13 only adds an error for topic ids, which are not used here."""

PARTITIONS_OF_A_TOPIC_MAX = 1_000_000
"""Gaps are filled, so a wild partition index must not be believed. Kafka clusters end at about this many in all."""


@dataclass(frozen=True)
class Replicas:
    """Broker ids of every partition, flat: those of row r stand from `start[r]` to `start[r + 1]`."""

    start: Int32Column
    broker: Int32Column

    def of(self, row: int) -> tuple[int, ...]:
        """The brokers of one partition."""
        return tuple(self.broker[self.start[row] : self.start[row + 1]].tolist())

    def rows_on(self, broker: int) -> Int64Column:
        """The partitions that have one on `broker`."""
        return np.searchsorted(self.start, np.flatnonzero(self.broker == broker), side="right") - 1


def _replicas(by_partition: list[tuple[int, ...]]) -> Replicas:
    lengths = [len(brokers) for brokers in by_partition]
    return Replicas(
        start=np.concatenate(([0], np.cumsum(lengths, dtype=np.int32))).astype(np.int32),
        broker=np.fromiter((broker for brokers in by_partition for broker in brokers), dtype=np.int32),
    )


@dataclass(frozen=True, kw_only=True)
class Topology:
    """The cluster at one moment. Rows are in the order of topic name and partition, without gaps in a topic."""

    cluster_id: str
    brokers: Mapping[int, Address]
    topics: tuple[str, ...]
    first_row: Mapping[str, int]
    """Topic -> row of its partition 0."""
    topic: Int32Column
    partition: Int32Column
    leader: Int32Column
    leader_epoch: Int32Column
    """(P,) -1 from brokers that do not tell."""
    replicas: Replicas
    in_sync: Replicas
    topic_errors: Mapping[str, int]
    """Topic -> Kafka error code, for topics that were asked for by name and are not shown."""

    def __len__(self) -> int:
        return len(self.topic)

    def rows_of(self, topic: str) -> range:
        """The rows of one topic; empty when it is not there."""
        first = self.first_row.get(topic)
        if first is None:
            return range(0)
        index = int(self.topic[first])
        return range(first, int(np.searchsorted(self.topic, index, side="right")))

    def row(self, topic: str, partition: int) -> int | None:
        """The row of one partition; None when it is not there."""
        rows = self.rows_of(topic)
        return rows[partition] if 0 <= partition < len(rows) else None

    def leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        """(broker id, leader epoch) of one partition; NO_LEADER when it or its leader is missing."""
        row = self.row(topic, partition)
        return (NO_LEADER, -1) if row is None else (int(self.leader[row]), int(self.leader_epoch[row]))


def metadata_request(topics: tuple[str, ...] | None) -> Any:
    """Ask for `topics`, or for every topic that we may see. Never creates one."""
    names = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(
        topics=names, allow_auto_topic_creation=False, min_version=4, max_version=_REQUEST_MAX_VERSION
    )


def topology_of(answer: Any) -> Topology:
    """The topology in a decoded Metadata answer. Partitions that it leaves out of a topic appear without a leader.

    Raises MalformedAnswerError, or TypeError for null where something must be.
    """
    if not answer.brokers:
        # A broker that has not caught up with its controller: an empty cluster would look like one without transactions.
        raise MalformedAnswerError("it knows no broker, not even itself")
    topics: list[str] = []
    first_row: dict[str, int] = {}
    topic_errors: dict[str, int] = {}
    topic_index: list[int] = []
    partition_index: list[int] = []
    leader: list[int] = []
    leader_epoch: list[int] = []
    replicas: list[tuple[int, ...]] = []
    in_sync: list[tuple[int, ...]] = []
    for topic in sorted(answer.topics, key=lambda t: t.name):
        if topic.error_code != ErrorCode.NONE and not topic.partitions:
            topic_errors[topic.name] = topic.error_code
            continue
        told = {p.partition_index: p for p in topic.partitions}
        count = max(told, default=-1) + 1
        if topic.name is None or count > PARTITIONS_OF_A_TOPIC_MAX:
            raise MalformedAnswerError(f"topic {topic.name} of {count} partitions")
        first_row[topic.name] = len(topic_index)
        topic_index += [len(topics)] * count
        topics.append(topic.name)
        partition_index += range(count)
        for partition in range(count):
            it = told.get(partition)
            leader.append(NO_LEADER if it is None else it.leader_id)
            leader_epoch.append(-1 if it is None else it.leader_epoch)
            replicas.append(() if it is None else tuple(it.replica_nodes))
            in_sync.append(() if it is None else tuple(it.isr_nodes))
    return Topology(
        cluster_id=answer.cluster_id or "",
        brokers={broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers},
        topics=tuple(topics),
        first_row=first_row,
        topic=np.asarray(topic_index, dtype=np.int32),
        partition=np.asarray(partition_index, dtype=np.int32),
        leader=np.asarray(leader, dtype=np.int32),
        leader_epoch=np.asarray(leader_epoch, dtype=np.int32),
        replicas=_replicas(replicas),
        in_sync=_replicas(in_sync),
        topic_errors=topic_errors,
    )
