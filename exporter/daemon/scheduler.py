"""Schedules the cycles of each cluster, checks of the settings' files and orders, and watches that the loop runs.

It does not know what a cycle does. Only the order to stop ends it, and no error of a cycle.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from enum import Enum
from functools import partial
from typing import Protocol

from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from exporter.config.settings import Settings
from exporter.daemon.reload import Reloaded, Reloader

log = logging.getLogger("exporter")


class Order(Enum):
    """Orders to a running daemon."""

    STOP = "stop"
    RELOAD = "reload"


Orders = queue.SimpleQueue[Order]
"""From signal handlers and other threads: unlike an Event, a handler that interrupts the reader can add to it."""

CYCLES_MAX = 256
"""Cycles that run at the same time. A thread that waits for a silent cluster costs next to nothing."""
BEGIN_SECONDS = 0.05
"""Between the first cycles of two clusters: later ones are then spread as well, and never all at once."""
CLOCK_STEP_SECONDS = 1.0
"""An operating system corrects less than this between two checks without setting the clock."""
LIVENESS_CYCLES = 3
"""The loop is dead if no cycle has ended for this many intervals and deadlines."""


class Job(Protocol):
    """One cluster."""

    @property
    def interval_ms(self) -> int:
        """From the start of one cycle to the start of the next."""

    def cycle(self) -> None:
        """One cycle, in a thread of the schedule."""

    def missed(self) -> None:
        """A cycle was due while the previous one was still running."""

    def defect(self, error: BaseException) -> None:
        """A cycle ended with an unexpected exception: a defect in the exporter."""


class Work(Protocol):
    """The work that is scheduled."""

    @property
    def jobs(self) -> Mapping[str | None, Job]:
        """The clusters by name."""

    def use(self, reloaded: Reloaded) -> None:
        """These settings were read: `jobs` may be others now."""

    def settings_were_read(self) -> None:
        """The status of the settings has changed and must be published."""


class Scheduler:
    """Repeats `work`, from the main thread."""

    def __init__(
        self,
        settings: Settings,
        work: Work,
        *,
        reloader: Reloader | None,
        orders: Orders | None = None,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        """As they were read last."""
        self.reloader = reloader
        self.orders = Orders() if orders is None else orders
        self._work = work
        self._wall_clock = wall_clock
        self._clock = clock
        self._intervals_ms: dict[str | None, int] = {}
        self._last_beat = clock()

    def run(self) -> None:
        """Run cycles until the order to stop, and return within a second, even in the middle of a cycle."""
        scheduler = BackgroundScheduler(timezone="UTC", executors={"default": ThreadPoolExecutor(CYCLES_MAX)})
        scheduler.add_listener(self._on_missed, EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
        self.schedule(scheduler)
        scheduler.start()
        clocks = self._clock(), self._wall_clock()
        while (order := self._next_order()) is not Order.STOP:
            clocks = self.keep_pace(scheduler, *clocks)
            if order is Order.RELOAD or self.settings.watch_interval_ms:
                self.reload(scheduler, only_if_changed=order is None)
        scheduler.shutdown(wait=False)

    def schedule(self, scheduler: BackgroundScheduler, *, again: bool = False) -> None:
        """Have a job for each cluster; one whose interval is the same stays as it is, unless all begin `again`."""
        jobs = dict(self._work.jobs)
        for name in self._intervals_ms.keys() - jobs.keys():
            scheduler.remove_job(_id(name))
        begins = datetime.now(timezone.utc)
        for name, job in jobs.items():
            if name not in self._intervals_ms:
                scheduler.add_job(
                    partial(self._cycle, job),
                    _every(job.interval_ms),
                    id=_id(name),
                    coalesce=True,
                    max_instances=1,
                    misfire_grace_time=None,
                    next_run_time=begins,
                )
                begins += timedelta(seconds=BEGIN_SECONDS)
            elif again or self._intervals_ms[name] != job.interval_ms:
                scheduler.reschedule_job(_id(name), trigger=_every(job.interval_ms))
        self._intervals_ms = {name: job.interval_ms for name, job in jobs.items()}

    def _cycle(self, job: Job) -> None:
        """One cycle, successful or not: the loop lives."""
        try:
            job.cycle()
        except Exception as error:
            log.exception("cycle failed unexpectedly")
            job.defect(error)
        finally:
            self._last_beat = self._clock()

    def _next_order(self) -> Order | None:
        """None if it is time to check whether a file, or the time of day, has changed."""
        shortest_ms = min(self._intervals_ms.values())
        try:
            return self.orders.get(timeout=min(self.settings.watch_interval_ms or shortest_ms, shortest_ms) / 1000)
        except queue.Empty:
            return None

    def keep_pace(self, scheduler: BackgroundScheduler, clock_s: float, wall_s: float) -> tuple[float, float]:
        """Start the schedule again if the clock was set back since those readings; returns the readings of now.

        The scheduler uses the time of day only: without this it would sleep for as long as the clock was set back.
        """
        now = self._clock(), self._wall_clock()
        set_back_s = (now[0] - clock_s) - (now[1] - wall_s)
        if set_back_s > CLOCK_STEP_SECONDS:
            log.warning("the system clock was set back by %.0f s", set_back_s, extra={"subject": "clock"})
            self.schedule(scheduler, again=True)
        return now

    def reload(self, scheduler: BackgroundScheduler, *, only_if_changed: bool) -> None:
        """Read the settings again; each cluster uses them from its next cycle on."""
        if self.reloader is None:
            return
        before = self.reloader.status
        try:
            reloaded = self.reloader.if_changed() if only_if_changed else self.reloader.now()
            if reloaded is not None:
                self.settings = reloaded.settings
                logging.getLogger().setLevel(reloaded.settings.log_level.upper())
                self._work.use(reloaded)
                self.schedule(scheduler)
        except Exception:  # the loop lives: a file may have gone since it was read
            log.exception("the settings could not be applied completely", extra={"subject": "settings"})
        if self.reloader.status != before:
            self._work.settings_were_read()

    @property
    def reload_on_request(self) -> Callable[[], None] | None:
        """Orders a reload over HTTP; None if that is not allowed."""
        return (lambda: self.orders.put(Order.RELOAD)) if self.settings.publish.reload_endpoint else None

    def liveness(self) -> str | None:
        """None while the loop runs; otherwise a sentence. No state of Kafka makes it fail, and no single cluster."""
        scans = [cluster.settings.scan for cluster in self.settings.watched]
        longest_s = LIVENESS_CYCLES * max(scan.interval_ms + scan.deadline_ms for scan in scans) / 1000
        silent_s = self._clock() - self._last_beat
        if silent_s <= longest_s:
            return None
        return f"no cycle has ended for {silent_s:.0f} s: the loop does not run"

    def _on_missed(self, event: JobEvent) -> None:
        job = {_id(name): job for name, job in self._work.jobs.items()}.get(event.job_id)
        if job is not None:
            job.missed()


def _id(name: str | None) -> str:
    return "cycle" if name is None else f"cycle of {name}"


def _every(interval_ms: int) -> IntervalTrigger:
    return IntervalTrigger(seconds=interval_ms / 1000, timezone=timezone.utc)
