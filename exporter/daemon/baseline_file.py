"""Reads the baseline file again when it has changed. An error is logged once and has no other effect."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from exporter.baseline import BYTES_MAX, NO_BASELINE, Baseline, BaselineError, parse
from exporter.log_format import LatestState
from exporter.patterns import GroupRules
from exporter.status import BaselineStatus
from exporter.storage.places import Place
from exporter.storage.small_file import ChangingText

log = logging.getLogger("exporter")


class BaselineFile:
    """The file at `path`, used until it is older than `age_ms_max`."""

    def __init__(self, path: Place, rules: GroupRules, *, age_ms_max: int, wall_clock: Callable[[], float]) -> None:
        self.place = path
        self._text = ChangingText(path, bytes_max=BYTES_MAX)
        self._rules = rules
        self._age_ms_max = age_ms_max
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._newest: Baseline | BaselineError = BaselineError("it has not been read yet")
        self._said = LatestState()
        self.status = BaselineStatus(None, str(self._newest))

    def current(self, *cluster_ids: str) -> Baseline:
        """The usual durations on those clusters, or on any if none is named; empty if the file cannot be used now."""
        with self._lock:
            newest = self._read()
            failure = self._failure(newest, cluster_ids)
            self.status = BaselineStatus(newest.made_at_ms if isinstance(newest, Baseline) else None, failure)
            if self._said.is_new(failure):
                if failure is not None:
                    log.warning("baseline file %s is not used: %s", self.place, failure, extra={"subject": "baseline"})
                else:
                    log.info("baseline file %s is used", self.place, extra={"subject": "baseline"})
            return newest if failure is None and isinstance(newest, Baseline) else NO_BASELINE

    def why_unusable(self) -> str | None:
        """The end of a sentence; None if the file can be used on some cluster."""
        return self._failure(self._read(), ())

    def _read(self) -> Baseline | BaselineError:
        changed = self._text.changed()
        if changed is not None:
            text, why = changed
            try:
                self._newest = parse(text, self._rules) if why is None else BaselineError(why)
            except BaselineError as error:
                self._newest = error
        return self._newest

    def _failure(self, newest: Baseline | BaselineError, cluster_ids: tuple[str, ...]) -> str | None:
        if isinstance(newest, BaselineError):
            return str(newest)
        age_ms = int(self._wall_clock() * 1000) - newest.made_at_ms
        if age_ms > self._age_ms_max:
            return f"it was made {age_ms / 86_400_000:.1f} d ago, more than baseline.max_age"
        if not newest.cluster_ids:
            return "it has no baselines yet: its history has no transaction that has ended"
        if cluster_ids and not newest.cluster_ids.intersection(cluster_ids):
            return f"it is for other clusters, not for {', '.join(cluster_ids)}"
        return None
