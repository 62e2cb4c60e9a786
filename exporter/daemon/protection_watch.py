"""Reads once an hour which settings of the cluster prevent hanging transactions."""

from __future__ import annotations

from collections.abc import Callable

from exporter.config.settings import ScanSettings
from exporter.cycle import Reader
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.protection import read_protection
from exporter.kafka.errors import ClientClosedError, ClusterUnavailableError
from exporter.snapshot.origin import Protection

EVERY_S = 3600.0
EVERY_S_WHILE_UNREAD = 300.0


class ProtectionWatch:
    """The protection as it was read last."""

    def __init__(self, reader: Reader, clock: Callable[[], float]) -> None:
        self._reader = reader
        self._clock = clock
        self._due_at: float | None = None
        """None: at once."""

    def forget(self) -> None:
        """The cluster or the principal may be another one."""
        self._due_at = None

    def news(self, scan: ScanSettings) -> Protection | None:
        """What was read just now, in half of the time that a cycle leaves after its deadline; None if nothing was."""
        if self._due_at is not None and self._clock() < self._due_at:
            return None
        found = self._read((scan.interval_ms - scan.deadline_ms) / 2000)
        self._due_at = self._clock() + (EVERY_S if found is not None and not found.unread else EVERY_S_WHILE_UNREAD)
        return found

    def _read(self, deadline_s: float) -> Protection | None:
        async def in_time(client: ClusterClient) -> Protection | None:
            read = await read_protection(client, await client.topology())
            return read if client.remaining_s() > 0 else None

        try:
            return self._reader.query(in_time, deadline_s=deadline_s)
        except (ClusterUnavailableError, ClientClosedError):
            return None
