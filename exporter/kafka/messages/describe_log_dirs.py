"""DescribeLogDirs (API key 35): the request about some partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from kafka.protocol.admin.cluster import DescribeLogDirsRequest

from exporter.snapshot import TopicPartition


def request(partitions: Collection[TopicPartition]) -> Any:
    """Requests the sizes of these partitions; a response has all log directories, and of replicas only these."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    of_topic = DescribeLogDirsRequest.DescribableLogDirTopic
    topics = [of_topic(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()]
    return DescribeLogDirsRequest(topics=topics, min_version=1)
