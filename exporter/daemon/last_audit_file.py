"""Reads the file of a cluster's newest audit again when it has changed. An error is logged once and has no other effect."""

from __future__ import annotations

import logging
from collections.abc import Callable

from exporter.log_format import LatestState
from exporter.status import AuditStatus
from exporter.storage.last_audit import BYTES_MAX, DAY_MS, LastAudit, file_name, parse
from exporter.storage.places import Place
from exporter.storage.small_file import ChangingText

log = logging.getLogger("exporter")


class LastAuditFile:
    """The file of one cluster in the folder of the report. Its methods are called by one thread at a time."""

    def __init__(self, folder: Place, cluster_id: str, wall_clock: Callable[[], float]) -> None:
        self.cluster_id = cluster_id
        self._path = folder / file_name(cluster_id)
        self._text = ChangingText(self._path, bytes_max=BYTES_MAX)
        self._wall_clock = wall_clock
        self._latest = LatestState()
        self._newest: LastAudit | None = None

    def status(self) -> AuditStatus | None:
        """None while there is no audit, or its file cannot be read."""
        changed = self._text.changed()
        if changed is not None:
            self._newest = self._parsed(*changed)
        newest = self._newest
        if newest is None:
            return None
        if self._wall_clock() * 1000 > newest.audited_at_ms + DAY_MS:
            return AuditStatus(newest.audited_at_ms)
        return AuditStatus(newest.audited_at_ms, transactions=newest.transactions, findings=newest.findings)

    def _parsed(self, text: str, failure: str | None) -> LastAudit | None:
        audit = None
        if failure is None:
            try:
                audit = parse(text)
            except ValueError as error:
                failure = str(error)
        if self._text.is_missing:  # nobody has to use the audit
            failure = None
        if self._latest.is_new(failure) and failure is not None:
            log.warning("last audit %s is not shown: %s", self._path, failure, extra={"subject": "audit"})
        return audit
