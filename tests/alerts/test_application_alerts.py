"""Warnings about applications on a real broker, from its log: the exporter, the shipped rules and routes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.workload.producers import run_transaction
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import init_producer_id
from hangbench.situations.steps import Client
from tests.alerts.monitoring import Monitoring, Notification, hurried_rules, monitoring
from tests.real_brokers.exporting import serving
from tests.real_brokers.log_reading import QUICK

pytestmark = [pytest.mark.broker, pytest.mark.slow]

TIMEOUT_MS = 300
GROUPS = '[{"name": "slow", "match": "slow-.*"}, {"name": "twins", "match": "twin.*"}]'


@contextmanager
def monitored(cluster: KafkaCluster, folder: Path) -> Iterator[Monitoring]:
    """The log of this cluster, scraped and evaluated every second."""
    times = {"group_wait": "1s", "group_interval": "1s"}
    with (
        serving(cluster.bootstrap, folder, transaction_log__enabled="true", transaction_log__groups=GROUPS) as exporter,
        monitoring(
            exporter.url.removeprefix("http://"), hurried_rules(), folder, scrape_interval="1s", route=times
        ) as pair,
    ):
        exporter.until(lambda metrics: "kafka_transactions_completed_total" in metrics)
        yield pair


def about(reason: str, group: str) -> Callable[[Notification], bool]:
    return lambda notification: bool(notification.alerts("firing", reason=reason, group=group))


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_time_outs_and_fights_warn_by_group(version: str, tmp_path: Path) -> None:
    """Some transactions are never ended, two producers take one id from each other, and a third group is well."""
    over = threading.Event()
    with KafkaCluster(version, properties=QUICK) as cluster:
        cluster.topics.create("t")
        run_transaction(cluster.bootstrap, "calm", [("t", 0)])

        def be_used() -> None:
            number = 0
            while not over.wait(0.1):
                number += 1
                init_producer_id(cluster.bootstrap, "twin")
                if number % 5 == 0:
                    Client.begin(cluster.bootstrap, f"slow-{number % 10}", timeout_ms=TIMEOUT_MS).open("t", 0)
                    run_transaction(cluster.bootstrap, "calm", [("t", 0)])

        using = threading.Thread(target=be_used, daemon=True)
        with monitored(cluster, tmp_path) as pair:
            using.start()
            try:
                found = {}
                for reason, group in (("Timeouts", "slow"), ("FencingStorm", "twins")):
                    notification = pair.receiver.until(about(reason, group))
                    assert notification.receiver == "team"
                    (found[reason],) = notification.alerts("firing", reason=reason, group=group)
                firing = pair.query('ALERTS{alertstate="firing", alertname!="KafkaTransactionWatchdog"}')
            finally:
                over.set()
                using.join(30)

    labels = found["Timeouts"]["labels"]
    assert (labels["alertname"], labels["severity"]) == ("KafkaTransactionGroupFails", "warning")
    groups = {(labels["reason"], labels.get("group")) for labels in firing}
    assert ("Timeouts", "slow") in groups
    assert not {group for group in groups if group[1] == "other"}, "the group that is well"
