"""Reads between cycles, from time to time, what a proof of a hang would need, and which settings prevent hangs.

A missing grant must not be noticed with the first hang.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from exporter.config.settings import ScanSettings, Settings
from exporter.cycle import Question, Reader
from exporter.doctor.diagnose import diagnose
from exporter.doctor.findings import Diagnosis
from exporter.kafka.client.principal import principal_of
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.preconditions import preconditions
from exporter.kafka.collect.protection import read_protection
from exporter.kafka.errors import ClientClosedError, ClusterUnavailableError
from exporter.snapshot import Preconditions, Provable, Snapshot
from exporter.snapshot.origin import Protection

T = TypeVar("T")
PROOF_EVERY_S = 600.0
PROOF_EVERY_S_WHILE_MISSING = 60.0
PROTECTION_EVERY_S = 3600.0
PROTECTION_EVERY_S_WHILE_UNREAD = 300.0


class _Seldom:
    """Request that is sent to the cluster once in a while."""

    def __init__(self, reader: Reader, clock: Callable[[], float]) -> None:
        self._reader = reader
        self._clock = clock
        self._due_at: float | None = None
        """Time of the next request; None: at once."""

    def forget(self) -> None:
        """The cluster or the principal may be another one."""
        self._due_at = None

    @property
    def is_due(self) -> bool:
        """True if the next time sends requests."""
        return self._due_at is None or self._clock() >= self._due_at

    def _ask(self, question: Question[T], deadline_s: float) -> T | None:
        """Returns the result; None if the cluster does not respond, or not within that time."""
        try:
            return self._reader.query(_in_time(question), deadline_s=deadline_s)
        except (ClusterUnavailableError, ClientClosedError):
            return None


def _in_time(question: Question[T]) -> Question[T | None]:
    """Wraps a question: its result is None if the time was not enough.

    A broker that got no request is not one that does not respond.
    """

    @wraps(question)
    async def asked(client: ClusterClient) -> T | None:
        read = await question(client)
        return read if client.remaining_s() > 0 else None

    return asked


class ProofCheck(_Seldom):
    """The preconditions of a proof, read once in a while, with the partitions of every cycle."""

    _read: Preconditions | None = None
    read_at_ms: int = 0
    """Time at which the preconditions were read, by the exporter's clock."""
    _principal: str | None = None

    def forget(self) -> None:
        super().forget()
        self._read = None

    def diagnosis(self, snapshot: Snapshot, settings: Settings) -> Diagnosis | None:
        """Returns the diagnosis by the cycle's snapshot and the preconditions; None while these could not be read.

        Takes no longer than is left between a cycle's deadline and the next cycle.
        """
        is_due, scan = self.is_due, settings.scan
        if self._due_at is None:  # once for each connection: it reads a file
            self._principal = principal_of(settings.kafka)
        if is_due:
            read = self._ask(preconditions, (scan.interval_ms - scan.deadline_ms) / 1000)
            if read is not None:
                self._read, self.read_at_ms = read, snapshot.finished_at_ms
        found = None if self._read is None else diagnose(snapshot, self._read, principal=self._principal)
        if is_due:
            proves_all = found is not None and found.provable is Provable.ALL
            self._due_at = self._clock() + (PROOF_EVERY_S if proves_all else PROOF_EVERY_S_WHILE_MISSING)
        elif not snapshot.is_complete and self._due_at is not None:
            # What this cycle could not do is not contradicted for minutes by a check from before.
            self._due_at = min(self._due_at, self._clock() + PROOF_EVERY_S_WHILE_MISSING)
        return found


class ProtectionWatch(_Seldom):
    """The protection, read once an hour."""

    def news(self, scan: ScanSettings) -> Protection | None:
        """Returns the protection read just now, in half of the time after a cycle's deadline; None if nothing was read."""
        if not self.is_due:
            return None
        found = self._ask(read_protection, (scan.interval_ms - scan.deadline_ms) / 2000)
        is_read = found is not None and not found.unread
        self._due_at = self._clock() + (PROTECTION_EVERY_S if is_read else PROTECTION_EVERY_S_WHILE_UNREAD)
        return found
