"""The truth that is written down is held against the brokers' own words."""

from __future__ import annotations

from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import PlantedTransaction, plant_hang
from hangbench.situations import ground
from hangbench.situations.steps import Client
from hangbench.situations.words import Expected, Truth
from tests.conftest import FreshName, MakeTopic


def test_a_wrong_truth_is_noticed(kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """What is written down of a live and of a hanging transaction must be what the brokers say."""
    bootstrap, topic = kafka_4_3_1.bootstrap, make_topic(kafka_4_3_1, partitions=3)
    client = Client.begin(bootstrap, fresh_name("live"))
    live = client.open(topic, 0)
    hang = plant_hang(bootstrap, topic, 1, fresh_name("hang"))

    def contradicted(transaction: PlantedTransaction, truth: Truth) -> bool:
        expected = Expected(
            key=(topic, transaction.partition, transaction.producer_id),
            truth=truth,
            producer_epoch=transaction.producer_epoch,
            transactional_id=transaction.transactional_id,
        )
        return ground.contradiction(bootstrap, expected) is not None

    assert {truth for truth in Truth if not contradicted(live, truth)} == {Truth.LIVE}
    assert {truth for truth in Truth if not contradicted(hang, truth)} == {Truth.HANGING}
    client.end(commit=False)
    ground.until_closed(bootstrap, topic, 0)
    assert {truth for truth in Truth if not contradicted(live, truth)} == {Truth.CLOSED}
