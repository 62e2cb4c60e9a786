"""Transactions that are stuck at their coordinator: since when, what their logs say, and what ends them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.stuck import stuck_evidence, stuck_in_words
from exporter.evaluation.verdicts import Policy
from exporter.snapshot import CompletingId, Completions, CoordinatorCoverage, MarkerFinding, RememberedCompletion
from tests.evaluation.builders import MINUTE_MS, MONOTONIC_MS, NOW_MS
from tests.evaluation.stuck import BEGAN_MS, look, marker, stuck, waiting


def test_it_is_stuck_after_a_minute_with_nothing_open() -> None:
    """The boundary is that of `stuck_completing`, counted from the first cycle that described it."""
    first = look(waiting())
    at_the_limit = look(waiting(), first.memory, later_ms=MINUTE_MS)
    past_it = look(waiting(), at_the_limit.memory, later_ms=MINUTE_MS + 1)

    assert (first.stuck, at_the_limit.stuck) == ((), ())
    assert [(each.transactional_id, each.stuck_ms) for each in past_it.stuck] == [("app-1", MINUTE_MS + 1)]
    assert past_it.open_count == 0


@pytest.mark.parametrize(
    ("ages_ms", "is_stuck"),
    [
        ([MINUTE_MS + 1], True),
        ([MINUTE_MS], False),
        ([MINUTE_MS + 1, MINUTE_MS], False),
        ([MINUTE_MS + 1, None], False),
    ],
)
def test_a_command_need_not_wait_where_every_marker_is_old(ages_ms: list[int | None], *, is_stuck: bool) -> None:
    """A coordinator whose markers are all in their logs for a minute has lost the responses, or is refused."""
    markers = [
        replace(marker(partition=number), timestamp_ms=None if age is None else NOW_MS + 1000 - age)
        for number, age in enumerate(ages_ms)
    ]
    first = look(waiting())

    assert bool(look(waiting(*markers), first.memory, later_ms=1000).stuck) == is_stuck


def test_the_next_transaction_of_the_id_is_not_the_same() -> None:
    first = look(waiting())
    other = look(waiting(start_ms=BEGAN_MS + 1), first.memory, later_ms=2 * MINUTE_MS)
    later = look(waiting(start_ms=BEGAN_MS + 1), other.memory, later_ms=4 * MINUTE_MS)

    assert other.stuck == ()
    assert [each.stuck_ms for each in later.stuck] == [2 * MINUTE_MS]


def test_a_clock_that_is_set_makes_nothing_stuck() -> None:
    """The wall clock jumps by an hour, and the monotonic clock of the process goes on by a second."""
    first = look(waiting())
    jumped = look(waiting(), first.memory, later_ms=60 * MINUTE_MS, monotonic_ms=MONOTONIC_MS + 1000)

    assert jumped.stuck == ()


def test_the_time_before_a_restart_counts() -> None:
    """The monotonic clock of the next process has another beginning; otherwise the alert would page twice."""
    memory = look(waiting()).memory.without_monotonic()
    for later_ms in (60 * MINUTE_MS, 61 * MINUTE_MS):
        result = look(waiting(), memory, later_ms=later_ms, monotonic_ms=later_ms - 60 * MINUTE_MS)
        memory = result.memory

        assert [each.stuck_ms for each in result.stuck] == [later_ms]


def test_a_coordinator_that_is_not_confirmed_says_nothing() -> None:
    first = look(waiting())
    moved = replace(waiting(), unconfirmed="the metadata name broker 2")

    assert look(moved, first.memory, later_ms=2 * MINUTE_MS).stuck == ()


def test_the_memory_of_another_cluster_is_not_used() -> None:
    first = look(waiting())

    assert look(waiting(), replace(first.memory, cluster_id="other"), later_ms=2 * MINUTE_MS).stuck == ()


@pytest.mark.parametrize(
    ("findings", "worst"),
    [
        ([], MarkerFinding.UNKNOWN),
        ([MarkerFinding.AS_DECIDED], MarkerFinding.AS_DECIDED),
        ([MarkerFinding.AS_DECIDED, MarkerFinding.UNKNOWN], MarkerFinding.UNKNOWN),
        ([MarkerFinding.MISSING, MarkerFinding.UNKNOWN], MarkerFinding.MISSING),
        ([MarkerFinding.MISSING, MarkerFinding.CONTRADICTED], MarkerFinding.CONTRADICTED),
    ],
)
def test_the_worst_marker_counts(findings: list[MarkerFinding], worst: MarkerFinding) -> None:
    """An unread marker is never as decided."""
    assert stuck(*(marker(finding, number) for number, finding in enumerate(findings))).markers_state is worst


def test_the_worst_comes_first() -> None:
    first = look(waiting())
    both = [waiting(marker()), waiting(marker(MarkerFinding.CONTRADICTED), transactional_id="app-2", producer_id=8)]
    taken = replace(
        look(both[0]).snapshot,
        completing=Completions(listed=frozenset(each.identity for each in both), lasting=tuple(both)),
    )
    seen = replace(first.memory, completing=evaluate(taken, first.memory, Policy()).memory.completing)
    later = replace(taken, taken_at_ms=NOW_MS + 2 * MINUTE_MS, monotonic_ms=MONOTONIC_MS + 2 * MINUTE_MS)

    assert [each.transactional_id for each in evaluate(later, seen, Policy()).stuck] == ["app-2", "app-1"]


@pytest.mark.parametrize(
    ("state", "commit", "effect"),
    [
        ("PrepareCommit", "ABORT", "its records are dropped, although their commit is decided"),
        ("PrepareAbort", "COMMIT", "its records are visible, although their abort is decided"),
    ],
)
def test_what_is_contradicted_is_said(state: str, commit: str, effect: str) -> None:
    text = stuck_in_words(stuck(marker(MarkerFinding.CONTRADICTED), state=state))

    assert f"orders-0 at offset 7 has an {commit} marker: {effect}." in text.replace("a COMMIT", "an COMMIT")
    assert "gets CONCURRENT_TRANSACTIONS and cannot start" in text


@pytest.mark.parametrize(
    ("epoch", "ending"),
    [
        (5, "only after an election of the leader of __transaction_state-3, as by a restart of broker 1."),
        (7, "__transaction_state-3 is at epoch 5, which each election raises: 2 are needed."),
        (25, "which each election raises: 20 are needed."),
        (26, "no number of restarts helps until the partition has forgotten the producer"),
    ],
)
def test_what_ends_it_depends_on_the_epochs(epoch: int, ending: str) -> None:
    assert ending in stuck_in_words(stuck(marker(epoch=epoch)))


def test_partitions_that_are_not_visible_are_no_evidence() -> None:
    """Kafka leaves topics without DESCRIBE out of a description: a marker may be missing, or refused, in any of them."""
    hidden = stuck()

    for text in (stuck_in_words(hidden), stuck_evidence(hidden)):
        assert "No partition that it waits for is visible: either all markers are written, or this login lacks" in text
        assert text.endswith("election of the leader of __transaction_state-3; whether they are refused is not known.")
    assert "is visible" not in stuck_evidence(stuck(marker(MarkerFinding.UNKNOWN)))


MISSING_RESPONSES = {
    "not described": Completions(listed=frozenset({waiting().identity}), undescribed=frozenset({waiting().identity})),
    "not listed": Completions(),
}


@pytest.mark.parametrize("completing", MISSING_RESPONSES.values(), ids=MISSING_RESPONSES)
def test_a_missing_response_ends_nothing(completing: Completions) -> None:
    """One cycle without it is incomplete, and the next one knows what was known before."""
    failed = CoordinatorCoverage(broker=1, failure="broker 1 did not respond")
    first = look(waiting())
    gap = look(waiting(), first.memory, later_ms=2 * MINUTE_MS, completing=completing, coordinators=(failed,))
    after = look(waiting(), gap.memory, later_ms=3 * MINUTE_MS)

    assert not gap.snapshot.is_complete
    assert [each.stuck_ms for each in after.stuck] == [3 * MINUTE_MS]


def test_a_complete_list_ends_what_is_not_in_it() -> None:
    first = look(waiting())
    ended = look(waiting(), first.memory, later_ms=2 * MINUTE_MS, completing=Completions())

    assert ended.snapshot.is_complete
    assert not ended.memory.completing


def test_what_a_dead_coordinator_leaves_is_bounded() -> None:
    """And what was listed once is not kept."""
    seen = {CompletingId(f"app-{n}", n): RememberedCompletion(start_ms=1, since_ms=n) for n in range(1_002)}
    memory = replace(look(waiting()).memory, completing={**seen, CompletingId("short", 1): RememberedCompletion()})
    failed = CoordinatorCoverage(broker=1, failure="broker 1 did not respond")
    after = look(waiting(), memory, completing=Completions(), coordinators=(failed,)).memory

    assert after.completing.keys() == set(list(seen)[:1_000])


def test_an_unread_marker_says_why() -> None:
    text = stuck_in_words(stuck(marker(MarkerFinding.UNKNOWN, detail="its leader could not be read")))

    assert "The marker of orders-0 is unknown: its leader could not be read." in text


def test_a_hidden_id_is_in_no_sentence() -> None:
    """`publish.transactional_ids: false` leaves the id empty."""
    assert "app-1" not in stuck_in_words(replace(stuck(marker()), transactional_id=""))
