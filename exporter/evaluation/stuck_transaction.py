"""Declares a transaction that its coordinator cannot complete; it may be open on no partition."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.snapshot import CompletingId, MarkerFinding, PendingMarker, TransactionState


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckTransaction:
    """A transaction that its coordinator cannot complete. Durations and instants in ms."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """Epoch at the coordinator."""
    coordinator: int
    """Broker id."""
    state: TransactionState
    start_ms: int
    since_ms: int
    """Time of the first cycle that has seen it completing."""
    stuck_ms: int
    """Time since then."""
    state_partition: int
    coordinator_epoch: int
    markers: tuple[PendingMarker, ...]
    """One for each partition that the coordinator waits for, of topics that the login sees."""

    @property
    def identity(self) -> CompletingId:
        return CompletingId(self.transactional_id, self.producer_id)

    @property
    def markers_state(self) -> MarkerFinding:
        """The worst finding; UNKNOWN without one: Kafka leaves out partitions of topics that the login may not see."""
        findings = {marker.finding for marker in self.markers}
        return next((finding for finding in MarkerFinding if finding in findings), MarkerFinding.UNKNOWN)

    @property
    def refused_epoch(self) -> int:
        """The newest coordinator epoch that a pending partition remembers, if the coordinator's is older; otherwise -1."""
        newest = max((marker.coordinator_epoch for marker in self.markers), default=-1)
        return newest if newest > self.coordinator_epoch >= 0 else -1
