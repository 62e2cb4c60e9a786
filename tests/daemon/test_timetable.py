"""When cycles begin: by the monotonic clock, one at a time for each cluster, whatever the time of day does."""

from __future__ import annotations

import threading
import time
from unittest.mock import Mock

import pytest

from exporter.daemon.timetable import BEGIN_SECONDS, Job, Timetable
from hangbench.waiting import until
from tests.hand_clock import HandClock


class Cluster:
    """Counts; a cycle waits while `hangs` is set."""

    def __init__(self, interval_ms: int = 10_000) -> None:
        self.interval_ms = interval_ms
        self.cycles = self.misses = 0
        self.released = threading.Event()
        self.released.set()

    def cycle(self) -> None:
        self.cycles += 1
        self.released.wait(30)

    def missed(self) -> None:
        self.misses += 1

    def defect(self, error: BaseException) -> None:
        raise error


def begun(timetable: Timetable) -> float:
    """Begin what is due, and wait for the cycles that end."""
    pause_s = timetable.begin_due()
    for entry in timetable._entries.values():
        if entry.thread is not None and entry.job.released.is_set():  # type: ignore[attr-defined]
            entry.thread.join(10)
    return pause_s


def timetable_of(clock: HandClock, **jobs: Job) -> Timetable:
    timetable = Timetable(lambda job: job.cycle(), clock=clock)
    by_name: dict[str | None, Job] = dict(jobs.items())
    timetable.use(by_name)
    return timetable


def test_a_cycle_begins_at_once_and_at_every_interval() -> None:
    """The grid is that of the first cycle, however late one begins."""
    clock, cluster = HandClock(1000.0), Cluster()
    timetable = timetable_of(clock, a=cluster)
    assert begun(timetable) == 10
    clock.now += 9
    assert begun(timetable) == 1
    assert cluster.cycles == 1
    clock.now += 4
    assert begun(timetable) == 7
    assert (cluster.cycles, cluster.misses) == (2, 0)


def test_however_much_time_has_passed_one_cycle_begins() -> None:
    """Ten years of intervals of 1 ms cost what one interval costs."""
    clock, cluster = HandClock(1000.0), Cluster(interval_ms=1)
    timetable = timetable_of(clock, a=cluster)
    begun(timetable)
    clock.now += 3650 * 86_400
    began = time.process_time()
    begun(timetable)
    assert time.process_time() - began < 1
    assert (cluster.cycles, cluster.misses) == (2, 0)


def test_a_cycle_that_still_runs_is_not_begun_twice() -> None:
    """The one that was due is missed, and the next one begins at its time."""
    clock, cluster = HandClock(1000.0), Cluster()
    cluster.released.clear()
    timetable = timetable_of(clock, a=cluster)
    begun(timetable)
    clock.now += 10
    begun(timetable)
    assert (cluster.cycles, cluster.misses) == (1, 1)
    cluster.released.set()
    begun(timetable)
    clock.now += 10
    begun(timetable)
    assert (cluster.cycles, cluster.misses) == (2, 1)


def test_first_cycles_are_spread_and_other_intervals_begin_again() -> None:
    """A cluster that stays keeps its times; one with another interval begins an interval later."""
    clock, a, b = HandClock(1000.0), Cluster(), Cluster()
    timetable = timetable_of(clock, a=a, b=b)
    assert begun(timetable) == pytest.approx(BEGIN_SECONDS)
    assert (a.cycles, b.cycles) == (1, 0)
    clock.now += 5
    b.interval_ms = 20_000
    timetable.use({"a": a, "b": b})
    assert begun(timetable) == 5
    assert timetable.intervals_s == {"a": 10, "b": 20}
    timetable.use({"b": b})
    assert begun(timetable) == 20


def test_the_time_of_day_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real threads, while the wall clock jumps from 1970 by decades and back."""
    days = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: (next(days) * 977 % 20_000) * 86_400.0)
    cluster = Cluster(interval_ms=20)
    timetable = Timetable(lambda job: job.cycle())
    timetable.use({None: cluster})
    timetable.start()
    until(lambda: cluster.cycles >= 5)
    timetable.end()
    timetable._thread.join(10)
    assert not timetable._thread.is_alive()


def test_a_cycle_whose_thread_cannot_be_started_stays_due(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, clock = Cluster(), HandClock()
    timetable = timetable_of(clock, a=cluster)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(RuntimeError):
            timetable.begin_due()
    begun(timetable)
    assert (cluster.cycles, cluster.misses) == (1, 0)


def test_a_failed_start_of_a_cycle_does_not_end_the_loop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A missed cycle publishes, which may fail; so may the start of a thread."""
    monkeypatch.setattr("exporter.daemon.timetable.IDLE_SECONDS", 0.01)
    cluster = Cluster(interval_ms=20)
    cluster.released.clear()
    monkeypatch.setattr(cluster, "missed", lambda: 1 / 0)
    timetable = Timetable(lambda job: job.cycle())
    timetable.use({None: cluster})
    timetable.start()
    until(lambda: "a cycle could not be begun" in caplog.text)
    cluster.released.set()
    until(lambda: cluster.cycles >= 2)
    timetable.end()
