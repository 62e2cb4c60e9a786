"""What `serve` publishes and `doctor --cluster` prints of real brokers is what they are set to."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.workload.producers import run_transaction
from hangbench.kafka.cluster import KafkaCluster
from tests.real_brokers.exporting import Series, ended, serving

PROTECTION = "kafka_transaction_protection"
SET_BY_THE_CLUSTER: dict[str, str | int] = {
    "transaction.state.log.min.isr": 1,
    "transaction.partition.verification.enable": "true",
}
EXPECTED = {
    "4.3.1": {"transaction_version": 1, "state_topic_min_in_sync": 0},
    "3.9.1": {"transaction_version": 0, "state_topic_min_in_sync": 0},
    "3.3.2": {"transaction_version": 0, "state_topic_min_in_sync": 0, "partition_verification": 0},
}
USUAL = {
    "partition_verification": 1,
    "state_topic_unclean_election": 1,
    "state_topic_replicas": 0,
    "state_topic_in_sync": 1,
    "state_topic_cleanup": 1,
    "unclean_election": 1,
    "broker_versions": 1,
}


def by_check(metrics: dict[str, Series]) -> dict[str, float]:
    return {check: value for (check,), value in metrics.get(PROTECTION, {}).items()}


@pytest.mark.broker
@pytest.mark.parametrize(
    "version", ["4.3.1", *(pytest.param(old, marks=pytest.mark.slow) for old in ("3.9.1", "3.3.2"))]
)
def test_each_check_is_what_the_brokers_are_set_to(version: str, tmp_path: Path) -> None:
    """One replica and a low minimum are exposed; before 3.6 there is no verification, before 4.0 no second version."""
    with KafkaCluster(version, properties=SET_BY_THE_CLUSTER) as cluster:
        topic = cluster.topics.create("orders")
        run_transaction(cluster.bootstrap, "app", [(topic, 0)])
        with serving(cluster.bootstrap, tmp_path, scan__interval="2s", scan__deadline="1s") as exporter:
            metrics = exporter.until(lambda seen: PROTECTION in seen)
        printed = ended(tmp_path, "doctor", "--cluster", "--bootstrap-server", cluster.bootstrap)

    assert by_check(metrics) == {**USUAL, **EXPECTED[version]}
    features = {name: value for (name,), value in metrics["kafka_feature_level"].items()}
    assert features.get("transaction.version", 0) == (2 if version.startswith("4.") else 0)
    assert "limited  protection        replicas of __transaction_state: 1" in printed.stdout
    assert printed.returncode == 0
