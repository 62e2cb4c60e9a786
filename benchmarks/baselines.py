"""Simulates usual durations: false alarms of the thresholds, and how soon a hang is noticed, on many shapes of durations.

Each id has a history as cycles of 30 s see it: a transaction that no cycle meets is not there, one that a single cycle
meets has no duration, others have their age at the last cycle. From its threshold the false alarms of a day follow exactly,
without chance: a transaction raises one if a cycle meets it beyond the threshold. BASELINE_IDS (200) sets how many ids.
Ends with status 1 when a shape has more than one false alarm a day for each 1,000 ids.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from exporter.pipeline.thresholds import DAY_MS, RARE_SAMPLES, RARE_WINDOW_MS, WINDOW_MS, threshold_of

CYCLE_S: Final = 30.0
DAYS: Final = WINDOW_MS // DAY_MS
RARE_DAYS: Final = RARE_WINDOW_MS // DAY_MS
BUDGET: Final = 1.0
"""False alarms a day for each 1,000 ids."""
_POINTS: Final = (np.arange(60) + 0.5) / 60

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of durations in a shape."""

    share: float
    median_s: float
    sigma: float
    """Of the logarithm; for a Pareto distribution its exponent."""
    is_pareto: bool = False

    def drawn(self, random: np.random.Generator, count: int) -> Numbers:
        """Durations in seconds. A Pareto distribution begins at `median_s`."""
        if self.is_pareto:
            return self.median_s * (1 - random.random(count)) ** (-1 / self.sigma)
        return self.median_s * np.exp(self.sigma * random.standard_normal(count))

    def survivors(self, seconds: Numbers) -> Numbers:
        """The share of these that are longer."""
        if self.is_pareto:
            return self.share * (np.maximum(seconds, self.median_s) / self.median_s) ** -self.sigma
        z = np.log(seconds / self.median_s) / self.sigma
        return self.share * np.array([math.erfc(each / math.sqrt(2)) / 2 for each in z])


@dataclass(frozen=True, slots=True)
class Shape:
    """Durations of the transactions of one id, and their number a day."""

    name: str
    a_day: int
    parts: tuple[Part, ...]

    def history(self, random: np.random.Generator, days: int) -> Numbers:
        """As cycles see it."""
        counts = random.multinomial(self.a_day * days, [part.share for part in self.parts])
        drawn = [part.drawn(random, int(count)) for part, count in zip(self.parts, counts, strict=True)]
        return _observed(np.concatenate(drawn), random)

    def false_a_day(self, threshold_s: float) -> float:
        """Transactions that a cycle, other than their first one, meets beyond the threshold."""
        met_at = max(threshold_s, CYCLE_S) + CYCLE_S * _POINTS
        return self.a_day * float(np.mean(sum(part.survivors(met_at) for part in self.parts)))


def lognormal(name: str, a_day: int, median_s: float, sigma: float) -> Shape:
    return Shape(name, a_day, (Part(1, median_s, sigma),))


def pareto(exponent: float) -> Shape:
    return Shape(f"Pareto from 1 s, {exponent}", 2_000, (Part(1, 1, exponent, is_pareto=True),))


def mixed(name: str, share: float, median_s: float) -> Shape:
    """3 s, and a share of others."""
    return Shape(name, 500, (Part(1 - share, 3, 0.5), Part(share, median_s, 0.2)))


SHAPES: Final = (
    lognormal("lognormal 200 ms, 0.5", 20_000, 0.2, 0.5),
    lognormal("lognormal 2 s, 0.5", 2_000, 2, 0.5),
    lognormal("lognormal 2 s, 1", 2_000, 2, 1),
    lognormal("lognormal 2 s, 1.5", 2_000, 2, 1.5),
    lognormal("lognormal 30 s, 1", 500, 30, 1),
    pareto(1.5),
    pareto(1.1),
    mixed("98 % 3 s, 2 % 40 min", 0.02, 2_400),
    mixed("99.8 % 3 s, 0.2 % 40 min", 0.002, 2_400),
    mixed("nightly batch: 20 min in one hour of 24", 1 / 24, 1_200),
    lognormal("lognormal 30 s, 1", 2, 30, 1),
    lognormal("once a day: 20 min, 0.2", 1, 1_200, 0.2),
)


def _observed(durations_s: Numbers, random: np.random.Generator) -> Numbers:
    """Seen by the first cycle after a random while, and then by each; zero if by one only."""
    first_s = random.random(len(durations_s)) * CYCLE_S
    later = np.floor((durations_s - first_s) / CYCLE_S)
    return np.where(later > 0, first_s + CYCLE_S * later, 0)[later >= 0]


def rule(seconds: Numbers, days: int) -> float | None:
    """The pipeline's own."""
    longest = np.sort(seconds)[: -len(seconds) - 1 : -1][:100]
    threshold_ms, _ = threshold_of(len(seconds), days * DAY_MS, [(round(each * 1000), 1) for each in longest])
    return None if threshold_ms is None else threshold_ms / 1000


def rule_of_0_1(seconds: Numbers, _days: int) -> float | None:
    """That of version 0.1.0, for comparison."""
    if len(seconds) < 30:
        return None
    p25, p75, p99 = np.quantile(seconds, [0.25, 0.75, 0.99])
    return float(max(3 * p99, p99 + 6 * (p75 - p25), 10))


def best(shape: Shape) -> float:
    """The lowest threshold within the budget, for one who knows the distribution."""
    low, high = 10.0, 1e9
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if 1_000 * shape.false_a_day(middle) > BUDGET else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class Result:
    """Of one rule on one shape."""

    false_a_day: float
    """Of 1,000 ids."""
    noticed_s: float
    """The median over the ids: how old a hang is when a cycle meets it beyond the threshold."""
    without: float
    """The share of ids without a threshold."""


def simulated(shape: Shape, ids: int, rules: Iterable[Callable[[Numbers, int], float | None]]) -> list[Result]:
    """Each rule on the same histories."""
    random = np.random.default_rng(7)
    histories = [_history(shape, random) for _ in range(ids)]
    return [_result(shape, [each(*history) for history in histories]) for each in rules]


def _history(shape: Shape, random: np.random.Generator) -> tuple[Numbers, int]:
    """Four weeks, or eight if they have few samples."""
    seen = shape.history(random, DAYS)
    if len(seen) >= RARE_SAMPLES:
        return seen, DAYS
    return np.concatenate([seen, shape.history(random, RARE_DAYS - DAYS)]), RARE_DAYS


def _result(shape: Shape, thresholds: list[float | None]) -> Result:
    known = [each for each in thresholds if each is not None]
    return Result(
        1_000 * sum(map(shape.false_a_day, known)) / len(thresholds),
        max(float(np.median(known)), CYCLE_S) + CYCLE_S / 2 if known else math.nan,
        1 - len(known) / len(thresholds),
    )


def main() -> int:
    """A table of all shapes."""
    ids = int(os.environ.get("BASELINE_IDS", "200"))
    print("| durations (median, sigma) | a day | false alarms: 0.1.0 | now | noticed after: 0.1.0 | now | at best |")
    print("|---|---|---|---|---|---|---|")
    is_within = True
    for shape in SHAPES:
        before, now = simulated(shape, ids, (rule_of_0_1, rule))
        cells = [shape.name, f"{shape.a_day:,}", _count(before), _count(now), _noticed(before), _noticed(now)]
        print("|", " | ".join([*cells, _seconds(max(best(shape), CYCLE_S) + CYCLE_S / 2)]), "|", flush=True)
        is_within = is_within and now.false_a_day <= BUDGET and now.without == 0
    return 0 if is_within else 1


def _count(result: Result) -> str:
    return f"{result.false_a_day:.2f}" if result.false_a_day < 10 else f"{result.false_a_day:.0f}"


def _noticed(result: Result) -> str:
    if result.without == 1:
        return "no threshold"
    return _seconds(result.noticed_s) + (f" (not {result.without:.0%})" if result.without else "")


def _seconds(seconds: float) -> str:
    """With the unit that has two digits or more."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 3 * length:
            return f"{seconds / length:.0f} {unit}" if seconds >= 10 * length else f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
