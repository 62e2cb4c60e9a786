"""Reads offsets of single partitions (ListOffsets, API key 2): high watermark, last stable offset, offset of a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason, error_name
from exporter.kafka.messages import list_offsets
from exporter.kafka.messages.raw_request import RawRequest, RawResponse
from exporter.snapshot import NO_LEADER, UNKNOWN_OFFSET, TopicPartition

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
LOG_START = -2
"""Timestamp that requests the log's first offset."""
LATEST = -1
"""Timestamp that requests the offset of the next record."""
_REQUEST_PARTITIONS_MAX = 2000


async def latest_offsets(
    client: ClusterClient, leaders: dict[TopicPartition, int]
) -> dict[TopicPartition, tuple[int, int]]:
    """(last stable offset, high watermark) of each partition, from its leader; UNKNOWN_OFFSET without a response.

    A partition whose leader is NO_LEADER costs no request.

    The LSO is requested first: the lag between them can only be overstated, never negative.
    """
    by_broker = _by_broker(leaders)
    offsets: dict[TopicPartition, tuple[int, int]] = dict.fromkeys(leaders, (UNKNOWN_OFFSET, UNKNOWN_OFFSET))

    async def ask_broker(broker: int) -> None:
        mine = by_broker[broker]
        for start in range(0, len(mine), _REQUEST_PARTITIONS_MAX):
            chunk = mine[start : start + _REQUEST_PARTITIONS_MAX]
            stable = await _ask(client, broker, chunk, READ_COMMITTED)
            latest = await _ask(client, broker, chunk, READ_UNCOMMITTED)
            offsets.update({key: (stable[key], latest[key]) for key in chunk if key in stable and key in latest})

    await client.gather(ask_broker(broker) for broker in by_broker if broker != NO_LEADER)
    return offsets


async def offset_at_time(
    client: ClusterClient, leader: int, partition: TopicPartition, timestamp_ms: int
) -> int | None:
    """Returns the first offset with that timestamp or a later one, or LOG_START; None without one. Raises BrokerFault."""
    found, failures = await offsets_at(client, {partition: leader}, timestamp_ms)
    if failures:
        raise failures[partition]
    return None if found[partition] < 0 else found[partition]


async def offsets_at(
    client: ClusterClient, leaders: Mapping[TopicPartition, int], timestamp_ms: int
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, BrokerFault]]:
    """(offset, failure) by partition: of the first record with that timestamp or a later one, or LOG_START, or LATEST.

    The offset is -1 where there is no such record. Each partition has an offset or a failure.
    """
    found: dict[TopicPartition, int] = {}
    failures: dict[TopicPartition, BrokerFault] = {}

    async def ask(leader: int, mine: list[TopicPartition]) -> None:
        if leader == NO_LEADER:
            failures.update(dict.fromkeys(mine, BrokerFault(FaultReason.REFUSED, "it has no leader")))
            return
        request = _request(mine, READ_UNCOMMITTED, timestamp_ms)
        try:
            offsets = await client.request(
                leader, "ListOffsets", request, lambda answer: list_offsets.decode(answer.body)
            )
        except BrokerFault as fault:
            failures.update(dict.fromkeys(mine, fault))
            return
        for partition in mine:
            code, offset = offsets.get(partition, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1))
            if code == ErrorCode.NONE:
                found[partition] = offset
            else:
                sentence = f"broker {leader} responded with {error_name(code)} to ListOffsets"
                failures[partition] = BrokerFault(FaultReason.REFUSED, sentence)

    await client.gather(ask(leader, mine) for leader, mine in _by_broker(leaders).items())
    return found, failures


def _by_broker(leaders: Mapping[TopicPartition, int]) -> Mapping[int, list[TopicPartition]]:
    partitions: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition, leader in leaders.items():
        partitions[leader].append(partition)
    return partitions


async def _ask(
    client: ClusterClient, broker: int, partitions: Iterable[TopicPartition], isolation_level: int
) -> dict[TopicPartition, int]:
    try:
        return await client.request(broker, "ListOffsets", _request(partitions, isolation_level), _at_end)
    except BrokerFault:
        return {}


def _at_end(answer: RawResponse) -> dict[TopicPartition, int]:
    return {
        partition: offset
        for partition, (code, offset) in list_offsets.decode(answer.body).items()
        if code == ErrorCode.NONE
    }


def _request(partitions: Iterable[TopicPartition], isolation_level: int, timestamp_ms: int = LATEST) -> RawRequest:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    return list_offsets.request(by_topic, isolation_level, timestamp_ms)
