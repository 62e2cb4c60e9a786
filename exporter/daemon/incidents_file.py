"""Keeps the incidents in a file beside the state file, and reads the audit log that commands write on the same machine."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from exporter.daemon import kept_file
from exporter.daemon.kept_file import KeptFileError
from exporter.evaluation.humanize import humanize_names
from exporter.evaluation.verdicts import Evaluation
from exporter.files import MEGABYTE, FileChanges, ending
from exporter.incidents.document import document, incidents_of
from exporter.incidents.follow import follow, new_suspects, with_causes, with_sentences
from exporter.incidents.incident import NO_INCIDENTS, Incident, Incidents
from exporter.incidents.operator_steps import Steps, steps_of, with_steps
from exporter.kafka.collect.first_records import FirstRecord
from exporter.log_format import LatestState
from exporter.publication.page.humanize import humanize_instant
from exporter.snapshot import TransactionKey

log = logging.getLogger("exporter")

BYTES_MAX = 64 * MEGABYTE
LOOKED_AT_MAX = 10
"""First records that are read after one cycle."""
HEADERS_MAX = 20


def path_beside(state_path: Path | None) -> Path | None:
    """`state-x.incidents.json` for `state-x.json`."""
    return None if state_path is None else state_path.with_suffix(".incidents.json")


def load(path: Path) -> Incidents:
    """The incidents in the file; none if there is no file yet. Raises KeptFileError."""
    incidents = kept_file.load(path, incidents_of, kind="file of incidents", bytes_max=BYTES_MAX)
    return NO_INCIDENTS if incidents is None else incidents


class AuditReader:
    """The commands' audit log at `path`; None if it is unknown. A log that cannot be read is logged once."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._changes = FileChanges(*([] if path is None else [path]))
        self._steps: Steps = {}
        self._said = LatestState()
        self._lock = threading.Lock()

    def added_to(self, incident: Incident) -> Incident:
        """The incident with what operators did about it."""
        with self._lock:  # the threads of all clusters come here
            steps = self._read()
        return with_steps(incident, steps)

    def _read(self) -> Steps:
        """Reads the audit log when it has changed: only its end, with the steps on incidents that are still shown."""
        if self._path is not None and self._changes.must_be_read():
            failure = None
            try:
                self._steps = steps_of(ending(self._path, bytes_max=MEGABYTE).splitlines())
            except FileNotFoundError:
                self._steps = {}
            except OSError as error:
                self._steps, failure = {}, str(error)
                self._changes.read_again()
            if self._said.is_new(failure) and failure is not None:
                log.warning("incidents are shown without operators' steps: %s cannot be read: %s", self._path, failure)
        return self._steps


class IncidentsFile:
    """The incidents of one cluster. A file that cannot be used is logged once; they are followed all the same."""

    def __init__(self, state_path: Path | None, *, url_of: Callable[[str], str | None] = lambda _: None) -> None:
        """`url_of` is the address of an incident's page."""
        self._url_of = url_of
        self._said = LatestState()
        self.incidents, self._path = kept_file.recall(path_beside(state_path), load, NO_INCIDENTS, contents="incidents")

    def begin_again(self, why: str) -> None:
        """Starts without incidents, and moves the file of the other cluster aside."""
        self._path = kept_file.made_free(self._path, kept_file.ANOTHER_CLUSTER, contents="incidents", why=why)
        self.incidents = NO_INCIDENTS

    def take(self, evaluation: Evaluation) -> list[TransactionKey]:
        """Follows the incidents through one cycle, and writes the file if one changed. Returns the new suspects."""
        cluster_id = evaluation.snapshot.cluster_id
        if self.incidents.all and self.incidents.cluster_id != cluster_id:
            self.begin_again(f"they are of cluster {self.incidents.cluster_id}, not {cluster_id}")
        before, after = self.incidents, follow(self.incidents, evaluation)
        if after is before:
            return []
        for incident in after.all:
            self._log_changes(before.named(incident.id), incident)
        self.incidents = after
        self._save()
        return new_suspects(before, after)

    def looked_at(self, sentences: Mapping[TransactionKey, str], now_ms: int) -> None:
        """Keeps the sentences on the first records of these transactions."""
        self.incidents = with_sentences(self.incidents, sentences, now_ms)
        self._save()

    def explained(self, causes: Mapping[TransactionKey, tuple[str, str]], now_ms: int) -> None:
        """Keeps (cause, evidence) of these transactions."""
        self.incidents = with_causes(self.incidents, causes, now_ms)
        self._save()

    def _log_changes(self, before: Incident | None, after: Incident) -> None:
        if before is None:
            url = self._url_of(after.id)
            where = "" if url is None else f" ({url})"
            what = after.events[-1].sentence if after.events else after.worst.label
            log.warning("incident %s%s begins: %s", after.id, where, what)
        elif after.is_over and not before.is_over:
            log.info("incident %s is over", after.id)

    def _save(self) -> None:
        if self._path is None:
            return
        try:
            kept_file.save(self._path, document(self.incidents), bytes_max=BYTES_MAX)
        except KeptFileError as error:
            if self._said.is_new(str(error)):
                log.warning("a restart would lose the incidents: %s", error)


def in_words(record: FirstRecord) -> str:
    """Formats the first record for the time line. A client chooses header names: other characters are shown as ?."""
    if record.timestamp_ms < 0:
        return f"its first record could not be read: {record.unread}"
    names = [re.sub(r"[^-_.:/=+a-zA-Z0-9]", "?", name)[:100] for name in record.headers]
    headers = f"the headers {humanize_names(names, shown_max=HEADERS_MAX)}" if names else "no headers"
    rest = f"; {record.unread}" if record.unread else f" and {headers}"
    return f"its first record has the timestamp {humanize_instant(record.timestamp_ms)}{rest}"
