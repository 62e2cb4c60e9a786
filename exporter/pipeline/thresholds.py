"""Computes from usual durations the threshold of an unusually long transaction, with the reason. Pure.

The longest durations show how the tail goes on (Hill's estimator): the threshold is where one transaction in `DAYS_BETWEEN`
is expected. docs/decisions/0031-baselines.md has the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice, pairwise
from statistics import median
from typing import Final

from exporter.evaluation.humanize import humanize_count

DAY_MS: Final = 86_400_000
WINDOW_MS: Final = 28 * DAY_MS
"""Transactions of the last four weeks count."""
RARE_SAMPLES: Final = 100
RARE_WINDOW_MS: Final = 2 * WINDOW_MS
"""Window for fewer than `RARE_SAMPLES` in four weeks: eight weeks."""
SAMPLES_MIN: Final = 20
FLOOR_MS: Final = 10_000
"""Lower bound of every threshold."""
DAYS_BETWEEN: Final = 2_000
"""Days between two false alarms of one id: one a day for 2,000 ids, half of the budget, because the tail is an estimate."""
TAIL: Final = 20
"""The longest samples, of which the tail is estimated, and at most one in `SAMPLES_A_TAIL`."""
TAIL_MIN: Final = 4
SAMPLES_A_TAIL: Final = 10
SLOPE_MIN: Final = 0.05
"""Durations that hardly differ may differ more tomorrow: the threshold is about half as long again."""
SPACING_MAX: Final = 4
"""Usual spacings as which one between two of the longest counts at most: a hang taken for usual changes little."""
LONGEST_TIMES: Final = (1.5, 50)
"""Bounds, by the longest sample. If the tail begins with the longest ones, nothing is known of its shape."""


def threshold_of(samples: int, span_ms: int, longest: Sequence[tuple[int, int]]) -> tuple[int | None, str]:
    """(threshold in ms, reason). None with too few samples: a wrong threshold is worse than none.

    From durations of closed transactions that never were suspects, observed over `span_ms`. `longest` is (duration in ms,
    samples) in descending order: `TAIL` + 1 samples or more, or all.
    """
    if samples < SAMPLES_MIN:
        return None, f"{humanize_count(samples, 'sample is', 'samples are')} too few, {SAMPLES_MIN} are needed"
    if span_ms < DAY_MS:
        return None, f"{humanize_count(samples, 'sample')} within less than a day may all be of one load"
    size = max(TAIL_MIN, min(TAIL, samples // SAMPLES_A_TAIL))
    # Below the lower bound of thresholds they do not differ.
    one_by_one = (max(duration_ms, FLOOR_MS) for duration_ms, count in longest for _ in range(count))
    tail = list(islice(one_by_one, size + 1))
    of = f"of {humanize_count(samples, 'sample')}"
    if tail[0] == FLOOR_MS:
        return FLOOR_MS, f"never below {FLOOR_MS // 1000} s, {of}"
    expected = size * DAYS_BETWEEN * DAY_MS / span_ms
    least, greatest = (round(times * tail[0]) for times in LONGEST_TIMES)
    # One deviation more: too high a threshold costs minutes, too low a one costs trust.
    power = _slope(tail) * (1 + 1 / math.sqrt(size)) * math.log(expected)
    threshold_ms = round(
        tail[-1] * math.exp(min(max(power, SLOPE_MIN * math.log(expected)), math.log(greatest / tail[-1])))
    )
    if threshold_ms <= least:
        return least, f"{LONGEST_TIMES[0]} times the longest {of}"
    if threshold_ms >= greatest:
        return greatest, f"{LONGEST_TIMES[1]} times the longest {of}"
    return threshold_ms, f"exceeded once in {DAYS_BETWEEN:,} days, by the {size} longest {of}"


def _slope(tail: Sequence[int]) -> float:
    """Computes the growth of a duration's logarithm when its frequency falls by the factor e (Hill's estimator)."""
    spacings = [rank * math.log(longer / shorter) for rank, (longer, shorter) in enumerate(pairwise(tail), 1)]
    largest = SPACING_MAX * max(median(spacings) / math.log(2), SLOPE_MIN)
    return sum(min(spacing, largest) for spacing in spacings) / len(spacings)
