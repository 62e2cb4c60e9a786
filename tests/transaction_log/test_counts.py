"""The counts of transactions, and their names."""

from __future__ import annotations

import re

from exporter.groups import OTHER_GROUP, GroupRules
from exporter.snapshot import TransactionState
from exporter.transaction_log.counts import (
    DURATION_BUCKETS_SECONDS,
    MARKER_BUCKETS_SECONDS,
    Counted,
    Counts,
)
from exporter.transaction_log.events import Outcome, StateMachine
from exporter.transaction_log.records import TransactionRecord
from tests.transaction_log.builders import ABORTED, ABORTING, COMMITTED, COMMITTING, EMPTY, ONGOING, START_MS, record

RULES = (
    ("seven", re.compile("billing-7")),
    ("billing", re.compile("billing-.*")),
    ("never", re.compile("billing")),
)


def counted(*records: TransactionRecord, rules: GroupRules = RULES) -> Counted:
    counts, machine = Counts(rules), StateMachine()
    for it in records:
        for event in machine.take(it, it.last_update_ms):
            counts.count(event)
    return counts.counted()


def test_the_first_rule_that_matches_the_whole_id_names_the_group() -> None:
    """One commit of billing-7; a rule that matches its beginning only has none."""
    completed = counted(EMPTY, ONGOING, COMMITTING, COMMITTED).completed

    assert [it for it in completed if it[2]] == [("seven", Outcome.COMMITTED, 1)]
    assert {(name, outcome) for name, outcome, _ in completed} == {
        (name, outcome) for name in ("seven", "billing", "never", OTHER_GROUP) for outcome in Outcome
    }, "each is there, or an increase from nothing would not be seen"


def test_without_rules_all_are_others() -> None:
    """Series do not depend on the number of ids."""
    told = counted(EMPTY, ONGOING, ABORTING, ABORTED, rules=())

    assert [it for it in told.completed if it[2]] == [(OTHER_GROUP, Outcome.ABORTED, 1)]
    assert told.initialized == ((OTHER_GROUP, 1),)


def test_durations_and_markers_fall_into_their_buckets() -> None:
    """20 ms from beginning to decision, 20 ms more to the last marker."""
    told = counted(ONGOING, COMMITTING, COMMITTED, rules=())

    (histogram,) = (it for name, outcome, it in told.durations if outcome is Outcome.COMMITTED)
    assert histogram.counts[DURATION_BUCKETS_SECONDS.index(0.025)] == 1
    assert (sum(histogram.counts), histogram.total) == (1, 0.02)
    ((_, markers),) = told.markers
    assert markers.counts[MARKER_BUCKETS_SECONDS.index(0.025)] == 1
    assert (sum(markers.counts), markers.total) == (1, 0.02)


def test_what_is_longer_than_all_buckets_is_in_the_last() -> None:
    """A bound belongs to its own bucket, as Prometheus has it."""
    told = counted(
        record(TransactionState.PREPARE_COMMIT, last_update_ms=START_MS + 3_600_000),
        record(TransactionState.PREPARE_COMMIT, start_ms=START_MS + 1, last_update_ms=START_MS + 3_600_002),
        rules=(),
    )

    (histogram,) = (it for name, outcome, it in told.durations if outcome is Outcome.COMMITTED)
    assert histogram.counts[-2:] == (1, 1)


def test_an_unknown_duration_is_not_a_short_one() -> None:
    """A completion alone is counted, and no time is made up for it."""
    told = counted(COMMITTED, rules=())

    assert [it for it in told.completed if it[2]] == [(OTHER_GROUP, Outcome.COMMITTED, 1)]
    assert sum(sum(it.counts) for _, _, it in told.durations) == sum(sum(it.counts) for _, it in told.markers) == 0
