"""Offsets of single partitions: ListOffsets (API key 2) for the high watermark, the last stable offset, and a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from kafka.protocol.consumer.offsets import ListOffsetsRequest

from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason, error_name
from exporter.kafka.inquiry import Inquiry
from exporter.snapshot import UNKNOWN_OFFSET

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
_LATEST = -1
_REQUEST_PARTITIONS_MAX = 2000

TopicPartition = tuple[str, int]


async def latest_offsets(inquiry: Inquiry, leaders: dict[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
    """(last stable offset, high watermark) of each partition, asked of its leader; UNKNOWN_OFFSET where it did not tell.

    The LSO is asked for first: the lag between them can only be overstated, never negative.
    """
    by_broker: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition, broker in leaders.items():
        by_broker[broker].append(partition)
    offsets: dict[TopicPartition, tuple[int, int]] = dict.fromkeys(leaders, (UNKNOWN_OFFSET, UNKNOWN_OFFSET))

    async def ask_broker(broker: int) -> None:
        mine = by_broker[broker]
        for start in range(0, len(mine), _REQUEST_PARTITIONS_MAX):
            chunk = mine[start : start + _REQUEST_PARTITIONS_MAX]
            stable = await _ask(inquiry, broker, chunk, READ_COMMITTED)
            latest = await _ask(inquiry, broker, chunk, READ_UNCOMMITTED)
            offsets.update({key: (stable[key], latest[key]) for key in chunk if key in stable and key in latest})

    await inquiry.gather(ask_broker(broker) for broker in by_broker)
    return offsets


async def offset_at_time(inquiry: Inquiry, leader: int, partition: TopicPartition, timestamp_ms: int) -> int | None:
    """The first offset with that timestamp or a later one; None when there is none. Raises BrokerFault."""
    request = _request([partition], READ_UNCOMMITTED, timestamp_ms)
    told = await inquiry.ask(leader, "ListOffsets", request, lambda answer: _rows(answer).get(partition))
    code, offset = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1) if told is None else told
    if code != ErrorCode.NONE:
        raise BrokerFault(FaultReason.REFUSED, f"broker {leader} answers {error_name(code)}")
    return None if offset < 0 else offset


async def _ask(
    inquiry: Inquiry, broker: int, partitions: Iterable[TopicPartition], isolation_level: int
) -> dict[TopicPartition, int]:
    try:
        return await inquiry.ask(broker, "ListOffsets", _request(partitions, isolation_level), _offsets)
    except BrokerFault:
        return {}


def _offsets(answer: Any) -> dict[TopicPartition, int]:
    return {partition: offset for partition, (code, offset) in _rows(answer).items() if code == ErrorCode.NONE}


def _rows(answer: Any) -> dict[TopicPartition, tuple[int, int]]:
    """(error code, offset) of each partition."""
    return {
        (topic.name, row.partition_index): (row.error_code, row.offset)
        for topic in answer.topics
        for row in topic.partitions
    }


def _request(partitions: Iterable[TopicPartition], isolation_level: int, timestamp_ms: int = _LATEST) -> Any:
    topic_type = ListOffsetsRequest.ListOffsetsTopic
    partition_type = topic_type.ListOffsetsPartition
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    topics = [
        topic_type(
            name=topic,
            partitions=[
                partition_type(partition_index=index, current_leader_epoch=-1, timestamp=timestamp_ms)
                for index in indexes
            ],
        )
        for topic, indexes in by_topic.items()
    ]
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=0, min_version=2
    )
