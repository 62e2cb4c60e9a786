"""The audit has a `transaction_log` that lacks a partition of `__transaction_state`: not read, or without new records."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from examples.workload.producers import run_transaction
from exporter.audit.verdicts import AuditVerdict
from exporter.kafka.state_partitions import state_partition
from hangbench.kafka.cluster import KafkaCluster
from tests.audit.auditor import Auditor
from tests.conftest import MakeCluster
from tests.pipeline.log_records import positions

TOPIC: Final = "orders"
PARTITIONS: Final = 3


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> KafkaCluster:
    made = make_cluster("4.3.1", nodes=1)
    made.topics.create(TOPIC, partitions=PARTITIONS)
    return made


def commit(cluster: KafkaCluster, transactional_id: str) -> None:
    run_transaction(cluster.bootstrap, transactional_id, [(TOPIC, number) for number in range(PARTITIONS)])


def log_partition(cluster: KafkaCluster, transactional_id: str) -> int:
    _, offsets = positions(cluster.bootstrap)
    return state_partition(transactional_id, len(offsets))


def another(is_wanted: Callable[[str], bool]) -> str:
    return next(name for number in range(1000) if is_wanted(name := f"worker-{number}"))


def test_a_partition_that_was_not_read_accuses_nobody(
    cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """Its transactions' markers have no decision in the table; they wait for it."""
    commit(cluster, "read")
    read = log_partition(cluster, "read")
    name = another(lambda name: log_partition(cluster, name) != read)
    unread = log_partition(cluster, name)
    commit(cluster, name)
    time.sleep(0.1)
    commit(cluster, "read")

    result = Auditor(spark, cluster.bootstrap, tmp_path / "part").audit(without=[unread])
    whole = Auditor(spark, cluster.bootstrap, tmp_path / "whole").audit()

    assert result.findings == {}
    assert result.log_behind >= PARTITIONS
    assert result.waiting >= PARTITIONS
    assert whole.transactions == {AuditVerdict.AS_DECIDED: 3}
    assert (whole.findings, whole.log_behind, whole.waiting) == ({}, 0, 0)


def test_a_partition_without_new_records_is_not_behind(
    cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """Most partitions of the log are idle for longer than the table looks back: nothing of them is to be read."""
    commit(cluster, "idle")
    idle = log_partition(cluster, "idle")
    time.sleep(0.1)
    commit(cluster, another(lambda name: log_partition(cluster, name) != idle))

    result = Auditor(spark, cluster.bootstrap, tmp_path).audit(without=[idle])

    assert result.transactions == {AuditVerdict.AS_DECIDED: 1}
    assert (result.findings, result.log_behind, result.waiting) == ({}, 0, 0)
