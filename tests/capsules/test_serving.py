"""A capsule can be looked at as its page was, until Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from exporter.capsules.file import load, pack
from exporter.capsules.replaying import replay
from tests.capsules.recorded import recorded
from tests.kafka.scene import scene
from tests.real_brokers.exporting import called

PATIENCE_S = 30


@contextmanager
def served(*arguments: str, stderr: int | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """(the process, its address); one that is aborted prints what its threads do."""
    command = [sys.executable, "-X", "faulthandler", "-m", "exporter", "replay", *arguments, "--serve=127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().split()[0].rstrip("/")
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> int:
    """Its status; one that does not end says what its threads do."""
    try:
        return process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        return process.wait(PATIENCE_S)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
        text: str = response.read().decode()
        return text


@pytest.fixture
def capsule(tmp_path: Path) -> str:
    path = tmp_path / "capsule.zip"
    path.write_bytes(pack(recorded(scene(), cycles=2)))
    return str(path)


def test_page_and_metrics_are_those_of_the_instant(capsule: str) -> None:
    """By their times too. A runbook is there as well, and Ctrl-C is a success."""
    taken_at_ms = replay(load(Path(capsule)).cycles[1]).evaluation.snapshot.taken_at_ms
    taken_at = datetime.fromtimestamp(taken_at_ms / 1000, timezone.utc)
    with served(capsule, "--cycle=2") as (process, url):
        page, metrics = get(f"{url}/"), get(f"{url}/metrics")
        assert "KafkaTransactionHanging" in get(f"{url}/runbooks/KafkaTransactionHanging.md")
        assert "No suspect transaction" in get(f"{url}/incidents")
        process.send_signal(signal.SIGINT)
        assert ended(process) == 0

    assert "hanging_not_in_transaction" in page
    assert f"{taken_at:%Y-%m-%d %H:%M:%S} UTC" in page
    assert 'verdict="hanging_not_in_transaction"' in metrics
    assert "kafka_transaction_exporter_last_cycle_success 1\n" in metrics


def test_a_page_that_differs_from_the_recorded_result_is_said(tmp_path: Path) -> None:
    """A line and the status say it, as without `--serve`."""
    path = tmp_path / "capsule.zip"
    other = recorded(scene(), cycles=2)
    path.write_bytes(pack(replace(other, expected=(other.expected[0], b"{}"))))
    with served(str(path), stderr=subprocess.PIPE) as (process, _):
        process.send_signal(signal.SIGINT)
        assert ended(process) == 4
        assert process.stderr is not None
        assert "cycle 2: " in process.stderr.read()


def test_an_address_that_is_taken_is_an_error(capsule: str, tmp_path: Path) -> None:
    """With one sentence that names it."""
    with served(capsule) as (_, url):
        address = url.removeprefix("http://")
        run = called(tmp_path, "replay", capsule, f"--serve={address}")

    assert run.returncode == 1
    assert address in run.stderr
    assert "--serve HOST:PORT" in run.stderr
