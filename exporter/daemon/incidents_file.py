"""Keeps the incidents in a file beside the state file, and reads the audit log that commands write on the same machine."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

from exporter.daemon import state_file
from exporter.daemon.state_file import StateFileError
from exporter.evaluation.verdicts import Evaluation
from exporter.files import MEGABYTE, atomic_write, read_text
from exporter.incidents.document import document, incidents_of
from exporter.incidents.follow import followed
from exporter.incidents.incident import NO_INCIDENTS, Event, Incident, Incidents
from exporter.incidents.operator_steps import operator_steps

log = logging.getLogger("exporter")

BYTES_MAX = 64 * MEGABYTE
AUDIT_BYTES_MAX = MEGABYTE
"""The end of the audit log, which holds the steps on incidents that are still shown."""


def path_beside(state_path: Path | None) -> Path | None:
    """`state-x.incidents.json` for `state-x.json`."""
    return None if state_path is None else state_path.with_suffix(".incidents.json")


def load(path: Path) -> Incidents:
    """The incidents in the file; none if there is no file yet. Raises StateFileError."""
    try:
        return incidents_of(json.loads(read_text(path, bytes_max=BYTES_MAX)))
    except FileNotFoundError:
        return NO_INCIDENTS
    except OSError as error:
        raise StateFileError(f"{path} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise state_file.StateFileDamagedError(f"{path} is not a file of incidents: {error}") from error


class IncidentsFile:
    """The incidents of one cluster. A file that cannot be used is logged once; they are followed all the same."""

    def __init__(
        self, state_path: Path | None, audit_path: Path | None, *, url_of: Callable[[str], str | None] = lambda _: None
    ) -> None:
        """`audit_path` is the commands' audit log; None if it is unknown. `url_of` is the address of an incident's page."""
        self._url_of = url_of
        self._path = path_beside(state_path)
        self._audit_path = audit_path
        self._audit: tuple[tuple[int, int], tuple[str, ...]] = ((-1, -1), ())
        self._said = ""
        self.incidents = self._recall()

    def take(self, evaluation: Evaluation) -> None:
        """Follow them through one cycle, and write the file if anything has changed."""
        after = followed(self.incidents, evaluation)
        if after is self.incidents:
            return
        for it in after.all:
            self._tell(self.incidents.named(it.id), it)
        self.incidents = after
        self._save()

    def operator_steps(self, incident: Incident) -> tuple[Event, ...]:
        """What the audit log has about it."""
        return operator_steps(self._audit_lines(), incident)

    def _tell(self, before: Incident | None, after: Incident) -> None:
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
            with atomic_write(self._path, beside=f"{self._path.name}.{os.getpid()}.tmp") as file:
                file.write(json.dumps(document(self.incidents), separators=(",", ":")).encode())
        except OSError as error:
            self._say(f"a restart would lose the incidents: {self._path} cannot be written: {error}")

    def _recall(self) -> Incidents:
        if self._path is None:
            return NO_INCIDENTS
        try:
            return load(self._path)
        except state_file.StateFileDamagedError as error:
            try:
                aside = state_file.set_aside(self._path)
                log.warning("incidents start from now: %s; it was moved to %s", error, aside)
            except StateFileError as second:
                log.warning("incidents are not saved in this run: %s; %s", error, second)
                self._path = None
        except StateFileError as error:
            log.warning("incidents are not saved in this run: %s", error)
            self._path = None
        return NO_INCIDENTS

    def _audit_lines(self) -> tuple[str, ...]:
        """Read again when it has grown."""
        if self._audit_path is None:
            return ()
        try:
            with self._audit_path.open("rb") as file:
                status = os.fstat(file.fileno())
                version = status.st_mtime_ns, status.st_size
                if version != self._audit[0]:
                    file.seek(max(status.st_size - AUDIT_BYTES_MAX, 0))
                    text = file.read(AUDIT_BYTES_MAX).decode("utf-8", "replace")
                    self._audit = version, tuple(text.splitlines())
        except FileNotFoundError:
            return ()
        except OSError as error:
            self._say(f"incidents are shown without operators' steps: {self._audit_path} cannot be read: {error}")
            return ()
        return self._audit[1]

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            self._said = sentence
            log.warning("%s", sentence)
