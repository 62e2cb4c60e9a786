"""One of three real brokers dies: only its partitions are affected, coverage reports it, and it recovers."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest

from exporter.evaluation.verdicts import Evaluation, Verdict
from exporter.snapshot import PartitionResult
from hangbench.kafka.broker import HOST
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import plant_hang
from tests.conftest import MakeCluster
from tests.real_brokers.exporting import ended
from tests.watching import Watch

NODES = 3
SINGLE = 12  # topics of one partition and one replica each: they have nowhere to move


def topics_by_node(cluster: KafkaCluster) -> dict[str, int]:
    """Topic -> the one broker that holds it."""
    nodes = range(1, NODES + 1)
    return {cluster.topics.create_on(f"on-{node}-{n}", [node]): node for node in nodes for n in range(SINGLE // NODES)}


def unread_topics(evaluation: Evaluation) -> set[str]:
    partitions = evaluation.snapshot.partitions
    return {partitions.name(int(row))[0] for row in np.flatnonzero(partitions.answer != PartitionResult.READ)}


def failed_brokers(evaluation: Evaluation) -> set[int]:
    return {broker.broker for broker in evaluation.snapshot.brokers if broker.failure is not None}


def doctor(cluster: KafkaCluster, folder: Path) -> tuple[int, str]:
    """(exit status, output)"""
    run = ended(folder, "doctor", "--bootstrap-server", cluster.bootstrap, "--kafka.request.timeout.ms", "2000")
    return run.returncode, run.stdout


@pytest.mark.slow
def test_a_broker_that_dies_costs_its_own_partitions_only(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """Killed, paused, and back: only what it leads is unread, with the reason; one cycle after its return all is read.

    `doctor` names the broker and how many topics are left.
    """
    cluster = make_cluster("4.3.1", nodes=NODES)
    topics = topics_by_node(cluster)
    of_node_3 = {topic for topic, node in topics.items() if node == 3}
    plant_hang(cluster.bootstrap, "on-1-0", 0, "hang")

    with Watch(cluster.bootstrap, request_timeout_ms=2000) as watch:
        healthy = watch.cycle()
        assert unread_topics(healthy) == set()
        assert failed_brokers(healthy) == set()
        assert [row.verdict for row in healthy.suspects] == [Verdict.HANGING_NOT_IN_TRANSACTION]

        cluster.broker(3).pause()
        paused = watch.cycle()
        assert unread_topics(paused) & set(topics) == of_node_3
        assert failed_brokers(paused) == {3}
        assert "timed_out" in paused.snapshot.partitions.reasons
        status, output = doctor(cluster, tmp_path)
        assert (status, "Hangs can be proved on all" in output) == (4, False)
        # A limit once the controller has given it up: then no partition has it as its leader.
        assert re.search(rf"(?m)^(missing|limited) +brokers +broker at {HOST}:{cluster.broker(3).port} ", output)
        cluster.broker(3).resume()
        cluster.wait_until_serving()
        assert unread_topics(watch.cycle()) == set()

        cluster.broker(3).kill()
        killed = watch.cycle()
        assert unread_topics(killed) & set(topics) == of_node_3
        assert not killed.snapshot.is_complete
        status, output = doctor(cluster, tmp_path)
        assert (status, "Hangs can be proved on all" in output) == (4, False)
        assert "unread" in output

        cluster.broker(3).start()
        cluster.wait_until_serving()
        back = watch.cycle()
        assert unread_topics(back) == set()
        assert failed_brokers(back) == set()
        assert doctor(cluster, tmp_path)[0] == 0
        assert [row.verdict for row in back.suspects] == [Verdict.HANGING_NOT_IN_TRANSACTION]


def test_a_broker_that_dies_in_mid_cycle_is_survived(make_cluster: MakeCluster) -> None:
    """Killed while cycles run without pause, the broker costs at most its own partitions in any of them."""
    cluster = make_cluster("4.3.1", nodes=NODES)
    topics = topics_by_node(cluster)
    of_node_2 = {topic for topic, node in topics.items() if node == 2}

    with Watch(cluster.bootstrap, request_timeout_ms=2000) as watch:
        watch.cycle()
        killer = threading.Timer(0.05, cluster.broker(2).kill)
        killer.start()
        lost: set[str] = set()
        for _ in range(1000):
            lost = unread_topics(watch.cycle()) & set(topics)
            assert lost <= of_node_2
            if lost == of_node_2:
                break
        killer.join()

        assert lost == of_node_2
