"""A day of cycles by simulated time, in which topics, brokers and transactional ids exist for one cycle each."""

from __future__ import annotations

import gc
import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from exporter.daemon.state_file import SavedState, save
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.snapshot import STATE_TOPIC
from hangbench.kafka.ports import free_ports
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import Model, Partition, Producer, Transaction
from tests.kafka.scene import collector_of

CYCLE_S = 30
A_DAY = 2880
"""Cycles."""
AN_HOUR = 120
START_S = 1_800_000_000.0
OPEN = 20
"""Transactions of each topic, each with an id of its own."""


@dataclass(frozen=True)
class Held:
    """What the process holds after a cycle."""

    resident_mb: float
    objects: int
    """The number of Python's objects after a collection of garbage."""
    threads: int
    descriptors: int
    state_bytes: int


def _held(state: Path) -> Held:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Held(
        pages * os.sysconf("SC_PAGE_SIZE") / 1_000_000,
        len(gc.get_objects()),
        threading.active_count(),
        len(list(Path("/proc/self/fd").iterdir())),
        state.stat().st_size,
    )


def _change(cluster: FakeCluster, number: int, port: int) -> None:
    """A topic with its transactions, and a broker, are gone; others are there."""
    model, now_ms = cluster.model, int((START_S + number * CYCLE_S) * 1000)
    old, new = number + 1, number + 2
    cluster.exchange(old, new, f"127.{1 + number // 65_536}.{number // 256 % 256}.{1 + number % 255}", port)
    model.topics = {
        STATE_TOPIC: [Partition(1) for _ in range(4)],
        "stays": [Partition(1, producers=[Producer(7, 5, last_timestamp_ms=now_ms - 5000)])],
        f"topic-{number}": [
            Partition(new, producers=[Producer(1000 * number + 100 + each, each) for each in range(OPEN)])
        ],
    }
    model.transactions = {
        f"id-{number}-{each}": Transaction(1000 * number + 100 + each, start_ms=now_ms, timeout_ms=600_000)
        for each in range(OPEN)
    }


def _live(folder: Path, cycles: int, *, every: int) -> list[Held]:
    """What is held after `every` cycles."""
    clock = [START_S]
    state, memory, held = folder / "state.json", Memory(), []
    (port,) = free_ports(1)
    with FakeCluster(Model(), nodes=2) as cluster, collector_of(cluster, wall_clock=lambda: clock[0]) as collector:
        for number in range(cycles):
            clock[0] += CYCLE_S
            if number:
                _change(cluster, number, port)
            cluster.restart_numbers()
            snapshot = replace(collector.collect(seen_before=memory.seen), taken_at_ms=int(clock[0] * 1000))
            memory = evaluate(snapshot, memory, Policy()).memory
            save(state, SavedState(memory=memory, cluster=snapshot.identity))
            if number and number % every == 0:
                held.append(_held(state))
    return held


def _assert_flat(held: list[Held], cycles: int) -> None:
    """`cycles` have passed between the first and the last: not one object of each is left."""
    first, last = held[0], held[-1]
    assert last.objects - first.objects < cycles
    assert last.resident_mb <= first.resident_mb * 1.1
    assert last.threads <= first.threads
    assert last.descriptors <= first.descriptors
    assert last.state_bytes <= first.state_bytes * 1.1


def test_an_hour_leaves_nothing_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """From its first twenty minutes on."""
    caplog.set_level("CRITICAL", logger="kafka")  # pytest would keep a record of each lost connection
    held = _live(tmp_path, AN_HOUR + 1, every=AN_HOUR // 3)
    print(*held, sep="\n")
    _assert_flat(held, AN_HOUR * 2 // 3)


@pytest.mark.slow
def test_a_day_leaves_nothing_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Longer than anything is remembered that was not read."""
    caplog.set_level("CRITICAL", logger="kafka")  # pytest would keep a record of each lost connection
    held = _live(tmp_path, A_DAY + AN_HOUR + 1, every=AN_HOUR)
    print(*held, sep="\n")
    _assert_flat(held, A_DAY)
