"""Reads offsets of single partitions (ListOffsets, API key 2): high watermark, last stable offset, offset of a time."""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason, error_name
from exporter.kafka.messages import list_offsets
from exporter.kafka.messages.list_offsets import OffsetColumns
from exporter.kafka.messages.raw_request import RawResponse
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, UNKNOWN_OFFSET, BoolColumn, Int32Column, Int64Column, TopicPartition

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
LOG_START = -2
"""Timestamp that requests the log's first offset."""
LATEST = -1
"""Timestamp that requests the offset of the next record."""
_REQUEST_PARTITIONS_MAX = 2000
_COLUMNS_PARTITIONS_MAX = 5000
"""Partitions of a request whose response is read as columns: 130 kB."""

Key = TypeVar("Key")
Ends = Mapping[TopicPartition, tuple[int, int]]
"""(last stable offset, high watermark) of each partition."""
Results = tuple[dict[TopicPartition, int], dict[TopicPartition, BrokerFault]]
"""(offsets, failures): each partition is in one of them. An offset is -1 where there is no such record."""


async def latest_offsets(client: ClusterClient, leaders: dict[TopicPartition, int]) -> Ends:
    """The ends of each partition, from its leader; UNKNOWN_OFFSET without a response.

    A partition whose leader is NO_LEADER costs no request.

    The LSO is requested first: the lag between them can only be overstated, never negative.
    """
    partitions = by_leader(leaders)
    offsets: dict[TopicPartition, tuple[int, int]] = dict.fromkeys(leaders, (UNKNOWN_OFFSET, UNKNOWN_OFFSET))

    async def ask_broker(broker: int) -> None:
        mine = partitions[broker]
        for start in range(0, len(mine), _REQUEST_PARTITIONS_MAX):
            chunk = mine[start : start + _REQUEST_PARTITIONS_MAX]
            stable, _ = await _ask(client, broker, chunk, READ_COMMITTED)
            latest, _ = await _ask(client, broker, chunk, READ_UNCOMMITTED)
            offsets.update({key: (stable[key], latest[key]) for key in chunk if key in stable and key in latest})

    await client.gather(ask_broker(broker) for broker in partitions)
    return offsets


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """The ends of partitions (R), from their leaders: UNKNOWN_OFFSET in both without two responses of one leader epoch."""

    stable: Int64Column
    """(R,) last stable offset."""
    high_watermark: Int64Column
    leader_epoch: Int32Column
    """(R,) leader epoch of the responses, -1 if the broker does not say."""

    @property
    def is_known(self) -> BoolColumn:
        """(R,) true where the leader responded."""
        known: BoolColumn = self.stable != UNKNOWN_OFFSET
        return known

    def those(self, rows: BoolColumn | Int64Column) -> PartitionEnds:
        """Returns the ends of these rows."""
        return PartitionEnds(self.stable[rows], self.high_watermark[rows], self.leader_epoch[rows])


async def ends_of_rows(
    client: ClusterClient, topology: Topology, rows: Int64Column, leader: Int32Column
) -> PartitionEnds:
    """The ends of `rows` of the topology, ascending, each from its `leader` (P,); the last stable offset comes first."""
    ends = np.full((2, len(topology)), UNKNOWN_OFFSET, dtype=np.int64)
    epochs = np.full((2, len(topology)), -1, dtype=np.int32)

    async def ask_broker(broker: int) -> None:
        mine = rows[leader[rows] == broker]
        is_mine = np.zeros(len(topology), dtype=np.bool_)
        is_mine[mine] = True
        for start in range(0, len(mine), _COLUMNS_PARTITIONS_MAX):
            by_topic = topology.by_topic(mine[start : start + _COLUMNS_PARTITIONS_MAX])
            decode = _Decoder()
            for place, level in enumerate((READ_COMMITTED, READ_UNCOMMITTED)):
                request = list_offsets.request(by_topic, level, LATEST)
                try:
                    answer = await client.request(broker, "ListOffsets", request, decode)
                except BrokerFault:
                    return
                row = topology.rows_named(answer.topics, answer.topic, answer.partition)
                is_good = (answer.error == int(ErrorCode.NONE)) & (row >= 0) & is_mine[row]
                ends[place, row[is_good]], epochs[place, row[is_good]] = (
                    answer.offset[is_good],
                    answer.leader_epoch[is_good],
                )

    await client.gather(ask_broker(broker) for broker in sorted(set(leader[rows].tolist()) - {NO_LEADER}))
    (stable, high), (epoch, later) = ends[:, rows], epochs[:, rows]
    is_whole = (stable >= 0) & (high >= 0) & (epoch == later)
    unknown = np.int64(UNKNOWN_OFFSET)
    return PartitionEnds(np.where(is_whole, stable, unknown), np.where(is_whole, high, unknown), epoch)


class _Decoder:
    """Decodes a response, unless it is the same as the one before: where nothing is open, both ends are equal."""

    def __init__(self) -> None:
        self._last: tuple[bytes, OffsetColumns] | None = None

    def __call__(self, answer: RawResponse) -> OffsetColumns:
        if self._last is None or self._last[0] != answer.body:
            self._last = answer.body.tobytes(), list_offsets.decode_columns(answer.body)
        return self._last[1]


async def offset_at_time(
    client: ClusterClient, leader: int, partition: TopicPartition, timestamp_ms: int
) -> int | None:
    """Returns the first offset with that timestamp or a later one, or LOG_START; None without one. Raises BrokerFault."""
    found, failures = await _ask(client, leader, [partition], READ_UNCOMMITTED, timestamp_ms)
    if failures:
        raise failures[partition]
    return None if found[partition] < 0 else found[partition]


async def offsets_at(client: ClusterClient, leaders: Mapping[TopicPartition, int], timestamp_ms: int) -> Results:
    """Returns the offset of the first record with that timestamp or a later one, or of LOG_START, or of LATEST."""
    parts = await client.gather(
        _ask(client, leader, mine, READ_UNCOMMITTED, timestamp_ms) for leader, mine in by_leader(leaders).items()
    )
    return dict(ChainMap(*(found for found, _ in parts))), dict(ChainMap(*(failures for _, failures in parts)))


def by_leader(leaders: Mapping[Key, int]) -> dict[int, list[Key]]:
    """Leader -> its partitions."""
    partitions: dict[int, list[Key]] = defaultdict(list)
    for partition, leader in leaders.items():
        partitions[leader].append(partition)
    return partitions


async def _ask(
    client: ClusterClient,
    leader: int,
    partitions: Collection[TopicPartition],
    isolation_level: int,
    timestamp_ms: int = LATEST,
) -> Results:
    if leader == NO_LEADER:
        return {}, dict.fromkeys(partitions, BrokerFault(FaultReason.REFUSED, "it has no leader"))
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    request = list_offsets.request(by_topic, isolation_level, timestamp_ms)
    try:
        offsets = await client.request(leader, "ListOffsets", request, lambda answer: list_offsets.decode(answer.body))
    except BrokerFault as fault:
        return {}, dict.fromkeys(partitions, fault)
    found: dict[TopicPartition, int] = {}
    failures: dict[TopicPartition, BrokerFault] = {}
    for name in partitions:
        code, offset = offsets.get(name, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1))
        if code == ErrorCode.NONE:
            found[name] = offset
        else:
            sentence = f"broker {leader} responded with {error_name(code)} to ListOffsets"
            failures[name] = BrokerFault(FaultReason.REFUSED, sentence)
    return found, failures
