"""The cluster's time: the active controller's clock as it was last heard, carried on by our own monotonic clock.

Brokers write the instants that verdicts rest on (a transaction's start) by their clocks. Ours may be an hour off, or be set
while we run; no verdict may change for that. Brokers and controllers are taken to agree among each other (docs/proof.md).
"""

from __future__ import annotations

from collections.abc import Callable

from exporter.snapshot import ClockSource


class ClusterClock:
    """Until a controller's clock is heard, our wall clock as it was at the start."""

    def __init__(self, wall_clock: Callable[[], float], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ahead_ms = (wall_clock() - clock()) * 1000
        self.source = ClockSource.EXPORTER

    def hear(self, controller_time_ms: int) -> None:
        """The active controller's clock shows this now, but for the time that its response took."""
        self._ahead_ms = controller_time_ms - self._clock() * 1000
        self.source = ClockSource.CONTROLLER

    def at_ms(self, monotonic_s: float) -> int:
        """The cluster's time, in milliseconds since 1970 UTC, when our monotonic clock showed `monotonic_s` seconds."""
        return int(monotonic_s * 1000 + self._ahead_ms)
