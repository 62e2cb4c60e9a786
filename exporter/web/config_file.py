"""The web configuration file while the server runs: read again by whoever asks after it has changed.

Users, headers and the rate limit apply at once, as with Prometheus' exporters; which certificate files there are, and what
peers must show, is looked at when the server starts. The certificates themselves are renewed (`server_tls.py`).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from exporter.config.loading import ConfigurationError
from exporter.files import read_text, signature
from exporter.web.config import WebConfig, web_config

log = logging.getLogger("exporter")


class WebFile:
    """The file at `path`; no file is an empty one."""

    def __init__(self, path: Path | None = None) -> None:
        """Raises ConfigurationError with every problem."""
        self._path = path
        self._stamp = None if path is None else signature(path)
        self._newest = WebConfig() if path is None else _read(path)

    def current(self) -> WebConfig:
        """As it is now; while it is wrong, as it was."""
        if self._path is not None and (newest := signature(self._path)) != self._stamp:
            self._stamp = newest
            problems: tuple[str, ...] = ()
            try:
                self._newest = self._with_users(_read(self._path))
            except ConfigurationError as error:
                problems = error.problems
            for problem in problems:
                log.error("web configuration not reloaded, the previous one stays in use: %s", problem)
        return self._newest

    def _with_users(self, newest: WebConfig) -> WebConfig:
        """An empty file is a valid one without users, and so is half of one: that opens no port that was closed."""
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
        raise ConfigurationError([f"{path}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError([f"{path}: is not UTF-8 text"]) from error
    return web_config(path, text)
