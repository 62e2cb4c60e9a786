"""Keeps the cluster's time: the active controller's clock as last read, advanced by the exporter's monotonic clock.

Brokers write the instants that verdicts depend on (a transaction's start) by their clocks. The exporter's clock may be an
hour off, or be set while it runs; no verdict may change for that. Brokers and controllers are assumed to agree with each
other (docs/proof.md).
"""

from __future__ import annotations

from collections.abc import Callable

from exporter.snapshot import ClockSource


class ClusterClock:
    """Clock of the cluster: until a controller's clock is read, the exporter's wall clock as it was at the start."""

    def __init__(self, wall_clock: Callable[[], float], clock: Callable[[], float]) -> None:
        self._clock = clock
        self.ahead_ms = (wall_clock() - clock()) * 1000
        """The cluster's clock minus the monotonic clock."""
        self.source = ClockSource.EXPORTER

    def hear(self, controller_time_ms: int) -> None:
        """Sets the cluster's time to that of the active controller; the delay of the response is ignored."""
        self.ahead_ms = controller_time_ms - self._clock() * 1000
        self.source = ClockSource.CONTROLLER

    def at_ms(self, monotonic_s: float) -> int:
        """The cluster's time in milliseconds since 1970 UTC at `monotonic_s` seconds of the exporter's monotonic clock."""
        return int(monotonic_s * 1000 + self.ahead_ms)
