"""OffsetFetch (API key 9, KIP-709): the request about many groups, and the committed offsets in its response."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from kafka.protocol.consumer.group import OffsetFetchRequest

from exporter.kafka.errors import ErrorCode
from exporter.snapshot import GroupOffset, TopicPartition

_NO_OFFSET = -1


def request(
    groups: Iterable[str], partitions: Collection[TopicPartition] | None, *, require_stable: bool = False
) -> Any:
    """Requests the committed offsets of these groups on these partitions; None: on all where they have committed.

    `require_stable`: an error in place of an offset that is pending in a transaction (KIP-447).
    """
    group_type = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = None if partitions is None else _topics(partitions)
    return OffsetFetchRequest(
        groups=[group_type(group_id=group, topics=topics) for group in groups],
        require_stable=require_stable,
        min_version=8,
        max_version=9,  # 10 names topics by id
    )


def _topics(partitions: Collection[TopicPartition]) -> list[Any]:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    of_topic = OffsetFetchRequest.OffsetFetchRequestGroup.OffsetFetchRequestTopics
    return [of_topic(name=topic, partition_indexes=indexes) for topic, indexes in by_topic.items()]


def decode_one(answer: Any) -> tuple[int, dict[TopicPartition, int]]:
    """(Kafka error code, committed offset by partition) of the only group."""
    (group,) = answer.groups
    return group.error_code, {
        (topic.name, row.partition_index): row.committed_offset
        for topic in group.topics
        for row in topic.partitions
        if row.error_code == ErrorCode.NONE and row.committed_offset != _NO_OFFSET
    }


def decode_pending(answer: Any) -> tuple[int, list[str]]:
    """(the Kafka error code of a group, groups with an offset that is pending in a transaction)."""
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    pending = [
        group.group_id
        for group in answer.groups
        if any(row.error_code == unstable for topic in group.topics for row in topic.partitions)
    ]
    return next((group.error_code for group in answer.groups if group.error_code), ErrorCode.NONE), pending


def decode(partitions: Collection[TopicPartition], answer: Any) -> list[GroupOffset]:
    """The offsets on these partitions, without errors and groups that have committed none."""
    return [
        GroupOffset(group=group.group_id, topic=topic.name, partition=row.partition_index, offset=row.committed_offset)
        for group in answer.groups
        if group.error_code == ErrorCode.NONE
        for topic in group.topics
        for row in topic.partitions
        if row.error_code == ErrorCode.NONE
        and row.committed_offset != _NO_OFFSET
        and (topic.name, row.partition_index) in partitions
    ]
