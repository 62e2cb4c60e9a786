"""A leader lost a marker that its follower has, as after a disk was restored from a backup: two real logs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from examples.workload.planting import PlantedTransaction, plant_hang, plant_hang_without_id, write_marker
from exporter.evaluation.verdicts import TransactionRow, Verdict
from exporter.kafka.lookups import producers_of
from tests.brokers.broker import Broker
from tests.brokers.cluster import KafkaCluster
from tests.real_brokers.watching import Watch, rows_on
from tests.waiting import until

MakeCluster = Callable[..., KafkaCluster]
TOPIC = "mirrored"
LOG = "00000000000000000000.log"
PATIENCE_S = 60


def partition_folder(broker: Broker, topic: str) -> Path:
    return broker.directory / "data" / f"{topic}-0"


def log_with_marker(make_cluster: MakeCluster, hang: PlantedTransaction, to: Path) -> None:
    """A log that begins with the very same open record, followed by its COMMIT marker."""
    cluster = make_cluster("4.3.1")
    cluster.topics.create(TOPIC)
    plant_hang_without_id(
        cluster.bootstrap,
        TOPIC,
        0,
        producer_id=hang.producer_id,
        producer_epoch=hang.producer_epoch,
        timestamp_ms=hang.timestamp_ms,
    )
    write_marker(cluster.bootstrap, TOPIC, 0, hang.producer_id, hang.producer_epoch, commit=True)
    cluster.broker(1).stop()
    shutil.copy(partition_folder(cluster.broker(1), TOPIC) / LOG, to)


def restore(broker: Broker, log: Path) -> None:
    """Replace a stopped broker's log by another; the broker rebuilds its indexes and its producer state from it."""
    folder = partition_folder(broker, TOPIC)
    for pattern in ("*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot"):
        for path in folder.glob(pattern):
            path.unlink()
    shutil.copy(log, folder / LOG)
    (folder.parent / ".kafka_cleanshutdown").unlink(missing_ok=True)


def create_on_two(cluster: KafkaCluster) -> None:
    """One partition, led by node 1 and followed by node 2."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, num_partitions=1, replica_assignment=[[1, 2]])])[TOPIC].result(30)
    cluster.topics.configure(TOPIC, {"min.insync.replicas": "1"})


@pytest.mark.slow
def test_a_follower_with_the_marker_makes_it_diverged(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """While both replicas show it open it hangs; once the follower has its end, an abort could hide committed records."""
    cluster = make_cluster("4.3.1", nodes=3)
    create_on_two(cluster)
    hang = plant_hang(cluster.bootstrap, TOPIC, 0, "app")
    log_with_marker(make_cluster, hang, tmp_path / LOG)

    with Watch(cluster.bootstrap) as watch:
        before = verdict_until(watch, Verdict.HANGING_NOT_IN_TRANSACTION)
        cluster.broker(2).stop()
        # As long as the follower's log, so that it has no reason to truncate its own.
        plant_hang_without_id(cluster.bootstrap, TOPIC, 0, producer_id=8_700_000_001)
        write_marker(cluster.bootstrap, TOPIC, 0, 8_700_000_001, 0)
        restore(cluster.broker(2), tmp_path / LOG)
        cluster.broker(2).start()
        cluster.wait_until_serving()
        after = verdict_until(watch, Verdict.REPLICA_DIVERGED)

    assert before.producer_id == after.producer_id == hang.producer_id
    assert "the replica on broker 2 has its marker" in after.reason


@pytest.mark.slow
def test_a_follower_that_is_behind_says_nothing(make_cluster: MakeCluster) -> None:
    """A replica that is up and lags has not seen the open record: the hang is proved all the same, and nothing diverges."""
    cluster = make_cluster("4.3.1", nodes=3)
    create_on_two(cluster)
    cluster.topics.configure(TOPIC, {"leader.replication.throttled.replicas": "*"})
    cluster.topics.configure_broker(1, {"leader.replication.throttled.rate": "1"})
    cluster.broker(2).stop()
    write_megabytes(cluster, 3)  # the first fetch of a throttled follower is let through, and takes one
    hang = plant_hang(cluster.bootstrap, TOPIC, 0, "app")
    cluster.broker(2).start()
    cluster.wait_until_serving()

    with Watch(cluster.bootstrap) as watch:
        row = verdict_until(watch, Verdict.HANGING_NOT_IN_TRANSACTION)
        verdicts = {rows_on(watch.cycle(), TOPIC)[0].verdict for _ in range(20)}
        leader, follower = (producers_at(watch, broker) for broker in (1, 2))

    assert row.producer_id == hang.producer_id
    assert hang.producer_id in leader
    assert hang.producer_id not in follower, "the follower was meant to lag"
    assert verdicts == {Verdict.HANGING_NOT_IN_TRANSACTION}


def write_megabytes(cluster: KafkaCluster, count: int) -> None:
    """Plain records, so many megabytes of them."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for _ in range(count * 100):
        producer.produce(TOPIC, b"x" * 10_000, partition=0)
    assert producer.flush(60) == 0


def producers_at(watch: Watch, broker: int) -> set[int]:
    """The producers that one replica knows."""
    entries = watch.collector.query(lambda client: producers_of(client, TOPIC, 0, broker))
    return {entry.producer_id for entry in entries}


def verdict_until(watch: Watch, verdict: Verdict) -> TransactionRow:
    """The row of the topic once it has this verdict: a broker that comes back needs moments to load and to follow."""
    row = until(
        lambda: rows_on(watch.cycle(), TOPIC).get(0),
        lambda row: row is not None and row.verdict is verdict,
        patience_s=PATIENCE_S,
        pause_s=0.1,
    )
    assert row is not None
    return row
