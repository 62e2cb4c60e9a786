"""Runs the cycles of a world: evaluates and renders each with default settings, and keeps what the rules read."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from exporter.artifacts.rules import Group, rules_of
from exporter.baseline import NO_BASELINE, Baseline
from exporter.config.loading import load
from exporter.daemon.wiring import policy_of, publish_options_of
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.publication.exposition import Renderer
from exporter.transaction_log.journal import NO_JOURNAL
from tests.publication.builders import published, status
from tests.verification.noise.world import World

NAME: Final = re.compile(r"(?<![\w:])kafka_\w+(?![\w:])")
MISSING: Final = math.nan


@dataclass(frozen=True, slots=True)
class Samples:
    """The series that rules read, with a value for each cycle, MISSING where a cycle has none."""

    cycles: int
    values: Mapping[str, array[float]]
    """By series, as the exposition writes it; from the first cycle to its last one with the series."""


def read_by(groups: list[Group]) -> frozenset[str]:
    """The names of the metrics, without signals, that the expressions of these rules read."""
    return frozenset(name for rule in rules_of(groups) for name in NAME.findall(rule["expr"]))


def play(world: World, cycles: int, wanted: Iterable[str], baseline: Baseline = NO_BASELINE) -> Samples:
    """Runs so many cycles from an empty memory on."""
    settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": "kafka:9092"}).settings
    policy, options = policy_of(settings), publish_options_of(settings)
    memory, renderer, names = Memory(), Renderer(), frozenset(wanted)
    values: dict[str, array[float]] = {}
    for number in range(cycles):
        taken = world.snapshot(number)
        evaluation = evaluate(taken, memory, policy, NO_JOURNAL, baseline)
        memory = evaluation.memory
        state = status(
            cycles=number + 1, snapshot_taken_at_ms=taken.taken_at_ms, last_success_at_ms=taken.finished_at_ms
        )
        body = renderer.render(published(evaluation, status=state, options=options)).text.body
        for series, value in _parsed(body.decode(), names):
            row = values.setdefault(series, array("d"))
            row.extend([MISSING] * (number - len(row)))
            row.append(value)
    return Samples(cycles, values)


def _parsed(text: str, names: frozenset[str]) -> Iterable[tuple[str, float]]:
    """(series, value) of each line of an exposition whose metric is one of `names`."""
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        if series.partition("{")[0] in names:
            yield series, float(value)
