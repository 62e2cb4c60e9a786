"""Finds the outcome of a hanging transaction on its producer's other partitions, in real logs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer as PlainProducer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from examples.workload.producers import OpenTransaction, run_transaction
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import init_producer_id, plant_hang_without_id, write_marker
from hangbench.waiting import until
from tests.conftest import FreshName, MakeTopic, SessionCluster
from tests.real_brokers.conftest import Tool
from tests.watching import Watch


def found_on(tool: Tool, cluster: KafkaCluster, topic: str, partition: int = 0) -> dict[str, Any]:
    """The one transaction that find-hanging shows there."""
    run = tool(cluster, "find-hanging", "--topic", topic, "--partition", str(partition), "--format", "json")
    (row,) = json.loads(run.stdout)["transactions"]
    shown: dict[str, Any] = row
    return shown


def producer_of(tool: Tool, cluster: KafkaCluster, name: str) -> tuple[int, int]:
    """(producer id, epoch) as the coordinator has them, once its transaction is over."""

    def described() -> dict[str, Any]:
        document: dict[str, Any] = json.loads(
            tool(cluster, "describe", "--transactional-id", name, "--format", "json").stdout
        )
        return document

    ended = until(described, lambda document: document["state"].startswith("Complete"))
    return ended["producer_id"], ended["producer_epoch"]


def late_write(cluster: KafkaCluster, topic: str, producer: tuple[int, int], written_ms: int) -> None:
    """A record of an ended transaction reaches partition 0 after its end."""
    producer_id, epoch = producer
    plant_hang_without_id(
        cluster.bootstrap, topic, 0, producer_id=producer_id, producer_epoch=epoch, timestamp_ms=written_ms
    )


@pytest.mark.parametrize(("outcome", "kind"), [("commit", "COMMIT"), ("abort", "ABORT")])
def test_the_marker_on_another_partition_counts_when_the_coordinator_has_gone_on(
    broker: KafkaCluster,
    make_topic: MakeTopic,
    fresh_name: FreshName,
    tool: Tool,
    outcome: Any,
    kind: str,
) -> None:
    """The coordinator is several epochs ahead; a marker on another partition shows the outcome, and abort uses it."""
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
    assert row["outcome_evidence"] == {"commit": "committed", "abort": "none"}[outcome]
    seen, *doubts = row["outcome_seen"]
    assert [doubt.split(" may")[0] for doubt in doubts[:1]] == (["other transactions"] if outcome == "abort" else [])
    assert seen.startswith(f"{kind} marker at epoch {at_marker[0]['producer_epoch']} on {topic}-1, offset 1, ")
    known = {"commit": "perhaps committed", "abort": "unknown"}[outcome]
    assert f"outcome elsewhere: {known}. {kind} marker" in aborted.stdout
    if outcome == "commit":
        assert aborted.returncode == 5
        assert "a commit elsewhere may be this transaction's: an abort may hide committed records" in aborted.stderr
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
    """A hang on two partitions with other producers that commit and abort: its outcome is unknown."""
    topic = make_topic(broker, partitions=2)
    for partition in range(2):
        plant_hang_without_id(broker.bootstrap, topic, partition, producer_id=9_100_000_008)
    run_transaction(broker.bootstrap, fresh_name("stranger"), [(topic, 0), (topic, 1)])
    run_transaction(broker.bootstrap, fresh_name("stranger"), [(topic, 1)], outcome="abort")

    row = found_on(tool, broker, topic)

    assert row["outcome_evidence"] == "none"
    # Before 3.5 (KIP-854) no broker returns how long partitions remember a producer.
    assert row["outcome_seen"] in (
        [],
        ["how long partitions remember producers is unknown: needs DESCRIBE_CONFIGS on the cluster, Kafka 3.5+"],
    )


class Log:
    """One producer's transactions, partition by partition, as its coordinator's markers ended them."""

    def __init__(self, cluster: KafkaCluster, topic: str, producer_id: int) -> None:
        self.topic = topic
        self.producer_id = producer_id
        self._cluster = cluster
        self._sequences: dict[tuple[int, int], int] = {}

    def write(self, partition: int, *, epoch: int = 0, written_ms: int | None = None) -> None:
        """One transactional record. Nobody knows the producer id, so it hangs until a marker comes."""
        sequence = self._sequences.get((partition, epoch), 0)
        self._sequences[partition, epoch] = sequence + 1
        plant_hang_without_id(
            self._cluster.bootstrap,
            self.topic,
            partition,
            producer_id=self.producer_id,
            producer_epoch=epoch,
            sequence=sequence,
            timestamp_ms=written_ms,
        )

    def end(self, partition: int, kind: str, *, epoch: int = 0) -> None:
        write_marker(self._cluster.bootstrap, self.topic, partition, self.producer_id, epoch, commit=kind == "COMMIT")

    def write_and_end(self, partition: int, kind: str) -> None:
        self.write(partition)
        self.end(partition, kind)

    def crowd_out(self, partition: int, megabytes: int) -> None:
        """So many megabytes of other producers' records."""
        crowd = PlainProducer({"bootstrap.servers": self._cluster.bootstrap, "linger.ms": 5, "batch.size": 100_000})
        for _ in range(10 * megabytes):
            crowd.produce(self.topic, bytes(100_000), partition=partition)
        assert crowd.flush(60) == 0


def with_its_next_transaction_open(log: Log) -> None:
    """Its COMMIT is on partition 1, where the producer's next transaction is open."""
    log.write_and_end(1, "COMMIT")
    log.write(1)
    log.write(0)


def on_its_own_partition(log: Log) -> None:
    """Its COMMIT is on partition 0 itself, before the late record that hangs."""
    log.write_and_end(0, "COMMIT")
    log.write(0)


def megabytes_away(log: Log) -> None:
    """Its COMMIT is between megabytes of other records, far from the times at which it is likely."""
    written_ms = int(time.time() * 1000)
    log.write(1, written_ms=written_ms)
    log.crowd_out(1, 9)
    log.end(1, "COMMIT")
    log.crowd_out(1, 9)
    log.write_and_end(1, "ABORT")
    log.write(0, written_ms=written_ms)


def among_many_partitions(log: Log) -> None:
    """Its COMMIT is on the last of 60 partitions that all remember the producer."""
    for partition in range(3, 60):
        log.write_and_end(partition, "ABORT" if partition < 59 else "COMMIT")
    log.write(0)


@pytest.mark.parametrize(
    "committed",
    [with_its_next_transaction_open, on_its_own_partition, megabytes_away, among_many_partitions],
    ids=lambda function: function.__name__,
)
def test_a_commit_is_found_wherever_it_is(
    committed: Callable[[Log], None], broker: KafkaCluster, make_topic: MakeTopic, tool: Tool
) -> None:
    """Elsewhere the same epoch has an ABORT, of another transaction: this one is `committed`, and not aborted."""
    topic = make_topic(broker, partitions=60 if committed is among_many_partitions else 3)
    log = Log(broker, topic, 9_200_000_000 + time.time_ns() % 100_000_000)
    log.write_and_end(2, "ABORT")
    committed(log)

    row = found_on(tool, broker, topic)
    offset = str(row["start_offset"])
    aborted = tool(broker, "abort", "--topic", topic, "--partition", "0", "--start-offset", offset, "--yes")

    assert (row["verdict"], row["outcome_evidence"]) == ("hanging_no_transactional_id", "committed")
    assert row["outcome_seen"][0].startswith("COMMIT marker at epoch 0 on ")
    assert aborted.returncode == 5, aborted.stderr
    assert "a commit elsewhere may be this transaction's: an abort may hide committed records" in aborted.stderr
    assert found_on(tool, broker, topic)["start_offset"] == row["start_offset"]


@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_an_abort_is_proved_where_every_transaction_has_its_epoch(
    version: str, session_cluster: SessionCluster, make_topic: MakeTopic, tool: Tool
) -> None:
    """A commit began the epoch, an abort ended it, and every log that could hold its commit was read from its start."""
    broker = session_cluster(version)
    topic = make_topic(broker, partitions=3)
    log = Log(broker, topic, 9_300_000_000 + time.time_ns() % 100_000_000)
    log.write(1)
    log.end(1, "COMMIT", epoch=1)
    log.write(1, epoch=1)
    log.end(1, "ABORT", epoch=2)
    log.write(0, epoch=1)

    row = found_on(tool, broker, topic)

    assert row["outcome_evidence"] == "aborted", row["outcome_seen"]
    (seen,) = row["outcome_seen"]
    assert seen.startswith(f"ABORT marker at epoch 2 on {topic}-1, offset 3, ")


def test_what_is_deleted_from_a_log_may_have_been_its_commit(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, tool: Tool
) -> None:
    """The same, but the log of one partition begins after records that are deleted: nothing is proved."""
    topic = make_topic(kafka_4_3_1, partitions=3)
    log = Log(kafka_4_3_1, topic, 9_400_000_000 + time.time_ns() % 100_000_000)
    for partition in (1, 2):
        log.write(partition)
        log.end(partition, "COMMIT", epoch=1)
        log.write(partition, epoch=1)
        log.end(partition, "ABORT", epoch=2)
    log.write(0, epoch=1)
    admin = AdminClient({"bootstrap.servers": kafka_4_3_1.bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 2, 3)]).values():
        deleted.result(30)

    row = found_on(tool, kafka_4_3_1, topic)

    assert row["outcome_evidence"] == "none"
    assert f"{topic}-2 has no records before offset 3 any more" in row["outcome_seen"]


def test_the_daemon_s_cycles_read_no_logs(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """Only a command fetches logs: cycles with a suspect do not."""
    topic = make_topic(kafka_4_3_1)
    plant_hang_without_id(kafka_4_3_1.bootstrap, topic, 0, producer_id=9_100_000_009)

    with (
        Watch(kafka_4_3_1.bootstrap) as watch,
        OpenTransaction(kafka_4_3_1.bootstrap, fresh_name("live"), [(topic, 0)]),
    ):
        watch.cycle()
        evaluation = watch.cycle()
        apis = {statistics.api for statistics in watch.collector.statistics()}

    assert evaluation.suspects
    assert evaluation.snapshot.end_markers is None
    assert "Fetch" not in apis
