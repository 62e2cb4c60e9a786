"""Consumer groups of each type: where they stand, as their consumers would have committed it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from kafka.protocol.consumer.group import OffsetCommitRequest, OffsetCommitResponse

from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.process import JavaProcess
from hangbench.kafka.wire import open_wire
from hangbench.waiting import until

END_OF_PARTITION: Final = KafkaError._PARTITION_EOF  # noqa: SLF001 - so it is documented
_NOT_YET: Final = frozenset(
    {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
)


def commit(cluster: KafkaCluster, group: str, topic: str, offset: int) -> None:
    """Commit `offset` on partition 0 for a group, as its consumer would."""
    commit_all(cluster.bootstrap, group, {(topic, 0): offset})


def commit_all(bootstrap: str, group: str, positions: Mapping[tuple[str, int], int]) -> None:
    """Commit an offset on each of these partitions for a group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    offsets = [TopicPartition(*place, offset) for place, offset in positions.items()]
    commit_when_ready(consumer, offsets=offsets)
    consumer.close()


def commit_when_ready(consumer: Consumer, **what: Any) -> None:
    """Commits once the group's coordinator is there and has loaded the group. `what` is as for `Consumer.commit`."""

    def is_committed() -> bool:
        try:
            consumer.commit(asynchronous=False, **what)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET:
                raise
            return False
        return True

    until(is_committed)


def read_to_the_end(cluster: KafkaCluster, group: str, topic: str, isolation: str) -> None:
    """Read until the broker has nothing more for this isolation level, and commit as librdkafka does."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    while True:
        message = consumer.poll(20)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.code() == END_OF_PARTITION
            break
    commit_when_ready(consumer)
    consumer.close()


@contextmanager
def joined_with_the_new_protocol(cluster: KafkaCluster, group: str, topic: str) -> Iterator[None]:
    """A member of a group of KIP-848 that has read partition 0 as far as committed records go, and has committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    until(lambda: consumer.poll(1), lambda message: message and message.error() and message.partition() == 0)
    commit_when_ready(consumer)
    yield
    consumer.close()


@contextmanager
def share_consumer(cluster: KafkaCluster, group: str, topic: str, isolation: str) -> Iterator[None]:
    """A share group with one consumer of Kafka's own, which acknowledges everything."""
    address, (node, *_) = cluster.bootstrap, cluster.brokers
    config = f"share.isolation.level={isolation},share.auto.offset.reset=earliest"
    which = ("--entity-type", "groups", "--entity-name", group)
    cluster.tool("kafka.admin.ConfigCommand", "--bootstrap-server", address, "--alter", *which, "--add-config", config)
    command = cluster.tool_command(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--bootstrap-server", address, "--topic", topic, "--group", group),
    )
    process = JavaProcess(command, node.directory, node.directory / f"{group}.log")
    try:
        yield
    finally:
        process.kill()


def share_lag(cluster: KafkaCluster, group: str, topic: str) -> int | None:
    """The records of partition 0 that a share group has not acknowledged; None until it has begun."""
    printed = cluster.tool(
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        *("--bootstrap-server", cluster.bootstrap, "--describe", "--offsets", "--group", group),
    )
    heading, *rows = [line.split() for line in printed.splitlines() if line.strip()] or [[]]
    lags = (row[heading.index("LAG")] for row in rows if row[:3] == [group, topic, "0"])
    return next((int(lag) for lag in lags if lag.isdigit()), None)


MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
STREAMS_GROUP_HEARTBEAT: Final = 88
HEARTBEAT_TIMEOUT_S: Final = 60


def streams_group(cluster: KafkaCluster, group: str, topic: str, offset: int) -> None:
    """A group of KIP-1071 with one member, which joins by StreamsGroupHeartbeat and commits `offset` on partition 0."""
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    place = of_topic.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
    )
    commit(cluster, f"{group}-before", topic, 0)  # the broker makes `__consumer_offsets` for the first client that asks

    def attempt() -> int:
        with open_wire(cluster.bootstrap) as wire:
            wire.timeout(HEARTBEAT_TIMEOUT_S)
            wire.ask_in_bytes(STREAMS_GROUP_HEARTBEAT, 0, _joining(group, topic))
            answer = wire.ask(
                OffsetCommitRequest,
                OffsetCommitResponse,
                version_cap=9,
                group_id=group,
                generation_id_or_member_epoch=1,
                member_id=MEMBER,
                group_instance_id=None,
                topics=[of_topic(name=topic, partitions=[place])],
            )
        code: int = answer.topics[0].partitions[0].error_code
        return code

    until(attempt, lambda code: code == 0)


def _joining(group: str, topic: str) -> bytes:
    """The body of StreamsGroupHeartbeat, version 0, of a new member whose only task reads the topic."""

    def text(words: str) -> bytes:
        return bytes([len(words) + 1]) + words.encode()  # lengths below 127 only

    def array(*items: bytes) -> bytes:
        return bytes([len(items) + 1]) + b"".join(items)

    null, end = b"\0", b"\0"
    subtopology = text("0") + array(text(topic)) + 5 * array() + end
    topology = b"\1" + struct.pack(">i", 0) + array(subtopology) + end
    member = [text(group), text(MEMBER), struct.pack(">ii", 0, 0), null, null, struct.pack(">i", 30_000), topology]
    tasks, no_endpoint, not_shut_down = 3 * array(), b"\xff", b"\0"
    return b"".join([*member, tasks, text("process"), no_endpoint, array(), null, null, not_shut_down, end])
