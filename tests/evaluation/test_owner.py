"""Live transactions that block somebody: until when, and whether their owner writes. None of it changes a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from exporter.evaluation.blocked import names_of_blocked
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.owner import owner_state, silent_ms
from exporter.evaluation.silences import NO_SILENCES
from exporter.evaluation.verdicts import Evaluation, OwnerState, Policy, TransactionRow, Verdict
from exporter.snapshot import NULL, OFFSETS_TOPIC, TIMEOUT_MS_TWO_PHASE_COMMIT, GroupOffset, Impact
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

BEGAN_MS = NOW_MS - 2 * MINUTE_MS
TIMEOUT_MS = 15 * MINUTE_MS
READERS = Impact(
    offsets=(GroupOffset(group="readers", topic="orders", partition=0, offset=100),), residents=(), failures=()
)


def look(
    *entries: Entry, memory: Memory | None = None, later_ms: int = 0, policy: Policy | None = None, **owned: Any
) -> Evaluation:
    """A cycle, `later_ms` after the first one, with a live transaction on orders-0 that began two minutes before that."""
    live = transaction(**{"start_ms": BEGAN_MS, "timeout_ms": TIMEOUT_MS, **owned})
    taken = snapshot(
        list(entries) or [Entry()],
        transactions=(live,),
        impact=READERS,
        partitions=2,
        taken_at_ms=NOW_MS + later_ms,
        monotonic_ms=MONOTONIC_MS + later_ms,
    )
    return evaluate(taken, memory or Memory(), policy or Policy())


def only_row(evaluation: Evaluation) -> TransactionRow:
    (row,) = all_rows(evaluation)
    return row


def test_a_group_behind_a_live_transaction_is_blocked_whatever_the_verdict() -> None:
    """It has its groups, its end, and its place; it is not a suspect."""
    evaluation = look()

    (row,) = evaluation.blocking
    assert evaluation.suspects == ()
    assert [group.group for group in evaluation.blocked_groups] == ["readers"]
    assert [(group.group, group.blocked_since_ms) for group in row.groups] == [("readers", NOW_MS)]
    assert (row.verdict, row.ends_at_ms) == (Verdict.OPEN_WITHIN_TIMEOUT, BEGAN_MS + TIMEOUT_MS + 10_000)


@pytest.mark.parametrize(
    ("sentence", "entry", "policy", "owned"),
    [
        ("it has just begun", Entry(), Policy(), {"start_ms": NOW_MS - 29_999}),
        ("the setting asks for more", Entry(), Policy(blocked_after_ms=2 * MINUTE_MS + 1), {}),
        ("another one is before it", Entry(last_stable_offset=99), Policy(), {}),
        ("nothing waits", Entry(high_watermark=100), Policy(), {}),
    ],
)
def test_nobody_is_blocked(sentence: str, entry: Entry, policy: Policy, owned: dict[str, Any]) -> None:
    evaluation = look(entry, policy=policy, **owned)

    assert (evaluation.blocking, evaluation.blocked_groups) == ((), ()), sentence


@pytest.mark.parametrize(
    ("residents", "names"), [(((0, "readers"),), {"readers"}), (((1, "others"),), set()), ((), set())]
)
def test_a_group_with_an_offset_pending_in_a_live_transaction_stands_still(
    residents: tuple[tuple[int, str], ...], names: set[str]
) -> None:
    """Its consumers cannot read where they were. No position of a group on the partition itself is needed for that."""
    offsets = (OFFSETS_TOPIC, 0)
    live = transaction(start_ms=BEGAN_MS, timeout_ms=TIMEOUT_MS, partitions=frozenset({offsets}))
    taken = replace(
        snapshot([Entry()], transactions=(live,), impact=Impact(offsets=(), residents=residents, failures=())),
        partitions=partitions_of([offsets]),
    )
    evaluation = evaluate(taken, Memory(), Policy())

    assert names_of_blocked(evaluation.blocking) == names
    assert len(evaluation.blocking) == len(names)
    assert evaluation.suspects == ()


@pytest.mark.parametrize(
    ("sentence", "owned"),
    [
        ("prepared for two-phase commit", {"timeout_ms": TIMEOUT_MS_TWO_PHASE_COMMIT}),
        ("completing", {"state": "PrepareCommit"}),
        ("overdue: its coordinator should have ended it", {"timeout_ms": MINUTE_MS}),
    ],
)
def test_no_time_out_ends_it(sentence: str, owned: dict[str, Any]) -> None:
    assert only_row(look(**owned)).ends_at_ms is None, sentence


def test_an_owner_is_silent_by_the_clock_of_the_exporter_and_not_by_its_own() -> None:
    """Its timestamps may be thirty years old. For three quarters of 15 min this process must have seen no write."""
    old, after_ms = Entry(last_timestamp_ms=1), TIMEOUT_MS * 3 // 4
    first = look(old)
    almost = look(old, memory=first.memory, later_ms=after_ms - 1)
    silent = look(old, memory=almost.memory, later_ms=after_ms)
    wrote = look(replace(old, last_sequence=1), memory=silent.memory, later_ms=after_ms + 1)

    states = [(row.owner, row.silent_ms) for row in map(only_row, (first, almost, silent, wrote))]
    assert states == [
        (None, None),
        (None, after_ms - 1),
        (OwnerState.SILENT, after_ms),
        (OwnerState.WRITING, 0),
    ]


def test_a_write_on_another_partition_is_a_write() -> None:
    both = (Entry(), Entry(partition=1, last_sequence=4))
    later = (both[0], replace(both[1], last_sequence=5))
    owned: dict[str, Any] = {"partitions": frozenset({("orders", 0), ("orders", 1)})}
    first = look(*both, **owned)

    second = look(*later, memory=first.memory, later_ms=TIMEOUT_MS, **{**owned, "timeout_ms": 2 * TIMEOUT_MS})

    assert [row.silent_ms for row in all_rows(second)] == [0, 0]


def test_a_restart_watches_again() -> None:
    """Another process has not seen what this one has: neither the state file nor another machine keeps a silence."""
    first = look()
    elsewhere = look(memory=first.memory.without_monotonic(), later_ms=TIMEOUT_MS // 2)

    assert (only_row(elsewhere).owner, only_row(elsewhere).silent_ms) == (None, 0)


def test_without_a_monotonic_clock_nothing_is_known_of_a_silence() -> None:
    taken = replace(look().snapshot, monotonic_ms=None)

    row = only_row(evaluate(taken, Memory(), Policy()))

    assert (row.silent_ms, row.owner) == (None, None)


@pytest.mark.parametrize(
    ("is_usual", "timeout_minutes", "silent_s", "state"),
    [
        (None, 1, 59, None),
        (None, 1, 60, OwnerState.SILENT),
        (None, 5, 224, None),
        (None, 5, 225, OwnerState.SILENT),
        (None, 40, 899, None),
        (None, 40, 900, OwnerState.SILENT),
        (None, 120, 1799, None),
        (None, 120, 1800, OwnerState.SILENT),
        (True, 5, 299, None),
        (False, 5, 59, None),
        (False, 5, 60, OwnerState.SILENT),
    ],
)
def test_a_usual_duration_takes_the_place_of_a_part_of_the_time_out(
    is_usual: bool | None,  # noqa: FBT001 - a case
    timeout_minutes: int,
    silent_s: int,
    state: OwnerState | None,
) -> None:
    """Otherwise it is 15 minutes, at least a quarter and at most three quarters of the time-out, never less than one."""
    live = evidence(transaction(timeout_ms=timeout_minutes * MINUTE_MS), watched_ms=silent_s * 1000)

    found = owner_state(
        live, Verdict.OPEN_WITHIN_TIMEOUT, Policy(), silent_s * 1000, is_usual=is_usual, silences=NO_SILENCES
    )

    assert found is state


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.OPEN_WITHIN_TIMEOUT])
def test_silence_is_a_word_about_live_transactions_alone(verdict: Verdict) -> None:
    live = evidence(transaction(), watched_ms=TIMEOUT_MS)
    assert owner_state(live, verdict, Policy(), TIMEOUT_MS, is_usual=None, silences=NO_SILENCES) is None


def test_an_owner_that_is_only_listed_is_not_called_silent() -> None:
    unsure = evidence(listed())
    assert (
        owner_state(unsure, Verdict.OPEN_WITHIN_TIMEOUT, Policy(), TIMEOUT_MS, is_usual=None, silences=NO_SILENCES)
        is None
    )


def test_those_that_were_not_examined_have_no_silence() -> None:
    producers = np.array([7, 8, 7], dtype=np.int64)
    watched = [evidence(transaction(), silent_ms=5), evidence(transaction(), silent_ms=9)]

    assert silent_ms(producers, watched).tolist() == [5, 9, NULL]
    assert silent_ms(producers, []).tolist() == [NULL] * 3


def test_who_stands_behind_a_silent_owner_comes_before_those_behind_live_ones() -> None:
    """A busy cluster has hundreds of live transactions with more records behind them, and every output has a limit."""
    busy, killed = Entry(producer_id=1, high_watermark=900_000), Entry(partition=1, producer_id=2, high_watermark=102)
    memory = both_open(busy, killed, Memory(), at_ms=0).memory

    evaluation = both_open(replace(busy, last_sequence=9), killed, memory, at_ms=TIMEOUT_MS * 3 // 4)

    assert [(row.partition, row.owner) for row in evaluation.blocking] == [
        (1, OwnerState.SILENT),
        (0, OwnerState.WRITING),
    ]
    assert [group.partition for group in evaluation.blocked_groups] == [1, 0]


def both_open(first: Entry, second: Entry, memory: Memory, *, at_ms: int) -> Evaluation:
    """A cycle with two live transactions, and a group that stands behind each."""
    entries = (first, second)
    owned = (
        transaction(
            producer_id=entry.producer_id,
            transactional_id=f"id-{entry.producer_id}",
            start_ms=BEGAN_MS,
            timeout_ms=TIMEOUT_MS,
            partitions=frozenset({("orders", entry.partition)}),
        )
        for entry in entries
    )
    offsets = (GroupOffset(group="readers", topic="orders", partition=entry.partition, offset=100) for entry in entries)
    taken = snapshot(
        entries,
        transactions=tuple(owned),
        impact=Impact(offsets=tuple(offsets), residents=(), failures=()),
        taken_at_ms=NOW_MS + at_ms,
    )
    return evaluate(taken, memory, Policy())
