"""Reads the settings again: on an order, and when one of their files has changed.

Settings apply completely or not at all. An error in a new file is logged once, and the old settings stay.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from exporter.config.loading import ConfigurationError, SettingsWithSources
from exporter.config.settings import SETTINGS, Settings
from exporter.config.sources import SettingSource
from exporter.files import MEGABYTE, contents
from exporter.status import ReloadStatus

log = logging.getLogger("exporter")

_BYTES_MAX = 16 * MEGABYTE
"""Limit for a file of the settings; a larger one cannot be read."""

Digests = Mapping[Path, bytes | None]
WrittenByCluster = Mapping[str | None, Mapping[str, SettingSource]]
"""Cluster of a fleet, None for the only one -> its settings that are written."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """New settings, all valid."""

    settings: Settings
    changed: frozenset[Path] = frozenset()
    """Files that they refer to and that have other contents: a password, a certificate."""


class Reloader:
    """Loads the settings again, and remembers what they were loaded from."""

    def __init__(
        self,
        load: Callable[[], SettingsWithSources],
        current: SettingsWithSources,
        sources: tuple[Path, ...],
        *,
        wall_clock: Callable[[], float],
    ) -> None:
        """`sources` are the files that `load` begins with; `current` has those that they refer to."""
        self._load = load
        self._files = current.files
        self._running = _written_by_cluster(current)
        """The settings that each cluster was started with; some stay in use until a restart."""
        self._sources = sources
        self._wall_clock = wall_clock
        self._refused: tuple[Path, ...] = ()
        """Files that invalid settings refer to: one of them may still come."""
        self._digests = self._applied = self._digest_all()
        self.status = ReloadStatus(succeeded=True, last_success_at_ms=self._now_ms())
        self._before = self.status, self._applied

    def if_changed(self) -> Reloaded | None:
        """The new settings, if a file has changed and they are valid; None otherwise."""
        return None if self._digest_all() == self._digests else self.now()

    def now(self) -> Reloaded | None:
        """The settings as they are now; None, with a log line for each problem, if they are invalid."""
        read = self._digest_all()  # first: what is written while they are loaded is then a change
        try:
            loaded = self._load()
        except ConfigurationError as error:
            self._refused = error.files
            self._digests = self._digest_all(read)  # so that it is logged once
            self.status = ReloadStatus(succeeded=False, last_success_at_ms=self.status.last_success_at_ms)
            for problem in error.problems:
                log.error(  # noqa: TRY400 - the problem says it all
                    "settings not reloaded, the previous ones stay in use: %s", problem, extra={"subject": "settings"}
                )
            return None
        written = _written_by_cluster(loaded)
        self._running = {cluster: self._running.get(cluster, own) for cluster, own in written.items()}
        for name in _restart_needed_by_cluster(self._running, written):
            log.warning("%s changed: restart to apply it", name, extra={"subject": "settings"})
        self._refused = ()
        before = self._applied  # a file may also have changed while the settings were invalid
        self._before = self.status, before
        self._files = loaded.files
        self._digests = self._applied = self._digest_all(read)
        self.status = ReloadStatus(succeeded=True, last_success_at_ms=self._now_ms())
        log.info("settings reloaded", extra={"subject": "settings"})
        changed = frozenset(file for file in loaded.files if before.get(file) != self._digests[file])
        return Reloaded(loaded.settings, changed)

    def take_back(self) -> None:
        """The settings that were read last could not be applied: the next look at the files reads them again."""
        before, self._applied = self._before
        self._digests = {}
        self.status = replace(before, succeeded=False)

    def _digest_all(self, known: Digests = MappingProxyType({})) -> Digests:
        """Computes the digests of all files; `known` ones are not read again."""
        # Contents are compared: Kubernetes swaps a symbolic link, and a copy may keep an old time.
        files = (*self._sources, *self._files, *self._refused)
        return {path: known[path] if path in known else _digest(path) for path in files}

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1000)


def _written_by_cluster(loaded: SettingsWithSources) -> WrittenByCluster:
    clusters = loaded.settings.clusters
    return {cluster.name: cluster.written for cluster in clusters} if clusters else {None: loaded.written}


def _restart_needed_by_cluster(running: WrittenByCluster, new: WrittenByCluster) -> Iterable[str]:
    """Returns the changed settings that need a restart, for each cluster of a fleet, or for the only one."""
    changed = {cluster: restart_needed(running[cluster], own) for cluster, own in new.items()}
    first, *_ = changed.values()
    of_all = [name for name in first if all(name in names for names in changed.values())]
    return [
        *of_all,
        *(f"{cluster}: {name}" for cluster, names in changed.items() for name in names if name not in of_all),
    ]


def restart_needed(old: Mapping[str, SettingSource], new: Mapping[str, SettingSource]) -> tuple[str, ...]:
    """Settings that differ and apply only at a start."""

    def value(written: Mapping[str, SettingSource], name: str) -> object:
        return written[name].value if name in written else None

    return tuple(
        setting.name
        for setting in SETTINGS
        if setting.needs_restart and value(old, setting.name) != value(new, setting.name)
    )


def _digest(path: Path) -> bytes | None:
    """Returns the digest of a file; None if it cannot be read."""
    try:
        return hashlib.sha256(contents(path, bytes_max=_BYTES_MAX)).digest()
    except OSError:
        return None
