"""How a hanging transaction ended on its producer's other partitions, found in real logs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer as PlainProducer

from examples.workload.planting import init_producer_id, plant_hang_without_id, write_marker
from examples.workload.producers import OpenTransaction, run_transaction
from tests.brokers.cluster import KafkaCluster
from tests.real_brokers.test_command_line import Tool, tool
from tests.real_brokers.watching import Watch

__all__ = ["tool"]

MakeTopic = Callable[..., str]
FreshName = Callable[[str], str]


def found_on(tool: Tool, cluster: KafkaCluster, topic: str, partition: int = 0) -> dict[str, Any]:
    """The one transaction that find-hanging shows there."""
    run = tool(cluster, "find-hanging", "--topic", topic, "--partition", str(partition), "--format", "json")
    (row,) = json.loads(run.stdout)["transactions"]
    shown: dict[str, Any] = row
    return shown


def producer_of(tool: Tool, cluster: KafkaCluster, name: str) -> tuple[int, int]:
    """(producer id, epoch) as the coordinator has them, once its transaction is over."""
    while True:
        told = json.loads(tool(cluster, "describe", "--transactional-id", name, "--format", "json").stdout)
        if told["state"].startswith("Complete"):
            return told["producer_id"], told["producer_epoch"]


def late_write(cluster: KafkaCluster, topic: str, producer: tuple[int, int], written_ms: int) -> None:
    """A record of an ended transaction reaches partition 0 after its end."""
    producer_id, epoch = producer
    plant_hang_without_id(
        cluster.bootstrap, topic, 0, producer_id=producer_id, producer_epoch=epoch, timestamp_ms=written_ms
    )


@pytest.mark.parametrize(("outcome", "kind"), [("commit", "COMMIT"), ("abort", "ABORT")])
def test_the_marker_on_another_partition_tells_when_the_coordinator_has_gone_on(
    broker: KafkaCluster,
    make_topic: MakeTopic,
    fresh_name: FreshName,
    tool: Tool,
    outcome: Any,
    kind: str,
) -> None:
    """The coordinator is epochs further; the marker beside the hang says how it ended, and abort goes by it."""
    topic, name = make_topic(broker, partitions=2), fresh_name("late")
    written_ms = int(time.time() * 1000) - 10
    run_transaction(broker.bootstrap, name, [(topic, 1)], outcome=outcome)
    epochs_on = 2
    producer_id, epoch = producer_of(tool, broker, name)
    at_marker = [row for row in entries(tool, broker, topic, 1) if row["producer_id"] == producer_id]
    late_write(broker, topic, (producer_id, at_marker[0]["producer_epoch"]), written_ms)
    for _ in range(epochs_on):
        assert init_producer_id(broker.bootstrap, name)[1] > epoch

    row = found_on(tool, broker, topic)
    aborted = tool(broker, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0", "--yes")

    assert row["coordinator_state"] == "Empty"
    assert row["outcome_evidence"] == {"commit": "committed", "abort": "aborted"}[outcome]
    (seen,) = row["outcome_seen"]
    assert seen.startswith(f"{kind} marker at epoch {at_marker[0]['producer_epoch']} on {topic}-1, offset 1, ")
    assert f"outcome elsewhere: {row['outcome_evidence']} ({kind} marker" in aborted.stdout
    if outcome == "commit":
        assert aborted.returncode == 5
        assert "it was committed elsewhere, so an abort may hide committed records" in aborted.stderr
    else:
        assert aborted.returncode == 0, aborted.stderr


def entries(tool: Tool, cluster: KafkaCluster, topic: str, partition: int) -> list[dict[str, Any]]:
    run = tool(cluster, "describe-producers", "--topic", topic, "--partition", str(partition), "--format", "json")
    rows: list[dict[str, Any]] = json.loads(run.stdout)
    return rows


def test_a_marker_is_found_behind_megabytes_of_others(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, tool: Tool
) -> None:
    """The time of the last write leads to the beginning of a long log; the producer's own entry leads to its marker."""
    topic = make_topic(kafka_4_3_1, partitions=2)
    producer_id, written_ms = 9_100_000_007, int(time.time() * 1000)
    for partition in range(2):
        plant_hang_without_id(kafka_4_3_1.bootstrap, topic, partition, producer_id=producer_id, timestamp_ms=written_ms)
    crowd = PlainProducer({"bootstrap.servers": kafka_4_3_1.bootstrap, "linger.ms": 5, "batch.size": 100_000})
    for _ in range(80):
        crowd.produce(topic, bytes(100_000), partition=1)
    assert crowd.flush(30) == 0
    time.sleep(0.005)  # the marker's millisecond is its own: an offset is found by its time
    write_marker(kafka_4_3_1.bootstrap, topic, 1, producer_id, 0, commit=True)

    row = found_on(tool, kafka_4_3_1, topic)

    assert (row["verdict"], row["outcome_evidence"]) == ("hanging_no_transactional_id", "committed")
    assert f"COMMIT marker at epoch 0 on {topic}-1, offset 81" in row["outcome_seen"][0]


def test_other_producers_markers_and_open_siblings_say_nothing(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool
) -> None:
    """A hang on two partitions beside strangers that commit and abort: nothing is known of its end."""
    topic = make_topic(broker, partitions=2)
    for partition in range(2):
        plant_hang_without_id(broker.bootstrap, topic, partition, producer_id=9_100_000_008)
    run_transaction(broker.bootstrap, fresh_name("stranger"), [(topic, 0), (topic, 1)])
    run_transaction(broker.bootstrap, fresh_name("stranger"), [(topic, 1)], outcome="abort")

    row = found_on(tool, broker, topic)

    assert (row["outcome_evidence"], row["outcome_seen"]) == ("none", [])


def test_the_daemon_s_cycles_read_no_logs(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """Only a person's question is worth a fetch: cycles with a suspect send none."""
    topic = make_topic(kafka_4_3_1)
    plant_hang_without_id(kafka_4_3_1.bootstrap, topic, 0, producer_id=9_100_000_009)

    with (
        Watch(kafka_4_3_1.bootstrap) as watch,
        OpenTransaction(kafka_4_3_1.bootstrap, fresh_name("live"), [(topic, 0)]),
    ):
        watch.cycle()
        evaluation = watch.cycle()
        asked = {told.api for told in watch.collector.statistics()}

    assert evaluation.suspects
    assert evaluation.snapshot.end_markers is None
    assert "Fetch" not in asked
