"""Events from records: whole histories, and histories with pieces missing, doubled or cut off."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.snapshot import TransactionState as State
from exporter.transaction_log.events import Event, Happening, Outcome, StateMachine, outcome_of
from exporter.transaction_log.records import Decoded, Tombstone, TransactionRecord, UnknownVersion
from tests.transaction_log.builders import ABORTED, ABORTING, EMPTY, ONGOING, START_MS, TIMEOUT_MS, record


def played(*records: Decoded, machine: StateMachine | None = None) -> list[Event]:
    """Each record is written a millisecond after it says that it was updated."""
    kept = machine or StateMachine()
    events: list[Event] = []
    for written in records:
        written_ms = written.last_update_ms + 1 if isinstance(written, TransactionRecord) else START_MS
        events += kept.take(written, written_ms)
    return events


MORE = record(State.ONGOING, last_update_ms=START_MS + 5, partitions=frozenset({("orders", 0), ("bills", 1)}))
COMMITTING = replace(MORE, status=State.PREPARE_COMMIT, last_update_ms=START_MS + 20)
COMMITTED = replace(COMMITTING, status=State.COMPLETE_COMMIT, partitions=frozenset(), last_update_ms=START_MS + 40)


def test_a_whole_history() -> None:
    """The id taken, begun, a partition added, decided after 20 ms, marked 21 ms later."""
    taken, begun, added, prepared, completed = played(EMPTY, ONGOING, MORE, COMMITTING, COMMITTED)

    assert (taken.happening, taken.producer_id, taken.producer_epoch) == (Happening.INITIALIZED, 7, 3)
    assert (begun.happening, begun.at_ms, begun.partitions) == (Happening.BEGUN, START_MS, frozenset({("orders", 0)}))
    assert (added.happening, added.partitions) == (Happening.PARTITIONS_ADDED, frozenset({("bills", 1)}))
    assert (prepared.happening, prepared.outcome, prepared.duration_ms) == (Happening.PREPARED, Outcome.COMMITTED, 20)
    assert prepared.partitions == MORE.partitions
    assert (completed.happening, completed.outcome, completed.duration_ms) == (
        Happening.COMPLETED,
        Outcome.COMMITTED,
        21,
    )
    assert {event.start_ms for event in (begun, added, prepared, completed)} == {START_MS}


@pytest.mark.parametrize(
    ("sentence", "after_ms", "epochs", "client_version", "outcome"),
    [
        ("a client before version 2 keeps its epoch", 100, 0, 0, Outcome.ABORTED),
        ("it does so past its time-out as well", TIMEOUT_MS + 1, 0, 0, Outcome.ABORTED),
        ("the coordinator takes the next epoch, at the time-out", TIMEOUT_MS, 1, 0, Outcome.TIMED_OUT),
        ("a millisecond earlier it was for a newer producer", TIMEOUT_MS - 1, 1, 0, Outcome.FENCED),
        ("from version 2 on everybody takes the next epoch", 100, 1, 2, Outcome.ABORTED),
        ("and only the time decides", TIMEOUT_MS, 1, 2, Outcome.TIMED_OUT),
        ("a coordinator of 4.0.0 takes two epochs", TIMEOUT_MS, 2, 0, Outcome.TIMED_OUT),
        ("and shows by it that no client has ended it", 100, 2, 2, Outcome.FENCED),
        ("three epochs on is none of these", TIMEOUT_MS, 3, 0, Outcome.ABORTED),
        ("an earlier epoch is none of these", TIMEOUT_MS, -1, 2, Outcome.ABORTED),
        ("a clock that was set back shows no time-out", -5, 1, 2, Outcome.ABORTED),
    ],
)
def test_who_ended_it(sentence: str, after_ms: int, epochs: int, client_version: int, outcome: Outcome) -> None:
    """By the epoch, and by the time against its own time-out. The decision's own record says nothing of the client."""
    ongoing = record(State.ONGOING, client_transaction_version=client_version)
    prepared = record(
        State.PREPARE_ABORT,
        producer_epoch=3 + epochs,
        last_update_ms=START_MS + after_ms,
        client_transaction_version=2,
    )

    assert outcome_of(prepared, ongoing) is outcome, sentence


def test_a_fence_keeps_its_name_until_its_markers_are_written() -> None:
    """Completed as fenced, under the epoch that was open."""
    fenced = replace(ONGOING, status=State.PREPARE_ABORT, producer_epoch=4, last_update_ms=START_MS + 9)
    over = replace(fenced, status=State.COMPLETE_ABORT, partitions=frozenset())

    events = played(ONGOING, fenced, over)

    assert [(event.outcome, event.producer_epoch) for event in events] == [
        (None, 3),
        (Outcome.FENCED, 3),
        (Outcome.FENCED, 3),
    ]


def test_what_was_not_seen_is_not_made_up() -> None:
    """Without its beginning an abort is an abort; without its decision a completion has no duration."""
    aborting = replace(ONGOING, status=State.PREPARE_ABORT, producer_epoch=4, last_update_ms=START_MS + TIMEOUT_MS)

    (prepared,) = played(aborting)
    (completed,) = played(COMMITTED)

    assert (prepared.outcome, prepared.duration_ms) == (Outcome.ABORTED, TIMEOUT_MS)
    assert (completed.outcome, completed.duration_ms, completed.start_ms) == (Outcome.COMMITTED, -1, START_MS)
    assert played(ONGOING, replace(COMMITTED, producer_epoch=4))[-1].producer_epoch == 4


def test_what_comes_twice_happens_once() -> None:
    """Each record doubled, and the decision written again by a coordinator that took over."""
    again = replace(COMMITTING, last_update_ms=START_MS + 30)
    once = played(EMPTY, ONGOING, MORE, COMMITTING, COMMITTED)

    doubled = played(EMPTY, EMPTY, ONGOING, ONGOING, MORE, MORE, COMMITTING, again, COMMITTING, COMMITTED, COMMITTED)

    assert doubled == once
    added_again, over_again = (
        replace(MORE, last_update_ms=START_MS + 9),
        replace(COMMITTED, last_update_ms=START_MS + 50),
    )
    assert played(EMPTY, ONGOING, MORE, added_again, COMMITTING, COMMITTED, over_again) == once


def test_of_decisions_that_contradict_each_other_the_last_one_counts() -> None:
    """Nothing was sent of the first one; the open epoch and the outcome are not taken from its record."""
    committing = replace(COMMITTING, producer_epoch=4)
    aborting = replace(ABORTING, producer_epoch=5)

    *_, prepared, completed = played(ONGOING, committing, aborting, replace(ABORTED, producer_epoch=5))
    *_, without_it = played(ONGOING, committing, replace(ABORTED, producer_epoch=5))

    assert [(each.happening, each.outcome, each.producer_epoch) for each in (prepared, completed, without_it)] == [
        (Happening.PREPARED, Outcome.ABORTED, 3),
        (Happening.COMPLETED, Outcome.ABORTED, 3),
        (Happening.COMPLETED, Outcome.ABORTED, 3),
    ]


def test_the_next_transaction_is_another_one() -> None:
    """Its decision is not measured against the one before, nor is its beginning an addition to it."""
    later = START_MS + 1000
    events = played(
        ONGOING,
        replace(ONGOING, start_ms=later, last_update_ms=later),
        replace(ONGOING, status=State.PREPARE_ABORT, start_ms=later, last_update_ms=later + 7),
    )

    assert [(event.happening, event.start_ms) for event in events] == [
        (Happening.BEGUN, START_MS),
        (Happening.BEGUN, later),
        (Happening.PREPARED, later),
    ]
    assert events[-1].duration_ms == 7


def test_a_forgotten_id_is_forgotten() -> None:
    """Once; an id that was never seen gives no event, nor does a record of an unknown version."""
    machine = StateMachine()

    assert played(UnknownVersion("value", 9), Tombstone("stranger"), machine=machine) == []
    played(EMPTY, machine=machine)
    (expired,) = played(Tombstone("billing-7"), Tombstone("billing-7"), machine=machine)
    assert (expired.happening, expired.producer_id, machine.known) == (Happening.EXPIRED, 7, {})


def test_an_id_is_taken_once_by_each_producer() -> None:
    """A newer epoch or another producer id is another producer; the same one written again is not."""
    events = played(EMPTY, replace(EMPTY, last_update_ms=START_MS + 1), replace(EMPTY, producer_epoch=4), COMMITTED)

    assert [(event.happening, event.producer_epoch) for event in events[:-1]] == [
        (Happening.INITIALIZED, 3),
        (Happening.INITIALIZED, 4),
    ]


@dataclass(frozen=True)
class History:
    """Records of one id, and what really happened."""

    records: tuple[TransactionRecord, ...]
    outcomes: tuple[Outcome, ...]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Transactions of one producer, one after another, each with a few partitions and an end."""
    records: list[TransactionRecord] = []
    outcomes: list[Outcome] = []
    now, epoch = START_MS, 0
    is_version_2 = draw(st.booleans())
    client_version = 2 if is_version_2 else 0
    for _ in range(draw(st.integers(1, 4))):
        begun = now
        partitions: frozenset[tuple[str, int]] = frozenset()
        for number in range(draw(st.integers(1, 3))):
            partitions |= {("orders", number)}
            records.append(
                record(
                    State.ONGOING,
                    producer_epoch=epoch,
                    partitions=partitions,
                    start_ms=begun,
                    last_update_ms=now,
                    client_transaction_version=client_version,
                )
            )
            now += 1
        outcome = draw(st.sampled_from(Outcome))
        if outcome is Outcome.FENCED and is_version_2:
            outcome = Outcome.ABORTED
        now = begun + TIMEOUT_MS if outcome is Outcome.TIMED_OUT else now
        outcomes.append(outcome)
        epoch += 1 if is_version_2 or outcome in {Outcome.FENCED, Outcome.TIMED_OUT} else 0
        is_commit = outcome is Outcome.COMMITTED
        decided = record(
            State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT,
            producer_epoch=epoch,
            partitions=partitions,
            start_ms=begun,
            last_update_ms=now,
            client_transaction_version=2 if is_version_2 else 0,
        )
        over = State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT
        records += [decided, replace(decided, status=over, partitions=frozenset())]
        now += draw(st.integers(1, 1000))
    return History(tuple(records), tuple(outcomes))


def completions(events: list[Event]) -> list[tuple[int, Outcome | None]]:
    return [(event.start_ms, event.outcome) for event in events if event.happening is Happening.COMPLETED]


@given(histories())
def test_every_history_gives_its_events(history: History) -> None:
    """Each transaction begins once, is decided once and completes once, as it did."""
    events = played(*history.records)

    starts = list(dict.fromkeys(record.start_ms for record in history.records))
    expected = list(zip(starts, history.outcomes, strict=True))
    assert completions(events) == expected
    prepared = [(event.start_ms, event.outcome) for event in events if event.happening is Happening.PREPARED]
    assert prepared == expected
    assert [event.start_ms for event in events if event.happening is Happening.BEGUN] == starts


@given(histories(), st.data())
def test_what_is_missing_makes_no_wrong_event(history: History, data: st.DataObject) -> None:
    """Compaction, a start in the middle, a log cut off: the remaining events are true, or say no more than `abort`."""
    kept = data.draw(st.lists(st.booleans(), min_size=len(history.records), max_size=len(history.records)))
    doubled = data.draw(st.lists(st.integers(1, 3), min_size=len(kept), max_size=len(kept)))
    records = [
        record
        for record, keep, times in zip(history.records, kept, doubled, strict=True)
        for _ in range(times if keep else 0)
    ]
    truth = {
        event.start_ms: event.outcome for event in played(*history.records) if event.happening is Happening.COMPLETED
    }

    events = played(*records)

    for event in events:
        if event.outcome is not None:
            assert event.outcome in {truth[event.start_ms]} | (
                set() if truth[event.start_ms] is Outcome.COMMITTED else {Outcome.ABORTED}
            )
        assert event.duration_ms >= -1
    for happening in (Happening.BEGUN, Happening.PREPARED, Happening.COMPLETED):
        starts = [event.start_ms for event in events if event.happening is happening]
        assert len(starts) == len(set(starts)), "nothing happens twice"
