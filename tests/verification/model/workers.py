"""Runs the work of one process: it imports the exporter only when it knows whose code to check."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
import time
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.verification.model.explore import Reached
    from tests.verification.model.lies import Result
    from tests.verification.model.situations import Situation


PLACES_OF_PAIRS = ("ListTransactions", "DescribeProducers", "WriteTxnMarkers", "InitProducerId", "pause")


class Task(NamedTuple):
    """What one process is to do."""

    schedules: int | None
    """The number of schedules drawn by chance; the limit of those that are listed, None without one."""
    seed: int
    step: int = 1
    ends_at: float = float("inf")
    """By `time.monotonic`, which all processes of a machine share: no schedule begins later."""
    depth: int = 0
    is_of_subsets: bool = False
    """Each command with every subset of rights, instead of chance."""
    situations: tuple[str, ...] = ()
    kinds: tuple[str, ...] | None = None
    """The only kinds of events; None: those of each situation."""
    places: tuple[str, ...] | None = None
    """The only moments; None: those of each situation, or all where a depth is given."""
    code: str | None = None
    """Another checkout, whose `exporter` is checked instead."""


def use(code: str | None) -> None:
    """Have `exporter` come from there."""
    if code is not None:
        assert "exporter" not in sys.modules, "too late: the exporter is imported already"
        sys.path.insert(0, code)


def explore(task: Task) -> Reached:
    """By chance, or exhaustively where a depth is given."""
    if "exporter" not in sys.modules:
        use(task.code)
    from tests.verification.model import drive, situations  # noqa: PLC0415 - see above
    from tests.verification.model.exhaustive import NO_LIMIT, Extent, exhaustively, with_every_subset  # noqa: PLC0415
    from tests.verification.model.explore import Reached, by_chance  # noqa: PLC0415

    chosen = tuple(situations.BY_NAME[name] for name in task.situations) or situations.SITUATIONS
    reached = Reached()
    seconds = task.ends_at - time.monotonic()
    gc.collect()
    gc.freeze()  # what is there stays: cycles of the collector need not walk it
    with drive.repeatable():
        limit = NO_LIMIT if task.schedules is None else task.schedules
        mine = chosen[task.seed % task.step :: task.step]
        if task.depth:
            extent = Extent(task.depth, task.kinds, task.places, schedules_max=limit)
            exhaustively(reached, extent, seconds=seconds, situations=mine)
        elif task.is_of_subsets:
            with_every_subset(reached, seconds=seconds, situations=mine, schedules_max=limit)
        else:
            by_chance(
                reached,
                seed=task.seed,
                schedules=limit,
                seconds=seconds,
                situations=[_restricted(situation, task) for situation in chosen],
                step=task.step,
            )
    return reached


def _restricted(situation: Situation, task: Task) -> Situation:
    kinds = situation.kinds if task.kinds is None else task.kinds
    return situation._replace(kinds=kinds, places=situation.places if task.places is None else task.places)


def reached_by(
    tasks: list[Task], processes: int = 2, progress: Callable[[int, Reached], None] = lambda _, __: None
) -> Reached:
    """What the tasks reach, in so many processes where there are several; `progress` learns of each task that has ended."""
    if len(tasks) == 1:
        return explore(tasks[0])
    with multiprocessing.get_context("spawn").Pool(min(processes, len(tasks)), _end_with_parent) as pool:
        responses = pool.imap(explore, tasks)
        if "exporter" not in sys.modules:
            use(tasks[0].code)  # what they hand back is of its types
        whole = next(responses)
        progress(1, whole)
        for number, other in enumerate(responses, 2):
            whole.merge(other)
            progress(number, whole)
    return whole


def _end_with_parent() -> None:
    """A parent that is killed cannot end its workers: they would continue to search for hours, without a use."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def find_lies(code: str | None, seed: int) -> tuple[tuple[Result, ...], tuple[str, ...]]:
    """Each lie of the list, and the stories of those that were found."""
    use(code)
    from tests.verification.model import drive  # noqa: PLC0415 - see above
    from tests.verification.model.explore import story  # noqa: PLC0415
    from tests.verification.model.lies import LIES, search  # noqa: PLC0415
    from tests.verification.model.situations import BY_NAME  # noqa: PLC0415

    with drive.repeatable():
        results = tuple(search(lie, seed=seed) for lie in LIES)
        stories = tuple(
            f"Item {result.lie.item}: {result.lie.title}\n{story(BY_NAME[result.found.situation], result.found.schedule)}"
            for result in results
            if result.found is not None
        )
    return results, stories


def pairs_of_lies(ends_at: float, schedules_max: int | None) -> list[Task]:
    """Every pair of the events that a known lie is made of, in its situation, at the moments where such a lie is made.

    All pairs everywhere are some ten million; these are what can be tried in an hour.
    """
    from tests.verification.model.lies import LIES  # noqa: PLC0415 - see above

    lies = [lie for lie in LIES if lie.kinds]
    return [
        Task(
            schedules=None if schedules_max is None else max(schedules_max // len(lies), 1),
            seed=0,
            ends_at=ends_at,
            depth=2,
            situations=(lie.situation,),
            kinds=lie.kinds,
            places=lie.places or PLACES_OF_PAIRS,
        )
        for lie in lies
    ]
