"""Cycles of several readers in turn, each with its exposition and its page, and the time that they take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from benchmarks.listed import publication
from exporter.evaluation.verdicts import Evaluation
from exporter.publication.exposition import Renderer
from exporter.publication.page.page import render_page
from exporter.publication.publication import PublishOptions


class Watcher:
    """The cycles of one reader, and what each took in ms: processor time of the process, and time."""

    def __init__(self, cycle: Callable[[], Evaluation]) -> None:
        self._cycle, self._renderer = cycle, Renderer()
        self.cpu_ms: list[float] = []
        self.wall_ms: list[float] = []

    def cycle(self) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        published = publication(self._cycle(), PublishOptions())
        self._renderer.render(published)
        render_page(published)
        self.cpu_ms.append((time.process_time() - cpu) * 1000)
        self.wall_ms.append((time.perf_counter() - wall) * 1000)


def in_turn(watchers: Sequence[Watcher], rounds: int) -> None:
    """Runs a cycle of each in every round, in changing order: others use the machine, too."""
    for number in range(rounds):
        for watcher in watchers if number % 2 else reversed(watchers):
            watcher.cycle()
