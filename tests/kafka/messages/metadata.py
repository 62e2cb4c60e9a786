"""Encodes Metadata responses by kafka-python, and reads decoded ones as plain rows."""

from __future__ import annotations

from collections.abc import Mapping

from kafka.protocol.metadata import MetadataResponse

from exporter.kafka.messages import metadata
from exporter.kafka.messages.metadata import MetadataColumns
from exporter.kafka.messages.versions import METADATA

VERSION = METADATA.highest
Topics = list[tuple[str, int, list[tuple[int, int, int, list[int], list[int], list[int]]]]]
"""(name, error, partitions as (index, leader, leader epoch, replicas, in sync, offline))."""


def columns(answer: MetadataColumns) -> Topics:
    """The same, from the columns of a response, without offline replicas, which the exporter does not read."""
    partitions = []
    replicas, in_sync = iter(answer.replicas.tolist()), iter(answer.in_sync.tolist())
    for row in range(len(answer.partition)):
        lists = [
            [next(brokers) for _ in range(int(count[row]))]
            for brokers, count in ((replicas, answer.replica_count), (in_sync, answer.in_sync_count))
        ]
        numbers = (int(answer.partition[row]), int(answer.leader[row]), int(answer.leader_epoch[row]))
        partitions.append((*numbers, *lists, []))
    left = iter(partitions)
    return [
        (name, error, [next(left) for _ in range(count)])  # type: ignore[misc]  # lists of three kinds
        for name, error, count in zip(answer.topics, answer.topic_errors, answer.partitions, strict=True)
    ]


Leaders = dict[int, tuple[int, int]]
"""Partition -> (leader, leader epoch)."""


def answer(topics: Mapping[str, Leaders], *, errors: dict[str, int] | None = None, brokers: int = 2) -> MetadataColumns:
    """A Metadata response as on the wire: encoded by kafka-python and decoded by the exporter."""
    return metadata.decode(memoryview(body(topics, errors=errors, brokers=brokers)))


def body(topics: Mapping[str, Leaders], *, errors: dict[str, int] | None = None, brokers: int = 2) -> bytes:
    """A broker's response, as kafka-python encodes it."""
    topic_type = MetadataResponse.MetadataResponseTopic
    partition_type = topic_type.MetadataResponsePartition
    encoded = MetadataResponse(
        version=VERSION,
        cluster_id="c",
        controller_id=1,
        brokers=[
            MetadataResponse.MetadataResponseBroker(version=VERSION, node_id=i, host=f"host-{i}", port=9092 + i)
            for i in range(brokers)
        ],
        topics=[
            topic_type(
                version=VERSION,
                name=name,
                error_code=(errors or {}).get(name, 0),
                partitions=[
                    partition_type(
                        version=VERSION,
                        partition_index=i,
                        leader_id=leader,
                        leader_epoch=epoch,
                        replica_nodes=replicas_of(i),
                        isr_nodes=replicas_of(i)[1:],
                    )
                    for i, (leader, epoch) in leaders.items()
                ],
            )
            for name, leaders in topics.items()
        ],
    ).encode()
    return bytes(encoded)


def replicas_of(partition: int) -> list[int]:
    """Made up, of differing length."""
    return list(range(1 + partition % 3))
