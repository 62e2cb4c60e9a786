"""Kafka with ZooKeeper has no DescribeQuorum: its brokers confirm leaders among themselves, and the proof is complete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.workload.producers import OpenTransaction, run_transaction
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang, plant_hang_without_id
from tests.brokers.messages import committed_records
from tests.brokers.zookeeper import ZooKeeperCluster
from tests.marks import starts
from tests.real_brokers.exporting import called

TOPIC = "orders"
PARTITIONS = 3
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["3.9.1", "3.0.2"])
@starts("broker")
def cluster(request: pytest.FixtureRequest) -> Iterator[ZooKeeperCluster]:
    """Three brokers, on which an id has been used."""
    made = ZooKeeperCluster(request.param, nodes=3, properties=HANGS_CAN_BE_PLANTED)
    with made:
        made.topics.create(TOPIC, partitions=PARTITIONS)
        run_transaction(made.bootstrap, "billing-0", [(TOPIC, partition) for partition in range(PARTITIONS)])
        yield made


def found(folder: Path, cluster: ZooKeeperCluster, command: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    """(exit status, its JSON)."""
    done = called(folder, command, "--bootstrap-server", cluster.bootstrap, "--format", "json", *arguments)
    return done.returncode, json.loads(done.stdout)


def test_what_doctor_promises_is_proved_and_can_be_aborted(cluster: ZooKeeperCluster, tmp_path: Path) -> None:
    """Two hangs are proved beside a live transaction, and after `abort` the records behind the first are read."""
    hang = plant_hang(cluster.bootstrap, TOPIC, 0, "billing-1")
    plant_hang_without_id(cluster.bootstrap, TOPIC, 1)

    def verdicts() -> dict[int, str]:
        _, everything = found(tmp_path, cluster, "find-hanging", "--all")
        assert (everything["coverage"]["complete"], everything["coverage"]["proof_level"]) == (True, "full")
        return {row["partition"]: row["verdict"] for row in everything["transactions"]}

    with OpenTransaction(cluster.bootstrap, "billing-2", [(TOPIC, 2)], timeout_ms=600_000):
        status, diagnosis = found(tmp_path, cluster, "doctor")
        assert (status, diagnosis["level"], diagnosis["provable"]) == (0, "full", "all"), diagnosis
        before = verdicts()
        place = ("--topic", TOPIC, "--partition", "0", "--start-offset", str(hang.start_offset))
        abort = called(tmp_path, "abort", "--bootstrap-server", cluster.bootstrap, *place, "--yes")
        assert abort.returncode == 0, abort.stderr
        after = verdicts()

    still = {1: "hanging_no_transactional_id", 2: "open_within_timeout"}
    assert before == {0: "hanging_not_in_transaction", **still}
    assert after == still
    run_transaction(cluster.bootstrap, "billing-0", [(TOPIC, 0)])
    behind = hang.start_offset + 2
    assert committed_records(cluster, TOPIC, behind, behind) == [behind]


@pytest.fixture
@starts("broker")
def oldest() -> Iterator[ZooKeeperCluster]:
    """Kafka 2.8, the first with DescribeProducers, whose coordinators cannot be queried yet."""
    made = ZooKeeperCluster("2.8.2")
    with made:
        made.topics.create(TOPIC)
        run_transaction(made.bootstrap, "billing-0", [(TOPIC, 0)])
        yield made


def test_kafka_2_8_proves_nothing_and_says_what_it_lacks(oldest: ZooKeeperCluster, tmp_path: Path) -> None:
    """A hang is shown, with the reason why it is not proved."""
    plant_hang(oldest.bootstrap, TOPIC, 0, "billing-1")

    status, diagnosis = found(tmp_path, oldest, "doctor")
    _, everything = found(tmp_path, oldest, "find-hanging", "--all")

    assert (status, diagnosis["level"], diagnosis["provable"]) == (4, "watch_only", "none")
    assert "brokers that do not offer DescribeTransactions: Kafka 3.0 or later is needed" in diagnosis["sentence"]
    assert [(row["verdict"], row["inconclusive_reason"]) for row in everything["transactions"]] == [
        ("inconclusive", "transactions_not_offered")
    ]
