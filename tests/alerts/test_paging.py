"""From a hang on a real broker to a page and back: Kafka, exporter, Prometheus, Alertmanager and a receiver, all real."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from examples.workload.producers import run_transaction
from exporter.artifacts.rules import rule_groups
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.groups import commit_all
from hangbench.kafka.planting import PlantedTransaction, plant_hang, write_marker
from hangbench.waiting import until
from tests.alerts.monitoring import (
    EXTERNAL_CLUSTER,
    Monitoring,
    Notification,
    hurried_rules,
    monitoring,
)
from tests.alerts.pasting import variables_in
from tests.alerts.timeline import SNAPSHOT_AT
from tests.conftest import FreshName, MakeTopic
from tests.real_brokers.exporting import Exporter, ended, serving
from tests.runbooks.desk import Desk

EXTERNAL_URL: Final = "https://proxy.example.org/kafka"
HOUR_MS: Final = 3_600_000
GOAL_S: Final = 90
RESOLVE_GOAL_S: Final = 120
SETTLED: Final = "instance:kafka_transaction_exporter_coverage_complete:settled"
"""The exporter has run for long enough to end an alert."""
GROUP_INTERVAL_S: Final = 30
"""Of the example's route to the pager: the longest time that Alertmanager waits with a change."""


@pytest.fixture
def exporter(kafka_4_3_1: KafkaCluster, tmp_path: Path) -> Iterator[Exporter]:
    with serving(kafka_4_3_1.bootstrap, tmp_path, publish__external_url=EXTERNAL_URL) as running:
        yield running


@pytest.fixture
def late_topic(kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName) -> str:
    """Two hangs of an hour ago; an exporter that has read the partitions before would know that they are younger."""
    topic = make_topic(kafka_4_3_1, partitions=2)
    long_ago = int(time.time() * 1000) - HOUR_MS
    for partition in (0, 1):
        plant_hang(kafka_4_3_1.bootstrap, topic, partition, fresh_name("billing"), timestamp_ms=long_ago)
        run_transaction(kafka_4_3_1.bootstrap, fresh_name("behind"), [(topic, partition)], records=5)
    return topic


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


def firing_about(pair: Monitoring, topic: str) -> set[str]:
    """Names of the alerts of Prometheus that fire about a topic."""
    return {alert["alertname"] for alert in pair.query(f'ALERTS{{alertstate="firing", topic="{topic}"}}')}


def until_firing(pair: Monitoring, topic: str, names: set[str]) -> None:
    """Wait until exactly these alerts fire about a topic."""
    until(lambda: firing_about(pair, topic), names.__eq__, patience_s=4 * GOAL_S, pause_s=0.1)


def commit_offset(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """A consumer group that has read partition 0 up to this offset."""
    commit_all(bootstrap, group, {(topic, 0): offset})


def test_a_hang_pages_with_the_way_out_and_resolves_when_it_is_taken(
    kafka_4_3_1: KafkaCluster,
    exporter: Exporter,
    hurried: Monitoring,
    make_topic: MakeTopic,
    fresh_name: FreshName,
    tmp_path: Path,
) -> None:
    """The page has exactly its labels and leads to its incident; the runbook's commands run with its variables."""
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
        "reason": "Hanging",
        "component": "kafka-transactions",
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
    assert "verdict hanging_not_in_transaction." in description
    assert not any(pages("KafkaTransactionHanging", topic, "resolved")(each) for each in hurried.receiver.notifications)

    offset = f"start_offset={hang.start_offset}"
    assert alert["annotations"]["page_url"] == f"{EXTERNAL_URL}/incidents?topic={topic}&partition=0&{offset}"
    status, incident = exporter.get(alert["annotations"]["page_url"].removeprefix(EXTERNAL_URL))
    assert (status, "<title>Incident " in incident, transactional_id in incident) == (200, True, True)

    desk = Desk(tmp_path, {"BOOTSTRAP": kafka_4_3_1.bootstrap, **variables_in(alert)})
    desk.has_tools_of(kafka_4_3_1)
    with desk.reading("KafkaTransactionHanging") as operator:
        operator.pastes("abort", "--dry-run", shows=transactional_id)
        operator.pastes("find-hanging", "json", shows='"outcome_evidence": "none"')
        operator.pastes("kafka-console-consumer.sh", shows="planted")
        operator.pastes("abort", shows="the transaction is closed")
        operator.pastes("find-hanging", "--exit-code", hides="hanging_")
    hurried.receiver.until(pages("KafkaTransactionHanging", topic, "resolved"))


def test_doctor_finds_the_exporter_and_its_alerts_in_prometheus(
    kafka_4_3_1: KafkaCluster, hurried: Monitoring, tmp_path: Path
) -> None:
    """The newest snapshot of this very cluster, and how many alerts are loaded."""
    hurried.receiver.until(lambda notification: notification.receiver == "dead-mans-switch")

    run = ended(tmp_path, "doctor", "--bootstrap-server", kafka_4_3_1.bootstrap, "--prometheus", hurried.prometheus)

    lines = [line for line in run.stdout.splitlines() if " Prometheus " in line]
    assert run.returncode == 0, run.stdout
    assert re.fullmatch(r"ok       Prometheus        it has a snapshot that is \d+ m?s old", lines[0]), lines
    assert re.fullmatch(r"ok       Prometheus        it has \d\d alerts of the exporter", lines[1]), lines
    assert len(lines) == 2


def test_doctor_misses_the_signals_of_alerts(kafka_4_3_1: KafkaCluster, exporter: Exporter, tmp_path: Path) -> None:
    """A Prometheus has the file of the alerts alone: no alert about a hang can fire there."""
    alerts = [group for group in hurried_rules() if any("alert" in rule for rule in group["rules"])]
    address = exporter.url.removeprefix("http://")
    with monitoring(address, alerts, tmp_path, scrape_interval="1s", route={}) as pair:
        until(lambda: pair.query("kafka_transaction_exporter_cluster_info"), bool, patience_s=GOAL_S)
        run = ended(tmp_path, "doctor", "--bootstrap-server", kafka_4_3_1.bootstrap, "--prometheus", pair.prometheus)

    assert run.returncode == 4, run.stdout
    assert re.search(
        r"missing  Prometheus        it has \d\d alerts of the exporter, but not \d+ recording rules that they need",
        run.stdout,
    ), run.stdout


@pytest.mark.slow
def test_one_page_for_a_topic_and_none_for_what_a_hang_explains(late_topic: str, hurried: Monitoring) -> None:
    """Hangs of one topic come together; that they are late and block consumers says no other alert; lag is muted."""
    topic = late_topic
    both = hurried.receiver.until(
        lambda notification: len(notification.alerts("firing", alertname="KafkaTransactionHanging", topic=topic)) == 2
    )
    assert both.payload["groupLabels"]["topic"] == topic

    lag = {"alertname": "KafkaConsumerGroupLag", "severity": "warning", "cluster": EXTERNAL_CLUSTER, "topic": topic}
    hurried.post_alert(**lag, partition="1")
    hurried.until_muted(alertname="KafkaConsumerGroupLag", topic=topic, partition="1")
    hurried.post_alert(**lag, partition="2")
    heard = hurried.receiver.until(lambda notification: bool(notification.alerts("firing", **lag)))
    assert [alert["labels"]["partition"] for alert in heard.alerts("firing", **lag)] == ["2"]

    late = hurried.query(f'kafka_partition_late_transactions{{topic="{topic}"}} > 0')
    assert {labels["partition"] for labels in late} == {"0", "1"}, "the other alert has its condition"
    assert firing_about(hurried, topic) == {"KafkaTransactionHanging"}
    sent = {
        (alert["labels"]["alertname"], alert["labels"].get("partition"))
        for notification in hurried.receiver.notifications
        for alert in notification.alerts("firing", topic=topic)
    }
    assert sent == {
        ("KafkaTransactionHanging", "0"),
        ("KafkaTransactionHanging", "1"),
        ("KafkaConsumerGroupLag", "2"),
    }


@pytest.mark.slow
def test_after_an_abort_all_of_it_ends_within_two_minutes(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Settings, rules and routes as they are shipped: from the marker to no alert, and to the resolved page."""
    settings: dict[str, Any] = {"scan.interval": "30s", "scan.deadline": "25s"}
    ended, notified = [], []
    with (
        serving(kafka_4_3_1.bootstrap, tmp_path, **settings) as running,
        monitoring(
            running.url.removeprefix("http://"), rule_groups(), tmp_path, scrape_interval="15s", route={}
        ) as pair,
    ):
        pair.receiver.until(lambda notification: notification.receiver == "dead-mans-switch")
        until(lambda: pair.query(SETTLED), patience_s=4 * GOAL_S)
        for after_s in (1, 8, 16, 24):
            topic, group = make_topic(kafka_4_3_1), fresh_name("readers")
            long_ago = int(time.time() * 1000) - HOUR_MS
            hang = plant_hang(kafka_4_3_1.bootstrap, topic, 0, fresh_name("billing"), timestamp_ms=long_ago)
            commit_offset(kafka_4_3_1.bootstrap, group, topic, 0)
            pair.receiver.until(pages("KafkaTransactionHanging", topic), patience_s=4 * GOAL_S)
            until_firing(pair, topic, {"KafkaTransactionHanging", "KafkaTransactionBlocksGroup"})
            _until_a_cycle_begins(running)
            time.sleep(after_s)
            write_marker(kafka_4_3_1.bootstrap, topic, 0, hang.producer_id, hang.producer_epoch, commit=False)
            marked_at = time.time()
            until_firing(pair, topic, set())
            ended.append(time.time() - marked_at)
            resolved = pair.receiver.until(pages("KafkaTransactionHanging", topic, "resolved"), patience_s=4 * GOAL_S)
            notified.append(resolved.received_at - marked_at)
            print(
                f"marker {after_s} s after a cycle began: ended {ended[-1]:.1f} s, notified {notified[-1]:.1f} s later"
            )
            about_it = [sent for sent in pair.receiver.notifications if sent.alerts("firing", topic=topic)]
            assert {notification.receiver for notification in about_it} == {"pager"}

    assert max(ended) < RESOLVE_GOAL_S
    assert max(notified) < RESOLVE_GOAL_S + GROUP_INTERVAL_S


@pytest.mark.slow
def test_an_exporter_that_goes_pages_and_stops_the_dead_mans_switch(exporter: Exporter, hurried: Monitoring) -> None:
    """While it watches, the switch is fed; when it is killed, that is a page, and the switch is no longer fed."""
    fed = hurried.receiver.until(lambda notification: notification.receiver == "dead-mans-switch")
    assert fed.alerts("firing", alertname="KafkaTransactionWatchdog", cluster=EXTERNAL_CLUSTER)

    exporter.process.kill()

    page = hurried.receiver.until(
        lambda notification: bool(
            notification.alerts("firing", alertname="KafkaTransactionExporterBlind", reason="ExporterDown")
        )
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
    until(lambda: exporter.metrics()[SNAPSHOT_AT][()] != before, status=lambda: exporter.log)


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
