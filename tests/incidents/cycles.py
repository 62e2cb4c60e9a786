"""Cycles of one cluster as real evaluations, one after the other with their memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy
from exporter.incidents.follow import follow
from exporter.incidents.incident import NO_INCIDENTS, Incidents
from exporter.snapshot import (
    CompletingTransaction,
    Completions,
    CoordinatorCoverage,
    GroupOffset,
    Impact,
    Partitions,
    PendingMarker,
    SecondRead,
    Snapshot,
)
from tests.evaluation.builders import MINUTE_MS, MONOTONIC_MS, NOW_MS, Entry, proof, snapshot
from tests.evaluation.stuck import BEGAN_MS, marker, waiting

SECOND_MS = 1000
RESPONDED = (CoordinatorCoverage(broker=1, failure=None),)


def hang(partition: int = 0, **fields: Any) -> Entry:
    """Proved, on orders-`partition`: no coordinator lists its producer id."""
    return Entry(partition=partition, second_read=SecondRead.UNCHANGED, **fields)


def blocked(group: str, partition: int = 0) -> Impact:
    """A group at the last stable offset."""
    offset = GroupOffset(group=group, topic="orders", partition=partition, offset=100)
    return Impact(offsets=(offset,), residents=(), failures=())


class Cycles:
    """A cluster's incidents, cycle after cycle."""

    def __init__(self, incidents: Incidents = NO_INCIDENTS) -> None:
        self.memory = Memory()
        self.incidents = incidents

    def cycle(
        self, at_s: int, entries: Sequence[Entry] = (), *, columns: Partitions | None = None, **fields: Any
    ) -> Incidents:
        """The incidents after a cycle at `NOW_MS` plus so many seconds; `columns` are other partitions than orders'."""
        taken = snapshot(entries, taken_at_ms=NOW_MS + at_s * SECOND_MS, **{"proof": proof(), **fields})
        return self.take(taken if columns is None else replace(taken, partitions=columns))

    def take(self, taken: Snapshot) -> Incidents:
        evaluation = evaluate(taken, self.memory, Policy())
        self.memory = evaluation.memory
        self.incidents = follow(self.incidents, evaluation)
        return self.incidents


def hanging(at_s: int = 0) -> Evaluation:
    taken = snapshot([hang()], proof=proof(), taken_at_ms=NOW_MS + at_s * 1000)
    return evaluate(taken, Memory(), Policy())


class StuckProducer:
    """The incidents of a cluster in which one transaction completes for a minute when the first cycle is taken."""

    def __init__(self) -> None:
        self.incidents = NO_INCIDENTS
        self._memory: Memory = self._look(-2 * MINUTE_MS, waiting(marker()), Memory()).memory

    def _look(
        self,
        later_ms: int,
        lasting: CompletingTransaction | None,
        memory: Memory,
        entries: tuple[Entry, ...] = (),
        coordinators: tuple[CoordinatorCoverage, ...] = RESPONDED,
        partitions: Partitions | None = None,
    ) -> Evaluation:
        taken = snapshot(entries, proof=proof(), taken_at_ms=NOW_MS + later_ms, monotonic_ms=MONOTONIC_MS + later_ms)
        found = () if lasting is None else (lasting,)
        completing = Completions(listed=frozenset(each.identity for each in found), lasting=found)
        taken = replace(taken, completing=completing, coordinators=coordinators)
        return evaluate(taken if partitions is None else replace(taken, partitions=partitions), memory, Policy())

    def cycle(
        self,
        *markers: PendingMarker,
        later_ms: int = 0,
        start_ms: int = BEGAN_MS,
        is_over: bool = False,
        entries: tuple[Entry, ...] = (),
        coordinators: tuple[CoordinatorCoverage, ...] = RESPONDED,
        partitions: Partitions | None = None,
    ) -> Incidents:
        lasting = None if is_over else waiting(*(markers or (marker(),)), start_ms=start_ms)
        evaluation = self._look(later_ms, lasting, self._memory, entries, coordinators, partitions)
        self._memory = evaluation.memory
        self.incidents = follow(self.incidents, evaluation)
        return self.incidents
