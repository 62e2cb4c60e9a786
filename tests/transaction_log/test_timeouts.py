"""Transactions that their coordinators ended: which ends these are, and in which words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.snapshot import TransactionState as State
from exporter.transaction_log.events import Event, Outcome, StateMachine
from exporter.transaction_log.timeouts import ended_by_coordinator, in_words
from tests.transaction_log.builders import ONGOING, START_MS, TIMEOUT_MS


def events(*, after_ms: int, epochs: int, state: State = State.PREPARE_ABORT) -> tuple[Event, ...]:
    """Of a transaction that is decided so long after its start, so many epochs on."""
    decided = replace(
        ONGOING, status=state, last_update_ms=START_MS + after_ms, producer_epoch=ONGOING.producer_epoch + epochs
    )
    machine = StateMachine()
    return (*machine.take(ONGOING, START_MS), *machine.take(decided, START_MS + after_ms))


@pytest.mark.parametrize(
    ("taken", "outcome"),
    [
        (events(after_ms=TIMEOUT_MS, epochs=1), Outcome.TIMED_OUT),
        (events(after_ms=100, epochs=1), Outcome.FENCED),
        (events(after_ms=100, epochs=0), None),
        (events(after_ms=TIMEOUT_MS, epochs=1, state=State.PREPARE_COMMIT), None),
    ],
)
def test_only_ends_that_a_coordinator_decided_are_kept(taken: tuple[Event, ...], outcome: Outcome | None) -> None:
    ends = [end for event in taken if (end := ended_by_coordinator(event)) is not None]
    assert [end.outcome for end in ends] == ([] if outcome is None else [outcome])


def test_the_line_names_who_how_long_and_where() -> None:
    (ended,) = filter(None, map(ended_by_coordinator, events(after_ms=TIMEOUT_MS, epochs=1)))
    assert in_words(ended) == (
        f"transaction of 'billing-7' timed out after {TIMEOUT_MS / 1000:.1f} s (time-out {TIMEOUT_MS / 1000:g} s): "
        "its coordinator aborts it on orders-0"
    )
    many = replace(ended, outcome=Outcome.FENCED, duration_ms=-1, partitions=("a-0", "a-1", "a-2", "a-3", "a-4"))
    assert in_words(many).startswith("transaction of 'billing-7' was fenced (time-out")
    assert in_words(many).endswith("on a-0, a-1, a-2 and 2 more")
