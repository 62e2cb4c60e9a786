"""The audit of real brokers that have lost a part of a log, as a crash, an election, a cleaner or an operator takes it."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.workload.producers import OpenTransaction, transactional_producer
from examples.workload.rhythm import Rhythm
from exporter.audit.verdicts import AuditVerdict, Reason
from hangbench.kafka.cluster import KafkaCluster
from hangbench.waiting import until
from tests.audit.auditor import Auditor
from tests.conftest import FreshName, MakeCluster
from tests.pipeline.log_records import worked
from tests.verification.causes.scenes import (
    Made,
    coordinator_log_lost,
    coordinator_log_truncated,
    foreign_records,
    marker_lost,
)
from tests.workload.conftest import PARTITIONS

pytestmark = pytest.mark.slow
VERSIONS = ("4.3.1", "3.9.1")
SEGMENT_BYTES, RECORD_BYTES = 1 << 20, 10_000
FORGETFUL = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": str(SEGMENT_BYTES),
    "delete.retention.ms": "100",
}
"""A topic that keeps neither old values nor old markers."""
QUICK_CLEANER = {"log.cleaner.backoff.ms": 200, "log.segment.delete.delay.ms": 100}
Scene = Callable[[str], AbstractContextManager[Made]]


def kept_marker(version: str) -> AbstractContextManager[Made]:
    return marker_lost(version, unclean=False)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        pytest.param(marker_lost, {AuditVerdict.MARKER_MISSING}, id="a leader without the marker"),
        pytest.param(kept_marker, set(), id="the leader that has the marker"),
        pytest.param(coordinator_log_lost, {AuditVerdict.MARKER_WITHOUT_DECISION}, id="a log that was lost"),
        pytest.param(coordinator_log_truncated, {AuditVerdict.MARKER_WITHOUT_DECISION}, id="a log that was cut off"),
        pytest.param(foreign_records, set(), id="records of another cluster, older than the decisions"),
    ],
)
def test_what_is_lost_has_its_name(
    scene: Scene, expected: set[AuditVerdict], version: str, spark: SparkSession, tmp_path: Path
) -> None:
    with scene(version) as made:
        time.sleep(2)  # the log goes on later than brokers' clocks may differ
        with OpenTransaction(made.bootstrap, "another", [(made.topic, 0)]):
            pass
        auditor = Auditor(spark, made.bootstrap, tmp_path)
        result = auditor.audit()

    found = [(row.verdict, row.topic) for row in auditor.found() if row.verdict != AuditVerdict.UNKNOWN.value]
    print(result, [row.asDict() for row in auditor.found()])
    assert {verdict for verdict, _ in found} == {verdict.value for verdict in expected}
    assert len(found) == len(expected)
    if AuditVerdict.MARKER_MISSING in expected:
        assert {row.first_offset for row in auditor.found()} == {made.start_offset}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_is_made_anew_accuses_nobody(
    version: str, make_cluster: MakeCluster, fresh_name: FreshName, spark: SparkSession, tmp_path: Path
) -> None:
    """Before the first audit, and between two: what was in the old one is hidden, what is in the new one is compared."""
    cluster = make_cluster(version)
    auditor = Auditor(spark, cluster.bootstrap, tmp_path)
    topic = fresh_name("topic")
    rhythm = Rhythm(transactions=6, abort_share=0.3)
    results = []
    for turn in range(3):
        cluster.topics.create(topic, partitions=len(PARTITIONS))
        worked(cluster, topic, fresh_name("worker"), rhythm)
        if turn:
            worked(cluster, topic, fresh_name("worker"), rhythm)
            results.append(auditor.audit())
        worked(cluster, topic, fresh_name("worker"), rhythm)
        if turn < 2:
            cluster.topics.delete(topic)
    results.append(auditor.audit())

    assert [result.findings for result in results] == [Counter()] * 3
    print([result.transactions for result in results])
    assert {row.reason for row in auditor.found()} <= {Reason.NOT_READ_THEN.value, Reason.HIDDEN.value}
    assert results[-1].transactions == {AuditVerdict.AS_DECIDED: 12}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cleaner_that_takes_markers_accuses_nobody(
    version: str, make_cluster: MakeCluster, fresh_name: FreshName, spark: SparkSession, tmp_path: Path
) -> None:
    cluster = make_cluster(version, properties=QUICK_CLEANER)
    auditor = Auditor(spark, cluster.bootstrap, tmp_path)
    topic = cluster.topics.create(fresh_name("topic"), config=FORGETFUL)
    results = []
    for _ in range(2):
        commit_same_keys(cluster, topic, fresh_name("worker"), transactions=300)
        until(lambda: cleaned_size(cluster, topic, fresh_name("worker")), lambda size: size < SEGMENT_BYTES)
        commit_same_keys(cluster, topic, fresh_name("worker"), transactions=20)
        results.append(auditor.audit())

    print([result.transactions for result in results], Counter(row.reason for row in auditor.found()))
    assert [result.findings for result in results] == [Counter()] * 2
    assert {row.reason for row in auditor.found()} <= {Reason.COMPACTED.value, Reason.NOT_READ_THEN.value}
    assert all(result.transactions[AuditVerdict.UNKNOWN] for result in results)
    assert all(result.transactions[AuditVerdict.AS_DECIDED] for result in results)


def commit_same_keys(cluster: KafkaCluster, topic: str, name: str, *, transactions: int) -> None:
    producer = transactional_producer(cluster.bootstrap, name, timeout_ms=60_000)
    for number in range(transactions):
        producer.begin_transaction()
        producer.produce(topic, os.urandom(RECORD_BYTES), key=f"k{number % 5}".encode(), partition=0)
        producer.commit_transaction(30)


def cleaned_size(cluster: KafkaCluster, topic: str, name: str) -> int:
    """Size of all segments but the newest one, which the cleaner leaves alone until another one begins."""
    commit_same_keys(cluster, topic, name, transactions=30)
    folder = cluster.broker(1).directory / "data" / f"{topic}-0"
    *older, _ = sorted(folder.glob("*.log"))
    return sum(path.stat().st_size for path in older if path.exists()) if older else SEGMENT_BYTES
