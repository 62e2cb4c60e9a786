"""The goals, what was measured of each, and what limits those that are not reached: `python -m benchmarks.goals`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks.document import FIGURES
from benchmarks.scan import EXPORTER

FLOOR_RATIO_MAX: Final = 1.25
CPU_SHARES_MAX: Final = {"kadm": 1 / 8, "Java AdminClient": 1 / 10, "kafka-python": 1 / 50}
QUIET_CYCLE_CPU_MS_MAX: Final = 40.0
RENDERING_CPU_MS_MAX: Final = 20.0
SCRAPE_P99_MS_MAX: Final = 20.0
CROWDED_CYCLE_RATIO_MAX: Final = 1.25
MEMORY_MB_MAX: Final = 120.0
MEMORY_GROWTH_MAX: Final = 0.05
ONCE_RATIO_MIN: Final = 6.0
BROKER_CPU_RATIO_MAX: Final = 1.1

MEMORY_LIMIT: Final = "numpy and kafka-python need 40 MB before the first read; three forms of 9 MB of text are kept"

Goal = tuple[str, str, str, str, str]
"""(what, goal, measured, kept or by how much it is missed, what limits it)"""


def goals(figures: Mapping[str, Any]) -> Iterator[Goal]:
    """A row for each."""
    for shape in figures["scan"]["shapes"]:
        yield from _scan(shape)
    quiet, _, large = figures["cycles"]["kinds"]
    yield _at_most(
        f"client CPU of a whole cycle, {quiet['partitions']:,} partitions, nothing open",
        quiet["cpu_ms"],
        QUIET_CYCLE_CPU_MS_MAX,
        "ms",
        "",
    )
    yield _at_most(
        f"rendering of {large['partitions']:,} series, both formats, plain and gzip",
        large["phases"]["render"]["cpu_ms"],
        RENDERING_CPU_MS_MAX,
        "ms CPU",
        "",
    )
    scrapes, memory = figures["scrapes"], figures["memory"]
    series = f"{scrapes['series']:,} series"
    yield _at_most(f"scrape of {series} while cycles run, p99", scrapes["p99_ms"], SCRAPE_P99_MS_MAX, "ms", "")
    yield _at_most(
        f"cycle with {scrapes['scrapers_at_once']} scrapers at once, to one without",
        scrapes["cycle_ms_crowded"] / scrapes["cycle_ms"],
        CROWDED_CYCLE_RATIO_MAX,
        "",
        "one interpreter: while the web server sends, the cycle waits",
    )
    resident = max(memory["resident_mb_at_first"], memory["resident_mb_at_last"])
    yield _at_most(
        f"memory of `serve`, {memory['partitions']:,} partitions",
        resident,
        MEMORY_MB_MAX,
        "MB resident",
        MEMORY_LIMIT,
    )
    yield _at_most(
        f"its growth over {memory['cycles']:,} cycles",
        memory["resident_mb_at_last"] / memory["resident_mb_at_first"] - 1,
        MEMORY_GROWTH_MAX,
        "",
        MEMORY_LIMIT,
    )
    ratio = figures["processes"]["ratio"]
    yield (
        "`once` to `kafka-transactions.sh find-hanging`, whole processes",
        f"at least {ONCE_RATIO_MIN:g} times faster",
        f"{ratio:.1f} times",
        _verdict(kept=ratio >= ONCE_RATIO_MIN, by=ONCE_RATIO_MIN / ratio),
        "imports: an interpreter that loads kafka-python and numpy, and does nothing, takes nearly half as long"
        if ratio < ONCE_RATIO_MIN
        else "",
    )


def _scan(shape: Mapping[str, Any]) -> Iterator[Goal]:
    rows = {row["name"]: row for row in shape["rows"]}
    ours, name = rows[EXPORTER], f"{shape['name']} ({shape['title']})"
    yield _at_most(
        f"scan of {name}, to the floor",
        ours["floor_ratio"],
        FLOOR_RATIO_MAX,
        "",
        "about 5 iterations of Python's event loop for each response, 50 us each, on the broker's two cores",
    )
    for peer, share in CPU_SHARES_MAX.items():
        if peer in rows:
            yield _at_most(
                f"client CPU of it, to {peer}'s",
                ours["cpu_ms"] / rows[peer]["cpu_ms"],
                share,
                "",
                f"the floor: {rows['floor']['cpu_ms'] / rows[peer]['cpu_ms']:.3f}; a request takes 0.2 ms of Python",
            )
    yield _at_most(
        "broker CPU of it, to the floor's",
        ours["broker_cpu_ms"] / rows["floor"]["broker_cpu_ms"],
        BROKER_CPU_RATIO_MAX,
        "",
        "the same requests: the difference is other load on the machine",
    )


def _at_most(what: str, measured: float, at_most: float, unit: str, limit: str) -> Goal:
    kept = measured <= at_most
    return (
        what,
        f"≤ {at_most:.3g} {unit}".rstrip(),
        f"{measured:.2f} {unit}".rstrip(),
        _verdict(kept=kept, by=measured / at_most),
        "" if kept else limit,
    )


def _verdict(*, kept: bool, by: float) -> str:
    return "kept" if kept else f"missed: {by:.2f} times the goal"


def main() -> None:
    """Print one line for each goal."""
    for what, goal, measured, verdict, limit in goals(json.loads(FIGURES.read_text())):
        print(f"{what}: {measured}, {goal}: {verdict}" + (f" ({limit})" if limit else ""))


if __name__ == "__main__":
    main()
