"""How long an owner is usually silent is learned from the silences that it ended itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from exporter.cycle import EvaluationInput, run_cycle
from exporter.evaluation import silences
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.owner import owner_state
from exporter.evaluation.silences import NO_SILENCES, OwnerSilences, Silences
from exporter.evaluation.verdicts import Evaluation, OwnerState, Policy, TransactionRow, Verdict
from exporter.transaction_log.events import Outcome
from exporter.transaction_log.journal import NO_JOURNAL, EndedTransaction, Journal, LoggedProducer
from tests.evaluation.builders import (
    MINUTE_MS,
    MONOTONIC_MS,
    NOW_MS,
    Entry,
    evidence,
    listed,
    partitions_of,
    snapshot,
    transaction,
)

SECOND_MS = 1000
TIMEOUT_MS = 60 * MINUTE_MS
NAME = "payments-7"
PLACE = ("orders", 0)


def after(ended: tuple[int, ...]) -> Silences:
    """The silences of an id whose transactions had these."""
    return Silences(of_ids={NAME: OwnerSilences(producer_id=7, place=PLACE, ended=ended)})


def cycle(
    before: Memory,
    at_ms: int,
    *,
    number: int,
    last_sequence: int = 0,
    journal: Journal = NO_JOURNAL,
    name: str = "payments-7",
    is_described: bool = True,
) -> Evaluation:
    """A cycle at this time since the beginning, in which the id's transaction number `number` is open: ten minutes each."""
    start_ms = NOW_MS + number * 10 * MINUTE_MS
    producer_id = 7 if name == NAME else 100 + number
    described = transaction(start_ms=start_ms, timeout_ms=TIMEOUT_MS, transactional_id=name, producer_id=producer_id)
    taken = snapshot(
        [
            Entry(
                producer_id=producer_id,
                start_offset=100 + number,
                last_sequence=last_sequence,
                last_timestamp_ms=start_ms,
            )
        ],
        transactions=(described if is_described else listed(transactional_id=name),),
        taken_at_ms=NOW_MS + at_ms,
        monotonic_ms=MONOTONIC_MS + at_ms,
    )
    return evaluate(taken, before, Policy(), journal)


def idle_checkpoints(count: int, memory: Memory | None = None, journal: Journal = NO_JOURNAL) -> Evaluation:
    """Transactions of ten minutes, each with a write at its beginning only, seen every 30 s; and the next."""
    memory = memory or Memory()
    for number in range(count):
        for step in range(20):
            at_ms = (number * 600 + step * 30) * SECOND_MS
            memory = cycle(memory, at_ms, number=number, journal=journal).memory
    return cycle(memory, count * 10 * MINUTE_MS, number=count, journal=journal)


def only_row(evaluation: Evaluation) -> TransactionRow:
    (row,) = all_rows(evaluation)
    return row


@pytest.mark.parametrize(("ended", "usual_ms"), [(2, None), (3, 570_000), (12, 570_000)])
def test_three_transactions_make_a_silence_usual(ended: int, usual_ms: int | None) -> None:
    """The last cycle of each saw a silence of 570 s. The memory of an id is bounded."""
    evaluation = idle_checkpoints(ended)

    assert only_row(evaluation).usual_silence_ms == usual_ms
    assert len(evaluation.memory.silences.of_ids["payments-7"].ended) == min(ended, 8)


def test_an_owner_that_always_pauses_is_not_silent_before_it_pauses_for_longer() -> None:
    """Without its history it would be 900 s. Usual are 570 s: twice as much, since a checkpoint may fail, and a minute."""
    memory = idle_checkpoints(3).memory
    states = {}
    for silent_s in (30, 1199, 1200):
        evaluation = cycle(memory, (1800 + silent_s) * SECOND_MS, number=3)
        states[silent_s] = only_row(evaluation).owner

    assert states == {30: None, 1199: None, 1200: OwnerState.SILENT}


def test_an_owner_that_never_pauses_is_silent_after_the_least_time() -> None:
    """Cycles that see each of its transactions once only have seen no silence at all."""
    memory = Memory()
    for number in range(4):
        memory = cycle(memory, number * 10 * MINUTE_MS, number=number).memory

    early, late = (only_row(cycle(memory, 30 * MINUTE_MS + after_s * SECOND_MS, number=3)) for after_s in (59, 60))
    assert (early.usual_silence_ms, early.owner, late.owner) == (0, None, OwnerState.SILENT)


def test_transactions_that_are_over_within_a_cycle_are_silences_of_nothing() -> None:
    """They are listed and never described: what has just begun costs no request. Then one stays, and is described."""
    memory = Memory()
    for number in range(4):
        memory = cycle(memory, number * 30 * SECOND_MS, number=number, is_described=False).memory
    assert memory.silences.of_ids["payments-7"].ended == (0, 0, 0)

    states = [only_row(cycle(memory, at_s * SECOND_MS, number=3)).owner for at_s in (90 + 59, 90 + 60)]
    assert states == [None, OwnerState.SILENT]


def test_a_transaction_whose_coordinator_does_not_respond_is_not_taken_for_the_next_one() -> None:
    memory = idle_checkpoints(1).memory
    unread = cycle(memory, 11 * MINUTE_MS, number=1, is_described=False)

    assert unread.memory.silences.of_ids == memory.silences.of_ids


def test_an_application_that_takes_a_new_id_for_each_transaction_is_known_by_its_prefix() -> None:
    """Flink's sinks do: `sink-0-17` follows `sink-0-16`. An id is over when its partition was read without it."""
    memory = Memory()
    for number in range(3):
        for step in range(20):
            at_ms = (number * 600 + step * 30) * SECOND_MS
            memory = cycle(memory, at_ms, number=number, name=f"sink-0-{number}").memory
    states = {}
    for silent_s in (0, 30, 1199, 1200):
        evaluation = cycle(memory, (1800 + silent_s) * SECOND_MS, number=3, name="sink-0-3")
        memory = evaluation.memory if silent_s == 0 else memory
        states[silent_s] = only_row(evaluation).usual_silence_ms, only_row(evaluation).owner

    assert states == {
        0: (570_000, None),
        30: (570_000, None),
        1199: (570_000, None),
        1200: (570_000, OwnerState.SILENT),
    }
    assert only_row(cycle(memory, 30 * MINUTE_MS, number=3, name="other-0-3")).usual_silence_ms is None


def test_a_transaction_on_a_partition_that_is_not_read_is_not_over() -> None:
    """Then its owner may still be silent, and have ended nothing."""
    memory = idle_checkpoints(1).memory
    unread = snapshot(unread=[0], taken_at_ms=NOW_MS + 11 * MINUTE_MS)
    read = snapshot(taken_at_ms=NOW_MS + 11 * MINUTE_MS)

    gone = replace(read, partitions=partitions_of([("elsewhere", 0)]))

    assert evaluate(unread, memory, Policy()).memory.silences.of_ids[NAME].is_open
    ended = evaluate(read, memory, Policy()).memory.silences
    assert not ended.of_ids[NAME].is_open
    assert ended.of_ids[NAME].ended == (570_000, 0)
    assert evaluate(gone, memory, Policy()).memory.silences.of_ids == {}


def test_an_id_that_was_used_once_is_remembered_by_its_prefix_alone() -> None:
    """So that ids which are never used again take no room."""
    once = cycle(Memory(), 0, number=0, name="sink-0-1").memory
    after_it = evaluate(snapshot(taken_at_ms=NOW_MS + MINUTE_MS), once, Policy()).memory.silences

    assert after_it.of_ids == {}
    assert after_it.of_prefixes == {"sink-0": (0,)}


@pytest.mark.parametrize("fields", [{"transactions": ()}, {"monotonic_ms": None}])
def test_a_cycle_that_knows_less_ends_nothing(fields: dict[str, Any]) -> None:
    """Its coordinator did not respond, or the cycle ran on another machine: the transaction is still open."""
    memory = idle_checkpoints(1).memory
    taken = replace(cycle(memory, 11 * MINUTE_MS, number=1).snapshot, **fields)

    silences_now = evaluate(taken, memory, Policy()).memory.silences

    assert silences_now.of_ids[NAME].is_open
    assert silences_now.of_ids[NAME].ended == memory.silences.of_ids[NAME].ended


def test_a_silence_that_a_write_ended_is_no_sign_in_the_same_transaction() -> None:
    """16 min of silence, a write, 30 min of silence: less than twice as long. Without the first, 15 would be enough."""
    memory = cycle(Memory(), 0, number=0).memory
    first = cycle(memory, 16 * MINUTE_MS, number=0)
    wrote = cycle(first.memory, 16 * MINUTE_MS + SECOND_MS, number=0, last_sequence=1)
    second, third = (
        only_row(cycle(wrote.memory, minutes * MINUTE_MS + SECOND_MS, number=0, last_sequence=1)).owner
        for minutes in (46, 49)
    )

    assert (only_row(first).owner, only_row(wrote).owner) == (OwnerState.SILENT, OwnerState.WRITING)
    assert (second, third) == (OwnerState.WRITING, OwnerState.SILENT)


def test_a_silence_that_a_time_out_may_have_ended_is_not_learned() -> None:
    latest = OwnerSilences(producer_id=7, place=PLACE, start_ms=0, timeout_ms=100, silent_ms=70, longest_ms=20)

    assert latest.ended_silence(99, was_aborted=False) == (70,)
    assert latest.ended_silence(100, was_aborted=False) == ()


@pytest.mark.parametrize(("outcome", "learned"), [(Outcome.COMMITTED, 3), (Outcome.FENCED, 2), (Outcome.ABORTED, 2)])
def test_a_silence_that_the_log_shows_aborted_is_not_learned(outcome: Outcome, learned: int) -> None:
    """A new instance of a dead application fences it: its silence was an outage."""
    memory = idle_checkpoints(2).memory
    ended = EndedTransaction(
        producer_epoch=4, start_ms=NOW_MS + 20 * MINUTE_MS, decided_ms=NOW_MS + 29 * MINUTE_MS, outcome=outcome
    )
    producer = LoggedProducer(
        transactional_id="payments-7",
        is_former=False,
        latest=None,
        ended=MappingProxyType({("orders", 0): ended}),
    )
    journal = Journal(MappingProxyType({Entry().producer_id: producer}))

    evaluation = cycle(memory, 30 * MINUTE_MS, number=3, journal=journal)

    assert len(evaluation.memory.silences.of_ids["payments-7"].ended) == learned


def test_the_log_is_asked_for_what_is_not_open_any_more() -> None:
    """A fence by a new instance that begins nothing: only the journal shows how the transaction ended."""
    memory = idle_checkpoints(2).memory
    gone = snapshot([], taken_at_ms=NOW_MS + 29 * MINUTE_MS, monotonic_ms=MONOTONIC_MS + 29 * MINUTE_MS)
    requested: list[set[int]] = []

    def journal_of(producer_ids: Collection[int]) -> Journal:
        requested.append(set(producer_ids))
        return NO_JOURNAL

    run_cycle(lambda _: gone, EvaluationInput(memory=memory, policy=Policy()), journal_of)

    assert requested == [{Entry().producer_id}]


def test_one_outage_is_not_usual() -> None:
    """Without the log a fence looks like an end by the owner, so the longest silence is left out."""
    assert after((0, 540_000, 0)).usual_ms(NAME) == 0
    assert after((0, 540_000, 530_000)).usual_ms(NAME) == 530_000


def test_a_learned_silence_counts_more_than_the_baseline() -> None:
    """An unusually long job that always pauses for ten minutes is not silent after one."""
    live = evidence(transaction(timeout_ms=TIMEOUT_MS, transactional_id=NAME), watched_ms=TIMEOUT_MS)
    known = after((600_000,) * 3)

    states = [
        owner_state(live, Verdict.OPEN_WITHIN_TIMEOUT, Policy(), silent_ms, is_usual=is_usual, silences=known)
        for silent_ms, is_usual in ((700_000, False), (1_259_999, True), (1_260_000, True))
    ]

    assert states == [OwnerState.WRITING, OwnerState.WRITING, OwnerState.SILENT]


def test_neither_another_process_nor_another_cluster_knows_a_silence() -> None:
    memory = idle_checkpoints(3).memory
    assert memory.silences.of_ids
    assert memory.without_monotonic().silences == NO_SILENCES

    taken = replace(cycle(memory, 30 * MINUTE_MS, number=3).snapshot, cluster_id="another")
    assert only_row(evaluate(taken, memory, Policy())).usual_silence_ms is None


def test_the_memory_of_silences_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids that were seen last remain."""
    monkeypatch.setattr(silences, "NAMES_MAX", 2)
    memory = Memory()
    for at, name in enumerate(("first", "second", "first", "third")):
        memory = cycle(memory, at * SECOND_MS, number=0, name=name).memory

    assert list(memory.silences.of_ids) == ["first", "third"]
