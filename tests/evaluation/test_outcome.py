"""How a doubtful transaction ended: a table, and the phrases that say where that was seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.outcome import outcome_of
from exporter.evaluation.reasons import _MISSING, outcome_in_words, outcome_seen
from exporter.evaluation.verdicts import InconclusiveReason, OutcomeEvidence, Policy
from exporter.snapshot import CoordinatorTransaction, EndMarker, EndMarkers, SecondRead
from tests.evaluation.builders import NOW_MS, Entry, evidence, proof, snapshot, transaction
from tests.publication.builders import hanging

WRITTEN_MS = NOW_MS - 500
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
COMMITTED, ABORTED, NONE = OutcomeEvidence.COMMITTED, OutcomeEvidence.ABORTED, OutcomeEvidence.NONE


def marker(
    kind: str, after_ms: int, *, epoch: int = 3, ended: int | None = None, partition: int = 1, producer_id: int = 7
) -> EndMarker:
    """On orders-`partition`, that long after the last write on orders-0; it ended records of epoch `ended`."""
    return EndMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        ended_epoch=ended,
        topic="orders",
        partition=partition,
        offset=40,
        timestamp_ms=WRITTEN_MS + after_ms,
        commit=kind == "COMMIT",
    )


BEGUN = marker("COMMIT", -900, epoch=3, ended=2)
"""The commit that began epoch 3: the producer has an epoch for each transaction (TransactionVersion 2)."""
ITS_ABORT = marker("ABORT", 20, epoch=4, ended=3)


def completed(kind: str, epoch: int) -> CoordinatorTransaction:
    return transaction(f"Complete{kind}", producer_epoch=epoch, start_ms=None, partitions=frozenset())


@pytest.mark.parametrize(
    ("sentence", "listed", "markers", "outcome"),
    [
        ("no source", None, (), NONE),
        ("the id has nothing ended", transaction("Empty", start_ms=None, partitions=frozenset()), (), NONE),
        ("its coordinator committed at this epoch", completed("Commit", 3), (), COMMITTED),
        ("its coordinator committed at the next epoch", completed("Commit", 4), (), COMMITTED),
        ("its coordinator aborted, and the epoch may be shared", completed("Abort", 3), (), NONE),
        ("its coordinator shows a much later epoch", completed("Commit", 5), (), NONE),
        ("its coordinator shows an earlier epoch", completed("Commit", 2), (), NONE),
        ("another partition has a COMMIT", None, (marker("COMMIT", 20),), COMMITTED),
        ("another partition has a COMMIT of its records", None, (marker("COMMIT", 20, ended=3),), COMMITTED),
        ("its own partition has a COMMIT", None, (marker("COMMIT", -20, ended=3, partition=0),), COMMITTED),
        ("a COMMIT of the next epoch", None, (marker("COMMIT", 20, epoch=4),), COMMITTED),
        ("the epoch before was committed", None, (BEGUN,), NONE),
        ("a COMMIT of later records", None, (marker("COMMIT", 20, epoch=4, ended=4),), NONE),
        ("an ABORT of an epoch that may be shared", None, (marker("ABORT", 20, ended=3),), NONE),
        ("an ABORT of the next epoch: a time-out", None, (marker("ABORT", 20, epoch=4, ended=3),), NONE),
        ("its own epoch, and its ABORT", None, (BEGUN, ITS_ABORT), ABORTED),
        ("its own epoch, and an ABORT by hand on another partition", None, (BEGUN, marker("ABORT", 20, ended=3)), NONE),
        (
            "the epoch seemed its own, and a transaction of it ended without a new one: the commit may be its own",
            completed("Commit", 3),
            (BEGUN, marker("ABORT", 20, ended=3)),
            COMMITTED,
        ),
        ("its own epoch, a fence and a time-out", None, (BEGUN, marker("ABORT", 20, epoch=5, ended=3)), ABORTED),
        ("its own epoch, and its coordinator aborted", completed("Abort", 4), (BEGUN,), ABORTED),
        ("its own epoch, and its coordinator is at it: the one before", completed("Abort", 3), (BEGUN,), NONE),
        ("the same committed", completed("Commit", 3), (BEGUN,), NONE),
        ("its own epoch, an ABORT and a COMMIT", None, (BEGUN, ITS_ABORT, marker("COMMIT", 9, ended=3)), COMMITTED),
        ("its own epoch and a COMMIT that ended nothing seen", None, (BEGUN, ITS_ABORT, marker("COMMIT", 9)), ABORTED),
        ("an ABORT began the epoch: a fence", None, (marker("ABORT", -9, epoch=3, ended=2), ITS_ABORT), NONE),
        (
            "a later epoch is running, and the marker of this one is a COMMIT",
            completed("Abort", 9),
            (marker("COMMIT", 20, epoch=4),),
            COMMITTED,
        ),
        ("an ABORT, and a later COMMIT of the epoch", None, (marker("ABORT", 20), marker("COMMIT", 900)), COMMITTED),
        (
            "an earlier COMMIT of the epoch",
            completed("Abort", 3),
            (marker("COMMIT", -900), marker("ABORT", 20)),
            COMMITTED,
        ),
        ("its coordinator has a commit", completed("Commit", 3), (marker("ABORT", 20),), COMMITTED),
    ],
)
def test_a_commit_counts_from_any_source_and_an_abort_is_proved(
    sentence: str,
    listed: CoordinatorTransaction | None,
    markers: tuple[EndMarker, ...],
    outcome: OutcomeEvidence,
) -> None:
    """Every source alone and in contradiction."""
    assert outcome_of(evidence(listed, end_markers=markers)) is outcome, sentence


@pytest.mark.parametrize(
    "gap",
    [
        {"was_searched": False},
        {"unsearched": ("orders-2 could not be searched for the transaction's marker: broker 2 timed out",)},
        {"lost": ("orders-2 has no records before offset 4 any more",)},
    ],
)
def test_nothing_is_called_aborted_while_a_commit_may_be_unseen(gap: dict[str, Any]) -> None:
    """Not searched, not searched everywhere, or not there any more; a commit that is seen counts all the same."""
    listed = completed("Abort", 4)

    assert outcome_of(evidence(listed, end_markers=(BEGUN, ITS_ABORT))) is ABORTED
    unsure = evidence(listed, end_markers=(BEGUN, ITS_ABORT), **gap)
    assert outcome_of(unsure) is NONE
    sentences = [sentence for given in gap.values() if given for sentence in given] or [
        "the logs were not searched for the transaction's marker"
    ]
    assert list(outcome_seen(unsure))[-1:] == sentences
    assert outcome_of(evidence(listed, end_markers=(marker("COMMIT", 9, ended=3),), **gap)) is COMMITTED


@pytest.mark.parametrize(
    ("written_ms", "kept_ms", "outcome"),
    [
        (WRITTEN_MS, DAY_MS, ABORTED),
        (NOW_MS - 22 * HOUR_MS, DAY_MS, ABORTED),
        (NOW_MS - 23 * HOUR_MS, DAY_MS, NONE),
        (NOW_MS - 30 * DAY_MS, DAY_MS, NONE),
        (NOW_MS + HOUR_MS, DAY_MS, ABORTED),
        (NOW_MS + HOUR_MS + 1, DAY_MS, NONE),
        (-1, DAY_MS, NONE),
        (WRITTEN_MS, None, NONE),
        (WRITTEN_MS, HOUR_MS, NONE),
    ],
)
def test_a_partition_may_have_forgotten_the_producer(
    written_ms: int, kept_ms: int | None, outcome: OutcomeEvidence
) -> None:
    """A day after its end there a producer is forgotten: older or implausible last writes leave nothing to go by."""
    read = snapshot(
        [Entry(second_read=SecondRead.UNCHANGED, last_timestamp_ms=written_ms)],
        proof=proof(),
        end_markers=EndMarkers(markers=(BEGUN, ITS_ABORT), producers_kept_ms=kept_ms),
    )
    (row,) = evaluate(read, Memory(), Policy()).suspects

    assert row.outcome_evidence is outcome
    assert row.outcome_unsearched == ()


def test_where_it_was_seen_can_be_checked() -> None:
    """Coordinator, marker with partition, offset, epoch and time, contradicting markers, and what was not searched."""
    known = evidence(
        completed("Commit", 3),
        end_markers=(marker("ABORT", -1500), marker("COMMIT", 2000)),
        unsearched=("orders-2 could not be searched for the transaction's marker: broker 2 timed out",),
    )

    assert outcome_seen(known) == (
        "Coordinator 1 has transactional id 'app-1' CompleteCommit at epoch 3",
        "COMMIT marker at epoch 3 on orders-1, offset 40, 2 s after the last write here",
        "ABORT marker at epoch 3 on orders-1, offset 40, 2 s before the last write here",
        "orders-2 could not be searched for the transaction's marker: broker 2 timed out",
    )
    assert outcome_seen(evidence(None)) == ()
    assert outcome_seen(evidence(None, end_markers=(marker("ABORT", 0),))) == (
        "ABORT marker at epoch 3 on orders-1, offset 40, 0 s after the last write here",
        "other transactions may have used epoch 3 too, so the ABORT may be of another transaction",
    )


def test_that_nothing_was_seen_of_it_is_not_said_where_a_commit_may_be_forgotten() -> None:
    """The operator who is asked to agree to an abort reads that the outcome can no longer be known."""
    lost = "more than the 24 h after which partitions forget a producer may have passed"

    assert outcome_seen(evidence(None, lost=(lost,))) == (lost,)


def test_an_outcome_that_is_not_known_is_not_called_none() -> None:
    """A sentence for each gap says what is needed; without a gap the word is all."""
    gap = "some coordinators may be unknown: not authorized, needs DESCRIBE on topic __transaction_state"
    row = replace(hanging(), outcome_seen=(gap, "orders-2 could not be searched"))

    assert outcome_in_words(row) == f"unknown. S{gap[1:]}. orders-2 could not be searched."
    assert outcome_in_words(replace(row, outcome_seen=())) == "unknown."


def test_the_reason_of_an_unverified_transaction_has_one_colon() -> None:
    """`Unverified: cause; advice`: which part explains which must not be guessed."""
    assert _MISSING.keys() == set(InconclusiveReason)
    assert [reason for reason, words in _MISSING.items() if ":" in words] == []


def test_only_markers_of_this_producer_at_this_epoch_or_the_next_are_evidence() -> None:
    """Another producer's, an earlier epoch's and a later epoch's markers say nothing of this transaction."""
    others = (
        marker("COMMIT", 10, producer_id=8),
        marker("COMMIT", 20, epoch=2),
        marker("COMMIT", 30, epoch=5),
    )
    unread = ((8, "another producer's partition was not searched"), (7, "orders-2 was not searched"))

    def judged(*markers: EndMarker) -> tuple[OutcomeEvidence, tuple[str, ...]]:
        read = snapshot(
            [Entry(second_read=SecondRead.UNCHANGED)],
            proof=proof(),
            end_markers=EndMarkers(markers=markers, unread=unread, producers_kept_ms=DAY_MS),
        )
        (row,) = evaluate(read, Memory(), Policy()).suspects
        return row.outcome_evidence, row.outcome_seen

    assert judged(*others) == (NONE, ("orders-2 was not searched",))
    assert judged(*others, marker("COMMIT", 25, epoch=4))[0] is COMMITTED
