"""Producers that cannot start while nothing is open: markers by hand made their coordinators' own markers unwelcome."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from examples.workload.producers import OpenTransaction, run_transaction, transactional_producer
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, write_marker
from hangbench.situations.ground import described, wait_past_clocks
from hangbench.situations.steps import HIGHER_COORDINATOR_EPOCH, Client
from hangbench.waiting import until
from tests.marks import starts
from tests.real_brokers.exporting import ask_why, called, serving

UNREACHABLE_EPOCH: Final = 1000
"""No number of restarts brings a coordinator there."""
NEAR_EPOCH: Final = 2
FORGETS_AFTER_MS: Final = 20_000


@dataclass(frozen=True)
class Stuck:
    cluster: KafkaCluster
    topic: str
    contradicted: str
    as_decided: str
    """Transactional ids; their partitions are 0 and 1."""


def state_of(cluster: KafkaCluster, transactional_id: str) -> str:
    found = described(cluster.bootstrap, transactional_id)
    return "" if found is None else found.state


def commit_past_a_marker(
    cluster: KafkaCluster, transactional_id: str, topic: str, partition: int, **marker: Any
) -> None:
    """The client's commit returns without an error; its coordinator gets its own marker refused and gives up."""
    with OpenTransaction(cluster.bootstrap, transactional_id, [(topic, partition)]) as transaction:
        found = described(cluster.bootstrap, transactional_id)
        assert found is not None
        wait_past_clocks(found)
        write_marker(cluster.bootstrap, topic, partition, found.producer_id, found.producer_epoch, **marker)
        transaction.close("commit")
    until(lambda: state_of(cluster, transactional_id) == "PrepareCommit")


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
@starts("broker")
def stuck(request: pytest.FixtureRequest) -> Iterator[Stuck]:
    properties: Properties = {
        **HANGS_CAN_BE_PLANTED,
        "producer.id.expiration.ms": FORGETS_AFTER_MS,
        "producer.id.expiration.check.interval.ms": 1000,
    }
    with KafkaCluster(request.param, nodes=1, properties=properties) as cluster:
        topic = cluster.topics.create("orders", partitions=3)
        one = Stuck(cluster, topic, "contradicted-1", "decided-1")
        commit_past_a_marker(cluster, one.contradicted, topic, 0, coordinator_epoch=UNREACHABLE_EPOCH, commit=False)
        commit_past_a_marker(cluster, one.as_decided, topic, 1, coordinator_epoch=NEAR_EPOCH, commit=True)
        yield one


def test_the_exporter_names_who_cannot_start_and_whose_records_are_lost(stuck: Stuck, tmp_path: Path) -> None:
    """Nothing is open on any partition; a transaction that ends as it should is not among them."""
    with serving(stuck.cluster.bootstrap, tmp_path, verdicts__stuck_after="1s") as exporter:
        run_transaction(stuck.cluster.bootstrap, "well", [(stuck.topic, 2)])
        metrics = exporter.until(
            lambda metrics: (
                {key[-1] for key in metrics.get("kafka_stuck_transaction_start_timestamp_seconds", {})}
                == {"contradicted", "as_decided"}
            )
        )
        _, page = exporter.get("/")
        exporter.until(lambda _: "cannot start" in exporter.get("/incidents")[1])
        _, incidents = exporter.get("/incidents")

    assert "open: 2 producers cannot start" in incidents
    assert "__transaction_state-" in incidents
    stuck_ones = metrics["kafka_stuck_transaction_start_timestamp_seconds"]
    assert {(key[-6], key[-2], key[-1]) for key in stuck_ones} == {
        (stuck.contradicted, "PrepareCommit", "contradicted"),
        (stuck.as_decided, "PrepareCommit", "as_decided"),
    }
    assert sum(metrics["kafka_open_transactions"].values()) == 0
    assert "2 producers cannot start, and a log contradicts its coordinator" in page
    assert "has an ABORT marker: its records are dropped, although their commit is decided" in page


def test_the_commands_say_it_too(stuck: Stuck, tmp_path: Path) -> None:
    of_id, of_well = (
        called(
            tmp_path, "why", "--bootstrap-server", stuck.cluster.bootstrap, *question, "--format", "json", "--exit-code"
        )
        for question in (("--transactional-id", stuck.contradicted), ("--topic", stuck.topic))
    )
    found = called(
        tmp_path,
        "find-hanging",
        "--bootstrap-server",
        stuck.cluster.bootstrap,
        "--stuck-after",
        "1s",
        "--format",
        "json",
    )

    (only,) = json.loads(of_id.stdout)["stuck"]
    assert of_id.returncode == 3
    assert (only["transactional_id"], only["markers"]) == (stuck.contradicted, "contradicted")
    assert [
        (each["topic"], each["partition"], each["marker"], each["offset"], each["coordinator_epoch"])
        for each in only["partitions"]
    ] == [(stuck.topic, 0, "contradicted", 1, UNREACHABLE_EPOCH)]
    assert (of_well.returncode, json.loads(of_well.stdout)["stuck"]) == (0, [])
    assert [each["transactional_id"] for each in json.loads(found.stdout)["stuck_transactions"]] == [
        stuck.contradicted,
        stuck.as_decided,
    ]


def test_a_refused_marker_of_a_partition_that_is_still_open_is_said_of_the_topic(stuck: Stuck, tmp_path: Path) -> None:
    """A cycle over one topic compares no markers: the command reads everything, and says the same as of the id."""
    topic = stuck.cluster.topics.create("payments", partitions=1)
    client = Client.begin(stuck.cluster.bootstrap, "refused-1")
    client.make_its_marker_unwelcome(topic, 0)
    client.open(topic, 0)
    client.end(commit=True)
    until(lambda: state_of(stuck.cluster, "refused-1") == "PrepareCommit")

    said = [
        ask_why(stuck.cluster, tmp_path, *question)
        for question in (("--topic", topic, "--partition", "0"), ("--transactional-id", "refused-1"))
    ]

    for answer in said:
        assert [(each["transactional_id"], each["markers"]) for each in answer["stuck"]] == [("refused-1", "missing")]
        assert "complete --topic payments --partition 0 --start-offset" in answer["text"]
    write_marker(
        stuck.cluster.bootstrap,
        topic,
        0,
        client.producer_id,
        client.producer_epoch,
        coordinator_epoch=HIGHER_COORDINATOR_EPOCH,
        commit=True,
    )


@pytest.mark.slow
def test_what_ends_it_is_what_was_said(stuck: Stuck) -> None:
    """Elections for a near epoch; for one that no coordinator reaches, one more after the partition has forgotten it.

    It comes last: the cluster is as new afterwards.
    """
    broker = stuck.cluster.broker(1)

    def elect() -> None:
        broker.stop()
        broker.start()
        stuck.cluster.wait_until_serving()

    for _ in range(NEAR_EPOCH):
        elect()
        until(lambda: state_of(stuck.cluster, stuck.contradicted) == "PrepareCommit")
    until(lambda: state_of(stuck.cluster, stuck.as_decided) == "CompleteCommit")
    assert state_of(stuck.cluster, stuck.contradicted) == "PrepareCommit"
    time.sleep(FORGETS_AFTER_MS / 1000 + 2)
    assert state_of(stuck.cluster, stuck.contradicted) == "PrepareCommit"

    elect()

    until(lambda: state_of(stuck.cluster, stuck.contradicted) == "CompleteCommit")
    with transactional_producer(stuck.cluster.bootstrap, stuck.contradicted):
        pass
