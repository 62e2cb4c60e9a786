"""The daemon's history in an object store: whole files, each row once, limits, and faults of the store."""

from __future__ import annotations

import functools
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from exporter.history import writer as module
from exporter.history.schema import CYCLES, OBSERVATIONS, VERSION
from exporter.history.writer import History
from hangbench.waiting import until
from tests.evaluation.builders import NOW_MS
from tests.history.cycles import DAY_MS, cycle, settings
from tests.storage.conftest import Bucket
from tests.storage.fault_proxy import Fault, FaultProxy
from tests.storage.server import SECRET_KEY

PATIENCE_S = 240
HOUR_MS = 60 * 60 * 1000


def history(bucket: Bucket, *, now_ms: int = NOW_MS, **changes: Any) -> History:
    return History(
        settings(str(bucket.place("history")), **changes),
        wall_clock=lambda: now_ms / 1000,
        writer="writer-1",
    )


def files(bucket: Bucket, table: str) -> list[Path]:
    return sorted((bucket.folder / "history" / VERSION / table).rglob("*.parquet"))


def counted(bucket: Bucket, table: str) -> Counter[int]:
    """Rows by the instant of their cycle."""
    return Counter(
        int(instant.timestamp() * 1000)
        for file in files(bucket, table)
        for instant in pq.ParquetFile(file).read(columns=["taken_at"])["taken_at"].to_pylist()
    )


def test_a_cycle_is_there_as_on_a_disk(bucket: Bucket, tmp_path: Path) -> None:
    """The same names below the folder, and the same content."""
    on_disk = History(settings(tmp_path), wall_clock=lambda: NOW_MS / 1000, writer="writer-1")
    in_store = history(bucket)
    for kept in (on_disk, in_store):
        kept.record(cycle(cluster_id="é/ü"), 30_000)
        kept.rotate()

    paths = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.parquet"))
    assert len(paths) == 2
    assert bucket.objects() == {f"history/{path}" for path in paths}
    for path in paths:
        assert pq.read_table(tmp_path / path).equals(pq.read_table(bucket.folder / "history" / path))
    assert in_store.status() == on_disk.status()


def test_what_is_too_old_or_too_much_goes(bucket: Bucket) -> None:
    """By age, then by size, the oldest first; other objects stay, and no empty folder."""
    bucket.place("history/v1/observations/notes.txt").write_bytes(b"mine")
    for age in (40, 10, 5, 0):
        kept = history(bucket, now_ms=NOW_MS - age * DAY_MS)
        kept.record(cycle(NOW_MS - age * DAY_MS), 30_000)
        kept.rotate()
    assert [path.parent.name for path in files(bucket, CYCLES)] == [
        f"date={day}" for day in ("2027-01-05", "2027-01-10", "2027-01-15")
    ]

    size = files(bucket, CYCLES)[-1].stat().st_size + files(bucket, OBSERVATIONS)[-1].stat().st_size
    kept = history(bucket, retention_bytes=size)
    kept.rotate()
    assert {path.name for path in bucket.folder.rglob("date=*")} == {"date=2027-01-15"}
    assert [path.parent.name for path in files(bucket, CYCLES)] == ["date=2027-01-15"]
    assert kept.status().size_bytes == size
    assert (bucket.folder / "history/v1/observations/notes.txt").exists()


FAULTS = {
    "overloaded": Fault(refusal=(503, "SlowDown")),
    "credentials expired": Fault(refusal=(400, "ExpiredToken")),
    "clock skew": Fault(refusal=(403, "RequestTimeTooSkewed")),
    "cut in mid-upload": Fault(is_cut=True),
    "stored and response lost": Fault(is_response_lost=True),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_rows_wait_while_the_store_fails_and_each_is_there_once_afterwards(
    bucket: Bucket, proxy: FaultProxy, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when the store has the object although it has answered with an error, and more cycles came meanwhile."""
    kept = history(bucket)
    kept.record(cycle(NOW_MS, open_transactions=3), 30_000)
    proxy.weather = lambda method, _: FAULTS[fault] if method in {"PUT", "POST"} else None
    with caplog.at_level(logging.ERROR, "exporter"):
        kept.rotate()
    assert (kept.status().rows_waiting, kept.status().rows_lost) == (3, 0)
    assert (kept.status().failure or "").startswith(f"s3://{bucket.name}/history/v1/observations/")
    assert SECRET_KEY not in caplog.text
    kept.record(cycle(NOW_MS + 30_000, open_transactions=2), 30_000)
    kept.rotate()

    proxy.weather = lambda *_: None
    kept.rotate()

    assert counted(bucket, OBSERVATIONS) == {NOW_MS: 3, NOW_MS + 30_000: 2}
    assert counted(bucket, CYCLES) == {NOW_MS: 1, NOW_MS + 30_000: 1}
    assert (kept.status().failure, kept.status().rows, kept.status().rows_waiting) == (None, 5, 0)


def test_observations_are_there_before_their_cycle(bucket: Bucket, proxy: FaultProxy) -> None:
    """A store that takes one object and no more: a cycle without its observations would close all transactions."""
    proxy.weather = lambda _, path: Fault(refusal=(403, "AccessDenied")) if f"/{CYCLES}/" in path else None
    kept = history(bucket)
    kept.record(cycle(), 30_000)
    kept.rotate()

    assert (len(files(bucket, OBSERVATIONS)), len(files(bucket, CYCLES))) == (1, 0)
    proxy.weather = lambda *_: None
    kept.rotate()
    assert (counted(bucket, OBSERVATIONS), counted(bucket, CYCLES)) == ({NOW_MS: 1}, {NOW_MS: 1})


def test_a_cycle_never_waits_for_a_slow_store(
    bucket: Bucket, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request takes a second; beyond the limit of memory the oldest cycles are dropped, and counted."""
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 20 * 26_000)
    proxy.weather = lambda *_: Fault(delay_s=1)
    kept = history(bucket, rotate_interval_ms=10)
    kept.start()
    until(lambda: proxy.requests)
    slowest_s, status = 0.0, kept.status()
    for number in range(30):
        taken = cycle(NOW_MS + number, open_transactions=2)
        begun = time.monotonic()
        kept.record(taken, 30_000)
        status = kept.status()
        slowest_s = max(slowest_s, time.monotonic() - begun)
    assert (slowest_s < 0.5, status.rows_waiting <= 40, status.rows_lost >= 20) == (True, True, True)

    proxy.weather = lambda *_: None
    until(lambda: kept.status().rows_waiting == 0)
    kept.close()
    assert sum(counted(bucket, OBSERVATIONS).values()) + kept.status().rows_lost == 60


PROGRAM = """
import sys, time
from exporter.history.writer import History
from tests.history.cycles import cycle, settings
history = History(settings(sys.argv[1], rotate_interval_ms=50))
history.start()
print("started", flush=True)
at_ms = int(sys.argv[2])
while sys.stdin.readline():
    history.record(cycle(at_ms, open_transactions=5), 30_000)
    at_ms += 1000
history.close()
print("ended", history.status().rows, flush=True)
"""


def program(bucket: Bucket, at_ms: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(bucket.place("history")), str(at_ms)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def one_more(pair: list[subprocess.Popen[str]], bucket: Bucket) -> int:
    """A cycle of each of these programs; how many files of cycles are there now."""
    for running in pair:
        assert running.stdin is not None
        running.stdin.write("cycle\n")
        running.stdin.flush()
    return len(files(bucket, CYCLES))


def test_a_silent_store_does_not_hold_up_the_end(bucket: Bucket, proxy: FaultProxy) -> None:
    """The process ends within the seconds that the writer may take, although a request is under way; no secret is shown."""
    proxy.weather = lambda *_: Fault(delay_s=60)
    with program(bucket, NOW_MS) as running:
        assert running.stdin is not None
        running.stdin.write("cycle\n")
        running.stdin.flush()
        until(lambda: proxy.requests)
        command_line = Path(f"/proc/{running.pid}/cmdline").read_bytes()
        begun = time.monotonic()
        running.stdin.close()
        running.wait(30)

        assert time.monotonic() - begun < module.END_SECONDS + 10
        assert SECRET_KEY.encode() not in command_line


@pytest.mark.slow
def test_two_writers_that_are_killed_lose_and_double_no_acknowledged_row(bucket: Bucket, proxy: FaultProxy) -> None:
    """Twenty times SIGKILL in mid-write on a slow store: what is there is whole, and no cycle is there twice."""
    proxy.weather = lambda *_: Fault(delay_s=0.02)
    for kill in range(20):
        pair = [program(bucket, NOW_MS + kill * HOUR_MS + number) for number in range(2)]
        for running in pair:
            assert running.stdout is not None
            assert running.stdout.readline() == "started\n"
        enough = len(files(bucket, CYCLES)) + 2
        until(functools.partial(one_more, pair, bucket), enough.__le__, patience_s=PATIENCE_S, pause_s=0.05)
        one_more(pair, bucket)
        time.sleep(kill / 100)
        for running in pair:
            os.kill(running.pid, signal.SIGKILL)
            running.communicate()
    covered, seen = counted(bucket, CYCLES), counted(bucket, OBSERVATIONS)

    assert len(covered) >= 40
    assert set(covered.values()) == {1}
    assert {instant: seen[instant] for instant in covered} == dict.fromkeys(covered, 5)
