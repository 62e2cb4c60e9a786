"""Kafka's own tool is the oracle where it is right: what is open, on every partition."""

from __future__ import annotations

from collections.abc import Iterator

from examples.workload.producers import OpenTransaction, run_transaction
from exporter.evaluation.evaluate import all_rows
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import plant_hang, plant_producers
from tests.conftest import FreshName, MakeTopic
from tests.watching import Watch

TOOL = "org.apache.kafka.tools.TransactionsCommand"

OpenSet = set[tuple[int, int, int]]
"""(partition, producer id, start offset)."""


def open_by_the_java_tool(cluster: KafkaCluster, topic: str, partitions: int) -> OpenSet:
    """The open transactions of `kafka-transactions.sh describe-producers`."""
    found: OpenSet = set()
    for partition in range(partitions):
        printed = cluster.tool(
            TOOL,
            *("--bootstrap-server", cluster.bootstrap),
            *("describe-producers", "--topic", topic, "--partition", str(partition)),
        )
        found |= {(partition, producer_id, start) for producer_id, start in open_rows(printed)}
    return found


def open_rows(printed: str) -> Iterator[tuple[int, int]]:
    """(producer id, start offset) of the tool's table; it prints None where nothing is open."""
    heading, *rows = [line.split() for line in printed.splitlines() if line.strip()]
    producer_id, start = heading.index("ProducerId"), heading.index("CurrentTransactionStartOffset")
    for row in rows:
        if row[start] != "None":
            yield int(row[producer_id]), int(row[start])


def test_the_set_of_open_transactions_equals_the_java_tool_s(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """On a topic with live, finished, idle and hanging producers, both tools see the same open transactions."""
    partitions = 3
    topic = make_topic(broker, partitions=partitions)
    run_transaction(broker.bootstrap, fresh_name("done"), [(topic, 0)], records=5)
    plant_producers(broker.bootstrap, topic, range(partitions), range(8_200_000_000, 8_200_000_020))
    plant_producers(broker.bootstrap, topic, [0, 2], range(8_300_000_000, 8_300_000_005), open_transactions=True)
    plant_hang(broker.bootstrap, topic, 1, fresh_name("hang"))

    with Watch(broker.bootstrap) as watch, OpenTransaction(broker.bootstrap, fresh_name("live"), [(topic, 1)]):
        java = open_by_the_java_tool(broker, topic, partitions)
        ours = {
            (row.partition, row.producer_id, row.start_offset)
            for row in all_rows(watch.cycle(describe_all=True))
            if row.topic == topic
        }

    assert ours == java
    assert len(java) == 12
