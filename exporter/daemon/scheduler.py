"""Schedules the cycles of each cluster, checks of the settings' files and orders, and watches that the loop runs.

It does not know what a cycle does. Only the order to stop ends it, and no error of a cycle.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

from exporter.config.settings import Settings
from exporter.daemon.reload import Reloaded, Reloader
from exporter.daemon.timetable import Job, Timetable

log = logging.getLogger("exporter")


class Order(Enum):
    """Orders to a running daemon."""

    STOP = "stop"
    RELOAD = "reload"


Orders = queue.SimpleQueue[Order]
"""Orders from other threads: of signals, and of the web server."""

LIVENESS_CYCLES = 3
"""The loop is dead if no cycle has ended for this many intervals and deadlines."""


class Work(Protocol):
    """The work that is scheduled."""

    @property
    def jobs(self) -> Mapping[str | None, Job]:
        """The clusters by name."""

    def use(self, reloaded: Reloaded) -> None:
        """Uses the settings that were read: `jobs` may be others now."""

    def settings_were_read(self) -> None:
        """The status of the settings has changed and must be published."""


# thread of the signals, POST /-/reload ──put──▶ orders ──get──▶ run, in the main thread
#                                                  ├─ RELOAD, or time to look at the files ──▶ reload ──▶ Work.use
#                                                  └─ STOP ──▶ Timetable.end, and return
# Timetable's thread: a cluster's cycle is due
#   ├─ its previous one has ended ──▶ a new thread: _cycle ──▶ job.cycle; sets _last_beat, whatever happened
#   └─ its previous one still runs ──▶ job.missed
# web's thread: GET /-/healthy ──▶ liveness: how old is _last_beat?


class Scheduler:
    """Repeats `work`, from the main thread."""

    def __init__(
        self,
        settings: Settings,
        work: Work,
        *,
        reloader: Reloader | None,
        orders: Orders | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        """Settings from the latest load."""
        self.reloader = reloader
        self.orders = Orders() if orders is None else orders
        self._work = work
        self._clock = clock
        self.timetable = Timetable(self._cycle, clock=clock)
        self._last_beat = clock()

    def run(self) -> None:
        """Runs cycles until the order to stop, and returns within a second, even in the middle of a cycle."""
        self.timetable.use(self._work.jobs)
        self.timetable.start()
        while (order := self._next_order()) is not Order.STOP:
            if order is Order.RELOAD or self.settings.watch_interval_ms:
                self.reload(only_if_changed=order is None)
        self.timetable.end()

    def _cycle(self, job: Job) -> None:
        """Runs one cycle; the loop lives even if it fails."""
        try:
            job.cycle()
        except Exception as error:
            log.exception("cycle failed unexpectedly")
            job.defect(error)
        finally:
            self._last_beat = self._clock()

    def _next_order(self) -> Order | None:
        """Returns the next order; None if it is time to check whether a file has changed.

        Reloads that wait are one, and an end comes first.
        """
        watch_ms = self.settings.watch_interval_ms
        try:
            order = self.orders.get(timeout=watch_ms / 1000 if watch_ms else None)
        except queue.Empty:
            return None
        while order is not Order.STOP and not self.orders.empty():  # this is their only reader
            order = self.orders.get()
        return order

    def reload(self, *, only_if_changed: bool) -> None:
        """Reads the settings again; each cluster uses them from its next cycle on."""
        if self.reloader is None:
            return
        before = self.reloader.status
        try:
            reloaded = self.reloader.if_changed() if only_if_changed else self.reloader.now()
            if reloaded is not None:
                self.settings = reloaded.settings
                logging.getLogger().setLevel(reloaded.settings.log_level.upper())
                self._work.use(reloaded)
                self._last_beat = self._clock()  # the next cycle comes a new interval after now
                self.timetable.use(self._work.jobs)
        except Exception:  # the loop lives: a file may have gone since it was read
            log.exception("the settings could not be applied completely", extra={"subject": "settings"})
            self.reloader.take_back()
        if self.reloader.status != before:
            self._work.settings_were_read()

    @property
    def reload_on_request(self) -> Callable[[], None] | None:
        """Orders a reload over HTTP; None if that is not allowed."""
        return (lambda: self.orders.put(Order.RELOAD)) if self.settings.publish.reload_endpoint else None

    def liveness(self) -> str | None:
        """Returns None while the loop runs, otherwise a sentence. No state of Kafka and no single cluster makes it fail."""
        scans = [cluster.settings.scan for cluster in self.settings.watched]
        longest_s = LIVENESS_CYCLES * max(scan.interval_ms + scan.deadline_ms for scan in scans) / 1000
        silent_s = self._clock() - self._last_beat
        if silent_s <= longest_s:
            return None
        return f"no cycle has ended for {silent_s:.0f} s: the loop does not run"
