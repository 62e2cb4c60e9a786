"""Settings change under a running exporter, with real brokers: passwords, interval, the cluster, and mistakes."""

from __future__ import annotations

import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED
from hangbench.kafka.second_door import PASSWORD, GuardedCluster
from tests.conftest import MakeTopic
from tests.marks import starts
from tests.real_brokers.exporting import Exporter, Series, serving

RELOADED = "kafka_transaction_exporter_config_last_reload_successful"
INTERVAL = "kafka_transaction_exporter_cycle_interval_seconds"
SUCCESS = "kafka_transaction_exporter_last_cycle_success"
FAILED = "kafka_transaction_exporter_cycles_failed_total"
LONGEST = "kafka_partition_max_active_transaction_duration_seconds"


def value(metrics: dict[str, Series], name: str) -> float | None:
    return metrics.get(name, {}).get(())


@pytest.fixture(scope="module")
@starts("broker")
def guarded() -> Iterator[GuardedCluster]:
    """A broker with a user who may see nothing: enough to log in, and to make cycles."""
    cluster = GuardedCluster("4.3.1", users=["watcher"], properties=HANGS_CAN_BE_PLANTED)
    with cluster:
        yield cluster


def write_settings(folder: Path, cluster: KafkaCluster, interval: str = "500ms", more: str = "") -> Path:
    path = folder / "config.yaml"
    path.write_text(
        f"kafka: {{bootstrap.servers: '{cluster.bootstrap}'}}\n"
        f"scan: {{interval: {interval}, deadline: 400ms}}\nreload.watch_interval: 100ms\n{more}"
    )
    return path


def test_a_password_that_is_mended_is_used_without_a_restart(guarded: GuardedCluster, tmp_path: Path) -> None:
    """Wrong in the file at first: cycles fail and say so. Rotated in the file: they succeed. No secret is logged."""
    password = tmp_path / "password"
    password.write_text("wr0ng-canary\n")
    settings = tmp_path / "config.yaml"
    settings.write_text(
        f"kafka: {{bootstrap.servers: '{guarded.door}', security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, "
        f"sasl.username: watcher, sasl.password_file: '{password}'}}\nreload.watch_interval: 100ms\n"
    )

    with serving(guarded.door, tmp_path, config_file=settings) as exporter:
        failed = exporter.until(lambda m: (value(m, FAILED) or 0) >= 2)
        password.write_text(PASSWORD)
        mended = exporter.until(lambda m: value(m, SUCCESS) == 1)
        page = exporter.get("/")[1]
        password.write_text("wr0ng-canary")
        broken = exporter.until(lambda m: value(m, SUCCESS) == 0)

    assert value(failed, SUCCESS) == 0
    assert value(mended, RELOADED) == value(broken, RELOADED) == 1
    assert "authentication_failed" in exporter.log
    for secret in ("wr0ng-canary", PASSWORD):
        assert secret not in exporter.log
        assert secret not in page
    assert exporter.log.count("cycle failed") <= 4, "a line for each change, not for each cycle"


@pytest.mark.parametrize("how", ["SIGHUP", "POST", "file"])
def test_settings_are_taken_whole_or_not_at_all(kafka_4_3_1: KafkaCluster, tmp_path: Path, how: str) -> None:
    """By signal, over HTTP if allowed, and by a changed file: valid settings apply, invalid ones are reported."""
    by_http = "publish.reload_endpoint: true\n"
    settings = write_settings(tmp_path, kafka_4_3_1, more=by_http)
    watch = "100ms" if how == "file" else "0"

    def change(interval: str, more: str = "") -> None:
        write_settings(tmp_path, kafka_4_3_1, interval, by_http + more)
        if how == "SIGHUP":
            exporter.process.send_signal(signal.SIGHUP)
        elif how == "POST":
            assert post(exporter, "/-/reload") == 202

    with serving(kafka_4_3_1.bootstrap, tmp_path, config_file=settings, reload__watch_interval=watch) as exporter:
        before = exporter.until(lambda m: value(m, SUCCESS) == 1)
        change("450ms", "nonsense: 1\n")
        bad = exporter.until(lambda m: value(m, RELOADED) == 0)
        change("600ms", "publish.listen_address: ':1'\n")
        good = exporter.until(lambda m: value(m, INTERVAL) == 0.6)

    assert value(before, INTERVAL) == value(bad, INTERVAL) == 0.5
    assert value(good, RELOADED) == 1
    assert "nonsense: unknown setting" in exporter.log


def post(exporter: Exporter, path: str) -> int:
    request = urllib.request.Request(exporter.url + path, method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return int(answer.status)


def test_another_cluster_can_be_moved_to(
    kafka_4_3_1: KafkaCluster,
    kafka_3_9_1: KafkaCluster,
    make_topic: MakeTopic,
    tmp_path: Path,
) -> None:
    """New bootstrap servers in the file: the next cycles read the other cluster, and nothing of the old one is shown."""
    old, new = make_topic(kafka_4_3_1), make_topic(kafka_3_9_1)
    settings = write_settings(tmp_path, kafka_4_3_1)

    with serving(None, tmp_path, config_file=settings) as exporter:
        first = exporter.until(lambda m: (old, "0") in m.get(LONGEST, {}))
        write_settings(tmp_path, kafka_3_9_1)
        second = exporter.until(lambda m: (new, "0") in m.get(LONGEST, {}))

    assert (new, "0") not in first[LONGEST]
    assert (old, "0") not in second[LONGEST]


def test_sigterm_ends_it_while_it_watches_files(kafka_4_3_1: KafkaCluster, tmp_path: Path) -> None:
    """Within a second, whatever it waits for."""
    settings = write_settings(tmp_path, kafka_4_3_1, more="")
    with serving(None, tmp_path, config_file=settings) as exporter:
        exporter.until(lambda m: value(m, SUCCESS) == 1)
        began = time.monotonic()
        exporter.process.send_signal(signal.SIGTERM)
        assert exporter.process.wait(10) == 0
        assert time.monotonic() - began < 5
