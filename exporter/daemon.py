"""The loop: collect -> evaluate -> record -> publish -> remember, at its own pace, until it is told to stop.

A scrape never reaches in here: it sends the bytes that the last cycle left at the `Site`.
"""

from __future__ import annotations

import logging
import platform
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Protocol

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from exporter import __version__, state_file
from exporter.baseline import NO_BASELINE
from exporter.baseline_file import BaselineFile
from exporter.config.settings import Settings
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.verdicts import Evaluation
from exporter.history_facts import HistoryFacts
from exporter.kafka.collect import Collector
from exporter.kafka.errors import ClientClosedError, ClusterUnavailableError
from exporter.log_reader import LogReader
from exporter.publication.exposition import Renderer
from exporter.publication.facts import ExporterFacts, Publication
from exporter.publication.page import render_page
from exporter.publication.site import Site
from exporter.reloading import Reloaded, Reloader
from exporter.snapshot import Snapshot
from exporter.state_file import State, StateFileDamagedError, StateFileError
from exporter.transaction_log.journal import NO_JOURNAL, Journal
from exporter.transaction_log.report import LogPosition, LogReport
from exporter.wiring import policy_of, publish_options_of

log = logging.getLogger("exporter")


Follow = Callable[[LogPosition], LogReader]
"""Makes the reader of the transaction log, which goes on counting at a position."""


class Recorder(Protocol):
    """Keeps every cycle: `exporter.history`, whose library is loaded only where something is recorded."""

    def start(self) -> None: ...

    def record(self, evaluation: Evaluation) -> None: ...

    def facts(self) -> HistoryFacts: ...

    def close(self) -> None: ...


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


@dataclass(slots=True)
class _Record:
    """What the loop knows of itself; written by its own threads under the daemon's lock."""

    started_at_ms: int
    cycles: int = 0
    failed_cycles: int = 0
    missed_cycles: int = 0
    missed_in_a_row: int = 0
    """Cycles since the last snapshot that brought none: failed, or never begun because the last one would not end."""
    last_cycle_seconds: float | None = None
    last_cycle_succeeded: bool | None = None
    last_failure: str | None = None
    last_success_at_ms: int | None = None
    snapshot_taken_at_ms: int | None = None
    phases: tuple[tuple[str, float], ...] = ()
    heartbeat: float = 0.0
    said: dict[str, str] = field(default_factory=dict)
    """The latest line logged about each subject: a broker that is down for an hour gives a line, not 120."""


class Daemon:
    """Runs cycles on one cluster and publishes them at its `site`."""

    def __init__(
        self,
        settings: Settings,
        collector: Collector,
        *,
        state_path: Path | None,
        follow: Follow | None = None,
        history: Recorder | None = None,
        baseline: BaselineFile | None = None,
        reloader: Reloader | None = None,
        orders: Orders | None = None,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._collector = collector
        self._reloader = reloader
        self._reloaded: Reloaded | None = None
        self._orders = Orders() if orders is None else orders
        may_reload = settings.publish.reload_endpoint
        self.site = Site(self.liveness, reload=(lambda: self._orders.put(Order.RELOAD)) if may_reload else None)
        self._renderer = Renderer()
        self._state_path = state_path
        self._wall_clock = wall_clock
        self._clock = clock
        self._lock = threading.Lock()
        self._publishing = threading.Lock()
        self._record = _Record(started_at_ms=self._now_ms(), heartbeat=clock())
        self._evaluation: Evaluation | None = None
        state = self._recall()
        self._memory = state.memory
        self._log_position = state.log_position
        self._history = history
        self._baseline = baseline
        self._log_reader = None if follow is None else follow(state.log_position)
        self._beside = tuple(it for it in (self._log_reader, self._history) if it is not None)
        self._publish()  # a scrape between the first listening and the first cycle is answered too

    def run(self) -> None:
        """Cycle until the order to stop, then end within a second, even in the middle of a cycle."""
        scheduler = BackgroundScheduler(timezone="UTC")
        scheduler.add_listener(self._on_missed, EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
        scheduler.add_listener(self._on_error, EVENT_JOB_ERROR)
        scheduler.add_job(
            self.cycle,
            _every(self._settings),
            id=CYCLE_JOB,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
            next_run_time=datetime.now(timezone.utc),
        )
        for beside in self._beside:
            beside.start()
        scheduler.start()
        clocks = self._clock(), self._wall_clock()
        while (order := self._next_order()) is not Order.STOP:
            clocks = self._keep_pace(scheduler, *clocks)
            if order is Order.RELOAD or self._settings.watch_interval_ms:
                self._reload(scheduler, only_if_changed=order is None)
        scheduler.shutdown(wait=False)
        self._collector.close()
        for beside in self._beside:
            beside.close()

    def _next_order(self) -> Order | None:
        """None when it is time to look whether a file, or the time of day, has changed."""
        interval_ms = self._settings.scan.interval_ms
        try:
            return self._orders.get(timeout=min(self._settings.watch_interval_ms or interval_ms, interval_ms) / 1000)
        except queue.Empty:
            return None

    def _keep_pace(self, scheduler: BackgroundScheduler, clock_s: float, wall_s: float) -> tuple[float, float]:
        """Begin the schedule anew when the time of day was set back since those readings; the readings of now.

        The scheduler knows the time of day only: without this it would sleep for as long as the clock was set back.
        """
        now = self._clock(), self._wall_clock()
        set_back_s = (now[0] - clock_s) - (now[1] - wall_s)
        if set_back_s > CLOCK_STEP_SECONDS:
            log.warning("the clock was set back by %.0f s", set_back_s, extra={"subject": "clock"})
            scheduler.reschedule_job(CYCLE_JOB, trigger=_every(self._settings))
        return now

    def _reload(self, scheduler: BackgroundScheduler, *, only_if_changed: bool) -> None:
        """Read the settings again; they apply from the next cycle on."""
        if self._reloader is None:
            return
        before = self._reloader.facts
        reloaded = self._reloader.if_changed() if only_if_changed else self._reloader.now()
        if reloaded is not None:
            with self._lock:
                old = self._settings if self._reloaded is None else self._reloaded.settings
                untaken = self._reloaded is not None and self._reloaded.files_changed
                self._reloaded = replace(reloaded, files_changed=reloaded.files_changed or untaken)
            logging.getLogger().setLevel(reloaded.settings.log_level.upper())
            if old.scan.interval_ms != reloaded.settings.scan.interval_ms:
                scheduler.reschedule_job(CYCLE_JOB, trigger=_every(reloaded.settings))
        if self._reloader.facts != before:
            self._publish()

    def _take_settings(self) -> None:
        """Go by the settings that were read since the last cycle."""
        with self._lock:
            reloaded, self._reloaded = self._reloaded, None
            if reloaded is None:
                return
            old, self._settings = self._settings, reloaded.settings
        reconnect = reloaded.files_changed or old.kafka != reloaded.settings.kafka
        self._collector.use(reloaded.settings.kafka, reloaded.settings.scan, reconnect=reconnect)
        if reconnect and self._log_reader is not None:
            self._log_reader.use(reloaded.settings.kafka)

    def cycle(self) -> None:
        """One pass: this function is the architecture."""
        began = self._clock()
        try:
            self._take_settings()
            snapshot = self._collector.collect(seen_before=self._memory.transactions.keys())
        except ClientClosedError:
            return
        except ClusterUnavailableError as error:
            self._failed(began, str(error))
            return
        journal = self._journal(snapshot)
        baseline = NO_BASELINE if self._baseline is None else self._baseline.current(snapshot.cluster_id)
        evaluation = evaluate(snapshot, self._memory, policy_of(self._settings), journal, baseline)
        self._memory = evaluation.memory
        self._succeeded(began, evaluation)
        if self._history is not None:
            self._history.record(evaluation)
        self._publish()
        self._remember()

    def _journal(self, snapshot: Snapshot) -> Journal:
        """What the transaction log says of the producers that have something open."""
        if self._log_reader is None:
            return NO_JOURNAL
        return self._log_reader.journal(set(snapshot.open_transactions.producer_id.tolist()))

    def liveness(self) -> str | None:
        """None while the loop lives; else a sentence. Nothing that Kafka does can make it die."""
        longest_s = LIVENESS_CYCLES * (self._settings.scan.interval_ms + self._settings.scan.deadline_ms) / 1000
        silent_s = self._clock() - self._record.heartbeat
        if silent_s <= longest_s:
            return None
        return f"no cycle has ended for {silent_s:.0f} s: the loop is dead"

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1000)

    def _succeeded(self, began: float, evaluation: Evaluation) -> None:
        with self._lock:
            record = self._record
            self._ended(began)
            self._evaluation = evaluation
            record.last_cycle_succeeded = True
            record.last_failure = None
            record.missed_in_a_row = 0
            record.last_success_at_ms = self._now_ms()
            record.snapshot_taken_at_ms = evaluation.snapshot.taken_at_ms
            record.phases = self._collector.phases
        self._say("cycle", "cycles succeed", logging.INFO)
        gaps = [broker.failure for broker in evaluation.snapshot.brokers if broker.failure is not None]
        self._say("coverage", "; ".join(gaps) or "every broker answers", logging.WARNING if gaps else logging.INFO)

    def _failed(self, began: float, sentence: str) -> None:
        with self._lock:
            record = self._record
            self._ended(began)
            record.failed_cycles += 1
            record.last_cycle_succeeded = False
            record.last_failure = sentence
            record.missed_in_a_row += 1
        self._say("cycle", f"cycle failed: {sentence}", logging.ERROR)
        self._publish()

    def _ended(self, began: float) -> None:
        self._record.cycles += 1
        self._record.heartbeat = self._clock()
        self._record.last_cycle_seconds = self._clock() - began

    def _on_missed(self, _event: JobEvent) -> None:
        """The schedule came round while a cycle was still running."""
        with self._lock:
            self._record.missed_cycles += 1
            self._record.missed_in_a_row += 1
        self._say("cycle", "a cycle did not end before the next was due", logging.ERROR)
        self._publish()

    def _on_error(self, event: JobEvent) -> None:
        """A defect of ours: the loop goes on, and it is told."""
        error = event.exception
        log.error("cycle failed unexpectedly", exc_info=(type(error), error, error.__traceback__))
        self._failed(self._clock(), f"defect in the exporter: {type(error).__name__}: {error}")

    def _say(self, subject: str, sentence: str, level: int) -> None:
        if self._record.said.get(subject) != sentence:
            self._record.said[subject] = sentence
            log.log(level, sentence, extra={"subject": subject})

    def _publish(self) -> None:
        """Make the bytes that scrapes are sent from now on."""
        with self._publishing:
            report = None if self._log_reader is None else self._log_reader.report()
            facts = self._facts(report)
            publication = Publication(
                evaluation=None if facts.is_stale else self._evaluation,
                facts=facts,
                options=publish_options_of(self._settings),
            )
            self.site.publish(self._renderer.render(publication), render_page(publication), is_ready=facts.cycles > 0)
            if report is not None and report.counted is not None:
                self._log_position = report.position

    def _facts(self, report: LogReport | None) -> ExporterFacts:
        with self._lock:
            record = self._record
            return ExporterFacts(
                version=__version__,
                python_version=platform.python_version(),
                started_at_ms=record.started_at_ms,
                cycles=record.cycles,
                failed_cycles=record.failed_cycles,
                missed_cycles=record.missed_cycles,
                last_cycle_duration_seconds=record.last_cycle_seconds,
                last_cycle_succeeded=record.last_cycle_succeeded,
                last_failure=record.last_failure,
                last_success_at_ms=record.last_success_at_ms,
                snapshot_taken_at_ms=record.snapshot_taken_at_ms,
                interval_ms=self._settings.scan.interval_ms,
                stale_after_cycles=self._settings.publish.stale_after_cycles,
                is_stale=record.snapshot_taken_at_ms is not None
                and record.missed_in_a_row >= self._settings.publish.stale_after_cycles,
                api_statistics=self._collector.statistics(),
                phase_durations=record.phases,
                transaction_log=report,
                baseline=None if self._baseline is None else self._baseline.facts,
                history=None if self._history is None else self._history.facts(),
                settings_reloaded=True if self._reloader is None else self._reloader.facts.succeeded,
                settings_loaded_at_ms=(
                    record.started_at_ms if self._reloader is None else self._reloader.facts.last_success_at_ms
                ),
            )

    def _recall(self) -> State:
        """What the last run left. What cannot be read is said, kept, and not overwritten."""
        if self._state_path is None:
            return State()
        try:
            return state_file.load(self._state_path)
        except StateFileDamagedError as error:
            return self._set_aside(self._state_path, error)
        except StateFileError as error:
            log.warning("first-seen times are not kept in this run: %s", error)
            self._state_path = None
        return State()

    def _set_aside(self, path: Path, damage: StateFileDamagedError) -> State:
        try:
            log.warning("first-seen times start anew: %s; it is now %s", damage, state_file.set_aside(path))
        except StateFileError as error:
            log.warning("first-seen times are not kept in this run: %s; %s", damage, error)
            self._state_path = None
        return State()

    def _remember(self) -> None:
        if self._state_path is None:
            return
        try:
            state_file.save(self._state_path, State(self._memory, self._log_position))
        except StateFileError as error:
            self._say("state", f"first-seen times would be lost by a restart: {error}", logging.WARNING)
        else:
            self._say("state", f"first-seen times are kept in {self._state_path}", logging.INFO)


def _every(settings: Settings) -> IntervalTrigger:
    return IntervalTrigger(seconds=settings.scan.interval_ms / 1000, timezone=timezone.utc)
