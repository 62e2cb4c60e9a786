"""From a hang on a real broker to a page and back: Kafka, exporter, Prometheus, Alertmanager and a receiver, all real."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from alerts.rules import Choices, Group, key_of, rule_groups, rules_of
from examples.workload.planting import PlantedTransaction, plant_hang
from tests.alerts.monitoring import EXTERNAL_CLUSTER, Alert, Monitoring, Notification, monitoring, until
from tests.brokers.cluster import KafkaCluster
from tests.real_brokers.exporting import Exporter, command, serving

HOUR_MS: Final = 3_600_000
GOAL_S: Final = 90
SNAPSHOT_AT: Final = "kafka_transaction_exporter_snapshot_timestamp_seconds"
MakeTopic = Callable[..., str]
FreshName = Callable[[str], str]


def hurried_rules() -> list[Group]:
    """The rules as they are, evaluated every second, and nothing waits or is kept for longer than some seconds."""
    alerts = [rule for rule in rules_of(rule_groups()) if "alert" in rule]
    durations = {
        key_of(rule): {name: hurry for name, hurry in (("for", "1s"), ("keep_firing_for", "5s")) if name in rule}
        for rule in alerts
    }
    return [{**group, "interval": "1s"} for group in rule_groups(Choices(durations=durations))]


@pytest.fixture
def exporter(kafka_4_3_1: KafkaCluster, tmp_path: Path) -> Iterator[Exporter]:
    with serving(kafka_4_3_1.bootstrap, tmp_path) as running:
        yield running


@pytest.fixture
def hurried(exporter: Exporter, tmp_path: Path) -> Iterator[Monitoring]:
    """Everything within seconds."""
    times = {"group_wait": "1s", "group_interval": "1s"}
    address = exporter.url.removeprefix("http://")
    with monitoring(address, hurried_rules(), tmp_path, scrape_interval="1s", route=times) as pair:
        yield pair


def pages(alert: str, topic: str, status: str = "firing") -> Callable[[Notification], bool]:
    return lambda notification: bool(
        notification.receiver == "pager" and notification.alerts(status, alertname=alert, topic=topic)
    )


def commands_in(alert: Alert, bootstrap: str) -> list[list[str]]:
    """What a person would paste, with the brokers filled in, run as `python -m exporter`."""
    lines = [line for line in alert["annotations"]["description"].splitlines() if line.startswith("kafka-transaction-")]
    return [command(*shlex.split(line.replace("$BOOTSTRAP", bootstrap))[1:]) for line in lines]


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    home = {**os.environ, "HOME": str(folder)}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=home, stdin=subprocess.DEVNULL)


def test_a_hang_pages_with_the_way_out_and_resolves_when_it_is_taken(
    kafka_4_3_1: KafkaCluster, hurried: Monitoring, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """The page has exactly its labels; its commands run as they stand; after `abort` it is resolved."""
    topic, transactional_id = make_topic(kafka_4_3_1), fresh_name("billing")
    hang = plant_hang(kafka_4_3_1.bootstrap, topic, 0, transactional_id)

    page = hurried.receiver.until(pages("KafkaTransactionHanging", topic))
    (alert,) = page.alerts("firing", alertname="KafkaTransactionHanging", topic=topic)
    (cluster,) = hurried.query("kafka_transaction_exporter_cluster_info")

    assert page.payload["groupLabels"] == {
        "cluster": EXTERNAL_CLUSTER,
        "cluster_id": cluster["cluster_id"],
        "job": "kafka-transaction-exporter",
        "topic": topic,
    }
    assert alert["labels"] == {
        **page.payload["groupLabels"],
        "alertname": "KafkaTransactionHanging",
        "severity": "critical",
        "partition": "0",
        "producer_id": str(hang.producer_id),
        "producer_epoch": "0",
        "start_offset": str(hang.start_offset),
    }
    description = alert["annotations"]["description"]
    assert (
        f'partition 0, cluster {EXTERNAL_CLUSTER}: producer {hang.producer_id}, transactional id "{transactional_id}",'
        in description
    )
    assert "Verdict: hanging_not_in_transaction." in description

    find_hanging, abort = commands_in(alert, kafka_4_3_1.bootstrap)
    found = run(find_hanging, tmp_path)
    assert (found.returncode, transactional_id in found.stdout) == (0, True), found.stderr
    planned = run(abort, tmp_path)
    assert planned.returncode == 0, planned.stdout + planned.stderr

    assert not any(pages("KafkaTransactionHanging", topic, "resolved")(each) for each in hurried.receiver.notifications)
    done = run([*(word for word in abort if word != "--dry-run"), "--yes"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    hurried.receiver.until(pages("KafkaTransactionHanging", topic, "resolved"))


@pytest.mark.slow
def test_one_page_for_a_topic_and_none_for_what_a_hang_explains(
    kafka_4_3_1: KafkaCluster, hurried: Monitoring, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """Hangs of one topic come together; late transactions and lagging groups on the partition of a hang are muted."""
    topic = make_topic(kafka_4_3_1, partitions=2)
    long_ago = int(time.time() * 1000) - HOUR_MS
    for partition in (0, 1):
        plant_hang(kafka_4_3_1.bootstrap, topic, partition, fresh_name("billing"), timestamp_ms=long_ago)

    both = hurried.receiver.until(
        lambda notification: len(notification.alerts("firing", alertname="KafkaTransactionHanging", topic=topic)) == 2
    )
    assert both.payload["groupLabels"]["topic"] == topic
    hurried.until_muted(alertname="KafkaPartitionsWithLateTransactions", topic=topic, partition="1")

    lag = {"alertname": "KafkaConsumerGroupLag", "severity": "warning", "cluster": EXTERNAL_CLUSTER, "topic": topic}
    hurried.post_alert(**lag, partition="1")
    hurried.until_muted(alertname="KafkaConsumerGroupLag", topic=topic, partition="1")
    hurried.post_alert(**lag, partition="2")
    heard = hurried.receiver.until(lambda notification: bool(notification.alerts("firing", **lag)))
    assert [alert["labels"]["partition"] for alert in heard.alerts("firing", **lag)] == ["2"]

    muted = ("KafkaPartitionsWithLateTransactions", "KafkaConsumerGroupLag")
    for notification in hurried.receiver.notifications:
        for name in muted:
            told = notification.alerts("firing", alertname=name, topic=topic)
            assert all(alert["labels"]["partition"] == "2" for alert in told), told


@pytest.mark.slow
def test_an_exporter_that_goes_pages_and_stops_the_dead_mans_switch(exporter: Exporter, hurried: Monitoring) -> None:
    """While it watches, the switch is fed; when it is killed, that is a page, and the switch is no longer fed."""
    fed = hurried.receiver.until(lambda notification: notification.receiver == "dead-mans-switch")
    assert fed.alerts("firing", alertname="KafkaTransactionWatchdog", cluster=EXTERNAL_CLUSTER)

    exporter.process.kill()

    page = hurried.receiver.until(
        lambda notification: bool(notification.alerts("firing", alertname="KafkaTransactionExporterDown"))
    )
    assert page.receiver == "pager"
    hurried.receiver.until(
        lambda notification: (
            notification.receiver == "dead-mans-switch" and notification.payload["status"] == "resolved"
        )
    )


def _until_a_cycle_begins(exporter: Exporter) -> None:
    """Return within a second after the exporter has begun to read a new snapshot."""
    before = exporter.metrics()[SNAPSHOT_AT][()]
    until(lambda: exporter.metrics()[SNAPSHOT_AT][()] != before, lambda: exporter.log)


@pytest.mark.slow
@pytest.mark.parametrize("scrape_interval", ["15s", "30s"])
def test_a_hang_pages_within_ninety_seconds(
    scrape_interval: str,
    kafka_4_3_1: KafkaCluster,
    make_topic: MakeTopic,
    fresh_name: FreshName,
    tmp_path: Path,
) -> None:
    """Settings, rules and routes as they are shipped: from the first record of a hang to the page, wherever it falls."""
    settings: dict[str, Any] = {"scan.interval": "30s", "scan.deadline": "25s"}
    took = []
    with (
        serving(kafka_4_3_1.bootstrap, tmp_path, **settings) as running,
        monitoring(
            running.url.removeprefix("http://"), rule_groups(), tmp_path, scrape_interval=scrape_interval, route={}
        ) as pair,
    ):
        pair.receiver.until(lambda notification: notification.receiver == "dead-mans-switch")
        for after_s in (1, 8, 16, 24):
            _until_a_cycle_begins(running)
            time.sleep(after_s)
            topic = make_topic(kafka_4_3_1)
            hang: PlantedTransaction = plant_hang(kafka_4_3_1.bootstrap, topic, 0, fresh_name("billing"))
            page = pair.receiver.until(pages("KafkaTransactionHanging", topic), patience_s=4 * GOAL_S)
            took.append(page.received_at - hang.timestamp_ms / 1000)
            print(
                f"scraped every {scrape_interval}, hang {after_s} s after a cycle began: paged {took[-1]:.1f} s later"
            )

    assert max(took) < GOAL_S
