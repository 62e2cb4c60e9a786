"""A leader lost a marker that its follower has, as after a disk was restored from a backup: two real logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from exporter.evaluation.verdicts import InconclusiveReason, Verdict
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import PlantedTransaction, plant_hang, plant_hang_without_id, write_marker
from hangbench.waiting import until
from tests.brokers.messages import committed_records
from tests.conftest import MakeCluster
from tests.real_brokers.exporting import called
from tests.real_brokers.replicas import (
    LOG,
    TOPIC,
    create_on_two,
    log_with_marker,
    partition_of,
    producers_at,
    reassigned,
    records_after_deletion,
    restore,
    verdict_until,
)
from tests.watching import Watch, rows_on


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


def marker_forgotten(
    cluster: KafkaCluster, folder: Path, make_cluster: MakeCluster
) -> tuple[PlantedTransaction, list[int]]:
    """Node 3 has the COMMIT marker that the leader lost, and its producers expire at once: it has forgotten this one."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, num_partitions=1, replica_assignment=[[1, 3]])])[TOPIC].result(30)
    cluster.topics.configure(TOPIC, {"min.insync.replicas": "1"})
    hang = plant_hang(cluster.bootstrap, TOPIC, 0, "app")
    log_with_marker(make_cluster, hang, folder / LOG)
    cluster.topics.configure_broker(3, {"producer.id.expiration.ms": "1"})
    cluster.broker(3).stop()
    plant_hang_without_id(cluster.bootstrap, TOPIC, 0, producer_id=8_700_000_001)
    write_marker(cluster.bootstrap, TOPIC, 0, 8_700_000_001, 0)
    restore(cluster.broker(3), folder / LOG)
    cluster.broker(3).start()
    cluster.wait_until_serving()
    return hang, [hang.start_offset]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
@pytest.mark.parametrize("case", ["its records are deleted", "its marker is there"])
def test_a_replica_that_does_not_know_the_producer_ends_the_hang_as_leader(
    make_cluster: MakeCluster, tmp_path: Path, version: str, case: str
) -> None:
    """No proof, as the two cases look the same; its election is safe in both, and is what the plan of an abort advises."""
    cluster = make_cluster(version, nodes=3, properties={"producer.id.expiration.check.interval.ms": 100})
    if case == "its records are deleted":
        hang, readable = records_after_deletion(cluster, tmp_path)
    else:
        hang, readable = marker_forgotten(cluster, tmp_path, make_cluster)
    others = [node for node in (1, 2) if node in partition_of(cluster).replicas]

    with Watch(cluster.bootstrap) as watch:
        row = verdict_until(watch, Verdict.INCONCLUSIVE)
        where = ("--topic", TOPIC, "--partition", "0", "--start-offset", str(hang.start_offset))
        refused = called(tmp_path, "abort", "--bootstrap-server", cluster.bootstrap, *where, "--yes")
        reassigned(cluster, [3, *others], tmp_path)
        until(lambda: rows_on(watch.cycle(), TOPIC), lambda rows: not rows)
        seen = committed_records(cluster, TOPIC, readable[-1], readable[0])
        reassigned(cluster, [3], tmp_path)
        reassigned(cluster, [*others, 3], tmp_path)
        until(lambda: rows_on(watch.cycle(), TOPIC), lambda rows: not rows)
        still_seen = committed_records(cluster, TOPIC, readable[-1], readable[0])

    assert row.inconclusive_reason is InconclusiveReason.REPLICA_UNAWARE
    assert row.reason.startswith("Unverified: an in-sync replica (broker 3) does not know the producer; ")
    assert refused.returncode == 5
    assert "kafka-leader-election.sh --election-type PREFERRED --topic mirrored --partition 0" in refused.stderr
    assert "--force" not in refused.stderr
    assert seen == still_seen == readable
