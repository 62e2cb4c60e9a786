"""Appends to the audit log: one JSON object per line, on disk before anything is written to Kafka."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from exporter.files import opened_for_appending


class AuditError(Exception):
    """The audit log cannot be written: without it, nothing is written to Kafka."""


class AuditLog:
    """Appends steps to one file, with the user and host of this process."""

    def __init__(self, path: Path, *, wall_clock: Callable[[], float], cluster_id: str | None = None) -> None:
        """`cluster_id` is in each step, unless it is unknown: one log may be of several clusters."""
        self._path = path
        self.cluster_id = cluster_id
        self._about = {} if cluster_id is None else {"cluster_id": cluster_id}
        self._wall_clock = wall_clock
        self._who = f"{_user()}@{socket.gethostname()}"

    def step(self, step: str, **facts: Any) -> None:
        """Appends one step; it is on disk on return. Raises AuditError."""
        at = datetime.fromtimestamp(self._wall_clock(), timezone.utc).isoformat(timespec="milliseconds")
        line = json.dumps({"at": at, "who": self._who, "step": step, **self._about, **facts}) + "\n"
        try:
            with self._opened() as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._error(error) from error

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Waits for the lock: only one command with this log writes markers at a time. Raises AuditError.

        Two commands that abort the same hang at once would both find it open, and both write: the second must see the
        result of the first. The wait may be long, so the proof for a marker is made after it.
        """
        try:
            file = self._opened()
        except OSError as error:
            raise self._error(error) from error
        with file:  # closing it lets go
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                raise self._error(error) from error
            yield

    def _opened(self) -> IO[str]:
        return opened_for_appending(self._path)

    def _error(self, error: OSError) -> AuditError:
        why = error.strerror or str(error)
        return AuditError(
            f"the audit log {self._path} cannot be written, so nothing was done: {why}; --audit-log names another one"
        )


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
