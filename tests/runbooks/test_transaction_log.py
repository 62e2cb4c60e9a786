"""Follows the runbooks of alerts about transaction log and history, while these are in the state of the alert."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hangbench.kafka.planting import init_producer_id
from hangbench.kafka.second_door import GuardedCluster
from hangbench.situations.ground import open_entries
from hangbench.situations.stages.careless import decide
from hangbench.situations.steps import Client, Transactions
from tests.conftest import FreshName, MakeTopic
from tests.real_brokers.exporting import Exporter, serving
from tests.runbooks.desk import Desk, SettingsFile, about, granted, value

pytestmark = pytest.mark.broker

LOG = "transaction_log.enabled: true\ntransaction_log.groups: [{name: none, match: none}]\n"
"""One group for all ids, `other`: without any group each test's ids would have their own prefix."""
COMPLETED = "kafka_transactions_completed_total"
TAKEN = "kafka_transactional_id_initializations_total"
LOG_METRICS = "kafka_transaction_exporter_transaction_log"
WRITING = "kafka_transaction_exporter_history_writing"
TIMEOUT_MS = 300


@contextmanager
def reading_the_log(settings_file: SettingsFile, desk: Desk, folder: Path, more: str = "") -> Iterator[Exporter]:
    """An exporter whose reader has come to the end of the log."""
    path = settings_file("watcher", f"{LOG}{more}")
    with serving(None, folder, config_file=path) as exporter:
        about(desk, exporter, path)
        exporter.until(lambda metrics: COMPLETED in metrics)
        yield exporter


def test_timeouts(
    guarded: GuardedCluster,
    desk: Desk,
    settings_file: SettingsFile,
    make_topic: MakeTopic,
    fresh_name: FreshName,
    tmp_path: Path,
) -> None:
    """One transaction has outlived its time-out and is counted as that; another of the id is open, and shown with it.

    This cluster's coordinator never looks for time-outs: the next producer of the id ends the transaction instead.
    """
    topic, name = make_topic(guarded), fresh_name("late")
    desk.variables["TRANSACTIONAL_ID"] = name
    with reading_the_log(settings_file, desk, tmp_path) as exporter:
        before = value(exporter.metrics(), COMPLETED, "other", "timeout")
        Client.begin(guarded.bootstrap, name, timeout_ms=TIMEOUT_MS).open(topic, 0)
        time.sleep(TIMEOUT_MS / 1000 * 1.5)
        Client.begin(guarded.bootstrap, name, timeout_ms=TIMEOUT_MS * 1000).open(topic, 0)
        exporter.until(lambda metrics: value(metrics, COMPLETED, "other", "timeout") == before + 1)

        with desk.reading("KafkaTransactionTimeouts") as operator:
            operator.pastes("timeouts", shows=name)
            operator.pastes("get", shows='outcome="timeout"')
            operator.pastes("find-hanging", "--all", shows=name)
            operator.pastes("describe", shows="Ongoing")
            operator.pastes("get", "timeout", shows=f'outcome="timeout"}} {before + 1:.0f}')


@pytest.mark.slow
def test_fencing_storm(
    guarded: GuardedCluster,
    desk: Desk,
    settings_file: SettingsFile,
    make_topic: MakeTopic,
    fresh_name: FreshName,
    tmp_path: Path,
) -> None:
    """Two producers take an id from each other while others run: the id is first, and its epoch grows until they stop.

    A busy one with as many records in the log, and no initialization among them, is not listed.
    """
    fought, calm, over = fresh_name("fought"), fresh_name("calm"), threading.Event()
    busy = Transactions(guarded.bootstrap, fresh_name("busy"), [(make_topic(guarded), 0)])
    desk.variables["TRANSACTIONAL_ID"] = fought

    def fight() -> None:
        while not over.wait(0.02):
            for name in (*[fought] * 10, calm):
                init_producer_id(guarded.bootstrap, name)
            for _ in range(3):
                busy.run(commit=True)

    with reading_the_log(settings_file, desk, tmp_path) as exporter:
        fighting = threading.Thread(target=fight, daemon=True)
        fighting.start()
        try:
            with desk.reading("KafkaTransactionFencingStorm") as operator:
                operator.pastes("get", shows=TAKEN)
                ranked = operator.pastes("kafka-console-consumer.sh").output.split()
                first = desk.run(
                    "kafka-transaction-exporter describe --bootstrap-server $BOOTSTRAP --transactional-id $TRANSACTIONAL_ID"
                )
                second = operator.pastes("describe", shows=fought)
                over.set()
                fighting.join(30)
                still = value(exporter.metrics(), TAKEN, "other")
                operator.pastes("get", shows=TAKEN)
        finally:
            over.set()
            fighting.join(30)

    assert ranked[1::2] == [f'"transactionalId":"{name}"' for name in (fought, calm)]
    assert int(ranked[0]) > 20
    assert first.output != second.output, "its epoch grows"
    assert still > 20


def test_markers_slow(
    guarded: GuardedCluster,
    desk: Desk,
    settings_file: SettingsFile,
    make_topic: MakeTopic,
    fresh_name: FreshName,
    tmp_path: Path,
) -> None:
    """A transaction is decided and its marker does not come: it is listed, with the partition that waits."""
    topic, name = make_topic(guarded), fresh_name("waits")
    desk.variables["TRANSACTIONAL_ID"] = name
    client = Client.begin(guarded.bootstrap, name)
    client.make_its_marker_unwelcome(topic, 0)
    waiting = client.open(topic, 0)
    decide(client, topic, commit=True, version_cap=4)
    assert waiting.producer_id in open_entries(guarded.bootstrap, topic, 0)

    with (
        reading_the_log(settings_file, desk, tmp_path),
        desk.reading("KafkaTransactionMarkersSlow") as operator,
    ):
        operator.pastes("get", shows="kafka_transaction_marker_seconds_count")
        operator.pastes("list", "--states", shows=name)
        operator.pastes("describe", shows=f"{topic}-0")
        operator.pastes("kafka-topics.sh")
        operator.pastes("get", shows='le="1.0"')


@pytest.mark.slow
def test_log_incomplete(guarded: GuardedCluster, desk: Desk, settings_file: SettingsFile, tmp_path: Path) -> None:
    """A user without READ on the log: nothing of it is read, and after the one grant all of it is."""
    path = settings_file("without-log", LOG)
    with serving(None, tmp_path, config_file=path) as exporter:
        about(desk, exporter, path)
        exporter.until(lambda metrics: value(metrics, f"{LOG_METRICS}_partitions", "unread") > 0)

        with desk.reading("KafkaTransactionExporterLogIncomplete") as operator:
            operator.pastes("get", shows=f"{LOG_METRICS}_reading 0")
            operator.pastes("timeouts", status=4, shows="TOPIC_AUTHORIZATION_FAILED")
            operator.pastes("kafka-topics.sh", hides="Leader: none")
            granted(desk, guarded, operator.pastes("doctor", shows="__transaction_state cannot be read, needs READ"))
            exporter.until(lambda metrics: value(metrics, f"{LOG_METRICS}_reading") == 1)
            operator.pastes("get", "grep -x", shows=f"{LOG_METRICS}_reading 1")
        assert "__transaction_state cannot be read: " in exporter.log


@pytest.mark.slow
def test_log_behind(
    guarded: GuardedCluster, desk: Desk, settings_file: SettingsFile, fresh_name: FreshName, tmp_path: Path
) -> None:
    """A quota leaves the reader a few bytes a second: the page finds it, and without it nothing is left to read.

    The number of unread records comes from the leaders' responses, which the quota delays as well.
    """
    client = fresh_name("throttled")
    quota = f"kafka-configs.sh --bootstrap-server $BOOTSTRAP --alter --entity-type clients --entity-name {client}"
    with reading_the_log(settings_file, desk, tmp_path, f"kafka.client.id: {client}\n") as exporter:
        assert desk.run(f"{quota} --add-config consumer_byte_rate=20").status == 0
        try:
            before = value(exporter.metrics(), TAKEN, "other")
            for _ in range(40):
                init_producer_id(guarded.bootstrap, client)
            exporter.until(lambda metrics: value(metrics, f"{LOG_METRICS}_reading") == 0)
            with desk.reading("KafkaTransactionExporterLogBehind") as operator:
                operator.pastes("get", shows=f"{LOG_METRICS}_records_total")
                operator.pastes("get", "cycle_phase", shows='phase="producers"')
                operator.pastes("kafka-configs.sh", shows="consumer_byte_rate=20")
                assert desk.run(f"{quota} --delete-config consumer_byte_rate").status == 0
                exporter.until(lambda metrics: value(metrics, TAKEN, "other") >= before + 40)
                exporter.until(lambda metrics: value(metrics, f"{LOG_METRICS}_lag_records") == 0)
                operator.pastes("get", shows=f"{LOG_METRICS}_lag_records 0")
        finally:
            desk.run(f"{quota} --delete-config consumer_byte_rate")


def test_history_not_written(desk: Desk, settings_file: SettingsFile, tmp_path: Path) -> None:
    """A file has the directory's name: reported with the directory; when the file is gone, the history is written."""
    blocked = tmp_path / "history"
    blocked.write_text("")
    path = settings_file("watcher", f"history: {{directory: '{blocked}', rotate_interval: 200ms}}\n")
    with serving(None, tmp_path, config_file=path) as exporter:
        about(desk, exporter, path)
        exporter.until(lambda metrics: value(metrics, WRITING) == 0)

        with desk.reading("KafkaTransactionExporterHistoryNotWritten") as operator:
            operator.pastes("get", shows=f"{WRITING} 0")
            operator.pastes("config dump", shows=str(blocked))
            operator.pastes("config check")
            blocked.unlink()
            exporter.until(lambda metrics: value(metrics, WRITING) == 1)
            operator.pastes("get", "grep -x", shows=f"{WRITING} 1")
        assert "history cannot be written: " in exporter.log

    assert list(blocked.rglob("*.parquet"))
