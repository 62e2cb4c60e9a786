"""From what was usual to the duration beyond which a transaction is not, with the reason. Pure: no Spark, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SAMPLES_MIN: Final = 30
SPAN_MS_MIN: Final = 86_400_000
FLOOR_MS: Final = 10_000
"""Lower bound of every threshold."""
P99_TIMES: Final = 3
QUARTILE_RANGES: Final = 6
HOUR_SAMPLES_MIN: Final = 30
HOUR_SPAN_MS_MIN: Final = 14 * 86_400_000
"""An hour of the week is a pattern when it was seen in two weeks at least."""


@dataclass(frozen=True, slots=True)
class UsualDurations:
    """Durations of closed transactions that never hung, and how long it was observed."""

    samples: int
    span_ms: int
    p25_ms: int
    p75_ms: int
    p99_ms: int


def threshold_of(usual: UsualDurations) -> tuple[int | None, str]:
    """(threshold in ms, reason). None where there is too little to go by: a wild threshold is worse than none.

    Three times the 99th percentile leaves room for what is slow now and then; six ranges between the quartiles leave it
    where durations are scattered. Neither is moved by a few transactions that were very long.
    """
    if usual.samples < SAMPLES_MIN:
        return None, f"{usual.samples} samples are too few, {SAMPLES_MIN} are needed"
    if usual.span_ms < SPAN_MS_MIN:
        return None, f"{usual.samples} samples within less than a day may all be of one load"
    by_p99 = P99_TIMES * usual.p99_ms
    by_scatter = usual.p99_ms + QUARTILE_RANGES * (usual.p75_ms - usual.p25_ms)
    threshold_ms = max(by_p99, by_scatter, FLOOR_MS)
    if threshold_ms == FLOOR_MS:
        reason = f"never below {FLOOR_MS // 1000} s"
    elif threshold_ms == by_p99:
        reason = f"{P99_TIMES} times the 99th percentile"
    else:
        reason = f"the 99th percentile and {QUARTILE_RANGES} times the range between the quartiles"
    return threshold_ms, f"{reason}, of {usual.samples} samples"
