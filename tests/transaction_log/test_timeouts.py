"""Transactions that their coordinators ended: which ends these are, in which words, and how many are kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.snapshot import TransactionState as State
from exporter.transaction_log.events import Event, Outcome, StateMachine
from exporter.transaction_log.timeouts import KEPT_MAX, LastTimeouts, in_words
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
    last = LastTimeouts()
    handed = [timeout for event in taken if (timeout := last.take(event)) is not None]
    assert [timeout.outcome for timeout in last.newest_first()] == ([] if outcome is None else [outcome])
    assert tuple(handed) == last.newest_first()


def test_the_line_names_who_how_long_and_where() -> None:
    (ended,) = (timeout for event in events(after_ms=TIMEOUT_MS, epochs=1) if (timeout := LastTimeouts().take(event)))
    assert in_words(ended) == (
        f"transaction of 'billing-7' timed out after {TIMEOUT_MS / 1000:.1f} s (time-out {TIMEOUT_MS / 1000:g} s): "
        "its coordinator aborts it on orders-0"
    )
    many = replace(ended, outcome=Outcome.FENCED, duration_ms=-1, partitions=("a-0", "a-1", "a-2", "a-3", "a-4"))
    assert in_words(many).startswith("transaction of 'billing-7' was fenced (time-out")
    assert in_words(many).endswith("on a-0, a-1, a-2 and 2 more")


def test_the_newest_are_kept_and_come_first() -> None:
    last = LastTimeouts()
    (_, prepared) = events(after_ms=TIMEOUT_MS, epochs=1)
    for number in range(KEPT_MAX + 5):
        last.take(replace(prepared, at_ms=number))
    kept = [timeout.at_ms for timeout in last.newest_first()]
    assert kept == list(range(KEPT_MAX + 4, 4, -1))
