"""Keeps the incidents in a file beside the state file, and reads the audit log that commands write on the same machine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from exporter.daemon import kept_file
from exporter.daemon.kept_file import KeptFileError
from exporter.evaluation.verdicts import Evaluation
from exporter.files import MEGABYTE, Signature, ending, signature
from exporter.incidents.document import document, incidents_of
from exporter.incidents.follow import followed
from exporter.incidents.incident import NO_INCIDENTS, Incident, Incidents
from exporter.incidents.operator_steps import Steps, steps_of, with_steps

log = logging.getLogger("exporter")

BYTES_MAX = 64 * MEGABYTE


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
        self._stamp: Signature | None = (-1, -1, -1)
        self._steps: Steps = {}

    def added_to(self, incident: Incident) -> Incident:
        """The incident with what operators did about it."""
        return with_steps(incident, self._read())

    def _read(self) -> Steps:
        """Read again when it has changed: only its end, which holds the steps on incidents that are still shown."""
        newest = None if self._path is None else signature(self._path)
        if self._path is not None and newest != self._stamp:
            self._stamp = newest
            try:
                self._steps = steps_of(ending(self._path, bytes_max=MEGABYTE).splitlines())
            except FileNotFoundError:
                self._steps = {}
            except OSError as error:
                self._steps = {}
                log.warning("incidents are shown without operators' steps: %s cannot be read: %s", self._path, error)
        return self._steps


class IncidentsFile:
    """The incidents of one cluster. A file that cannot be used is logged once; they are followed all the same."""

    def __init__(self, state_path: Path | None, *, url_of: Callable[[str], str | None] = lambda _: None) -> None:
        """`url_of` is the address of an incident's page."""
        self._url_of = url_of
        self._said = ""
        self.incidents, self._path = kept_file.recalled(
            path_beside(state_path), load, NO_INCIDENTS, contents="incidents", warn=log.warning
        )

    def take(self, evaluation: Evaluation) -> None:
        """Follow them through one cycle, and write the file if anything has changed."""
        after = followed(self.incidents, evaluation)
        if after is self.incidents:
            return
        for it in after.all:
            self._log_changes(self.incidents.named(it.id), it)
        self.incidents = after
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
            kept_file.save(self._path, document(self.incidents))
        except KeptFileError as error:
            if str(error) != self._said:
                self._said = str(error)
                log.warning("a restart would lose the incidents: %s", error)
