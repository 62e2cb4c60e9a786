"""A broker's quota for this client: the audit waits as long as the broker says, and everybody names the reason."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from exporter.audit.reading import RangeResult, connected, list_partitions, ranges_of, read_ranges
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.log_reader import read_piece
from exporter.kafka.collect.topic_filter import NO_FILTER
from exporter.kafka.errors import BrokerFault
from hangbench.kafka.cluster import KafkaCluster
from tests.marks import starts
from tests.pipeline.log_records import PATIENCE_S, settings_of

RECORDS, RECORD_BYTES = 60, 10_000
ATTEMPTS_MAX = 100
QUOTA = 100_000
"""Bytes a second; the brokers measure over three seconds, and let that much be read at once."""


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
@starts("broker")
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    with KafkaCluster(request.param, properties={"quota.window.num": 3}) as made:
        made.topics.create("orders", partitions=1)
        producer = Producer({"bootstrap.servers": made.bootstrap, "transactional.id": "worker", "batch.size": 16_384})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        for _ in range(RECORDS):
            producer.produce("orders", os.urandom(RECORD_BYTES))
        producer.commit_transaction(PATIENCE_S)
        made.tool(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", made.bootstrap, "--alter", "--add-config", f"consumer_byte_rate={QUOTA}"),
            *("--entity-type", "clients", "--entity-name", "kafka-transaction-exporter-audit"),
        )
        yield made


def test_an_audit_reads_everything_within_its_quota(cluster: KafkaCluster) -> None:
    """A client over its quota gets a response without any partition, and nothing more until it has waited."""
    kafka = settings_of(cluster.bootstrap)
    ends = list_partitions(kafka, NO_FILTER).ends["orders", 0]

    *transactions, result = read_ranges(kafka, ranges_of(("orders", 0), ends, 0))

    assert isinstance(result, RangeResult)
    assert (result.failure, result.log.next_offset) == (None, RECORDS + 1)
    assert [each.records for each in transactions if not isinstance(each, RangeResult)] == [RECORDS]


def test_a_reader_that_does_not_wait_says_why(cluster: KafkaCluster) -> None:
    """Readers of a cycle leave it to a later one; the connection is the same afterwards."""

    async def responses(client: ClusterClient) -> list[str]:
        leader, _ = (await client.topology()).leader_of("orders", 0)
        said: list[str] = []
        for _ in range(ATTEMPTS_MAX):
            try:
                await read_piece(client, leader, ("orders", 0), 0, lambda _: None)
                said.append("")
                if len(set(said)) > 1:
                    break
            except BrokerFault as fault:
                said.append(f"{fault.reason.value}: {fault}")
        return said

    with connected(settings_of(cluster.bootstrap)) as run:
        said = run(responses)

    assert set(said) == {
        "",
        "timed_out: broker 1 throttles this client: the quota of its kafka.client.id, or of its user, is used up",
    }
