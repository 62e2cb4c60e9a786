"""Checks from time to time whether a hang could be proved: a missing grant must not be noticed with the first hang."""

from __future__ import annotations

from collections.abc import Callable

from exporter.config.settings import Settings
from exporter.cycle import Reader
from exporter.doctor.diagnose import diagnose
from exporter.doctor.findings import Diagnosis
from exporter.kafka.client.principal import principal_of
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.preconditions import preconditions
from exporter.kafka.errors import ClientClosedError, ClusterUnavailableError
from exporter.snapshot import Preconditions, Snapshot

EVERY_S = 600.0
EVERY_S_WHILE_MISSING = 60.0


class ProofCheck:
    """The preconditions of a proof, read once in a while, with the partitions of every cycle."""

    def __init__(self, reader: Reader, clock: Callable[[], float]) -> None:
        self._reader = reader
        self._clock = clock
        self._due_at: float | None = None
        """None: at once."""
        self._read: Preconditions | None = None
        self._principal: str | None = None

    def forget(self) -> None:
        """The cluster or the principal may be another one."""
        self._due_at = self._read = None

    @property
    def is_due(self) -> bool:
        """True if the next diagnosis sends requests."""
        return self._due_at is None or self._clock() >= self._due_at

    def diagnosis(self, snapshot: Snapshot, settings: Settings) -> Diagnosis | None:
        """What the cycle's snapshot and the preconditions mean; None while these could not be read."""
        is_due = self.is_due
        if self._due_at is None:  # once for each connection: it reads a file
            self._principal = principal_of(settings.kafka)
        if is_due:
            scan = settings.scan
            self._read = self._preconditions((scan.interval_ms - scan.deadline_ms) / 1000) or self._read
        found = None if self._read is None else diagnose(snapshot, self._read, principal=self._principal)
        if is_due:
            proves_all = found is not None and found.can_prove_all
            self._due_at = self._clock() + (EVERY_S if proves_all else EVERY_S_WHILE_MISSING)
        return found

    def _preconditions(self, deadline_s: float) -> Preconditions | None:
        """Takes no longer than is left between a cycle's deadline and the next cycle.

        None if that was not enough: a broker that got no request is not one that does not respond.
        """

        async def in_time(client: ClusterClient) -> Preconditions | None:
            read = await preconditions(client)
            return read if client.remaining_s() > 0 else None

        try:
            return self._reader.query(in_time, deadline_s=deadline_s)
        except (ClusterUnavailableError, ClientClosedError):
            return None
