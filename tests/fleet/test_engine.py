"""The fleet on real brokers: Spark's engine publishes what the daemon of one cluster publishes, line for line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from examples.workload.planting import plant_hang, plant_hang_without_id, plant_producers
from examples.workload.producers import OpenTransaction
from exporter.config.fleet import Sources, alone, load_fleet
from exporter.config.loading import load
from exporter.config.settings import Settings
from exporter.daemon.daemon import Daemon
from exporter.daemon.fleet import FleetDaemon
from exporter.daemon.proof_check import ProofCheck
from exporter.fleet.engine import SparkEngine
from exporter.kafka.collect.collector import open_collector
from exporter.web.routes import Request, Routes
from tests.brokers.cluster import KafkaCluster
from tests.conftest import HANGS_CAN_BE_PLANTED, MakeCluster

NOBODY = "127.0.0.1:1"
A_SECOND = {"kafka.request.timeout.ms": "1000", "scan.deadline": "10s", "scan.interval": "20s"}


def settings_for(*bootstraps: str) -> Settings:
    if len(bootstraps) == 1:
        return alone(load(file=None, environment={}, flags={**A_SECOND, "kafka.bootstrap.servers": bootstraps[0]}))
    clusters = "".join(
        f"  cluster-{number}: {{kafka: {{bootstrap.servers: '{bootstrap}'}}}}\n"
        for number, bootstrap in enumerate(bootstraps)
    )
    return load_fleet(Sources(clusters=("fleet.yaml", f"clusters:\n{clusters}"), flags=A_SECOND)).settings


def got(routes: Routes, path: str) -> str:
    answer = routes.answer(Request(method="GET", path=path, headers={}))
    assert answer.status == 200
    return b"".join(answer.chunks).decode()


@contextmanager
def planted(cluster: KafkaCluster) -> Iterator[None]:
    """Two hangs, a live transaction, idle producers on many partitions."""
    cluster.topics.create("orders", partitions=4)
    cluster.topics.create("payments", partitions=30)
    cluster.topics.create("audit.log", partitions=1)
    plant_producers(cluster.bootstrap, "payments", range(30), range(9_000_000_000, 9_000_000_003))
    plant_hang(cluster.bootstrap, "orders", 1, "app-1")
    plant_hang_without_id(cluster.bootstrap, "orders", 2)
    with OpenTransaction(cluster.bootstrap, "app-2", [("orders", 3), ("audit.log", 0)]):
        yield


def comparable(exposition: str) -> list[str]:
    """Without the label of a fleet, and without what a clock or this process has a part in."""
    lines = [re.sub(r'cluster="[^"]*",?', "", line, count=1).replace("{}", "") for line in exposition.splitlines()]
    lines = [line for line in lines if "process_" not in line]
    return [line.rpartition(" ")[0] if "_seconds" in line else line for line in lines]


@pytest.mark.parametrize("nodes", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_fleet_of_one_says_what_the_daemon_of_one_says(
    spark: SparkSession, make_cluster: MakeCluster, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two cycles of each engine on the same state: every series, value and order, except values that depend on a clock.

    Whether hangs could be proved is not checked for the clusters of a fleet: the requests of that check are left out.
    """
    monkeypatch.setattr(ProofCheck, "diagnosis", lambda *_: None)
    cluster = make_cluster("4.3.1", nodes=nodes, properties=HANGS_CAN_BE_PLANTED)
    settings = settings_for(cluster.bootstrap)
    collector = open_collector(settings.kafka, settings.scan)
    try:
        with planted(cluster):
            embedded = Daemon(settings, collector, state_path=None)
            fleet = FleetDaemon(settings, SparkEngine(spark), state_path_of=lambda _: None)
            for daemon in (embedded, fleet, embedded, fleet):
                daemon.cycle()
            expected, published = got(embedded.routes, "/metrics"), got(fleet.routes, "/metrics")
    finally:
        collector.close()

    assert comparable(published) == comparable(expected)
    assert (
        f'kafka_open_transactions{{cluster="{cluster.bootstrap}",verdict="hanging_not_in_transaction"}} 1' in published
    )
    assert published.count('kafka_partition_max_active_transaction_duration_seconds{cluster="') >= 35
    series = [line for line in published.splitlines() if not line.startswith(("#", "process_"))]
    without = {line.split("{")[0].split(" ")[0] for line in series if 'cluster="' not in line}
    assert all(name.startswith("kafka_transaction_exporter_config_") for name in without), without


def test_a_cluster_that_fails_costs_itself(spark: SparkSession, kafka_4_3_1: KafkaCluster) -> None:
    """Its rows are missing and its failure is shown; the other cluster's rows are in the same publication."""
    fleet = FleetDaemon(settings_for(kafka_4_3_1.bootstrap, NOBODY), SparkEngine(spark), state_path_of=lambda _: None)
    fleet.cycle()
    fleet.cycle()

    published, page = got(fleet.routes, "/metrics"), got(fleet.routes, "/")
    success = re.findall(r'last_cycle_success\{cluster="([^"]*)"\} (\d)', published)
    assert success == [("cluster-0", "1"), ("cluster-1", "0")]
    assert 'kafka_transaction_exporter_cycles_failed_total{cluster="cluster-1"} 2' in published
    assert 'kafka_partitions_with_late_transactions{cluster="cluster-0"} 0' in published
    assert 'kafka_partitions_with_late_transactions{cluster="cluster-1"}' not in published
    assert page.index("cluster-1") < page.index("cluster-0"), "what is not known stands before what is well"
    assert f"broker at {NOBODY} cannot be connected to" in got(fleet.routes, "/clusters/cluster-1")
    assert "cluster-0" in got(fleet.routes, "/clusters/cluster-0")
