"""Schedules cycles, checks of the settings' files and orders, and watches that the loop runs.

It does not know what a cycle does. Only the order to stop ends it, and no error of a cycle.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from enum import Enum
from typing import Protocol

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
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

CYCLE_JOB = "cycle"
CLOCK_STEP_SECONDS = 1.0
"""An operating system corrects less than this between two checks without setting the clock."""
LIVENESS_CYCLES = 3
"""The loop is dead if no cycle has ended for this many intervals and deadlines."""


class Work(Protocol):
    """The work that is scheduled."""

    def cycle(self) -> None:
        """One cycle, in a thread of the schedule."""

    def missed(self) -> None:
        """A cycle was due while the previous one was still running."""

    def defect(self, error: BaseException) -> None:
        """A cycle ended with an unexpected exception: a defect in the exporter."""

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
        """The settings of the current cycle, or of the last one."""
        self.reloader = reloader
        self.orders = Orders() if orders is None else orders
        self._work = work
        self._wall_clock = wall_clock
        self._clock = clock
        self._lock = threading.Lock()
        self._reloaded: Reloaded | None = None
        self._last_beat = clock()

    def run(self) -> None:
        """Run cycles until the order to stop, and return within a second, even in the middle of a cycle."""
        scheduler = BackgroundScheduler(timezone="UTC")
        scheduler.add_listener(self._on_missed, EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
        scheduler.add_listener(self._on_error, EVENT_JOB_ERROR)
        scheduler.add_job(
            self._work.cycle,
            _every(self.settings),
            id=CYCLE_JOB,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
            next_run_time=datetime.now(timezone.utc),
        )
        scheduler.start()
        clocks = self._clock(), self._wall_clock()
        while (order := self._next_order()) is not Order.STOP:
            clocks = self.keep_pace(scheduler, *clocks)
            if order is Order.RELOAD or self.settings.watch_interval_ms:
                self.reload(scheduler, only_if_changed=order is None)
        scheduler.shutdown(wait=False)

    def _next_order(self) -> Order | None:
        """None if it is time to check whether a file, or the time of day, has changed."""
        interval_ms = self.settings.scan.interval_ms
        try:
            return self.orders.get(timeout=min(self.settings.watch_interval_ms or interval_ms, interval_ms) / 1000)
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
            scheduler.reschedule_job(CYCLE_JOB, trigger=_every(self.settings))
        return now

    def reload(self, scheduler: BackgroundScheduler, *, only_if_changed: bool) -> None:
        """Read the settings again; they apply from the next cycle on."""
        if self.reloader is None:
            return
        before = self.reloader.status
        reloaded = self.reloader.if_changed() if only_if_changed else self.reloader.now()
        if reloaded is not None:
            with self._lock:
                old = self.settings if self._reloaded is None else self._reloaded.settings
                untaken = self._reloaded is not None and self._reloaded.files_changed
                self._reloaded = replace(reloaded, files_changed=reloaded.files_changed or untaken)
            logging.getLogger().setLevel(reloaded.settings.log_level.upper())
            if old.scan.interval_ms != reloaded.settings.scan.interval_ms:
                scheduler.reschedule_job(CYCLE_JOB, trigger=_every(reloaded.settings))
        if self.reloader.status != before:
            self._work.settings_were_read()

    @property
    def reload_on_request(self) -> Callable[[], None] | None:
        """Orders a reload over HTTP; None if that is not allowed."""
        return (lambda: self.orders.put(Order.RELOAD)) if self.settings.publish.reload_endpoint else None

    def take_settings(self) -> Reloaded | None:
        """Called when a cycle begins: the settings that were read since the previous one, which apply from now on."""
        with self._lock:
            reloaded, self._reloaded = self._reloaded, None
            if reloaded is not None:
                self.settings = reloaded.settings
        return reloaded

    def beat(self) -> None:
        """Note that a cycle has ended, successful or not."""
        self._last_beat = self._clock()

    def liveness(self) -> str | None:
        """None while the loop runs; otherwise a sentence. No state of Kafka makes it fail."""
        longest_s = LIVENESS_CYCLES * (self.settings.scan.interval_ms + self.settings.scan.deadline_ms) / 1000
        silent_s = self._clock() - self._last_beat
        if silent_s <= longest_s:
            return None
        return f"no cycle has ended for {silent_s:.0f} s: the loop does not run"

    def _on_missed(self, _event: JobEvent) -> None:
        self._work.missed()

    def _on_error(self, event: JobEvent) -> None:
        error = event.exception
        log.error("cycle failed unexpectedly", exc_info=(type(error), error, error.__traceback__))
        self.beat()
        self._work.defect(error)


def _every(settings: Settings) -> IntervalTrigger:
    return IntervalTrigger(seconds=settings.scan.interval_ms / 1000, timezone=timezone.utc)
