"""The memory does not grow with what has been, whatever brokers show: a day of cycles by simulated time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.daemon.state_file import SavedState, save
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.remembering import REMEMBERED_UNREAD_MAX
from exporter.evaluation.verdicts import Evaluation, Policy
from exporter.snapshot import Snapshot, Visibility
from tests.evaluation.builders import NOW_MS, Entry, snapshot

A_DAY_OF_CYCLES = 2880
"""Of 30 seconds."""
CYCLE_MS = 30_000
OPEN = 40
INCOMPLETE = Visibility(gaps=("something is not visible",))


def of_topic(taken: Snapshot, name: str) -> Snapshot:
    """The same with another name of its one topic."""
    return replace(taken, partitions=replace(taken.partitions, topics=(name,)))


def cycle(number: int, memory: Memory, *, visibility: Visibility, count: int = OPEN) -> Evaluation:
    """A cycle that shows a topic of its own with so many open transactions."""
    entries = [Entry(producer_id=producer, start_offset=producer) for producer in range(count)]
    taken = snapshot(entries, taken_at_ms=NOW_MS + number * CYCLE_MS, visibility=visibility)
    return evaluate(of_topic(taken, f"topic-{number}"), memory, Policy())


def test_topics_that_exist_for_one_cycle_are_forgotten_with_it() -> None:
    """A complete cycle without a topic shows that it is deleted: memory and state file are flat for a day."""
    memory, sizes = Memory(), []
    for number in range(A_DAY_OF_CYCLES):
        memory = cycle(number, memory, visibility=Visibility()).memory
        sizes.append(len(memory.transactions))

    assert set(sizes) == {OPEN}


@pytest.mark.parametrize("count", [1_000])
def test_where_no_cycle_is_complete_there_is_a_limit(tmp_path: Path, count: int) -> None:
    """A topic may be hidden then; the newest are kept, and no more than a cycle examines."""
    memory = Memory()
    for number in range(REMEMBERED_UNREAD_MAX // count + 10):
        memory = cycle(number, memory, visibility=INCOMPLETE, count=count).memory

    assert len(memory.transactions) == REMEMBERED_UNREAD_MAX + count
    assert min(one.last_seen_ms for one in memory.transactions.values()) > NOW_MS + 8 * CYCLE_MS
    save(tmp_path / "state.json", SavedState(memory=memory))
    assert (tmp_path / "state.json").stat().st_size < 32 * 1024 * 1024
