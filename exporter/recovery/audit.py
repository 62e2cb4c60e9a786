"""The audit log: one JSON object a line, only ever appended, on disk before anything is written to Kafka."""

from __future__ import annotations

import json
import os
import pwd
import socket
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any


class AuditError(Exception):
    """The log cannot be written: nothing may be done without it."""


class AuditLog:
    """Appends steps to one file. Who: the user and host of this process."""

    def __init__(self, path: Path, *, wall_clock: Callable[[], float]) -> None:
        self._path = path
        self._wall_clock = wall_clock
        self._who = f"{_user()}@{socket.gethostname()}"

    def step(self, step: str, **facts: Any) -> None:
        """Append one step; it is on disk on return. Raises AuditError."""
        at = datetime.fromtimestamp(self._wall_clock(), timezone.utc).isoformat(timespec="milliseconds")
        line = json.dumps({"at": at, "who": self._who, "step": step, **facts}) + "\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise AuditError(f"the audit log {self._path} cannot be written, so nothing is done: {error}") from error


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
