"""Tells the time by which old files are removed: a wall clock that jumps ahead must last for a day before it counts.

A machine that wakes up, or a wrong time server, may set the clock ahead for a moment; by that clock every file is too old.
"""

from __future__ import annotations

from typing import Final

LASTS_MS: Final = 24 * 60 * 60 * 1000
SAME_MS: Final = 60 * 60 * 1000
"""Largest difference of two readings of one clock, which may be adjusted, or slow."""


class TrustedClock:
    def __init__(self, *, newest_ms: int | None, wall_ms: float, monotonic_ms: float) -> None:
        """`newest_ms` is the newest instant that was recorded before; None without one."""
        at_most_ms = wall_ms if newest_ms is None else min(wall_ms, newest_ms + LASTS_MS)
        self._trusted_ms = at_most_ms - monotonic_ms
        self._shown_ms = wall_ms - monotonic_ms
        self._shown_since_ms = monotonic_ms

    def read(self, *, wall_ms: float, monotonic_ms: float) -> float:
        """Never later than the wall clock, in ms."""
        shown_ms = wall_ms - monotonic_ms
        if abs(shown_ms - self._shown_ms) > SAME_MS:
            self._shown_ms, self._shown_since_ms = shown_ms, monotonic_ms
        elif monotonic_ms - self._shown_since_ms >= LASTS_MS:
            self._trusted_ms = shown_ms
        return min(wall_ms, self._trusted_ms + monotonic_ms)
