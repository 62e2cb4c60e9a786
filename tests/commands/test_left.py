"""Ctrl-C at each step of an abort, and two operators at once: processes of their own against the fake cluster.

At the question on a real terminal, and five operators on a real broker: `tests/real_brokers/test_command_line.py`.
"""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hangbench.waiting import until
from tests import forked
from tests.kafka.fake_broker import FakeCluster, Fault, Received
from tests.kafka.loopback import HOST
from tests.kafka.scene import scene
from tests.real_brokers.exporting import command

PATIENCE_S = 60
INTERRUPTED = 130
HANG = ("--topic", "hung", "--partition", "0", "--start-offset", "5")
FORCED = ("--force", "hanging_no_transactional_id", "--accept-data-loss")  # the fake cluster has no logs to search


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(scene(), nodes=2) as fake:
        yield fake


def operator(cluster: FakeCluster, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    line = command("--bootstrap-server", f"{HOST}:{cluster.ports[1]}", *arguments, "--yes")
    return forked.Process(
        [*line, "--audit-log", str(folder / "audit.jsonl")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )


def aborting(cluster: FakeCluster, folder: Path) -> subprocess.Popen[str]:
    return operator(cluster, folder, "abort", *HANG, *FORCED)


def steps(folder: Path) -> list[dict[str, Any]]:
    """Of a whole log: each line is an object."""
    log = folder / "audit.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def left(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Ctrl-C, and (status, standard error)."""
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    return process.returncode, errors


def markers(cluster: FakeCluster) -> int:
    return sum(request.api == "WriteTxnMarkers" for request in cluster.received)


def silent_at(cluster: FakeCluster, api: str, when: Callable[[], bool]) -> None:
    """Requests of that API are not answered any more once `when` holds."""

    def on_request(received: Received) -> Fault | None:
        return Fault.SILENT if received.api == api and when() else None

    cluster.on_request = on_request


def test_while_it_waits_for_another_s_lock(cluster: FakeCluster, tmp_path: Path) -> None:
    """The log says that the command ended; a last line `confirmed` would leave the outcome open."""
    with (tmp_path / "audit.jsonl").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        process = aborting(cluster, tmp_path)
        until(lambda: [step["step"] for step in steps(tmp_path)][-1:] == ["confirmed"])
        time.sleep(0.2)
        status, errors = left(process)

    assert (status, markers(cluster), "Traceback" in errors) == (INTERRUPTED, 0, False)
    assert [step["step"] for step in steps(tmp_path)] == ["planned", "confirmed", "ended"]
    assert steps(tmp_path)[-1]["sentence"].startswith(
        "stopped by Ctrl-C: a marker was sent only if the audit log has the step `sending`"
    )


def test_while_it_is_judged_once_more(cluster: FakeCluster, tmp_path: Path) -> None:
    """In the lock, with a broker that does not answer."""
    silent_at(cluster, "Metadata", lambda: any(step["step"] == "confirmed" for step in steps(tmp_path)))
    process = aborting(cluster, tmp_path)
    until(lambda: any(step["step"] == "confirmed" for step in steps(tmp_path)))
    time.sleep(0.2)
    status, errors = left(process)

    assert (status, markers(cluster), "Traceback" in errors) == (INTERRUPTED, 0, False)
    assert [step["step"] for step in steps(tmp_path)] == ["planned", "confirmed", "ended"]


def test_after_the_marker_is_sent(cluster: FakeCluster, tmp_path: Path) -> None:
    """It may be there: log and screen say so, and it is sent once."""
    silent_at(cluster, "WriteTxnMarkers", lambda: True)
    process = aborting(cluster, tmp_path)
    until(lambda: markers(cluster))
    status, errors = left(process)

    assert (status, markers(cluster), "Traceback" in errors) == (INTERRUPTED, 1, False)
    assert [step["step"] for step in steps(tmp_path)] == ["planned", "confirmed", "sending", "ended"]
    assert steps(tmp_path)[-1]["outcome"] == "interrupted"
    assert "interrupted when the marker may have been written: run find-hanging" in errors


def test_force_terminate_while_it_waits_for_another_s_lock(cluster: FakeCluster, tmp_path: Path) -> None:
    """The same for the command that fences."""
    with (tmp_path / "audit.jsonl").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        process = operator(cluster, tmp_path, "force-terminate", "--transactional-id", "alive")
        until(lambda: [step["step"] for step in steps(tmp_path)][-1:] == ["confirmed"])
        time.sleep(0.2)
        status, errors = left(process)

    assert (status, "Traceback" in errors) == (INTERRUPTED, False)
    assert [step["step"] for step in steps(tmp_path)] == ["planned", "confirmed", "ended"]


def test_two_operators_at_once_write_one_marker(cluster: FakeCluster, tmp_path: Path) -> None:
    """Both have confirmed before either may write; the second finds it gone."""
    with (tmp_path / "audit.jsonl").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        both = [aborting(cluster, tmp_path) for _ in range(2)]
        until(lambda: [step["step"] for step in steps(tmp_path)].count("confirmed") == 2)
    for process in both:
        process.communicate(timeout=PATIENCE_S)

    assert sorted(run.returncode for run in both) == [0, 1]
    assert markers(cluster) == 1
    assert [step["step"] for step in steps(tmp_path)].count("ended") == 2
