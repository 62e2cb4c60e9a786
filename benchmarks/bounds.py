"""The sizes at which a cycle must still end: what its CPU and memory are. The brokers' responses are made of columns."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.contestants import contestants
from benchmarks.peers import PYTHON

ROUNDS: Final = 3
SERIES: Final = 100_000


@dataclass(frozen=True, slots=True)
class Bound:
    """One shape of `bounds_broker.py`, and the goal for a cycle of it."""

    shape: str
    size: int
    title: str
    cpu_s_max: float
    peak_mb_max: float


BOUNDS: Final = (
    Bound("half_dead", 1_000_000, "1,000,000 partitions, half of them led by a dead broker", 5, 600),
    Bound("open", 1_000_000, "1,000,000 open transactions on one partition, known to no coordinator", 10, 600),
    Bound(
        "open_spread", 1_000_000, "1,000,000 open transactions on 1,000 partitions, known to no coordinator", 10, 600
    ),
    Bound("open_listed", 1_000_000, "1,000,000 open transactions that their coordinator lists", 10, 600),
    Bound("listed", 1_000_000, "1,000,000 transactional ids listed, one of them open", 5, 600),
    Bound("state_partitions", 200_000, "200,000 partitions of `__transaction_state`, one suspect", 10, 600),
)


def measure() -> dict[str, Any]:
    """A row for each bound."""
    return {"rounds": ROUNDS, "rows": [_row(bound) for bound in BOUNDS]}


def _row(bound: Bound) -> dict[str, Any]:
    with _brokers(bound) as address:
        command = {"cycle": [*PYTHON, "benchmarks.cycle_exporter", address, str(SERIES)]}
        with contestants(command) as (exporter,):
            for _ in range(ROUNDS):
                exporter.scan(counts=True)
            cpu_s = [cost["cpu_ms"] / 1000 for cost in exporter.rounds]
            return {
                "title": bound.title,
                "cpu_s_min": min(cpu_s),
                "cpu_s_max": max(cpu_s),
                "peak_mb": exporter.peak_mb,
                "cpu_s_goal": bound.cpu_s_max,
                "peak_mb_goal": bound.peak_mb_max,
            }


@contextmanager
def _brokers(bound: Bound) -> Iterator[str]:
    """The address of such a cluster, in a process of its own."""
    command = [*PYTHON, "benchmarks.bounds_broker", bound.shape, str(bound.size)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()
