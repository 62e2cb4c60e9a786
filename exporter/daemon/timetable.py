"""Begins each cluster's cycles at its interval, by the monotonic clock: the time of day may jump by years."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

log = logging.getLogger("exporter")

BEGIN_SECONDS: Final = 0.05
"""Seconds between the first cycles of two clusters: later ones are then spread as well, and never all at once."""
IDLE_SECONDS: Final = 1.0
"""The longest sleep of the thread."""


class Job(Protocol):
    """Work on one cluster at an interval."""

    @property
    def interval_ms(self) -> int:
        """Returns the time from the start of one cycle to the start of the next."""

    def cycle(self) -> None:
        """Runs one cycle, in a thread of its own."""

    def missed(self) -> None:
        """Records that a cycle was due while the previous one was still running."""

    def defect(self, error: BaseException) -> None:
        """Records that a cycle ended with an unexpected exception: a defect in the exporter."""


@dataclass(slots=True)
class Entry:
    """Job with the time at which its next cycle begins."""

    job: Job
    interval_s: float
    due_s: float
    thread: threading.Thread | None = None


class Timetable:
    """One thread begins cycles, each in a daemon thread: the process never waits for a cycle that hangs."""

    def __init__(self, run: Callable[[Job], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`run` is one cycle of a job, and never raises."""
        self._run = run
        self._clock = clock
        self._condition = threading.Condition()
        self._entries: dict[str | None, Entry] = {}
        self._is_ending = False
        self._thread = threading.Thread(target=self._begin_cycles, name="timetable", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Begins no further cycle; one that runs is left alone."""
        with self._condition:
            self._is_ending = True
            self._condition.notify()

    def wait(self, seconds: float) -> None:
        """Waits that long for the running cycles, which end when their connections are closed."""
        ends_at = time.monotonic() + seconds
        for entry in tuple(self._entries.values()):
            if entry.thread is not None:
                entry.thread.join(max(ends_at - time.monotonic(), 0))

    @property
    def intervals_s(self) -> Mapping[str | None, float]:
        """The clusters, and their intervals."""
        return {name: entry.interval_s for name, entry in self._entries.items()}

    def use(self, jobs: Mapping[str | None, Job]) -> None:
        """Has exactly these jobs; one whose interval is the same keeps its times."""
        with self._condition:
            now = self._clock()
            entries, begins = {}, now
            for name, job in jobs.items():
                interval_s, entry = job.interval_ms / 1000, self._entries.get(name)
                if entry is None or entry.job is not job:
                    entry = Entry(job, interval_s, begins)
                    begins += BEGIN_SECONDS
                elif entry.interval_s != interval_s:
                    entry.interval_s, entry.due_s = interval_s, now + interval_s
                entries[name] = entry
            self._entries = entries
            self._condition.notify()

    def begin_due(self) -> float:
        """Begins the cycles that are due, one for each job however many were due; returns the seconds to the next."""
        now, missed = self._clock(), []
        with self._condition:
            for entry in self._entries.values():
                if entry.due_s > now:
                    continue
                if entry.thread is not None and entry.thread.is_alive():
                    missed.append(entry.job)
                else:
                    thread = threading.Thread(target=self._run, args=(entry.job,), name="cycle", daemon=True)
                    thread.start()  # the cycle stays due if it cannot be started
                    entry.thread = thread
                entry.due_s += entry.interval_s * (1 + (now - entry.due_s) // entry.interval_s)
            next_s = min((entry.due_s for entry in self._entries.values()), default=now + IDLE_SECONDS)
        for job in missed:
            job.missed()
        return max(next_s - self._clock(), 0)

    def _begin_cycles(self) -> None:
        while not self._is_ending:
            try:
                pause_s = self.begin_due()
            except Exception:  # the loop lives: a thread that could not be started, a publication that failed
                log.exception("a cycle could not be begun; it is tried again")
                pause_s = IDLE_SECONDS
            with self._condition:
                if not self._is_ending:
                    self._condition.wait(min(pause_s, IDLE_SECONDS))
