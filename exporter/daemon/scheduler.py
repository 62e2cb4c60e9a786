"""The pace: a cycle when it is due, a look at the settings' files, orders from outside, and the pulse of it all.

It knows when, and not what. Nothing that a cycle does can end it but the order to stop.
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
    """What a running daemon can be told."""

    STOP = "stop"
    RELOAD = "reload"


Orders = queue.SimpleQueue[Order]
"""From signal handlers and other threads: unlike an Event it may be filled by a handler that interrupts its reader."""

CYCLE_JOB = "cycle"
CLOCK_STEP_SECONDS = 1.0
"""What an operating system corrects without a step is less than this between two looks."""
LIVENESS_CYCLES = 3
"""The loop is dead when no cycle has ended for this many intervals and deadlines."""


class Work(Protocol):
    """What is done at this pace."""

    def cycle(self) -> None:
        """One pass, in a thread of the schedule."""

    def missed(self) -> None:
        """A cycle was due while the one before was still running."""

    def defect(self, error: BaseException) -> None:
        """A cycle ended with what nobody expected: a mistake of ours."""

    def settings_were_read(self) -> None:
        """There is news of the settings to publish."""


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
        """Those of the cycle that runs, or ran last."""
        self.reloader = reloader
        self.orders = Orders() if orders is None else orders
        self._work = work
        self._wall_clock = wall_clock
        self._clock = clock
        self._lock = threading.Lock()
        self._reloaded: Reloaded | None = None
        self._last_beat = clock()

    def run(self) -> None:
        """Cycle until the order to stop, and return within a second, even in the middle of a cycle."""
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
        """None when it is time to look whether a file, or the time of day, has changed."""
        interval_ms = self.settings.scan.interval_ms
        try:
            return self.orders.get(timeout=min(self.settings.watch_interval_ms or interval_ms, interval_ms) / 1000)
        except queue.Empty:
            return None

    def keep_pace(self, scheduler: BackgroundScheduler, clock_s: float, wall_s: float) -> tuple[float, float]:
        """Begin the schedule anew when the time of day was set back since those readings; the readings of now.

        The scheduler knows the time of day only: without this it would sleep for as long as the clock was set back.
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
        """Orders a reload, for whoever asks over HTTP; None where nobody may."""
        return (lambda: self.orders.put(Order.RELOAD)) if self.settings.publish.reload_endpoint else None

    def take_settings(self) -> Reloaded | None:
        """At the beginning of a cycle: the settings that were read since the last one, which are in use from now on."""
        with self._lock:
            reloaded, self._reloaded = self._reloaded, None
            if reloaded is not None:
                self.settings = reloaded.settings
        return reloaded

    def beat(self) -> None:
        """A cycle has ended, however it went."""
        self._last_beat = self._clock()

    def liveness(self) -> str | None:
        """None while the loop lives; else a sentence. Nothing that Kafka does can make it die."""
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
