"""Durations, lateness, the memory, and sums of partitions; verdicts as a snapshot gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from exporter.evaluation.evaluate import LONGEST_OTHERS_MAX, all_rows, evaluate
from exporter.evaluation.memory import Memory, RememberedTransaction, RememberedTransactions
from exporter.evaluation.remembering import FORGET_UNREAD_AFTER_MS
from exporter.evaluation.table import column
from exporter.evaluation.verdicts import Evaluation, InconclusiveReason, Policy, StartSource, Verdict
from exporter.snapshot import (
    NO_PRODUCER_ID,
    STATE_TOPIC,
    TIMEOUT_MS_TWO_PHASE_COMMIT,
    ClockSource,
    HeldOffset,
    IdVisibility,
    SecondRead,
    Snapshot,
    TransactionKey,
    Unconfirmed,
    Visibility,
)
from tests.evaluation.builders import (
    MINUTE_MS,
    MONOTONIC_MS,
    NOW_MS,
    Entry,
    listed,
    proof,
    remembered,
    snapshot,
    transaction,
    without_examination,
)

KEY = TransactionKey("orders", 0, 7, 100)
LATE_AFTER_MS = 20 * MINUTE_MS


def memory(known: RememberedTransaction | None = None, *, cluster_id: str = "cluster-1") -> Memory:
    return Memory(cluster_id=cluster_id, transactions=RememberedTransactions.of({} if known is None else {KEY: known}))


def run(taken: Snapshot, known: Memory | None = None) -> Evaluation:
    return evaluate(taken, known or memory(), Policy())


def hang(**fields: object) -> Snapshot:
    entry = Entry(second_read=SecondRead.UNCHANGED, **fields)  # type: ignore[arg-type]
    return snapshot([entry], proof=proof())


def test_a_start_from_its_coordinator_counts_first() -> None:
    """A transaction that its coordinator owns is as old as the coordinator says, whenever the exporter first saw it."""
    taken = snapshot([Entry()], transactions=(transaction(start_ms=NOW_MS - 5000),))

    result = run(taken, memory(remembered(first_seen_ms=NOW_MS - 1000)))

    assert result.transactions.duration_ms.tolist() == [5000]
    assert result.transactions.start_source.tolist() == [StartSource.COORDINATOR]


def test_the_last_start_that_a_coordinator_returned_outlives_its_ownership() -> None:
    """A transaction that lost its coordinator keeps the start that was shown while it was owned."""
    known = memory(remembered(coordinator_start_ms=NOW_MS - 90_000))

    result = run(hang(), known)

    assert result.transactions.start_source.tolist() == [StartSource.COORDINATOR]
    assert result.transactions.duration_ms.tolist() == [90_000]


def test_a_start_for_another_epoch_does_not_count() -> None:
    """The start belongs to the transaction of its epoch; the records of a newer one fall back to first seen."""
    known = memory(remembered(coordinator_start_ms=NOW_MS - 9000, producer_epoch=2))

    result = run(snapshot([Entry()], transactions=(listed(),)), known)

    assert result.transactions.start_source.tolist() == [StartSource.FIRST_SEEN]


@pytest.mark.parametrize(
    ("last_timestamp_ms", "source", "duration_ms"),
    [
        (NOW_MS - 30 * 365 * 86_400_000, StartSource.LAST_WRITE, 30 * 365 * 86_400_000),
        (NOW_MS + 86_400_000, StartSource.FIRST_SEEN, MINUTE_MS),
        (-1, StartSource.FIRST_SEEN, MINUTE_MS),
        (0, StartSource.FIRST_SEEN, MINUTE_MS),
    ],
    ids=["thirty years old", "from the future", "none", "zero"],
)
def test_a_proved_hang_began_at_its_last_write_if_that_is_earlier(
    last_timestamp_ms: int, source: StartSource, duration_ms: int
) -> None:
    """A hang starts at the earlier of first seen and last write; a timestamp that says nothing does not count."""
    result = run(hang(last_timestamp_ms=last_timestamp_ms), memory(remembered()))

    assert result.transactions.start_source.tolist() == [source]
    assert result.transactions.duration_ms.tolist() == [duration_ms]


def test_event_time_never_makes_a_live_transaction_late() -> None:
    """A live transaction that replays events thirty years old is idle by its clock, and neither late nor old."""
    taken = snapshot([Entry(last_timestamp_ms=NOW_MS - 30 * 365 * 86_400_000)], transactions=(listed(),))

    result = run(taken)

    assert result.transactions.verdict.tolist() == [Verdict.OPEN_WITHIN_TIMEOUT]
    assert result.transactions.duration_ms.tolist() == [0]
    assert result.transactions.idle_ms.tolist() == [30 * 365 * 86_400_000]
    assert result.transactions.is_late.tolist() == [False]


@pytest.mark.parametrize(("age_ms", "late"), [(LATE_AFTER_MS, False), (LATE_AFTER_MS + 1, True)])
def test_late_is_strictly_longer_than_the_limit_and_padding(age_ms: int, *, late: bool) -> None:
    """At 15 minutes and 5 of padding a transaction is not late; a millisecond later it is."""
    taken = snapshot([Entry()], transactions=(transaction(start_ms=NOW_MS - age_ms),))

    result = run(taken)

    assert result.transactions.is_late.tolist() == [late]
    assert result.partitions.late_transactions.tolist() == [int(late), 0, 0]


@pytest.mark.parametrize(("age_ms", "late"), [(LATE_AFTER_MS, 0), (LATE_AFTER_MS + 1, 1)])
def test_of_late_transactions_those_prepared_for_two_phase_commit_are_counted_apart(age_ms: int, late: int) -> None:
    """Their owner holds them open, with an infinite time-out (KIP-939)."""
    of_other = transaction(transactional_id="other", producer_id=8, start_ms=NOW_MS - age_ms)
    prepared = transaction(timeout_ms=TIMEOUT_MS_TWO_PHASE_COMMIT, start_ms=NOW_MS - age_ms)
    taken = snapshot([Entry(), Entry(producer_id=8)], transactions=(prepared, of_other))

    result = run(taken)

    assert result.partitions.late_transactions.tolist() == [2 * late, 0, 0]
    assert result.partitions.late_prepared_transactions.tolist() == [late, 0, 0]


def test_an_unreadable_limit_falls_back_visibly() -> None:
    """Without a broker's setting the policy's is used for late, and the evaluation says so."""
    result = evaluate(snapshot(max_timeout_ms=None), memory(), Policy(max_timeout_fallback_ms=123))

    assert (result.max_timeout_ms, result.max_timeout_is_fallback) == (123, True)


def test_clocks_ahead_of_the_exporter_s_give_no_negative_durations() -> None:
    """A coordinator or a client whose clock is ahead of the exporter's gives 0, not less."""
    taken = snapshot([Entry(last_timestamp_ms=NOW_MS + 5000)], transactions=(transaction(start_ms=NOW_MS + 5000),))

    result = run(taken)

    assert result.transactions.duration_ms.tolist() == [0]
    assert result.transactions.idle_ms.tolist() == [0]


def test_partitions_add_up_their_transactions() -> None:
    """The longest duration and idle time, the count and the lag are the partition's, 0 or -1 where none is open."""
    taken = snapshot(
        [
            Entry(partition=1, producer_id=7, last_timestamp_ms=NOW_MS - 10),
            Entry(partition=1, producer_id=8, start_offset=120, last_timestamp_ms=NOW_MS - 900),
        ],
        transactions=(
            transaction(partitions=frozenset({("orders", 1)}), start_ms=NOW_MS - 3000),
            transaction(producer_id=8, partitions=frozenset({("orders", 1)}), start_ms=NOW_MS - 2000),
        ),
    )

    partitions = run(taken).partitions

    assert partitions.open_transactions.tolist() == [0, 2, 0]
    assert partitions.duration_ms_max.tolist() == [0, 3000, 0]
    assert partitions.idle_ms_max.tolist() == [-1, 900, -1]
    assert partitions.last_stable_offset_lag.tolist() == [-1, 50, -1]


def test_a_last_write_without_a_timestamp_gives_no_idle_time() -> None:
    """Offsets show no producer, and a client may write none: the partition's idle time is that of the others."""
    unknown = Entry(partition=1, producer_id=NO_PRODUCER_ID, last_timestamp_ms=-1)
    known = Entry(partition=2, producer_id=8, last_timestamp_ms=NOW_MS - 900)

    result = run(snapshot([unknown, replace(known, producer_id=9, last_timestamp_ms=0), known]))

    assert result.partitions.open_transactions.tolist() == [0, 1, 2]
    assert result.partitions.idle_ms_max.tolist() == [-1, -1, 900]
    rows = {row.producer_id: row.idle_ms for row in all_rows(result)}
    assert rows == {NO_PRODUCER_ID: None, 8: 900, 9: None}
    assert dict(zip(column(result, "producer_id"), column(result, "idle_ms"), strict=True)) == rows, "as recorded"


def test_unread_offsets_give_no_lag() -> None:
    """A partition whose offsets could not be read has no lag rather than a wrong one."""
    taken = snapshot([Entry(high_watermark=-1)], transactions=(listed(),))

    assert run(taken).partitions.last_stable_offset_lag.tolist() == [-1, -1, -1]


def test_a_hang_is_proved_in_the_cycle_that_first_sees_it() -> None:
    """A producer id that no coordinator lists, with the whole proof, hangs at once; age is not needed."""
    result = run(hang())

    (suspect,) = result.suspects
    assert suspect.verdict is Verdict.HANGING_NO_TRANSACTIONAL_ID
    assert "no coordinator lists producer id 7" in suspect.reason


def test_answers_within_the_proof_count_over_earlier_ones() -> None:
    """A transaction that the first listing had Ongoing and the proof finds Empty is judged by the proof."""
    taken = snapshot(
        [Entry(second_read=SecondRead.UNCHANGED)],
        transactions=(transaction(partitions=frozenset({("orders", 2)})),),
        proof=proof(transactions=(transaction("Empty", partitions=frozenset()),)),
    )

    (suspect,) = run(taken).suspects

    assert suspect.verdict is Verdict.HANGING_NOT_IN_TRANSACTION
    assert suspect.coordinator_state == "Empty"


@pytest.mark.parametrize("why", [None, "broker 1 is cut off"])
def test_an_owner_whose_coordinator_is_not_confirmed_is_not_overdue(why: str | None) -> None:
    """The proof has found an owner that is past its time-out, at a broker that may not be its coordinator any more."""
    overdue = transaction(start_ms=NOW_MS - 10 * MINUTE_MS, state_partition=0)
    against = () if why is None else (Unconfirmed(topic=STATE_TOPIC, partition=0, why=why),)

    (suspect,) = run(
        snapshot([Entry(second_read=SecondRead.UNCHANGED)], proof=proof(transactions=(overdue,), unconfirmed=against))
    ).suspects

    assert suspect.verdict is (Verdict.OVERDUE_AT_COORDINATOR if why is None else Verdict.INCONCLUSIVE)
    assert suspect.inconclusive_reason is (None if why is None else InconclusiveReason.LEADERSHIP_UNCONFIRMED)


@pytest.mark.parametrize("changed", [frozenset(), frozenset({8})], ids=["nothing changed", "an id changed"])
def test_each_transaction_has_the_proof_that_is_about_it(changed: frozenset[int]) -> None:
    """One of which only the offset is known may be any producer's: an id that changed meanwhile may be its owner's."""
    known = Entry(second_read=SecondRead.UNCHANGED)
    taken = snapshot(
        [replace(known, partition=1, producer_id=NO_PRODUCER_ID, producer_epoch=-1), known],
        proof=proof(listing_failures=((1, "timed out"),)),
        offset_proof=proof(unclear_producer_ids=changed),
    )
    held = (HeldOffset(leader_epoch=5, described=((),)), None)
    taken = replace(taken, open_transactions=replace(taken.open_transactions, held_offsets=held))

    by_offset, by_producer = sorted(run(taken).suspects, key=lambda row: row.producer_id)

    assert by_producer.inconclusive_reason is InconclusiveReason.COORDINATOR_UNANSWERED
    assert by_offset.verdict is (Verdict.INCONCLUSIVE if changed else Verdict.HANGING_BY_OFFSETS)
    assert by_offset.inconclusive_reason is (InconclusiveReason.CHANGED_WHILE_ASKED if changed else None)


@pytest.mark.parametrize(
    ("hidden", "verdict"), [("payments", Verdict.HANGING_NOT_IN_TRANSACTION), ("orders", Verdict.INCONCLUSIVE)]
)
def test_only_a_topic_that_is_hidden_may_be_missing_in_a_description(hidden: str, verdict: Verdict) -> None:
    elsewhere = transaction(partitions=frozenset({("orders", 1)}))
    proved = proof(transactions=(elsewhere,), hidden_topics=frozenset({hidden}))

    (suspect,) = run(snapshot([Entry(second_read=SecondRead.UNCHANGED)], proof=proved)).suspects

    assert suspect.verdict is verdict


def test_a_hidden_id_is_not_ruled_out_by_watching() -> None:
    """No time-out ends what is being completed: a hidden id may own the transaction for as long as its markers wait."""
    taken = snapshot([Entry(second_read=SecondRead.UNCHANGED)], proof=proof(id_visibility=IdVisibility.ACLS_UNREAD))

    (suspect,) = run(taken, memory(remembered(watched_from_ms=0, first_seen_ms=0))).suspects

    assert suspect.inconclusive_reason is InconclusiveReason.IDS_MAY_BE_DENIED


def test_what_an_earlier_process_watched_does_not_count() -> None:
    """First-seen times survive a restart, by whatever clock they were written; watching begins again."""
    assert run(hang(), memory(remembered(first_seen_ms=0))).memory.transactions[KEY].watched_from_ms == MONOTONIC_MS


def test_suspects_come_worst_first() -> None:
    """By verdict, then the longest open; what is not suspect is left out."""
    taken = snapshot(
        [
            Entry(partition=0, producer_id=1),
            Entry(partition=1, producer_id=2, second_read=SecondRead.UNCHANGED, last_timestamp_ms=NOW_MS - 1),
            Entry(partition=2, producer_id=3, second_read=SecondRead.UNCHANGED, last_timestamp_ms=NOW_MS - 9000),
            Entry(partition=2, producer_id=4, start_offset=1),
        ],
        transactions=(
            transaction(producer_id=1, start_ms=NOW_MS - 3_600_000),
            transaction(producer_id=4, partitions=frozenset({("orders", 2)})),
        ),
        proof=proof(),
    )

    result = run(taken)

    assert [(row.producer_id, row.verdict) for row in result.suspects] == [
        (3, Verdict.HANGING_NO_TRANSACTIONAL_ID),
        (2, Verdict.HANGING_NO_TRANSACTIONAL_ID),
        (1, Verdict.OVERDUE_AT_COORDINATOR),
    ]
    assert len(all_rows(result)) == 4


def test_the_longest_of_the_others_have_a_row() -> None:
    """Longest first, as many as the limit, and never a suspect, however old it is."""
    owned = [
        transaction(producer_id=number, partitions=frozenset({("orders", number)}), start_ms=NOW_MS - number * 1000)
        for number in range(1, LONGEST_OTHERS_MAX + 3)
    ]
    entries = [Entry(partition=transaction.producer_id, producer_id=transaction.producer_id) for transaction in owned]
    suspect = Entry(partition=0, producer_id=99, second_read=SecondRead.UNCHANGED, last_timestamp_ms=NOW_MS - 10**8)

    result = run(snapshot([suspect, *entries], partitions=20, transactions=tuple(owned), proof=proof()))

    assert [row.producer_id for row in result.suspects] == [99]
    assert [row.producer_id for row in result.longest_others] == list(range(LONGEST_OTHERS_MAX + 2, 2, -1))


def test_every_row_has_a_sentence_of_its_own_verdict() -> None:
    """Healthy rows explain themselves as well, by who said what."""
    taken = snapshot([Entry()], transactions=(transaction(),))

    (row,) = all_rows(run(taken))

    assert row.reason == (
        "Coordinator 1 has transactional id 'app-1' Ongoing at epoch 3 with orders-0 among its partitions, "
        "1 s old, time-out 1 min 0 s."
    )


def test_first_seen_is_kept_while_a_transaction_stays_open() -> None:
    """Memory carries the first sight of a transaction from cycle to cycle, and the latest."""
    taken = snapshot([Entry()], transactions=(listed(),))

    kept = run(taken, memory(remembered())).memory.transactions[KEY]

    assert (kept.first_seen_ms, kept.last_seen_ms) == (NOW_MS - MINUTE_MS, NOW_MS)


def test_a_closed_transaction_is_forgotten_and_an_unread_one_is_not() -> None:
    """Memory drops what a read partition no longer shows, and keeps what could not be looked at."""
    closed = run(snapshot(), memory(remembered())).memory
    unread = run(snapshot(unread=[0]), memory(remembered())).memory

    assert dict(closed.transactions) == {}
    assert dict(unread.transactions) == {KEY: remembered()}


def test_a_transaction_is_remembered_while_no_partition_is_visible() -> None:
    """A cycle whose metadata has no partition proves nothing about it."""
    hidden = snapshot(partitions=0, visibility=Visibility(gaps=("the topic is hidden",)))

    assert dict(run(hidden, memory(remembered())).memory.transactions) == {KEY: remembered()}


def test_an_unread_transaction_is_forgotten_after_a_day() -> None:
    """A partition that can never be read again does not fill the memory for ever."""
    old = remembered(last_seen_ms=NOW_MS - FORGET_UNREAD_AFTER_MS - 1)

    assert dict(run(snapshot(unread=[0]), memory(old)).memory.transactions) == {}


def test_another_cluster_s_memory_is_ignored() -> None:
    """The same topic and producer id in another cluster is another transaction."""
    taken = snapshot([Entry()], transactions=(listed(),))

    result = run(taken, memory(remembered(), cluster_id="cluster-2"))

    assert result.transactions.duration_ms.tolist() == [0]
    assert result.memory.cluster_id == "cluster-1"


def test_another_cluster_s_unread_transactions_are_forgotten() -> None:
    result = run(snapshot(unread=(0,)), memory(remembered(), cluster_id="cluster-2"))

    assert len(result.memory.transactions) == 0


def test_a_transaction_beyond_the_last_partition_is_forgotten() -> None:
    """The topic was made again, with fewer partitions."""
    beyond = RememberedTransactions.of({TransactionKey("orders", 9, 7, 100): remembered()})

    assert len(run(snapshot(), replace(memory(), transactions=beyond)).memory.transactions) == 0


def test_what_is_not_examined_keeps_its_first_time() -> None:
    known = remembered(first_seen_ms=NOW_MS - 9 * MINUTE_MS)

    result = run(without_examination(snapshot([Entry()])), memory(known))

    assert result.memory.transactions[KEY].first_seen_ms == known.first_seen_ms


def test_a_superseded_epoch_stays_superseded() -> None:
    """Its id was found without a transaction at the next epoch, so that what is open there since is not a fence."""
    ended = transaction("Empty", producer_epoch=4, start_ms=None, partitions=frozenset())
    known, verdicts = memory(), []
    for proved in (ended, transaction(producer_epoch=4), transaction(producer_epoch=4)):
        result = run(snapshot([Entry(second_read=SecondRead.UNCHANGED)], proof=proof(transactions=(proved,))), known)
        known = result.memory
        verdicts += [suspect.verdict for suspect in result.suspects]

    assert verdicts == [
        Verdict.HANGING_NOT_IN_TRANSACTION,
        Verdict.HANGING_STALE_EPOCH,
        Verdict.HANGING_STALE_EPOCH,
    ]


def completing(later_ms: int = 0, **fields: Any) -> Snapshot:
    """One open transaction that is decided, as it is found so much later."""
    found = {"transactions": (transaction("PrepareCommit"),), "taken_at_ms": NOW_MS + later_ms, **fields}
    return snapshot([Entry()], **found)


def test_completing_is_timed_from_the_cycle_that_first_saw_it() -> None:
    """A Prepare state is stuck by how long the exporter has seen it, over cycles; any other state restarts the count."""
    first = run(completing())
    ongoing = completing(61_000, transactions=(transaction(),))

    assert first.transactions.verdict.tolist() == [Verdict.COMPLETING]
    assert run(completing(61_000), first.memory).transactions.verdict.tolist() == [Verdict.STUCK_COMPLETING]
    assert run(ongoing, first.memory).memory.transactions[KEY].completing_since_ms is None


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param((), id="its coordinator did not respond"),
        pytest.param((listed("PrepareCommit"),), id="listed only"),
    ],
)
def test_a_cycle_without_the_coordinator_s_response_keeps_how_long_it_is_completing(missing: tuple[Any, ...]) -> None:
    """Otherwise the alert resolves after a coordinator's restart, and pages again."""
    gap = run(completing(30_000, transactions=missing), run(completing()).memory)

    assert gap.transactions.verdict.tolist() == [Verdict.INCONCLUSIVE]
    assert run(completing(61_000), gap.memory).transactions.verdict.tolist() == [Verdict.STUCK_COMPLETING]


@pytest.mark.parametrize(
    ("state", "fields"),
    [("CompleteCommit", {}), ("PrepareCommit", {"start_ms": NOW_MS + 20_000})],
    ids=["it was completed", "its producer's next transaction"],
)
def test_what_contradicts_restarts_how_long_it_is_completing(state: str, fields: dict[str, Any]) -> None:
    between = run(completing(30_000, transactions=(transaction(state, **fields),)), run(completing()).memory)
    later = completing(61_000, transactions=(transaction("PrepareCommit", **fields),))

    assert run(later, between.memory).transactions.verdict.tolist() == [Verdict.COMPLETING]


def test_on_another_machine_the_cluster_s_clock_counts() -> None:
    """Its monotonic clock has another beginning, here 80 days earlier."""
    first = run(completing()).memory.without_monotonic()
    here_ms = MONOTONIC_MS + 80 * 24 * 60 * MINUTE_MS
    soon, later = (run(completing(later_ms, monotonic_ms=here_ms), first) for later_ms in (1_000, 61_000))
    next_one = run(completing(62_000, monotonic_ms=here_ms + 1_000), later.memory)

    assert soon.transactions.verdict.tolist() == [Verdict.COMPLETING]
    assert later.transactions.verdict.tolist() == next_one.transactions.verdict.tolist() == [Verdict.STUCK_COMPLETING]


def test_the_exporter_s_own_clock_does_not_count_over_a_restart() -> None:
    """It may have been set meanwhile; the monotonic clock counts from the restart on."""
    own: dict[str, Any] = {"clock_source": ClockSource.EXPORTER}
    known, verdicts = run(completing(**own)).memory.without_monotonic(), []
    for later_ms in (3_600_000, 3_630_000, 3_661_000):
        result = run(completing(later_ms, **own), known)
        known = result.memory
        verdicts += result.transactions.verdict.tolist()

    assert verdicts == [Verdict.COMPLETING, Verdict.COMPLETING, Verdict.STUCK_COMPLETING]


def test_a_transaction_that_is_only_listed_says_nothing_about_the_clock() -> None:
    """Its start is not known; the other one begins in the future of the exporter's own clock, which is behind."""
    taken = snapshot(
        [Entry()],
        transactions=(listed(producer_id=8), transaction(start_ms=NOW_MS + 10 * MINUTE_MS)),
        clock_source=ClockSource.EXPORTER,
    )

    (suspect,) = run(taken).suspects

    assert suspect.inconclusive_reason is InconclusiveReason.CLOCK_UNVERIFIED


def test_what_was_decided_during_a_cycle_is_completing_from_its_end_on() -> None:
    """The first cycle took 40 s, and it may have been decided in the last of them: it is stuck 60 s after those."""
    first = run(completing(took_ms=40_000))
    verdicts = [run(completing(later_ms), first.memory) for later_ms in (61_000, 101_000)]

    assert [each.transactions.verdict.tolist() for each in verdicts] == [
        [Verdict.COMPLETING],
        [Verdict.STUCK_COMPLETING],
    ]


def test_a_clock_that_becomes_known_makes_nothing_stuck() -> None:
    """The exporter's clock, an hour behind, was used until the controller's was known: only ten seconds have passed."""
    behind: dict[str, Any] = {"clock_source": ClockSource.EXPORTER, "clock_offset_ms": -60 * MINUTE_MS}
    first = run(snapshot([Entry()], transactions=(transaction("PrepareCommit"),), **behind))
    passed: dict[str, Any] = {"taken_at_ms": NOW_MS + 10_000, "monotonic_ms": MONOTONIC_MS + 10_000}

    known = run(snapshot([Entry()], transactions=(transaction("PrepareCommit"),), **passed), first.memory)

    assert known.transactions.verdict.tolist() == [Verdict.COMPLETING]


def test_a_transaction_that_took_a_hang_over_is_watched_from_then_on() -> None:
    """Without the cluster's clock: the hang was watched for an hour, its owner's new transaction has just begun."""
    taken = snapshot([Entry()], transactions=(transaction(start_ms=NOW_MS),), clock_source=ClockSource.EXPORTER)
    for start_ms in (-1, NOW_MS - 90 * MINUTE_MS):
        hung = memory(remembered(watched_from_ms=MONOTONIC_MS - 60 * MINUTE_MS, coordinator_start_ms=start_ms))

        result = run(taken, hung)

        assert result.transactions.verdict.tolist() == [Verdict.OPEN_WITHIN_TIMEOUT]
        assert result.memory.transactions[KEY].watched_from_ms == MONOTONIC_MS


def test_nothing_open_is_nothing_to_say() -> None:
    """An idle cluster gives empty columns of the right length and no suspects."""
    result = run(snapshot())

    assert result.suspects == ()
    assert len(result.transactions.verdict) == 0
    assert np.all(result.partitions.duration_ms_max == 0)
