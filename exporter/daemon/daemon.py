"""The daemon of one cluster: collect -> evaluate -> record -> publish -> remember, once per interval, until stopped.

A scrape never gets here: the web server sends the bytes that the last cycle left at the `Routes`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from exporter.baseline import NO_BASELINE
from exporter.config.settings import Settings
from exporter.daemon.baseline_file import BaselineFile
from exporter.daemon.cluster_state import ClusterState
from exporter.daemon.explainer import Explainer, in_one_line
from exporter.daemon.incidents_file import AuditReader, IncidentsFile, in_words
from exporter.daemon.log_follower import LogFollower
from exporter.daemon.proof_check import ProofCheck
from exporter.daemon.protection_watch import ProtectionWatch
from exporter.daemon.reload import Reloader
from exporter.daemon.scheduler import Orders, Scheduler
from exporter.daemon.wiring import policy_of, process_status, publish_options_of
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import TransactionKey
from exporter.evaluation.verdicts import Evaluation
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.first_records import first_records
from exporter.kafka.errors import ClientClosedError, ClusterUnavailableError
from exporter.publication.exposition import Renderer
from exporter.publication.page.incidents import IncidentPages, url_of
from exporter.publication.page.page import render_page
from exporter.publication.publication import Publication
from exporter.snapshot import Snapshot
from exporter.snapshot.origin import OpenedAt
from exporter.status import HistoryStatus
from exporter.transaction_log.journal import NO_JOURNAL, Journal
from exporter.transaction_log.report import LogPosition
from exporter.web.routes import Routes

Follow = Callable[[LogPosition], LogFollower]
"""Makes the reader of the transaction log, which continues its counts at a position."""


class Recorder(Protocol):
    """Records every cycle: `exporter.history.writer`, whose library is loaded only if a history is configured."""

    def start(self) -> None: ...

    def record(self, evaluation: Evaluation) -> None: ...

    def status(self) -> HistoryStatus: ...

    def close(self) -> None: ...


class Daemon:
    """Runs cycles on one cluster and publishes them at its `site`."""

    def __init__(
        self,
        settings: Settings,
        collector: Collector,
        *,
        state_path: Path | None,
        audit_path: Path | None = None,
        follow: Follow | None = None,
        history: Recorder | None = None,
        baseline: BaselineFile | None = None,
        reloader: Reloader | None = None,
        orders: Orders | None = None,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.scheduler = Scheduler(settings, self, reloader=reloader, orders=orders, wall_clock=wall_clock, clock=clock)
        self._cluster_name = settings.cluster_name
        self._collector = collector
        self.routes = Routes(self.scheduler.liveness, reload=self.scheduler.reload_on_request)
        self._renderer = Renderer()
        self._incident_pages = IncidentPages()
        self._incidents = IncidentsFile(state_path, url_of=partial(url_of, settings.publish.external_url))
        self._audit_reader = AuditReader(audit_path)
        self._wall_clock = wall_clock
        self._clock = clock
        self._publishing = threading.Lock()
        self._started_at_ms = self._now_ms()
        self._record = ClusterState(state_path)
        collector.recall(self._record.memory.cluster_id, self._record.topics)
        self._proof_check = ProofCheck(collector, clock)
        self._explainer = Explainer(collector)
        self._protection_watch = ProtectionWatch(collector, clock)
        self._history = history
        self._baseline = baseline
        self._log_reader = None if follow is None else follow(self._record.log_position)
        self._beside = tuple(part for part in (self._log_reader, self._history) if part is not None)
        self._publish()  # a scrape before the end of the first cycle gets a response too

    def run(self) -> None:
        """Run cycles until the order to stop, then end within a second, even in the middle of a cycle."""
        for beside in self._beside:
            beside.start()
        self.scheduler.run()
        self._collector.close()
        for beside in self._beside:
            beside.close()

    def cycle(self) -> None:
        """One cycle: this function shows the architecture."""
        began = self._clock()
        try:
            self._take_settings()
            known = self._record.memory
            snapshot = self._collector.collect(
                seen_before=known.transactions.keys(), seen_unexamined=known.unexamined.keys
            )
        except ClientClosedError:
            return
        except ClusterUnavailableError as error:
            self._failed(str(error), seconds=self._clock() - began)
            return
        journal = self._journal(snapshot)
        baseline = NO_BASELINE if self._baseline is None else self._baseline.current(snapshot.cluster_id)
        evaluation = evaluate(snapshot, self._record.memory, policy_of(self.scheduler.settings), journal, baseline)
        self.scheduler.beat()
        self._record.succeeded(
            evaluation, seconds=self._clock() - began, now_ms=self._now_ms(), phases=self._collector.phases
        )
        if self._history is not None:
            self._history.record(evaluation)
        self._incidents.take(evaluation, self._look_at if self.scheduler.settings.show_records else None)
        self._publish()
        self._record.keep()
        if self._look_further(snapshot):
            self._publish()

    def missed(self) -> None:
        self._record.missed()
        self._publish()

    def defect(self, error: BaseException) -> None:
        """A defect in the exporter: it is logged, and the loop continues."""
        self._failed(f"defect in the exporter: {type(error).__name__}: {error}", seconds=0.0)

    def settings_were_read(self) -> None:
        self._publish()

    def _take_settings(self) -> None:
        """Use the settings that were read since the last cycle."""
        old = self.scheduler.settings
        reloaded = self.scheduler.take_settings()
        if reloaded is None:
            return
        reconnect = reloaded.files_changed or old.kafka != reloaded.settings.kafka
        self._collector.use(reloaded.settings.kafka, reloaded.settings.scan, reconnect=reconnect)
        if reconnect:
            self._proof_check.forget()
            self._protection_watch.forget()
        if reconnect and self._log_reader is not None:
            self._log_reader.use(reloaded.settings.kafka)

    def _look_further(self, snapshot: Snapshot) -> bool:
        """What is not of every cycle, after the publication because it may take a while; True if there is news."""
        is_due = self._proof_check.is_due
        diagnosis = self._proof_check.diagnosis(snapshot, self.scheduler.settings)
        news = diagnosis is not None and self._record.diagnosed(diagnosis)
        if is_due:  # it may have taken all of the time that is left
            return news
        news |= self._explain(snapshot)
        protection = self._protection_watch.news(self.scheduler.settings.scan)
        if protection is not None:
            self._record.protected(protection)
        return news or protection is not None

    def _explain(self, snapshot: Snapshot) -> bool:
        """True if a cause was searched for."""
        found = self._explainer.causes(self._incidents.incidents, self.scheduler.settings.scan)
        if found:
            causes = {key: in_one_line(conclusion) for key, conclusion in found.items()}
            self._incidents.explained(causes, snapshot.taken_at_ms)
        return bool(found)

    def _journal(self, snapshot: Snapshot) -> Journal:
        """The transaction log's data on producers with an open transaction."""
        if self._log_reader is None:
            return NO_JOURNAL
        return self._log_reader.journal(set(snapshot.open_transactions.producer_id.tolist()))

    def _look_at(self, keys: Sequence[TransactionKey]) -> Mapping[TransactionKey, str]:
        """What to say of their first records."""
        opened = [OpenedAt(key.topic, key.partition, key.producer_id, key.start_offset) for key in keys]
        try:
            records = self._collector.query(lambda client: first_records(client, opened))
        except ClientClosedError:
            return {}
        return {key: in_words(record) for key, record in zip(keys, records, strict=True)}

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1000)

    def _failed(self, sentence: str, *, seconds: float) -> None:
        self.scheduler.beat()
        self._record.failed(sentence, seconds=seconds)
        self._publish()

    def _publish(self) -> None:
        """Render the bytes that scrapes get from now on."""
        with self._publishing:
            report = None if self._log_reader is None else self._log_reader.report()
            process = process_status(
                self.scheduler.reloader,
                started_at_ms=self._started_at_ms,
                baseline=None if self._baseline is None else self._baseline.status,
                history=None if self._history is None else self._history.status(),
            )
            status = self._record.status(self.scheduler.settings, self._collector.statistics(), report)
            publication = Publication(
                evaluation=None if status.is_stale else self._record.evaluation,
                process=process,
                status=status,
                options=publish_options_of(self.scheduler.settings),
                cluster_name=self._cluster_name,
                bootstrap=self.scheduler.settings.kafka.bootstrap,
            )
            pages = self._incident_pages.render(
                self._incidents.incidents,
                self._audit_reader.added_to,
                status.interval_ms,
                bootstrap=publication.bootstrap,
                transactional_ids=publication.options.transactional_ids,
            )
            pages = {"/": render_page(publication), **pages}
            self.routes.publish(self._renderer.render(publication), pages, is_ready=status.has_succeeded)
            if report is not None and report.counted is not None:
                self._record.log_position = report.position
