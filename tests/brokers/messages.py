"""Reads all messages of some partitions, or of the transaction log, from the beginning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from exporter.snapshot import STATE_TOPIC
from exporter.transaction_log.events import Event, Happening, Outcome, StateMachine
from exporter.transaction_log.records import Decoded, decode
from hangbench.kafka.cluster import KafkaCluster

STATE_PARTITIONS: Final = 5  # as tests/brokers/cluster.py has it
PATIENCE_S: Final = 60


@dataclass(frozen=True, slots=True)
class Logged:
    """One record of `__transaction_state`."""

    partition: int
    offset: int
    timestamp_ms: int
    decoded: Decoded


def read_messages(bootstrap: str, topic: str, partitions: Collection[int]) -> list[Message]:
    """All that is there now for a read_committed consumer, in order within each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[Message] = []
    ended: set[int | None] = set()
    try:
        while len(ended) < len(partitions):
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            if message.error():
                ended.add(message.partition())
            else:
                found.append(message)
    finally:
        consumer.close()
    return found


def read_log(bootstrap: str) -> list[Logged]:
    """Every record of `__transaction_state` that is there now, partition by partition."""
    found = []
    for message in read_messages(bootstrap, STATE_TOPIC, range(STATE_PARTITIONS)):
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        decoded = decode(_bytes(message.key()), _bytes(message.value()))
        found.append(Logged(partition, offset, message.timestamp()[1], decoded))
    return sorted(found, key=lambda it: (it.partition, it.offset))


def events(logged: Iterable[Logged]) -> Iterator[Event]:
    """What happened, partition by partition."""
    machines: dict[int, StateMachine] = {}
    for it in logged:
        yield from machines.setdefault(it.partition, StateMachine()).take(it.decoded, it.timestamp_ms)


def completed(logged: Iterable[Logged], transactional_ids: Collection[str]) -> Counter[Outcome]:
    """How many transactions of these ids the log tells of as completed, by outcome."""
    return Counter(
        event.outcome
        for event in events(logged)
        if event.happening is Happening.COMPLETED
        and event.outcome is not None
        and event.transactional_id in transactional_ids
    )


def _bytes(data: str | bytes | None) -> bytes | None:
    assert not isinstance(data, str)
    return data


def committed_records(cluster: KafkaCluster, topic: str, until_offset: int, from_offset: int = 0) -> list[int]:
    """Offsets that a read_committed consumer of partition 0 sees, when it has come as far as it may."""
    offsets = [message.offset() for message in read_messages(cluster.bootstrap, topic, [0])]
    return [offset for offset in offsets if offset is not None and from_offset <= offset <= until_offset]
