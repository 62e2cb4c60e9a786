"""`python -m tests.verification.model [all|lies]`: searches orders of events with a wrong result. See README.md."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.verification.model import workers
from tests.verification.model.workers import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.verification.model.explore import Reached

STORIES_MAX = 12
SCHEDULES = 20_000
PART_SCHEDULES = 5_000
DEPTH_PARTS = 64
"""At least one for each situation; the longest are the last ones, and are begun first."""
RESULT = Path("build/model.json")


def main() -> int:
    """0 where nothing was found, or with `lies` where every lie was."""
    options = _options()
    if options.command == "lies":
        return _lies(options)
    if options.command == "all":
        return _all(options)
    began = time.monotonic()
    reached = workers.reached_by(_tasks(options, options.depth), options.processes, _progress("searched"))
    _print_result(reached, time.monotonic() - began)
    return 1 if reached.found else 0


def _tasks(options: argparse.Namespace, depth: int) -> list[Task]:
    """Parts small enough that a search of hours says how far it is; one part where there is one process."""
    if depth:
        return _listed(options, DEPTH_PARTS, depth=depth)
    schedules = SCHEDULES if options.schedules is None else options.schedules
    size = schedules if options.processes == 1 else max(min(PART_SCHEDULES, schedules // options.processes), 1)
    return [
        Task(
            schedules=min(size, schedules - first),
            seed=options.seed + first,
            ends_at=_ends_at(options),
            situations=tuple(options.situation),
            code=options.code,
        )
        for first in range(0, schedules, size)
    ]


def _listed(options: argparse.Namespace, parts: int, *, depth: int = 0) -> list[Task]:
    """Every placement of so many events, or every subset of rights: by situations, of which the last take longest."""
    parts = 1 if options.processes == 1 else parts
    return [
        Task(
            schedules=None if options.schedules is None else max(options.schedules // parts, 1),
            seed=number,
            step=parts,
            depth=depth,
            is_of_subsets=not depth,
            ends_at=_ends_at(options),
            situations=tuple(options.situation),
            code=options.code,
        )
        for number in reversed(range(parts))
    ]


def _ends_at(options: argparse.Namespace) -> float:
    seconds: float = options.seconds
    return time.monotonic() + seconds


def _progress(title: str) -> Callable[[int, Reached], None]:
    """A line on stderr for each part that has ended."""
    began = time.monotonic()

    def report(parts: int, reached: Reached) -> None:
        seconds = time.monotonic() - began
        found = sum(reached.violations.values())
        line = f"{title}: {parts} parts, {reached.schedules} schedules in {seconds:.0f} s, {found} violations"
        print(line, file=sys.stderr, flush=True)

    return report


def _all(options: argparse.Namespace) -> int:
    """By chance, every subset of rights, every single event, and pairs of events; one table of all, also as a file.

    Each of these has at most `--schedules` schedules, and `--seconds`.
    """
    began, parts = time.monotonic(), []
    for title, tasks in (
        ("by chance", _tasks(options, 0)),
        ("every subset of rights", _listed(options, options.processes)),
        ("one event, everywhere", _tasks(options, 1)),
        ("two events, where a lie was", workers.pairs_of_lies(_ends_at(options), options.schedules)),
    ):
        part_began = time.monotonic()
        reached = workers.reached_by(tasks, options.processes, _progress(title))
        _print_stories(reached)
        parts.append((title, reached, time.monotonic() - part_began))
        print(f"{title}: {reached.schedules} schedules in {parts[-1][2]:.0f} s, {len(reached.found)} lies", flush=True)
    from tests.verification.model.figures import document  # noqa: PLC0415 - imports the exporter

    result = document(parts)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    whole = parts[0][1]
    for _, reached, _ in parts[1:]:
        whole.merge(reached)
    _print_result(whole, time.monotonic() - began)
    print(f"written to {RESULT}")
    return 1 if whole.found else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.verification.model", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("explore", "all", "lies"), default="explore")
    parser.add_argument(
        "--schedules",
        type=int,
        help=f"at most so many, in each part of `all`; by chance {SCHEDULES}, otherwise every one",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule; the next has the next one")
    parser.add_argument("--depth", type=int, default=0, help="every placement of up to so many events, and no chance")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no schedule begins later")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--situation", action="append", default=[], help="only this one; may be repeated")
    parser.add_argument("--code", metavar="PATH", help="check the exporter of another checkout")
    return parser.parse_args()


def _print_result(reached: Reached, seconds: float) -> None:
    from tests.verification.model.figures import figures  # noqa: PLC0415 - imports the exporter

    _print_stories(reached)
    print(figures(reached, seconds))


def _print_stories(reached: Reached) -> None:
    from tests.verification.model.figures import stories  # noqa: PLC0415 - imports the exporter

    for story in stories(reached, STORIES_MAX):
        print(story, end="\n\n", flush=True)


def _lies(options: argparse.Namespace) -> int:
    results, stories = workers.find_lies(options.code, options.seed)
    from tests.verification.model.lies import table  # noqa: PLC0415 - imports the exporter

    print("\n\n".join(stories), end="\n\n")
    print(table(results))
    return 0 if all(result.found for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
