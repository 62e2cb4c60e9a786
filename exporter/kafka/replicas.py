"""Asking followers about transactions that the leader shows open.

A leader can lose a marker that its followers have: a log restored from a backup, or compaction that raced replication.
Then an abort would hide records that were committed. A follower that is merely behind has not seen the open records yet,
and says nothing against the leader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin.transactions import DescribeProducersRequest

from exporter.kafka.errors import BrokerFault, ErrorCode
from exporter.kafka.inquiry import Inquiry
from exporter.kafka.topology import Topology

PARTITIONS_MAX = 100
"""Partitions that are looked at in one cycle: suspects are few, and a follower's answer holds all of its producers."""

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAtLeader:
    """One open transaction as the leader shows it."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    start_offset: int


async def diverged_replicas(
    inquiry: Inquiry, topology: Topology, transactions: Collection[OpenAtLeader]
) -> Mapping[OpenAtLeader, tuple[int, ...]]:
    """Each transaction that followers have seen end -> those followers. A follower that does not answer says nothing."""
    partitions = list(dict.fromkeys(it.partition for it in transactions))[:PARTITIONS_MAX]
    by_follower: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition in partitions:
        for follower in _followers(topology, partition):
            by_follower[follower].append(partition)
    answers = dict(
        zip(by_follower, await inquiry.gather(_ask(inquiry, f, asked) for f, asked in by_follower.items()), strict=True)
    )
    found = {
        it: tuple(follower for follower, told in answers.items() if has_ended(it, told.get(it.partition)))
        for it in transactions
    }
    return {it: followers for it, followers in found.items() if followers}


def _followers(topology: Topology, partition: TopicPartition) -> tuple[int, ...]:
    row = topology.row(*partition)
    if row is None:
        return ()
    return tuple(broker for broker in topology.replicas.of(row) if broker != topology.leader[row])


def has_ended(at_leader: OpenAtLeader, producers: Mapping[int, tuple[int, int, int]] | None) -> bool:
    """True when a follower has all that the leader has of this transaction, and its end.

    `producers` are the follower's entries of that partition: producer id -> (epoch, last sequence, start offset or -1).
    """
    if producers is None or at_leader.producer_id not in producers:
        return False
    epoch, last_sequence, start_offset = producers[at_leader.producer_id]
    if start_offset == at_leader.start_offset:
        return False
    # A marker of TransactionVersion 2 bumps the epoch, and the sequence starts anew.
    return epoch > at_leader.producer_epoch or (
        epoch == at_leader.producer_epoch and last_sequence >= at_leader.last_sequence
    )


Producers = dict[TopicPartition, dict[int, tuple[int, int, int]]]


async def _ask(inquiry: Inquiry, follower: int, partitions: Iterable[TopicPartition]) -> Producers:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    request = DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic.items()
        ]
    )
    try:
        return await inquiry.ask(follower, "DescribeProducers", request, _producers)
    except BrokerFault:
        return {}


def _producers(answer: Any) -> Producers:
    return {
        (topic.name, partition.partition_index): {
            row.producer_id: (row.producer_epoch, row.last_sequence, row.current_txn_start_offset)
            for row in partition.active_producers
        }
        for topic in answer.topics
        for partition in topic.partitions
        if partition.error_code == ErrorCode.NONE
    }
