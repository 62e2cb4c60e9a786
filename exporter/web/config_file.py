"""Holds the web configuration while the server runs: the file is read again at the next use after a change.

Users, headers and the rate limit apply at once, as with Prometheus' exporters; the names of certificate files and the
rules for client certificates apply at the next start. The certificates themselves are renewed (`tls.py`).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from exporter.config.loading import ConfigurationError
from exporter.files import FileChanges, read_text
from exporter.web.config import WebConfig, web_config

log = logging.getLogger("exporter")


class WebFile:
    """The file at `path`; without a path, an empty configuration."""

    def __init__(self, path: Path | None = None) -> None:
        """Raises ConfigurationError with every problem."""
        self._path = path
        self._changes = FileChanges(*([] if path is None else [path]))
        self._changes.must_be_read()
        self._newest = WebConfig() if path is None else _read(path)
        self._problems: tuple[str, ...] = ()

    def current(self) -> WebConfig:
        """The present configuration; the last valid one while the file has errors."""
        if self._path is not None and self._changes.must_be_read():
            problems: tuple[str, ...] = ()
            try:
                self._newest = self._with_users(_read(self._path))
            except ConfigurationError as error:
                problems = error.problems
                if isinstance(error.__cause__, OSError):
                    self._changes.read_again()
            for problem in problems:
                if problem not in self._problems:
                    log.error("web configuration not reloaded, the previous one stays in use: %s", problem)
            self._problems = problems
        return self._newest

    def _with_users(self, newest: WebConfig) -> WebConfig:
        """Keeps the users if the file has none any more: an empty or half-written file must not open a protected port."""
        if self._newest.users and not newest.users:
            log.error(
                "%s no longer names users: the previous users stay valid, because an empty file may be a mistake. "
                "Restart to serve without passwords",
                self._path,
            )
            return replace(newest, users=self._newest.users)
        return newest


def _read(path: Path) -> WebConfig:
    try:
        text = read_text(path)
    except OSError as error:
        raise ConfigurationError([f"{path.absolute()}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError([f"{path}: is not UTF-8 text"]) from error
    return web_config(path, text)
