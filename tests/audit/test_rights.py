"""An audit has a login that may not read every topic: what it could not read is unknown, with the right that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType
from pyspark.sql import SparkSession

from exporter.audit.reading import RangeResult, list_partitions, ranges_of, read_ranges
from exporter.audit.verdicts import AuditVerdict
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.topic_filter import NO_FILTER
from hangbench.kafka.acls import acls_until_the_end, allow
from hangbench.kafka.second_door import GuardedCluster
from hangbench.waiting import until
from tests.audit.auditor import Auditor
from tests.marks import starts
from tests.pipeline.log_records import PATIENCE_S
from tests.watching import settings_at

USER: Final = "auditor"
PARTITIONS: Final = 12
NEEDS_READ: Final = "not authorized to read seen (TOPIC_AUTHORIZATION_FAILED): needs READ on it"


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
@starts("broker")
def guarded(request: pytest.FixtureRequest) -> Iterator[GuardedCluster]:
    """Topics that the user may read, may only see, and does not see."""
    cluster = GuardedCluster(request.param, users=(USER,))
    with cluster, acls_until_the_end(cluster.bootstrap) as create:
        for topic in ("read", "seen", "hidden"):
            cluster.topics.create(topic, partitions=PARTITIONS)
        create(
            [
                allow(USER, ResourceType.TOPIC, "read", AclOperation.READ),
                allow(USER, ResourceType.TOPIC, "__transaction_state", AclOperation.READ),
                allow(USER, ResourceType.TOPIC, "seen", AclOperation.DESCRIBE),
                allow(USER, ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
            ]
        )
        yield cluster


def test_what_may_not_be_read_is_unknown_and_nobody_is_accused(
    guarded: GuardedCluster, spark: SparkSession, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": guarded.bootstrap, "transactional.id": "worker"})
    producer.init_transactions(PATIENCE_S)
    for topics in (("read",), ("read", "seen"), ("seen",), ("read", "hidden")):
        producer.begin_transaction()
        for topic in topics:
            for partition in range(PARTITIONS):
                producer.produce(topic, b"x", partition=partition)
        producer.commit_transaction(PATIENCE_S)
    auditor = Auditor(spark, guarded.bootstrap, tmp_path, kafka=settings_at(guarded.door, user=USER).kafka)

    result = auditor.audit()

    assert result.findings == {}
    assert result.transactions == {AuditVerdict.AS_DECIDED: 1, AuditVerdict.UNKNOWN: 3}
    assert result.unread == dict.fromkeys([("seen", partition) for partition in range(PARTITIONS)], NEEDS_READ)


def test_a_topic_that_may_not_be_read_is_requested_once(
    guarded: GuardedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand partitions with eight attempts each would take an hour, in each run, and fill the authorizer's log."""
    kafka = settings_at(guarded.door, user=USER).kafka
    ends = until(lambda: list_partitions(kafka, NO_FILTER).ends, lambda ends: ("seen", 0) in ends)["seen", 0]
    monkeypatch.setattr(ClusterClient, "pause", None)

    result = list(read_ranges(kafka, ranges_of(("seen", 0), ends, 0, end=1)))

    assert [each.failure for each in result if isinstance(each, RangeResult)] == [NEEDS_READ]
