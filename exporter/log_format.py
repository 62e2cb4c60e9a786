"""Formats log lines: as text, as logfmt, or as JSON; and decides whether a state is news for the log."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Final

_CLUSTER: ContextVar[str | None] = ContextVar("cluster", default=None)
"""The cluster of a fleet whose log lines the present thread writes."""


@contextmanager
def logging_of(cluster: str | None) -> Iterator[None]:
    """Log lines within it are of this cluster of a fleet; None is no fleet."""
    before = _CLUSTER.set(cluster)
    try:
        yield
    finally:
        _CLUSTER.reset(before)


_BARE = re.compile(r"[^\s\"=\\\x00-\x1f\x7f]+")


class StructuredFormatter(logging.Formatter):
    """One line per record, whatever it contains.

    Keys are `ts`, `level`, `logger` and `msg`; where there is one, also `cluster`, `subject` and `error`.
    """

    def __init__(self, *, as_json: bool, cluster: str | None = None) -> None:
        super().__init__()
        self._as_json = as_json
        self._cluster = cluster

    def format(self, record: logging.LogRecord) -> str:
        """Formats one line, without a line end."""
        fields = {
            "ts": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        cluster = _CLUSTER.get() or self._cluster
        if cluster is not None:
            fields["cluster"] = cluster
        subject = getattr(record, "subject", None)
        if subject is not None:
            fields["subject"] = subject
        fields["msg"] = record.getMessage()
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        if self._as_json:
            return json.dumps(fields)
        return " ".join(
            f"{name}={value if _BARE.fullmatch(value) else json.dumps(value)}" for name, value in fields.items()
        )


class TextFormatter(logging.Formatter):
    """Formatter for a terminal; a record stays one line, and cannot contain control characters."""

    def __init__(self, cluster: str | None = None) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
        self._cluster = cluster

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """The line without a traceback."""
        cluster = _CLUSTER.get() or self._cluster
        if cluster is not None:
            record.message = f"{cluster}: {record.message}"
        return "".join(
            character if character.isprintable() else character.encode("unicode_escape").decode()
            for character in super().formatMessage(record)
        )


def formatter_of(log_format: str, *, on_terminal: bool, cluster: str | None = None) -> logging.Formatter:
    """The formatter for the settings `log.format` and `cluster.name`."""
    if log_format == "text" or (log_format == "auto" and on_terminal):
        return TextFormatter(cluster)
    return StructuredFormatter(as_json=log_format == "json", cluster=cluster)


_MEASURED: Final = re.compile(
    r"\d+(?:\.\d+)?(?= ?(?:ms|s|min|h|d)\b)"  # a broker has the time that is left of the deadline: 2497 ms, 2458 ms
    r"|[\d,]+ (?:of [\d,]+ )?(?:open |suspect )?(?:transaction|producer)s?\b"  # others in every cycle, and 1 among them
    r"|(?<=\b[Jj]ob )\d+|(?<=\b[Ss]tage )\d[\d.]*|\b[0-9a-f]{32}\b"  # Spark's number of a job, our tag of it
)
"""Other numbers say what it is about: a broker, a partition, a port, how many partitions are unread."""


class LatestState:
    """The state that the log has about one subject: a broker that is down for an hour gives one line, not 120."""

    def __init__(self, sentence: str | None = None) -> None:
        """`sentence` is the state at the start, of which the log has no line."""
        self._compared = _without_measurements(sentence)

    def is_new(self, sentence: str | None) -> bool:
        """True if this is another state than the latest one, and takes it as the latest. None is a state, too."""
        compared = _without_measurements(sentence)
        is_other = compared != self._compared
        self._compared = compared
        return is_other


def _without_measurements(sentence: str | None) -> str | None:
    return None if sentence is None else _MEASURED.sub("0", sentence)
