"""Consumer groups of the tests: where they stand, as their consumers would have committed it."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.brokers.cluster import KafkaCluster


def commit(cluster: KafkaCluster, group: str, topic: str, offset: int) -> None:
    """Commit `offset` on partition 0 for a group, as its consumer would."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


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
            assert error.code() == KafkaError._PARTITION_EOF
            break
    consumer.commit(asynchronous=False)
    consumer.close()
