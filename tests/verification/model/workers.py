"""The work of one process: nothing of the exporter is imported before it is known whose code is to be checked."""

from __future__ import annotations

import gc
import multiprocessing
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.verification.model.explore import Reached
    from tests.verification.model.lies import Result


class Task(NamedTuple):
    """What one process is to do."""

    schedules: int
    seed: int
    step: int
    seconds: float
    depth: int = 0
    situations: tuple[str, ...] = ()
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
    from tests.verification.model.explore import Reached, by_chance, exhaustively  # noqa: PLC0415

    chosen = tuple(situations.BY_NAME[name] for name in task.situations) or situations.SITUATIONS
    reached = Reached()
    gc.collect()
    gc.freeze()  # what is there stays: cycles of the collector need not walk it
    with drive.repeatable():
        if task.depth:
            mine = chosen[task.seed % task.step :: task.step]
            exhaustively(reached, depth=task.depth, seconds=task.seconds, situations=mine)
        else:
            by_chance(
                reached,
                seed=task.seed,
                schedules=task.schedules,
                seconds=task.seconds,
                situations=chosen,
                step=task.step,
            )
    return reached


def reached_by(tasks: list[Task]) -> Reached:
    """What the tasks reach, each in a process of its own where there are several."""
    if len(tasks) == 1:
        return explore(tasks[0])
    with multiprocessing.get_context("spawn").Pool(len(tasks)) as pool:
        answers = pool.map_async(explore, tasks)
        if "exporter" not in sys.modules:
            use(tasks[0].code)  # what they hand back is of its types
        first, *others = answers.get()
    for other in others:
        first.merge(other)
    return first


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
            f"Item {it.lie.item}: {it.lie.title}\n{story(BY_NAME[it.found.situation], it.found.schedule)}"
            for it in results
            if it.found is not None
        )
    return results, stories
