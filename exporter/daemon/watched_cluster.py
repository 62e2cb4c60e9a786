"""Watches one cluster: collect -> evaluate -> record -> publish -> remember, in every cycle.

A cluster has its own connections, memory, state, incidents and reader of the transaction log, so that one that is slow or
fails affects itself only.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from exporter.baseline import NO_BASELINE, Baseline
from exporter.capsules.recording import RecordingReader
from exporter.config.settings import ClusterSettings, Settings
from exporter.cycle import EvaluationInput, Reader
from exporter.daemon.between_cycles import ProofCheck, ProtectionWatch
from exporter.daemon.capsule_folder import CapsuleFolder
from exporter.daemon.cluster_state import ClusterState
from exporter.daemon.explainer import Explainer, in_one_line
from exporter.daemon.incidents_file import LOOKED_AT_MAX, AuditReader, IncidentsFile, in_words
from exporter.daemon.last_audit_file import LastAuditFile
from exporter.daemon.log_follower import LogFollower
from exporter.daemon.wiring import policy_of, publish_options_of
from exporter.evaluation.verdicts import Evaluation
from exporter.incidents.follow import causes_of
from exporter.incidents.incident import Incidents
from exporter.kafka.collect.first_records import first_records
from exporter.kafka.errors import AnotherClusterError, ClientClosedError, ClusterUnavailableError
from exporter.log_format import logging_of
from exporter.publication.exposition import ClusterRenderer, Families
from exporter.publication.page.incidents import IncidentPages
from exporter.publication.page.page import Page, render_page
from exporter.publication.paths import url_of
from exporter.publication.publication import Publication
from exporter.snapshot import ClusterIdentity, Snapshot, TransactionKey
from exporter.status import AuditStatus, HistoryStatus, ProcessStatus
from exporter.storage.places import Place
from exporter.transaction_log.journal import NO_JOURNAL, Journal
from exporter.transaction_log.report import LogPosition, LogReport

log = logging.getLogger("exporter")

HOW_TO_ACCEPT = "if it replaces the watched one, move the state file and the file of incidents away, and restart"

Follow = Callable[[Settings, LogPosition], LogFollower]
"""Makes the reader of a cluster's transaction log, which continues its counts at a position."""


class Recorder(Protocol):
    """Records every cycle: `exporter.history.writer`, whose library is loaded only if a history is configured."""

    def start(self) -> None: ...

    def record(
        self,
        evaluation: Evaluation,
        interval_ms: int,
        cluster_name: str | None = None,
        causes: Mapping[TransactionKey, str] = ...,
    ) -> None: ...

    def status(self) -> HistoryStatus: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonServices:
    """Services that all clusters of a daemon share."""

    wall_clock: Callable[[], float]
    clock: Callable[[], float]
    publish: Callable[[WatchedCluster], None]
    """The cluster has something new to show."""
    audit: AuditReader
    follow: Follow | None = None
    history: Recorder | None = None
    baseline: Callable[[], Baseline] = lambda: NO_BASELINE
    """The usual durations, as the file has them now."""
    last_audits: Place | None = None
    """Folder of the files of `pipeline audit`; None: there are none."""
    namesake_of: Callable[[WatchedCluster, Snapshot], str | None] = lambda *_: None
    """The name of another cluster whose id this snapshot has."""
    same_as: Callable[[WatchedCluster, Snapshot], str | None] = lambda *_: None
    """The other name by which the cluster of this snapshot is watched, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPublication:
    """Part of a publication from one cluster."""

    families: Families
    pages: Mapping[str, Page]
    """Pages by their path below the page of the cluster, which is at the empty path."""
    incidents: Incidents
    number: int
    """Number of the rendering: a thread may come with an older one later."""


class WatchedCluster:
    """One cluster of a daemon. `cycle` runs in a thread of the schedule, never twice at once."""

    def __init__(
        self, cluster: ClusterSettings, reader: Reader, shared: DaemonServices, *, state_path: Path | None
    ) -> None:
        self.name = cluster.name
        self.settings = cluster.settings
        """Settings of the current cycle, or of the last one."""
        self._shared = shared
        self._lock = threading.Lock()
        self._rendering = threading.Lock()
        self._renderings = 0
        self._began = shared.clock()
        self._new: tuple[Settings, bool] | None = None
        self._last_audit: LastAuditFile | None = None
        self.namesake: str | None = None
        """The cluster whose id this one has too: history, baselines and audits, which have only ids, are for that one."""
        self._same_as: str | None = None
        self._reader = reader
        self._renderer = ClusterRenderer(self.name)
        self._incident_pages = IncidentPages(self.name)
        with logging_of(self.name):
            self._record = ClusterState(state_path, self.settings.kafka.bootstrap)
            is_required = self._record.is_behind_same_servers
            reader.recall(self._record.cluster, is_required=is_required)
            address_of = partial(url_of, self.settings.publish.external_url, self.name)
            self._incidents = IncidentsFile(state_path, url_of=address_of)
            self._capsules = None
            if isinstance(reader, RecordingReader) and state_path is not None:
                self._capsules = CapsuleFolder(reader.ring, state_path, self.settings.capsules_limit_bytes)
            self._proof_check = ProofCheck(reader, shared.clock)
            self._explainer = Explainer(reader)
            self._protection_watch = ProtectionWatch(reader, shared.clock)
            follow = shared.follow if self.settings.transaction_log.enabled else None
            self._log_reader = None if follow is None else follow(self.settings, self._record.log_position)
            if self._log_reader is not None and is_required:
                self._log_reader.expect(self._record.cluster.cluster_id)

    def start(self) -> None:
        if self._log_reader is not None:
            self._log_reader.start()

    def close(self) -> None:
        """Ends a running cycle."""
        self._reader.close()
        if self._log_reader is not None:
            self._log_reader.close()

    def cycle(self) -> None:
        """Runs one cycle: `_cycle`, with the name of the cluster in its log lines."""
        with logging_of(self.name):
            self._cycle()

    def _cycle(self) -> None:
        """Collect, evaluate, record, publish, remember: this function shows the architecture."""
        shared = self._shared
        self._began = shared.clock()
        try:
            self._take_settings()
            memory, policy = self._record.memory, policy_of(self.settings)
            baseline = shared.baseline() if self.namesake is None else NO_BASELINE
            known = EvaluationInput(memory=memory, policy=policy, baseline=baseline)
            evaluation = self._reader.cycle(known, self._journal_of)
        except ClientClosedError:
            return
        except AnotherClusterError as error:
            if self._log_reader is not None:  # its connections may lead there as well
                self._log_reader.use(self.settings.kafka)
            self._failed(f"{error}; {HOW_TO_ACCEPT}", seconds=shared.clock() - self._began)
            return
        except ClusterUnavailableError as error:
            self._failed(str(error), seconds=shared.clock() - self._began)
            return
        seconds = shared.clock() - self._began
        now_ms = int(shared.wall_clock() * 1000)
        self._compare_ids(evaluation.snapshot)
        self._accept(evaluation.snapshot.identity)
        # Recorded first: once it has succeeded, a missed cycle publishes it, and the exporter may be ended then.
        if shared.history is not None and self.namesake is None:
            name = self.name or self.settings.cluster_name
            causes = causes_of(self._incidents.incidents)
            shared.history.record(evaluation, self.settings.scan.interval_ms, name, causes)
        self._record.succeeded(evaluation, seconds=seconds, now_ms=now_ms, phases=self._reader.phases)
        before = self._incidents.incidents
        new = self._incidents.take(evaluation)
        shared.publish(self)
        self._record.keep(self.settings.kafka.bootstrap)
        if self._capsules is not None:
            self._capsules.keep(before, self._incidents.incidents)
        if self._look_further(evaluation.snapshot, new):
            shared.publish(self)

    def _accept(self, cluster: ClusterIdentity) -> None:
        """Starts from now where other servers lead to another cluster; the reader refuses every other one."""
        why = self._record.replaced(cluster)
        if why is not None:
            self._incidents.begin_again(why)
        if self._log_reader is not None:
            self._log_reader.expect(cluster.cluster_id)

    def _compare_ids(self, snapshot: Snapshot) -> None:
        before, self.namesake = self.namesake, self._shared.namesake_of(self, snapshot)
        if self.namesake not in {None, before}:
            log.error(
                "not recorded in the history, no baselines, no audit: "
                "cluster %s has the same cluster id, %s, and other topics",
                self.namesake,
                snapshot.cluster_id,
            )
        before, self._same_as = self._same_as, self._shared.same_as(self, snapshot)
        if self._same_as not in {None, before}:
            log.warning(
                "cluster %s is the same one, %s, with the same topics: metrics, alerts and history have their "
                "transactions twice, once under each name; remove one, or let scan.topics of each choose others",
                self._same_as,
                snapshot.cluster_id,
            )

    def missed(self) -> None:
        """Records that a cycle was due while the previous one was still running."""
        with logging_of(self.name):
            self._record.missed()
        self._shared.publish(self)

    def defect(self, error: BaseException) -> None:
        """Logs a defect in the exporter; the cycles continue."""
        with logging_of(self.name):
            sentence = f"defect in the exporter: {type(error).__name__}: {error}"
            self._failed(sentence, seconds=self._shared.clock() - self._began)

    def use(self, cluster: ClusterSettings, changed: frozenset[Path]) -> None:
        """Uses these settings from the next cycle on; `changed` are files that have other contents."""
        files_changed = bool(changed if cluster.files is None else changed.intersection(cluster.files))
        with self._lock:
            untaken = self._new is not None and self._new[1]
            self._new = cluster.settings, files_changed or untaken

    @property
    def interval_ms(self) -> int:
        """Returns the time from the start of one cycle to the start of the next, by the settings of the next one."""
        with self._lock:
            return (self.settings if self._new is None else self._new[0]).scan.interval_ms

    @property
    def cluster_id(self) -> str:
        """Id of the cluster from the last successful read; empty before."""
        return self._record.memory.cluster_id

    @property
    def snapshot(self) -> Snapshot | None:
        """Snapshot of the newest evaluation."""
        evaluation = self._record.evaluation
        return None if evaluation is None else evaluation.snapshot

    def _take_settings(self) -> None:
        """Uses the settings that were read since the last cycle; the next one tries it again if they cannot be used."""
        with self._lock:
            new = self._new
        if new is None:
            return
        settings, files_changed = new
        reconnect = files_changed or self.settings.kafka != settings.kafka
        try:
            self._reader.use(settings.kafka, settings.scan, reconnect=reconnect)
        except ClusterUnavailableError as error:  # a file that was readable a moment ago
            log.error("the new settings cannot be used yet, the previous ones stay in use: %s", error)  # noqa: TRY400
            return
        with self._lock:
            self.settings = settings
            if self._new is new:
                self._new = None
        if reconnect:
            self._proof_check.forget()
            self._protection_watch.forget()
        if reconnect and self._log_reader is not None:
            self._log_reader.use(settings.kafka)

    def _journal_of(self, producer_ids: Collection[int]) -> Journal:
        """The transaction log's data on producers with an open transaction."""
        return NO_JOURNAL if self._log_reader is None else self._log_reader.journal(producer_ids)

    def _look_further(self, snapshot: Snapshot, new: Sequence[TransactionKey]) -> bool:
        """Does the work that is not of every cycle; returns True if there is news.

        This follows the publication because it may take a while.
        """
        news = self._look_at(new[:LOOKED_AT_MAX], snapshot.taken_at_ms) if self.settings.show_records else False
        is_due = self._proof_check.is_due
        diagnosis = self._proof_check.diagnosis(snapshot, self.settings)
        news |= diagnosis is not None and self._record.diagnosed(diagnosis, self._proof_check.read_at_ms)
        if is_due:  # it may have taken all of the time that is left
            return news
        news |= self._explain(snapshot)
        protection = self._protection_watch.news(self.settings.scan)
        if protection is not None:
            self._record.protected(protection)
        return news or protection is not None

    def _explain(self, snapshot: Snapshot) -> bool:
        """True if a cause was searched for."""
        found = self._explainer.causes(self._incidents.incidents, self.settings.scan)
        if found:
            causes = {key: in_one_line(conclusion) for key, conclusion in found.items()}
            self._incidents.explained(causes, snapshot.taken_at_ms)
        return bool(found)

    def _look_at(self, keys: Sequence[TransactionKey], now_ms: int) -> bool:
        """True if the first records of these new suspects were read; not where the cluster goes away meanwhile."""
        if not keys:
            return False
        deadline_s = self.settings.scan.deadline_ms / 1000
        try:
            records = self._reader.query(lambda client: first_records(client, keys), deadline_s=deadline_s)
        except (ClientClosedError, ClusterUnavailableError):
            return False
        self._incidents.looked_at({key: in_words(record) for key, record in zip(keys, records, strict=True)}, now_ms)
        return True

    def _failed(self, sentence: str, *, seconds: float) -> None:
        self._record.failed(sentence, seconds=seconds)
        self._shared.publish(self)

    def render(self, process: ProcessStatus, *, partitions_elsewhere: int) -> ClusterPublication:
        """Renders the lines and pages of this cluster now.

        `partitions_elsewhere`: partitions of the other clusters, for the common limit.
        """
        with self._rendering:
            self._renderings += 1
            report = None if self._log_reader is None else self._log_reader.report()
            publication = self._publication(process, report, partitions_elsewhere)
            pages = self._incident_pages.render(
                self._incidents.incidents,
                self._shared.audit.added_to,
                publication.status.interval_ms,
                bootstrap=publication.bootstrap,
                runbooks=publication.options.runbook_url,
                external_url=publication.options.external_url,
                transactional_ids=publication.options.transactional_ids,
            )
            rendered = ClusterPublication(
                families=self._renderer.families(publication),
                pages={"": render_page(publication), **pages},
                incidents=self._incidents.incidents,
                number=self._renderings,
            )
            if report is not None and report.counted is not None:
                self._record.log_position = report.position
            return rendered

    def _audit(self) -> AuditStatus | None:
        """The audit of the cluster that was read last."""
        folder, snapshot = self._shared.last_audits, self.snapshot
        if folder is None or snapshot is None or self.namesake is not None:
            return None
        file = self._last_audit
        if file is None or file.cluster_id != snapshot.cluster_id:
            file = self._last_audit = LastAuditFile(folder, snapshot.cluster_id, self._shared.wall_clock)
        return file.status()

    def _publication(self, process: ProcessStatus, report: LogReport | None, partitions_elsewhere: int) -> Publication:
        settings = self.settings
        status = self._record.status(settings, self._reader.statistics(), report)
        status = replace(status, audit=self._audit())
        options = publish_options_of(settings)
        series_limit = max(options.partition_series_limit - partitions_elsewhere, 0)
        return Publication(
            evaluation=None if status.is_stale else self._record.evaluation,
            process=process,
            status=status,
            options=replace(options, partition_series_limit=series_limit),
            cluster=self.name,
            cluster_name=settings.cluster_name,
            bootstrap=settings.kafka.bootstrap,
        )
