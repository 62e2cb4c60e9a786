"""The plan for one transaction, and the reasons to refuse it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from exporter.evaluation.verdicts import OutcomeEvidence, Verdict
from exporter.kafka.collect.held_back import HeldBack
from exporter.recovery.partition import PartitionState
from exporter.recovery.plan import (
    Action,
    document,
    in_words,
    is_open,
    is_unchanged,
    is_unreplicated,
    plan_for,
    refusal,
    what_changed,
)
from exporter.snapshot import NO_PRODUCER_ID, UNKNOWN_OFFSET, OneEntry
from tests.each import each
from tests.recovery.stand_in import OPEN, row

HANGING = [verdict for verdict in Verdict if verdict.is_hanging]


@pytest.mark.parametrize(("remembered", "sent"), [(-1, 0), (0, 0), (7, 7)])
@pytest.mark.parametrize("action", Action)
def test_the_marker_carries_what_the_partition_shows(action: Action, remembered: int, sent: int) -> None:
    """The very producer epoch, and the remembered coordinator epoch: 0 only where the entry has none."""
    marker = plan_for(action, row(coordinator_epoch=remembered, coordinator_producer_epoch=9)).marker

    assert (marker.topic, marker.partition, marker.producer_id) == ("orders", 0, 4000)
    assert (marker.producer_epoch, marker.coordinator_epoch) == (3, sent)


@pytest.mark.parametrize(
    "state", [None, "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Unknown"]
)
@pytest.mark.parametrize("action", Action)
def test_a_commit_is_written_only_where_the_coordinator_has_decided_it(action: Action, state: str | None) -> None:
    """`complete` of PrepareCommit is the one COMMIT of this program; an abort is an ABORT in every state."""
    plan = plan_for(action, row(coordinator_state=state))

    assert plan.marker.commit == (action is Action.COMPLETE and state == "PrepareCommit")


@each(Verdict, OutcomeEvidence, [None, *Verdict])
def test_an_abort_needs_a_proof_or_its_verdict_typed_out(
    verdict: Verdict, outcome: OutcomeEvidence, forced: Verdict | None
) -> None:
    """Every verdict, outcome and force: written on a proof that nothing contradicts, or on the right word, and else not."""
    plan = plan_for(Action.ABORT, row(verdict, outcome_evidence=outcome))

    against = refusal(plan, forced)

    is_proved = verdict in HANGING and outcome is not OutcomeEvidence.COMMITTED
    assert (against is None) == (forced is verdict or (forced is None and is_proved))
    if forced is not None and forced is not verdict:
        typed = f"--force {forced.label} was typed"
        assert against == f"{typed}, but the verdict is {verdict.label} now: run find-hanging again"
    elif against is not None:
        assert ("a commit elsewhere" in against) == (verdict in HANGING)
        may_go_on = verdict is Verdict.INCONCLUSIVE
        assert against.endswith("--force inconclusive --accept-data-loss") == may_go_on
        assert ("--" in against) == may_go_on, "a refusal prints no command that could lose records"
        assert "--" not in (refusal(plan, forced, may_force=False) or "")


@each(Verdict, [None, *Verdict])
def test_only_a_stuck_completion_is_completed(verdict: Verdict, forced: Verdict | None) -> None:
    """No force helps: there is nothing decided to write."""
    against = refusal(plan_for(Action.COMPLETE, row(verdict, coordinator_producer_epoch=4)), forced)

    expected = f"only stuck_completing can be completed, and the verdict is {verdict.label}"
    assert against == (None if verdict is Verdict.STUCK_COMPLETING else expected)


@pytest.mark.parametrize(
    ("coordinator_epoch", "is_refused"), [(None, True), (2, True), (3, False), (4, False), (5, False)]
)
def test_a_coordinator_behind_the_partition_completes_nothing(
    coordinator_epoch: int | None,
    is_refused: bool,  # noqa: FBT001 - a column of a table
) -> None:
    """An open transaction at a newer epoch may be another one, for which nothing is decided."""
    stuck = row(Verdict.STUCK_COMPLETING, coordinator_producer_epoch=coordinator_epoch)

    against = refusal(plan_for(Action.COMPLETE, stuck), None)

    assert (against is not None) is is_refused
    assert against is None or "epoch 3 is open on the partition" in against
    advice = refusal(plan_for(Action.ABORT, stuck), None) or ""
    assert ("`complete` writes the marker" in advice, "`complete` refuses it too" in advice) == (
        not is_refused,
        is_refused,
    )


def test_an_abort_is_refused_while_its_commit_may_be_unread() -> None:
    """An unread log may be searched another time; the verdict typed out is enough."""
    plan = plan_for(Action.ABORT, row(outcome_unsearched=("orders-2 could not be read (timed_out)",)))

    assert refusal(plan, plan.row.verdict) is None
    assert refusal(plan, None, may_force=False) == (
        "the transaction may have been committed elsewhere, on partitions that could not be searched (orders-2 could not "
        "be read (timed_out)). Have what is missing mended, and repeat the command: a right is granted (on topics, READ), "
        "the broker of a partition without a leader is brought back, the quota of a client that is throttled is raised."
    )


@pytest.mark.parametrize("forced", [None, Verdict.HANGING_BY_OFFSETS])
@pytest.mark.parametrize("action", Action)
def test_no_marker_is_written_for_a_producer_that_is_unknown(action: Action, forced: Verdict | None) -> None:
    """The proof by offsets does not name a producer, and no force replaces the name."""
    by_offsets = row(Verdict.HANGING_BY_OFFSETS, producer_id=NO_PRODUCER_ID, producer_epoch=-1)

    assert refusal(plan_for(action, by_offsets), forced) == (
        "its producer is unknown to this login: a marker needs READ on the topic orders first"
    )


@pytest.mark.parametrize(
    ("entries", "unchanged", "still_open"),
    [
        ((OPEN,), True, True),
        ((replace(OPEN, producer_id=1), OPEN), True, True),
        ((replace(OPEN, last_sequence=9),), False, True),
        ((replace(OPEN, last_timestamp=9),), False, True),
        ((replace(OPEN, producer_epoch=4),), False, True),
        ((replace(OPEN, coordinator_epoch=5),), False, True),
        ((replace(OPEN, current_txn_start_offset=101),), False, False),
        ((replace(OPEN, current_txn_start_offset=-1),), False, False),
        ((replace(OPEN, producer_id=1),), False, False),
        ((), False, False),
    ],
)
def test_what_counts_as_changed_and_as_open(
    entries: tuple[OneEntry, ...], *, unchanged: bool, still_open: bool
) -> None:
    """Any other epoch and any later write is a change; another start offset is another transaction."""
    plan = plan_for(Action.ABORT, row())
    look = PartitionState(
        leader=1, leader_epoch=0, topic_id="", log_start_offset=0, last_stable_offset=100, entries=entries
    )

    assert (is_unchanged(plan, look), is_open(plan, entries)) == (unchanged, still_open)
    assert not is_unchanged(plan, replace(look, topic_id="another"))


@pytest.mark.parametrize(
    ("start", "others_start", "stable", "unreplicated"),
    [
        (100, -1, 100, True),
        (100, -1, 99, True),
        (100, -1, 101, False),
        (100, 90, 90, False),
        (100, 0, 0, False),
        (100, 101, 100, True),
        (0, -1, 0, True),
        (100, -1, UNKNOWN_OFFSET, False),
    ],
)
def test_a_closed_transaction_that_holds_the_offset_is_not_on_all_replicas(
    start: int,
    others_start: int,
    stable: int,
    unreplicated: bool,  # noqa: FBT001 - a column of a table
) -> None:
    """After its marker a producer is still listed, without a transaction; one that began earlier may hold the offset."""
    entries = (replace(OPEN, current_txn_start_offset=-1), replace(OPEN, current_txn_start_offset=others_start))

    assert is_unreplicated(plan_for(Action.ABORT, row(start_offset=start)), entries, stable) is unreplicated


def test_what_changed_is_named() -> None:
    """The first difference, with both values; nothing where the transaction was left alone."""
    assert what_changed(row(), row()) is None
    assert what_changed(row(), row(last_sequence=9, last_timestamp_ms=9)) == "its last sequence was 0 and is 9"
    assert what_changed(row(), row(topic_id="x")) == "its topic id was '' and is 'x'"
    changes: list[dict[str, Any]] = [
        {name: 9}
        for name in ("producer_id", "producer_epoch", "start_offset", "coordinator_epoch", "last_timestamp_ms")
    ]
    for change in changes:
        assert what_changed(row(), row(**change)) is not None, change


def test_an_operator_reads_what_will_be_written() -> None:
    """Kind of marker, epochs, what it frees, verdict and evidence; the outcome with where it is known from."""
    plan = plan_for(Action.ABORT, row(transactional_id="app,\x1b[2J\n1", reason="Because."))

    assert in_words(plan).splitlines() == [
        (
            "abort on orders-0: write one ABORT marker for producer 4000 at epoch 3 (coordinator epoch 0, since the "
            "partition has none), closing the transaction open since offset 100."
        ),
        "  records that are dropped: not counted; offsets that wait: 42 in all",
        "  transactional id 'app,\\x1b[2J\\n1', verdict hanging_not_in_transaction",
        "  outcome elsewhere: unknown: no trace of it was found",
        "  Because.",
    ]
    aborted = row(
        outcome_evidence=OutcomeEvidence.ABORTED, outcome_seen=("ABORT marker on orders-1", "orders-2 was not")
    )
    assert "  outcome elsewhere: aborted. ABORT marker on orders-1. orders-2 was not." in in_words(
        plan_for(Action.ABORT, aborted)
    )
    on_disk = plan_for(Action.ABORT, row(held_bytes=1_200_000_000))
    assert "offsets that wait: 42 in all\n  bytes held on disk: about 1.2 GB\n  transactional id" in in_words(on_disk)
    unknown = plan_for(Action.COMPLETE, row(transactional_id=None, last_stable_offset_lag=None))
    assert "transactional id unknown" in in_words(unknown)
    assert "records that are dropped: not counted; offsets that wait: unknown" in in_words(unknown)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (HeldBack(own=1003, others=12039), "records that are dropped: 1,003; records of others that wait: 12,039"),
        (
            HeldBack(own=3, others=9, others_open=1),
            "records that are dropped: 3; records of others that wait: 9, and 1 of other open transactions",
        ),
        (
            HeldBack(own=3, others=9, uncounted="only the first 16 MB were read"),
            (
                "records that are dropped: 3 or more; records of others that wait: 9 or more "
                "(only the first 16 MB were read)"
            ),
        ),
        (
            HeldBack(uncounted="broker 1 responded with OFFSET_OUT_OF_RANGE"),
            (
                "records that are dropped: not counted (broker 1 responded with OFFSET_OUT_OF_RANGE); "
                "offsets that wait: 42 in all"
            ),
        ),
    ],
    ids=["all", "others that are open", "some", "none"],
)
def test_the_two_numbers_that_decide_are_side_by_side(records: HeldBack, expected: str) -> None:
    """Records that are lost and records that are freed; a lower bound says that it is one."""
    assert f"  {expected}\n" in in_words(plan_for(Action.ABORT, row()), records)


def test_a_commit_drops_nothing() -> None:
    plan = plan_for(Action.COMPLETE, row(verdict=Verdict.STUCK_COMPLETING, coordinator_state="PrepareCommit"))
    assert "  records that become visible: 3; records of others that wait: 39\n" in in_words(
        plan, HeldBack(own=3, others=39)
    )


def test_a_plan_is_logged_whole() -> None:
    """Everything that the marker is made of, and why."""
    written = document(plan_for(Action.ABORT, row(coordinator_epoch=7)))

    assert written["marker"] == {"commit": False, "coordinator_epoch": 7}
    assert (written["action"], written["verdict"], written["start_offset"]) == (
        "abort",
        "hanging_not_in_transaction",
        100,
    )
