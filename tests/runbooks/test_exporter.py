"""Follows the runbooks of alerts about the exporter, while a real exporter is in the state of the alert."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.commands.context import CONFIG_FILE
from exporter.storage.last_audit import LastAudit, document, file_name
from hangbench.kafka.planting import plant_hang
from hangbench.kafka.second_door import PASSWORD, GuardedCluster
from hangbench.waiting import until
from tests.alerts.monitoring import hurried_rules, monitoring
from tests.conftest import FreshName, MakeTopic
from tests.real_brokers.exporting import serving
from tests.runbooks.conftest import ONE_TOPIC
from tests.runbooks.desk import Desk, SettingsFile, about, granted, value

pytestmark = pytest.mark.broker


RELOADED = "kafka_transaction_exporter_config_last_reload_successful"
SUCCESS = "kafka_transaction_exporter_last_cycle_success"
FAILED = "kafka_transaction_exporter_cycles_failed_total"
CLUSTER_INFO = "kafka_transaction_exporter_cluster_info"
UNREAD = "kafka_transaction_exporter_partitions"
VISIBLE = "kafka_transaction_exporter_visible_topics"
INCONCLUSIVE = "kafka_transaction_exporter_inconclusive_transactions"
FINDINGS = "kafka_transaction_audit_findings"
AHEAD_S = 60


@contextmanager
def own_login(desk: Desk) -> Iterator[None]:
    """Without the exporter's settings."""
    file = desk.variables.pop(CONFIG_FILE)
    yield
    desk.variables[CONFIG_FILE] = file


def test_down(desk: Desk, settings_file: SettingsFile, tmp_path: Path) -> None:
    """It was killed, and would not start with these settings; once they are mended it is started and ready."""
    path = settings_file("watcher", "scan.intervall: 30s\n")
    with serving(None, tmp_path, config_file=settings_file("watcher")) as exporter:
        about(desk, exporter, path)
        exporter.process.kill()
        exporter.process.wait()
    settings_file("watcher", "scan.intervall: 30s\n")

    with desk.reading("KafkaTransactionExporterDown") as operator:
        with own_login(desk):
            operator.pastes("find-hanging", shows="Verdict")
        operator.pastes("get", "/-/healthy", status=1, shows="Connection refused")
        operator.pastes("config check", status=1, shows="scan.intervall: unknown setting")
        settings_file("watcher")
        with serving(None, tmp_path, config_file=path) as again:
            about(desk, again, path)
            again.until(lambda metrics: CLUSTER_INFO in metrics)
            operator.pastes("get", "/-/ready", shows="Ready.")


def test_snapshot_stale(desk: Desk, settings_file: SettingsFile, tmp_path: Path) -> None:
    """Its password was changed at the brokers: page and command report it; the new one is used without a restart."""
    path = settings_file("watcher")
    with serving(None, tmp_path, config_file=path) as exporter:
        about(desk, exporter, path)
        exporter.until(lambda metrics: CLUSTER_INFO in metrics)
        settings_file("watcher", password="of-last-year")
        exporter.until(lambda metrics: CLUSTER_INFO not in metrics)

        with desk.reading("KafkaTransactionExporterSnapshotStale") as operator:
            operator.pastes("get", "grep -oE", shows="The last cycle failed: no broker responded")
            operator.pastes("once", status=1, shows="authentication")
            with own_login(desk):
                operator.pastes("find-hanging", shows="Verdict")
            (tmp_path / "password").write_text(PASSWORD)
            operator.pastes("config check")
            exporter.until(lambda metrics: value(metrics, SUCCESS) == 1)
            operator.pastes("get", "grep -x", shows=f"{SUCCESS} 1")


def test_cycles_failing(guarded: GuardedCluster, desk: Desk, settings_file: SettingsFile, tmp_path: Path) -> None:
    """The only broker falls silent now and then: cycles fail, by hand as well, until it answers again."""
    path = settings_file("watcher")
    with serving(None, tmp_path, config_file=path) as exporter:
        about(desk, exporter, path)
        exporter.until(lambda metrics: value(metrics, SUCCESS) == 1)
        guarded.broker(1).pause()
        try:
            exporter.until(lambda metrics: value(metrics, FAILED) >= 2)
            with desk.reading("KafkaTransactionExporterCyclesFailing") as operator:
                operator.pastes("get", "cycles_failed_total", shows="cycles_failed_total")
                operator.pastes("get", "request_failures_total", shows='api="')
                operator.pastes("once", status=1, shows="no broker responded")
                guarded.broker(1).resume()
                operator.pastes("config check")
                exporter.until(lambda metrics: value(metrics, SUCCESS) == 1)
                operator.pastes("get", "grep -x", shows=f"{SUCCESS} 1")
        finally:
            guarded.broker(1).resume()

    # A controller that was frozen fences its brokers: partitions have no leader until they are back.
    until(lambda: desk.run("kafka-transaction-exporter once"), lambda done: done.status == 0)


def test_no_topic_visible(
    desk: Desk, settings_file: SettingsFile, guarded: GuardedCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """A user without any topic: the cluster looks empty, and after the one grant it does not."""
    topic = make_topic(guarded)
    path = settings_file("without-topics")
    with serving(None, tmp_path, config_file=path) as exporter:
        about(desk, exporter, path)
        exporter.until(lambda metrics: value(metrics, VISIBLE) == 0)

        with desk.reading("KafkaTransactionExporterNoTopicVisible") as operator:
            operator.pastes("once", status=4, shows="no topic is visible")
            operator.pastes("kafka-topics.sh", "--list", shows=topic)
            granted(desk, guarded, operator.pastes("doctor", status=4, shows="no topic is visible"))
            exporter.until(lambda metrics: value(metrics, VISIBLE) > 0)
            operator.pastes("get", shows=VISIBLE, hides=f"{VISIBLE} 0")


def test_reads_less(
    desk: Desk, settings_file: SettingsFile, guarded: GuardedCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """A user with one topic of many reads only that, with complete coverage; after the grant it reads all."""
    topic = make_topic(guarded)
    guarded.topics.create(ONE_TOPIC)
    path = settings_file("with-one-topic")
    with serving(None, tmp_path, config_file=path) as exporter:
        about(desk, exporter, path)
        exporter.until(lambda metrics: value(metrics, VISIBLE) == 1)

        with desk.reading("KafkaTransactionExporterReadsLess") as operator:
            operator.pastes("get", shows=f"{VISIBLE} 1")
            operator.pastes("kafka-topics.sh", "--list", shows=topic)
            granted(desk, guarded, operator.pastes("doctor", status=4))
            exporter.until(lambda metrics: value(metrics, VISIBLE) > 1)
            operator.pastes("get", shows=VISIBLE, hides=f"{VISIBLE} 1")


def test_transactional_ids_hidden(
    desk: Desk,
    guarded: GuardedCluster,
    settings_file: SettingsFile,
    make_topic: MakeTopic,
    fresh_name: FreshName,
    tmp_path: Path,
) -> None:
    """A user with READ on topics alone: nothing is proved, and after the grants a verdict is."""
    hang = plant_hang(guarded.bootstrap, make_topic(guarded), 0, fresh_name("hang"))
    path = settings_file("without-ids")
    with serving(None, tmp_path, config_file=path) as exporter:
        about(desk, exporter, path)
        exporter.until(lambda metrics: value(metrics, INCONCLUSIVE, "transactional_ids_hidden") > 0)

        with desk.reading("KafkaTransactionExporterTransactionalIdsHidden") as operator:
            operator.pastes(
                "find-hanging", status=4, shows="proved with DESCRIBE on every transactional id", hides="hanging_"
            )
            granted(desk, guarded, operator.pastes("doctor", status=4, shows="transactional ids"))
            operator.pastes_until(lambda done: "inconclusive" not in done.output and hang.topic in done.output)
        exporter.until(lambda metrics: value(metrics, INCONCLUSIVE, "transactional_ids_hidden") == 0)


def test_config_reload_failed(desk: Desk, settings_file: SettingsFile, tmp_path: Path) -> None:
    """A misspelt setting came into the file: named with its line, mended, and in use without a restart."""
    path = settings_file("watcher")
    with serving(None, tmp_path, config_file=path) as exporter:
        about(desk, exporter, path)
        exporter.until(lambda metrics: value(metrics, RELOADED) == 1)
        settings_file("watcher", "publish.suspect_limit: 7\n")
        exporter.until(lambda metrics: value(metrics, RELOADED) == 0)

        with desk.reading("KafkaTransactionExporterConfigReloadFailed") as operator:
            operator.pastes("config check", status=1, shows="publish.suspect_limit: unknown setting")
            operator.pastes("get", shows=f"{RELOADED} 0")
            settings_file("watcher", "publish.suspects_limit: 7\n")
            operator.pastes("config check", hides="unknown")
            exporter.until(lambda metrics: value(metrics, RELOADED) == 1)
            operator.pastes("get", "grep -x", shows=f"{RELOADED} 1")
            operator.pastes("config dump", shows="suspects_limit: 7", hides=PASSWORD)


def test_audit_finding(desk: Desk, settings_file: SettingsFile, tmp_path: Path) -> None:
    """The page leads from the settings to the folder of the tables, and to the findings by verdict."""
    path = settings_file("watcher", f"publish.report: '{tmp_path / 'tables' / 'report.html'}'\n")
    (tmp_path / "tables").mkdir()
    with serving(None, tmp_path, config_file=path) as exporter:
        about(desk, exporter, path)
        (((cluster_id,), _),) = exporter.until(lambda metrics: CLUSTER_INFO in metrics)[CLUSTER_INFO].items()
        audit = LastAudit(
            cluster_id=cluster_id,
            audited_at_ms=int(time.time() * 1000),
            transactions={"torn": 1},
            findings={"torn": 2},
            partitions=1,
            partitions_unread=0,
        )
        (tmp_path / "tables" / file_name(cluster_id)).write_text(document(audit))
        exporter.until(lambda metrics: value(metrics, FINDINGS, "torn") == 2)

        with desk.reading("KafkaTransactionAuditFinding") as operator:
            operator.pastes("config dump", shows=f"{tmp_path}/tables/report.html")
            operator.pastes("get", "grep", shows=f'{FINDINGS}{{verdict="torn"}} 2')


def test_clock_skew(desk: Desk, settings_file: SettingsFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exporter with a clock a minute ahead is found to be ahead, from the operator's machine."""
    ahead = textwrap.dedent(
        f"""
        import time
        true_time, true_time_ns = time.time, time.time_ns
        time.time = lambda: true_time() + {AHEAD_S}
        time.time_ns = lambda: true_time_ns() + {AHEAD_S} * 10**9
        """
    )
    (tmp_path / "ahead").mkdir()
    (tmp_path / "ahead" / "sitecustomize.py").write_text(ahead)  # Python imports it by itself
    path = settings_file("watcher")
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path / "ahead"))
        with serving(None, tmp_path, config_file=path) as exporter:
            about(desk, exporter, path)
            exporter.until(lambda metrics: value(metrics, SUCCESS) == 1)

            with desk.reading("KafkaTransactionExporterClockSkew") as operator:
                printed = operator.pastes("get", shows="seconds ahead").output
                operator.pastes("find-hanging", shows="Verdict")

    assert AHEAD_S - 10 < int(printed.split()[0]) <= AHEAD_S


@pytest.mark.slow
def test_watchdog(desk: Desk, settings_file: SettingsFile, tmp_path: Path) -> None:
    """The whole way of a page, exporter, Prometheus, Alertmanager, asked station by station while all of it works."""
    path = settings_file("watcher")
    times = {"group_wait": "1s", "group_interval": "1s"}
    with serving(None, tmp_path, config_file=path) as exporter:
        about(desk, exporter, path)
        address = exporter.url.removeprefix("http://")
        with monitoring(address, hurried_rules(), tmp_path, scrape_interval="1s", route=times) as pair:
            desk.variables |= {"PROMETHEUS": pair.prometheus}
            until(lambda: pair.known_alerts(alertname="KafkaTransactionWatchdog"), status=lambda: exporter.log)

            with desk.reading("KafkaTransactionWatchdog") as operator:
                operator.pastes("/-/ready", shows="Ready.")
                operator.pastes("query=up", shows='"1"]')
                operator.pastes("query=ALERTS", shows='"alertname":"KafkaTransactionWatchdog"')
                operator.pastes("/api/v1/alertmanagers", shows=pair.alertmanager)
                operator.pastes("/api/v2/alerts", shows='"silencedBy":[]')
                operator.pastes("find-hanging", shows="Verdict")
