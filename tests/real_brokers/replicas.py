"""Makes replicas of a partition differ, and reads what each broker remembers."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from exporter.evaluation.verdicts import TransactionRow, Verdict
from exporter.kafka.lookups import producers_of
from hangbench.kafka.broker import Broker
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import PlantedTransaction, plant_hang, plant_hang_without_id, write_marker
from hangbench.waiting import until
from tests.conftest import MakeCluster
from tests.watching import Watch, rows_on

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


def reassigned(cluster: KafkaCluster, replicas: list[int], folder: Path) -> None:
    """The partition has exactly these replicas, all in sync, and the first of them is its leader."""
    plan = folder / "replicas.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": replicas}]}))
    where = ("--bootstrap-server", cluster.bootstrap)
    tools = "org.apache.kafka.tools"
    cluster.tool(
        f"{tools}.reassign.ReassignPartitionsCommand", *where, "--execute", "--reassignment-json-file", str(plan)
    )
    until(lambda: sorted(partition_of(cluster).isrs) == sorted(replicas))
    with suppress(subprocess.CalledProcessError):  # the first is the leader already
        partition = ("--topic", TOPIC, "--partition", "0")
        cluster.tool(f"{tools}.LeaderElectionCommand", *where, "--election-type", "PREFERRED", *partition)
    until(lambda: partition_of(cluster).leader == replicas[0])


def partition_of(cluster: KafkaCluster) -> PartitionMetadata:
    return (
        AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0]
    )


def records_after_deletion(cluster: KafkaCluster, folder: Path) -> tuple[PlantedTransaction, list[int]]:
    """The record of the hang is deleted, then node 3 gets a replica: it never saw the producer."""
    create_on_two(cluster)
    hang = plant_hang(cluster.bootstrap, TOPIC, 0, "app")
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for _ in range(5):
        producer.produce(TOPIC, b"behind", partition=0)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    next(iter(admin.delete_records([TopicPartition(TOPIC, 0, 3)]).values())).result(30)
    reassigned(cluster, [1, 2, 3], folder)
    return hang, [3, 4, 5]
