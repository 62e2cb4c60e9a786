"""Single rules of the audit, each where breaking it would accuse somebody wrongly, or pass over a fault."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from exporter.audit import alignment
from exporter.audit.alignment import MatchedBefore
from exporter.audit.decision_rows import LogFacts, VerdictCounts
from exporter.audit.decisions import Decision, decisions_of
from exporter.audit.judge import judge
from exporter.audit.log_transactions import LogTransaction
from exporter.audit.positions import partition_reads, state_after, unknown_partitions, why_another_log
from exporter.audit.reading import LogExtent, LogListing
from exporter.audit.tables import AuditState, PartitionPosition
from exporter.audit.verdicts import AuditVerdict, Horizon, Judgement, NotRead, PartitionRead, Reason
from exporter.snapshot import TransactionState as State
from exporter.transaction_log.records import StateLogRecord, Tombstone, TransactionRecord
from tests.transaction_log import builders

ORDERS = ("orders", 0)
BEGIN_MS = 1_000_000
HORIZON = Horizon(settled={0: 1000}, log_read_to_ms=BEGIN_MS + 600_000, log_complete_from_ms=0)
READ = PartitionRead(topic_id="one", judged={})
WITHOUT_RECORDS: dict[str, Any] = {
    **dict.fromkeys(("first_epoch", "last_epoch", "first_offset", "last_offset")),
    "records": 0,
}


def decision(number: int, *, at_ms: int, **fields: Any) -> Decision:
    """A commit of 20 ms without an epoch of its own, the `number`th of its producer."""
    known: dict[str, Any] = {
        "transactional_id": "app",
        "producer_id": 7,
        "open_epoch": 3,
        "has_own_epoch": False,
        "is_epoch_sure": True,
        "marker_epoch": 3,
        "commit": True,
        "partitions": frozenset({ORDERS}),
        "start_ms": at_ms,
        "decided_ms": at_ms + 10,
        "completed_ms": at_ms + 20,
        "log_partition": 0,
        "completed_offset": 3 * number,
    }
    return Decision(**{**known, **fields})


def in_log(offset: int, *, at_ms: int | None, **fields: Any) -> LogTransaction:
    """Records at `offset` and a COMMIT marker after them, or without `at_ms` none."""
    known: dict[str, Any] = {
        "topic": "orders",
        "topic_id": "one",
        "partition": 0,
        "producer_id": 7,
        "first_epoch": 3,
        "last_epoch": 3,
        "first_offset": offset,
        "last_offset": offset,
        "records": 1,
    }
    if at_ms is not None:
        known |= {"marker": "commit", "marker_offset": offset + 1, "marker_epoch": 3, "marker_timestamp_ms": at_ms}
    return LogTransaction(**{**known, **fields})


def said(result: Judgement) -> list[tuple[AuditVerdict, Reason | None, int | None]]:
    """(verdict, reason, offset of the marker)."""
    return [
        (each.verdict, each.reason, None if each.in_log is None else each.in_log.marker_offset)
        for each in result.findings
    ]


def judged(
    decisions: list[Decision], rows: list[LogTransaction], read: PartitionRead = READ, horizon: Horizon = HORIZON
) -> Judgement:
    return judge(decisions, rows, {ORDERS: read}, horizon)


def test_a_marker_that_may_be_of_either_of_two_transactions_accuses_none() -> None:
    """One of two markers is compacted away; by the clocks the other one may be of either, so absence proves nothing."""
    decisions = [decision(1, at_ms=BEGIN_MS), decision(2, at_ms=BEGIN_MS + 30)]
    read = replace(READ, gaps=((0, 3),))

    result = judged(decisions, [in_log(4, at_ms=BEGIN_MS + 15)], read)

    assert AuditVerdict.MARKER_MISSING not in [each.verdict for each in result.findings]
    assert result.transactions[AuditVerdict.UNKNOWN] == 1


def test_the_same_far_from_other_transactions_is_missing() -> None:
    decisions = [decision(1, at_ms=BEGIN_MS), decision(2, at_ms=BEGIN_MS + 30_000)]
    read = replace(READ, gaps=((0, 3),))

    result = judged(decisions, [in_log(4, at_ms=BEGIN_MS + 15)], read)

    assert said(result) == [(AuditVerdict.AS_DECIDED, None, 5), (AuditVerdict.MARKER_MISSING, None, None)]


def test_a_marker_at_another_time_than_its_decision_is_unknown() -> None:
    """Unless the epoch belongs to this transaction alone."""
    late = in_log(4, at_ms=BEGIN_MS + 1_500)

    assert said(judged([decision(1, at_ms=BEGIN_MS)], [late])) == [(AuditVerdict.UNKNOWN, Reason.TWO_FIT, 5)]
    own = decision(1, at_ms=BEGIN_MS, has_own_epoch=True)
    assert said(judged([own], [late])) == [(AuditVerdict.AS_DECIDED, None, 5)]


def test_a_marker_on_newer_records_is_not_that_of_an_older_transaction() -> None:
    """An operator aborts records of epoch 4; the marker of the aborted transaction before had epoch 4 as well."""
    before = decision(1, at_ms=BEGIN_MS, marker_epoch=4, has_own_epoch=True, commit=False)
    after = decision(2, at_ms=BEGIN_MS + 5_000, open_epoch=4, marker_epoch=5, has_own_epoch=True)
    by_hand = in_log(8, at_ms=BEGIN_MS + 5_005, first_epoch=4, last_epoch=4, marker="abort", marker_epoch=4)

    result = judged([before, after], [by_hand])

    assert (AuditVerdict.CONTRADICTED, None, 9) in said(result)
    assert (AuditVerdict.UNKNOWN, Reason.NOT_READ_THEN, None) in said(result)


def test_a_marker_by_hand_waits_for_the_decision_about_its_records() -> None:
    open_one = decision(1, at_ms=BEGIN_MS, commit=None, decided_ms=None, completed_ms=None, completed_offset=None)
    by_hand = in_log(4, at_ms=BEGIN_MS + 15, marker="abort")

    result = judged([open_one], [by_hand])

    assert (said(result), result.pending) == ([], (by_hand,))


def test_a_marker_by_hand_just_after_the_begin_is_about_its_records() -> None:
    """Its leader's clock and the coordinator's may differ by a second. The coordinator's own marker found nothing."""
    own = decision(1, at_ms=BEGIN_MS, marker_epoch=4, has_own_epoch=True)
    own_marker = in_log(8, at_ms=BEGIN_MS + 15, marker_epoch=4, **WITHOUT_RECORDS)
    for at_ms, verdict in (
        (BEGIN_MS + 5, AuditVerdict.CONTRADICTED),
        (BEGIN_MS - 1_000, AuditVerdict.CONTRADICTED),
        (BEGIN_MS - 1_001, AuditVerdict.MARKER_WITHOUT_DECISION),
    ):
        by_hand = in_log(4, at_ms=at_ms, marker="abort")

        assert said(judged([own], [by_hand, own_marker])) == [
            (verdict, None, 5),
            (AuditVerdict.AS_DECIDED, None, 9),
        ]


def test_records_that_two_hands_have_ended_differently_are_torn() -> None:
    """One `complete`, one `abort`; the coordinator's own markers come later, and find nothing on either partition."""
    other = ("orders", 1)
    own = decision(1, at_ms=BEGIN_MS, marker_epoch=4, has_own_epoch=True, partitions=frozenset({ORDERS, other}))
    rows = [
        row
        for partition, marker in ((0, "commit"), (1, "abort"))
        for row in (
            in_log(4, at_ms=BEGIN_MS + 12, marker=marker, partition=partition),
            in_log(8, at_ms=BEGIN_MS + 15, marker_epoch=4, partition=partition, **WITHOUT_RECORDS),
        )
    ]

    result = judge([own], rows, {ORDERS: READ, other: READ}, HORIZON)

    assert [(each.partition, each.verdict, each.in_log) for each in result.findings] == [
        (0, AuditVerdict.AS_DECIDED, rows[0]),
        (1, AuditVerdict.TORN, rows[2]),
        (1, AuditVerdict.AS_DECIDED, rows[3]),
    ]


def test_a_partition_that_is_not_read_is_not_as_decided() -> None:
    """A hidden one has a finding, as no later run can read it; a later run judges one that failed now."""
    committed, rows = decision(1, at_ms=BEGIN_MS), [in_log(4, at_ms=BEGIN_MS + 15)]

    hidden = judge([committed], rows, {}, HORIZON)
    failed = judge([committed], rows, {ORDERS: NotRead.FAILED}, HORIZON)
    left_out = judge([committed], rows, {ORDERS: NotRead.LEFT_OUT}, HORIZON)

    assert said(hidden) == [(AuditVerdict.UNKNOWN, Reason.HIDDEN, None)]
    assert hidden.pending == ()
    assert said(failed) == said(left_out) == []
    assert failed.pending == left_out.pending == tuple(rows)
    assert [each.transactions for each in (hidden, failed, left_out)] == [
        Counter({AuditVerdict.UNKNOWN: 1}),
        Counter({AuditVerdict.UNKNOWN: 1}),
        Counter({AuditVerdict.AS_DECIDED: 1}),
    ]


def test_a_marker_that_is_newer_than_the_transaction_log_waits() -> None:
    newer = in_log(4, at_ms=HORIZON.log_read_to_ms + 1)

    result = judged([], [newer])

    assert (said(result), result.pending) == ([], (newer,))


def test_a_decision_of_which_only_the_end_is_known_accuses_nobody() -> None:
    """The log has no partitions of it, so a marker may be its own, whatever other decisions there are."""
    done = decision(1, at_ms=BEGIN_MS, partitions=None, decided_ms=None, commit=False)
    known = decision(2, at_ms=BEGIN_MS + 40)
    rows = [in_log(4, at_ms=BEGIN_MS + 55, marker="abort")]

    verdicts = {each.verdict for each in judged([done, known], rows).findings}

    assert verdicts <= {AuditVerdict.UNKNOWN, AuditVerdict.AS_DECIDED}


def test_of_two_transactions_the_one_with_open_records_lacks_its_marker() -> None:
    """By the clocks the marker may be of either; the records after it are of the second."""
    decisions = [decision(1, at_ms=BEGIN_MS), decision(2, at_ms=BEGIN_MS + 30)]
    rows = [in_log(4, at_ms=BEGIN_MS + 41), in_log(8, at_ms=None)]

    result = judged(decisions, rows)

    missing = [each for each in result.findings if each.verdict is AuditVerdict.MARKER_MISSING]
    assert [each.decision for each in missing] == [decisions[1]]


def test_open_records_wait_also_where_an_earlier_decision_has_no_marker() -> None:
    """The next run needs their beginning."""
    still_open = in_log(8, at_ms=None, first_epoch=4, last_epoch=4)

    result = judged([decision(1, at_ms=BEGIN_MS)], [still_open])

    assert said(result) == [(AuditVerdict.UNKNOWN, Reason.NOT_READ_THEN, None)]
    assert result.pending == (still_open,)


def test_records_that_are_younger_than_the_decision_are_not_its_own() -> None:
    """A cluster that was made again gives the same producer ids and epochs to other transactions."""
    young = in_log(4, at_ms=None, first_timestamp_ms=BEGIN_MS + 200_000)

    result = judged([decision(1, at_ms=BEGIN_MS)], [young])

    assert said(result) == [(AuditVerdict.UNKNOWN, Reason.TWO_FIT, None)]
    assert result.pending == (young,)
    old = replace(young, first_timestamp_ms=BEGIN_MS + 5)
    assert [verdict for verdict, _, _ in said(judged([decision(1, at_ms=BEGIN_MS)], [old]))] == [
        AuditVerdict.MARKER_MISSING
    ]


@pytest.mark.parametrize(
    ("listing", "state", "why"),
    [
        ({"log_topic_id": "b"}, {"log_topic_id": "a"}, "the run before has seen another topic id of it"),
        ({"log_ends": {3: 100}}, {}, "its partition 3 ends at offset 100, and the table has 100"),
        ({"log_ends": {3: 101}, "log_topic_id": "a"}, {"log_topic_id": "a"}, None),
        ({}, {"log_topic_id": "a"}, None),
    ],
)
def test_the_log_of_another_cluster_is_refused(listing: dict[str, Any], state: dict[str, Any], why: str | None) -> None:
    """Kafka's own image gives every cluster the same id."""
    now = LogListing(cluster_id="c", at_ms=0, ends={}, failures={}, excluded=frozenset(), **listing)

    assert why_another_log(now, AuditState(**state), {3: 100}) == why


def test_what_was_hidden_begins_anew() -> None:
    """Decisions that were judged without the partition are compared when it is seen, and nothing of before waits."""
    position = PartitionPosition(
        topic_id="one", next_offset=7, leader_epoch=0, read_from_ms=5, read_from=4, gaps=(), judged_in=1
    )
    state = AuditState(run=1, settled={1: {0: 50}}, positions={("orders", 0): position, ("gone", 0): position})
    extent = LogExtent(topic_id="one", log_start=0, high_watermark=9, size_bytes=None)
    now = LogListing(
        cluster_id="c",
        at_ms=9,
        ends={ORDERS: extent, ("seen", 0): extent, ("late", 0): extent},
        failures={},
        excluded=frozenset(),
    )

    read = partition_reads(now, state, {})

    assert unknown_partitions(now, state) == {("seen", 0), ("late", 0)}
    known, seen = read[ORDERS], read["seen", 0]
    assert isinstance(known, PartitionRead)
    assert isinstance(seen, PartitionRead)
    assert (known.judged, seen.judged, seen.read_from_ms) == ({0: 50}, {}, None)
    facts = LogFacts({0: 60}, {0: 55}, 0, 9, 0)
    after = state_after(state, now, {}, read, facts, VerdictCounts(Counter(), {}), 0)
    assert ("gone", 0) not in after.positions
    assert judge([], [in_log(4, at_ms=None, topic="gone")], read, HORIZON).pending == ()


def log_of(*contents: TransactionRecord | Tombstone) -> list[StateLogRecord]:
    return [StateLogRecord(0, offset, builders.START_MS + offset, each) for offset, each in enumerate(contents)]


def test_a_next_transaction_completes_the_one_before() -> None:
    """Its last record is lost: coordinators begin no transaction before all markers of the last one are written."""
    following = replace(builders.ONGOING, start_ms=builders.START_MS + 500)

    first, second = decisions_of(log_of(builders.ONGOING, builders.COMMITTING, following))

    assert (first.commit, first.completed_offset, first.partitions) == (True, 2, frozenset({builders.ORDERS}))
    assert second.commit is None


def test_an_open_transaction_whose_decision_is_lost_is_forgotten() -> None:
    following = replace(builders.ONGOING, start_ms=builders.START_MS + 500)

    (only,) = decisions_of(log_of(builders.ONGOING, following))

    assert only.start_ms == following.start_ms


def test_only_version_2_commits_with_the_next_epoch() -> None:
    """So the epoch is the transaction's own, also where its client did not say its version before."""
    committing = replace(builders.COMMITTING, producer_epoch=builders.ONGOING.producer_epoch + 1)

    (found,) = decisions_of(log_of(builders.ONGOING, committing))

    assert (found.open_epoch, found.marker_epoch, found.has_own_epoch) == (3, 4, True)
    (plain,) = decisions_of(log_of(builders.ONGOING, builders.COMMITTING))
    assert (plain.marker_epoch, plain.has_own_epoch) == (3, False)


def test_a_marker_by_hand_among_many_commits_is_found_by_its_time() -> None:
    """Not by its outcome, which is theirs: in their order all later ones agree with the decision after their own."""
    decisions = [decision(number, at_ms=BEGIN_MS + 30 * number) for number in range(400)]
    late_ms = dict.fromkeys(range(300, 304), 30)  # for a moment the leader's clock is ahead
    rows = [
        in_log(2 * number, at_ms=BEGIN_MS + 30 * number + 15 + late_ms.get(number, 0))
        for number in range(len(decisions))
    ]
    rows.insert(201, in_log(0, at_ms=BEGIN_MS + 30 * 200 + 25))
    rows = [replace(each, first_offset=10 * number, marker_offset=10 * number + 5) for number, each in enumerate(rows)]

    result = judged(decisions, rows, horizon=replace(HORIZON, settled={0: 3 * len(decisions)}))

    assert result.transactions == {AuditVerdict.AS_DECIDED: 400}
    assert [each for each in said(result) if each[0] is not AuditVerdict.AS_DECIDED] == [
        (AuditVerdict.MARKER_WITHOUT_DECISION, None, 2015)
    ]


@pytest.mark.parametrize("status", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_a_decision_that_a_time_out_supersedes_has_the_epochs_of_both(status: State) -> None:
    """Seen on 3.9.1: the record is in the log, its leader dies, the coordinator takes it as failed, and aborts later."""
    rows = [
        (State.ONGOING, 0, BEGIN_MS),
        (status, 0, BEGIN_MS + 20),
        (State.PREPARE_ABORT, 1, BEGIN_MS + 2_100),
        (State.PREPARE_ABORT, 1, BEGIN_MS + 4_300),
        (State.COMPLETE_ABORT, 1, BEGIN_MS + 8_200),
    ]
    log = [
        StateLogRecord(0, number, at_ms, of_state(state, epoch, at_ms))
        for number, (state, epoch, at_ms) in enumerate(rows)
    ]

    (found,) = decisions_of(log)

    assert (found.commit, found.open_epoch, found.marker_epoch) == (False, 0, 1)
    marker = {"marker": "abort", "marker_epoch": 1, "first_epoch": 0, "last_epoch": 0}
    for alone in (False, True):
        row = in_log(10, at_ms=BEGIN_MS + 8_100, **marker)
        row = replace(row, first_offset=None, last_offset=None, first_epoch=None, last_epoch=None) if alone else row
        assert said(judged([found], [row])) == [(AuditVerdict.AS_DECIDED, None, 11)]


def of_state(status: State, epoch: int, at_ms: int) -> TransactionRecord:
    return TransactionRecord(
        transactional_id="app",
        producer_id=7,
        producer_epoch=epoch,
        timeout_ms=2_000,
        status=status,
        partitions=frozenset() if status is State.COMPLETE_ABORT else frozenset({ORDERS}),
        last_update_ms=at_ms,
        start_ms=BEGIN_MS,
    )


@pytest.mark.parametrize(("every_ms", "cells"), [(30, 10**6), (1_500, 10**5)])
def test_a_client_whose_first_markers_are_gone_is_known_from_then_on(
    every_ms: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where as many markers are newer than the transaction log as it was read. What is far away is not weighed."""
    monkeypatch.setattr(alignment, "CELLS_MAX", cells)
    decisions = [decision(number, at_ms=BEGIN_MS + every_ms * number) for number in range(1_000)]
    horizon = replace(
        HORIZON, settled={0: 3 * len(decisions)}, log_read_to_ms=BEGIN_MS + every_ms * (len(decisions) - 10)
    )
    rows = [in_log(2 * number, at_ms=BEGIN_MS + every_ms * number + 15) for number in range(500, 1_400)]

    result = judged(decisions, rows, replace(READ, gaps=((0, 999),)), horizon)

    assert result.transactions == {AuditVerdict.UNKNOWN: 500, AuditVerdict.AS_DECIDED: 500}
    assert len(result.pending) == 400


def test_the_evidence_before_a_marker_is_the_newest_one_that_is_sure() -> None:
    """It is of the same partition of the transaction log and completed before; a clock that goes back is not trusted."""
    matched = {
        30: decision(9, at_ms=0, log_partition=1),
        5: decision(1, at_ms=100),
        9: decision(2, at_ms=200),
        12: decision(3, at_ms=50),
        15: decision(4, at_ms=290),
    }
    before = MatchedBefore(matched)

    asked = decision(5, at_ms=400)
    assert [before.offset(asked, by_ms) for by_ms in (119, 120, 130, 219, 220)] == [None, 5, 5, 5, 12]
    assert before.offset(decision(2, at_ms=300), 1_000) == 5
    assert before.offset(decision(5, at_ms=400, log_partition=2), 1_000) is None


def test_a_marker_that_its_coordinator_has_sent_again_is_repeated() -> None:
    """The response to the first one was lost with the partition's leader; the second has the same coordinator epoch.

    So found on Kafka 4.3.1 under killed brokers: the decision was given to the second, and the first had none.
    """
    own = decision(1, at_ms=BEGIN_MS, marker_epoch=4, has_own_epoch=True, completed_ms=BEGIN_MS + 90_000)
    first = in_log(4, at_ms=BEGIN_MS + 20_000, marker_epoch=4, coordinator_epoch=18)
    again = replace(first, **WITHOUT_RECORDS, marker_offset=9, marker_timestamp_ms=BEGIN_MS + 40_000)

    for rows in ([first, again], [first, again, replace(again, marker_offset=12)]):
        assert said(judged([own], rows)) == [(AuditVerdict.AS_DECIDED, None, 5)]
    assert said(judged([own], [again, replace(again, marker_offset=12)])) == [(AuditVerdict.AS_DECIDED, None, 9)]


def test_another_marker_of_the_same_epoch_is_not_taken_for_a_repeated_one() -> None:
    """The opposite, written before by somebody else, is not the decision's own marker."""
    own = decision(1, at_ms=BEGIN_MS, marker_epoch=4, has_own_epoch=True)
    opposite = in_log(4, at_ms=BEGIN_MS + 15, marker="abort", marker_epoch=4, **WITHOUT_RECORDS)
    its_own = in_log(8, at_ms=BEGIN_MS + 18, marker_epoch=4, **WITHOUT_RECORDS)

    assert (AuditVerdict.AS_DECIDED, None, 9) in said(judged([own], [opposite, its_own]))
    assert AuditVerdict.CONTRADICTED not in [verdict for verdict, *_ in said(judged([own], [opposite, its_own]))]


def test_a_repeated_marker_whose_decision_is_not_recorded_accuses_nobody() -> None:
    """The transaction log is complete from an instant between the decision and the marker's repetition."""
    late = in_log(4, at_ms=BEGIN_MS + 60_000, **WITHOUT_RECORDS)
    horizon = replace(HORIZON, log_complete_from_ms=BEGIN_MS + 30_000)

    assert said(judged([], [late], horizon=horizon)) == [(AuditVerdict.UNKNOWN, Reason.NOT_RECORDED, 5)]
    with_records = in_log(4, at_ms=BEGIN_MS + 60_000)
    assert said(judged([], [with_records], horizon=horizon)) == [(AuditVerdict.MARKER_WITHOUT_DECISION, None, 5)]
