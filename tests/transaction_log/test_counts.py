"""The counts of transactions, and their names."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from exporter.patterns import OTHER_GROUP, PREFIXES_MAX, GroupRules, prefix_of
from exporter.snapshot import TransactionState
from exporter.transaction_log.counts import (
    DURATION_BUCKETS_SECONDS,
    MARKER_BUCKETS_SECONDS,
    Counted,
    Counts,
)
from exporter.transaction_log.events import Outcome, StateMachine
from exporter.transaction_log.records import Decoded, Tombstone, TransactionRecord
from tests.transaction_log.builders import ABORTED, ABORTING, COMMITTED, COMMITTING, EMPTY, ONGOING, START_MS, record

RULES = (
    ("seven", re.compile("billing-7")),
    ("billing", re.compile("billing-.*")),
    ("never", re.compile("billing")),
)


def counted(*records: TransactionRecord, rules: GroupRules = RULES) -> Counted:
    counts, machine = Counts(rules), StateMachine()
    for written in records:
        for event in machine.take(written, written.last_update_ms):
            counts.count(event)
    return counts.counted()


def test_the_first_rule_that_matches_the_whole_id_names_the_group() -> None:
    """One commit of billing-7; a rule that matches its beginning only has none."""
    completed = counted(EMPTY, ONGOING, COMMITTING, COMMITTED).completed

    assert [count for count in completed if count[2]] == [("seven", Outcome.COMMITTED, 1)]
    assert {(name, outcome) for name, outcome, _ in completed} == {
        (name, outcome) for name in ("seven", "billing", "never", OTHER_GROUP) for outcome in Outcome
    }, "each is there, or an increase from nothing would not be seen"


def test_without_rules_a_group_is_the_prefix() -> None:
    counts = counted(EMPTY, ONGOING, ABORTING, ABORTED, rules=())

    assert [count for count in counts.completed if count[2]] == [("billing", Outcome.ABORTED, 1)]
    assert counts.initialized == ((OTHER_GROUP, 0), ("billing", 1))


def test_where_ids_are_hidden_none_is_the_name_of_a_group() -> None:
    """An id without a separator is its own prefix."""
    counts, machine = Counts((), shows_ids=False), StateMachine()
    for name in ("acmeBankSettlement", "orders-7"):
        for written in (EMPTY, ONGOING, COMMITTING, COMMITTED):
            for event in machine.take(replace(written, transactional_id=name), START_MS):
                counts.count(event)
    assert dict(counts.counted().initialized) == {OTHER_GROUP: 1, "orders": 1}


def test_a_prefix_that_appears_later_begins_at_zero() -> None:
    """Counts that a process finds in the log at its start are no increase; those that begin later are one."""
    counts, machine = Counts(()), StateMachine()

    def committed(name: str) -> dict[str, int]:
        for written in (EMPTY, ONGOING, COMMITTING, COMMITTED):
            for event in machine.take(replace(written, transactional_id=name), START_MS):
                counts.count(event)
        return shown()

    def shown() -> dict[str, int]:
        total = counts.counted()
        assert sum(sum(each.counts) for _, _, each in total.durations) == sum(dict(total.initialized).values())
        return {name: count for name, outcome, count in total.completed if outcome is Outcome.COMMITTED}

    assert committed("first-1") == {OTHER_GROUP: 0, "first": 1}
    assert committed("later-1") == {OTHER_GROUP: 0, "first": 1, "later": 0}
    assert shown() == {OTHER_GROUP: 0, "first": 1, "later": 1}
    assert committed("later-2") == {OTHER_GROUP: 0, "first": 1, "later": 2}


def test_prefixes_beyond_the_limit_are_others_and_their_ids_are_counted() -> None:
    """Series do not depend on the number of ids: an id that was given by chance each time makes no group each time."""
    counts, machine = Counts(()), StateMachine()
    ids = [f"app{number}-{instance}" for number in range(PREFIXES_MAX + 3) for instance in range(2)]
    for name in ids:
        for event in machine.take(replace(EMPTY, transactional_id=name), START_MS):
            counts.count(event)
    total = counts.counted()
    assert dict(total.initialized) == {OTHER_GROUP: 6, **{f"app{number}": 2 for number in range(PREFIXES_MAX)}}
    assert total.ids_without_group == 6
    for event in machine.take(Tombstone(ids[-1]), START_MS):
        counts.count(event)
    assert counts.counted().ids_without_group == 5


@pytest.mark.parametrize(
    ("transactional_id", "prefix"),
    [
        ("orders-7", "orders"),
        ("orders", "orders"),
        ("eu.orders_3", "eu.orders"),
        ("-7", "-7"),
        ("", ""),
        ("app/1:2", "app/1"),
    ],
)
def test_a_prefix_ends_at_the_last_separator(transactional_id: str, prefix: str) -> None:
    assert prefix_of(transactional_id) == prefix


def test_durations_and_markers_fall_into_their_buckets() -> None:
    """20 ms from beginning to decision, 20 ms more to the last marker."""
    counts = counted(ONGOING, COMMITTING, COMMITTED, rules=())

    (histogram,) = (
        times for name, outcome, times in counts.durations if (name, outcome) == ("billing", Outcome.COMMITTED)
    )
    assert histogram.counts[DURATION_BUCKETS_SECONDS.index(0.025)] == 1
    assert (sum(histogram.counts), histogram.total) == (1, 0.02)
    (markers,) = (markers for name, markers in counts.markers if name == "billing")
    assert markers.counts[MARKER_BUCKETS_SECONDS.index(0.025)] == 1
    assert (sum(markers.counts), markers.total) == (1, 0.02)


def test_what_is_longer_than_all_buckets_is_in_the_last() -> None:
    """A bound belongs to its own bucket, as Prometheus has it."""
    counts = counted(
        record(TransactionState.PREPARE_COMMIT, last_update_ms=START_MS + 3_600_000),
        record(TransactionState.PREPARE_COMMIT, start_ms=START_MS + 1, last_update_ms=START_MS + 3_600_002),
        rules=(),
    )

    (histogram,) = (
        times for name, outcome, times in counts.durations if (name, outcome) == ("billing", Outcome.COMMITTED)
    )
    assert histogram.counts[-2:] == (1, 1)


def test_an_unknown_duration_is_not_a_short_one() -> None:
    """A completion alone is counted, and no time is made up for it."""
    counts = counted(COMMITTED, rules=())

    assert [count for count in counts.completed if count[2]] == [("billing", Outcome.COMMITTED, 1)]
    assert (
        sum(sum(histogram.counts) for _, _, histogram in counts.durations)
        == sum(sum(histogram.counts) for _, histogram in counts.markers)
        == 0
    )


def test_clients_are_counted_by_the_version_of_their_last_transaction() -> None:
    """An upgraded client moves, one whose id has expired is gone, and a transaction without its begin shows nothing."""

    def of_version(version: int, name: str) -> list[TransactionRecord]:
        ongoing = replace(ONGOING, transactional_id=name, client_transaction_version=version)
        return [ongoing, replace(COMMITTING, transactional_id=name), replace(COMMITTED, transactional_id=name)]

    old, other = of_version(0, "billing-7"), of_version(70, "billing-8")
    later = [replace(one, start_ms=one.start_ms + 1) for one in of_version(2, "billing-7")]
    unseen = [replace(COMMITTING, transactional_id="billing-9")]

    assert counted(*old, *other, *unseen).clients == (("billing", 9, 1), ("seven", 0, 1))
    assert counted(*old, *other, *later).clients == (("billing", 9, 1), ("seven", 2, 1))

    counts, machine = Counts(RULES), StateMachine()
    decoded: list[Decoded] = [*old, Tombstone("billing-7")]
    for written in decoded:
        for event in machine.take(written, START_MS):
            counts.count(event)
    assert counts.counted().clients == ()


def test_what_an_earlier_run_has_counted_still_shows_which_ids_there_are() -> None:
    """After a restart the gauges are of the present, the counters of what came since."""
    counts, machine = Counts(()), StateMachine()
    clients = [
        replace(ONGOING, transactional_id=f"app{n}-0", client_transaction_version=2) for n in range(PREFIXES_MAX)
    ]
    rest = [replace(EMPTY, transactional_id=f"more{n}-0") for n in range(3)]
    written = [
        one for client in clients for one in (client, replace(COMMITTING, transactional_id=client.transactional_id))
    ]
    for each in (*written, *rest):
        for event in machine.take(each, START_MS):
            counts.count(event, was_counted=True)
    total = counts.counted()

    assert sum(number for _, _, number in total.clients) == PREFIXES_MAX
    assert total.ids_without_group == 3
    assert not any(number for _, number in total.initialized)
    assert not any(sum(histogram.counts) for _, _, histogram in total.durations)
