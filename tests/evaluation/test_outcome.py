"""How a doubtful transaction ended elsewhere: a table, and the phrases that say where that was seen."""

from __future__ import annotations

import pytest

from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.reasons import outcome_seen
from exporter.evaluation.rules import outcome_of
from exporter.evaluation.verdicts import OutcomeEvidence, Policy
from exporter.snapshot import CoordinatorTransaction, EndMarker, EndMarkers, SecondRead
from tests.evaluation.builders import NOW_MS, Entry, evidence, proof, snapshot, transaction

WRITTEN_MS = NOW_MS - 500
COMMITTED, ABORTED, NONE = OutcomeEvidence.COMMITTED, OutcomeEvidence.ABORTED, OutcomeEvidence.NONE


def marker(kind: str, after_ms: int, *, epoch: int = 3, partition: int = 1, producer_id: int = 7) -> EndMarker:
    """On orders-`partition`, that long after the last write on orders-0."""
    return EndMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        topic="orders",
        partition=partition,
        offset=40,
        timestamp_ms=WRITTEN_MS + after_ms,
        commit=kind == "COMMIT",
    )


def completed(kind: str, epoch: int) -> CoordinatorTransaction:
    return transaction(f"Complete{kind}", producer_epoch=epoch, start_time_ms=-1, partitions=frozenset())


@pytest.mark.parametrize(
    ("sentence", "told", "markers", "outcome"),
    [
        ("nobody tells", None, (), NONE),
        ("the id has nothing ended", transaction("Empty", start_time_ms=-1, partitions=frozenset()), (), NONE),
        ("its coordinator committed at this epoch", completed("Commit", 3), (), COMMITTED),
        ("its coordinator aborted at the next epoch", completed("Abort", 4), (), ABORTED),
        ("its coordinator tells of a much later epoch", completed("Commit", 5), (), NONE),
        ("its coordinator tells of an earlier epoch", completed("Commit", 2), (), NONE),
        ("the id is forgotten, and another partition has its COMMIT", None, (marker("COMMIT", 20),), COMMITTED),
        ("the id is forgotten, and another partition has its ABORT", None, (marker("ABORT", 20, epoch=4),), ABORTED),
        (
            "a later epoch is running, and the marker of this one is a COMMIT",
            completed("Abort", 9),
            (marker("COMMIT", 20, epoch=4),),
            COMMITTED,
        ),
        (
            "an ABORT ended it, and a later transaction of the same epoch committed: nobody vouches for the abort",
            None,
            (marker("ABORT", 20), marker("COMMIT", 900)),
            NONE,
        ),
        (
            "a COMMIT ended it, and a later transaction of the same epoch was aborted",
            completed("Abort", 3),
            (marker("COMMIT", 20), marker("ABORT", 900)),
            COMMITTED,
        ),
        (
            "an earlier transaction of the same epoch committed, this one was aborted: nobody vouches for the abort",
            completed("Abort", 3),
            (marker("COMMIT", -900), marker("ABORT", 20)),
            NONE,
        ),
        (
            "an ABORT is nearest, and the coordinator has a commit at this epoch: the commit counts",
            completed("Commit", 3),
            (marker("ABORT", 20),),
            COMMITTED,
        ),
        (
            "its own clock runs ahead of every marker: the last one counts",
            None,
            (marker("ABORT", -900), marker("COMMIT", -20)),
            COMMITTED,
        ),
    ],
)
def test_a_commit_counts_whoever_tells_and_an_abort_needs_that_nobody_does(
    sentence: str,
    told: CoordinatorTransaction | None,
    markers: tuple[EndMarker, ...],
    outcome: OutcomeEvidence,
) -> None:
    """Every source alone and in contradiction."""
    assert outcome_of(evidence(told, end_markers=markers)) is outcome, sentence


def test_where_it_was_seen_can_be_checked() -> None:
    """Coordinator, marker with partition, offset, epoch and time, contradicting markers, and what was not searched."""
    known = evidence(
        completed("Commit", 3),
        end_markers=(marker("ABORT", -1500), marker("COMMIT", 2000)),
        unsearched=("orders-2 could not be searched for its end: broker 2 timed out",),
    )

    assert outcome_seen(known) == (
        "Coordinator 1 has transactional id 'app-1' CompleteCommit at epoch 3",
        "COMMIT marker at epoch 3 on orders-1, offset 40, 2 s after the last write here",
        "this producer also has ABORT markers at these epochs",
        "orders-2 could not be searched for its end: broker 2 timed out",
    )
    assert outcome_seen(evidence(None)) == ()


def test_only_markers_of_this_producer_at_this_epoch_or_the_next_are_evidence() -> None:
    """Another producer's, an earlier epoch's and a later epoch's markers say nothing of this transaction."""
    others = (
        marker("COMMIT", 10, producer_id=8),
        marker("COMMIT", 20, epoch=2),
        marker("COMMIT", 30, epoch=5),
    )
    failures = ((8, "another producer's partition was not searched"), (7, "orders-2 was not searched"))

    def judged(*markers: EndMarker) -> tuple[OutcomeEvidence, tuple[str, ...]]:
        read = snapshot(
            [Entry(second_read=SecondRead.UNCHANGED)],
            proof=proof(),
            end_markers=EndMarkers(markers=markers, failures=failures),
        )
        (row,) = evaluate(read, Memory(), Policy()).suspects
        return row.outcome_evidence, row.outcome_seen

    assert judged(*others) == (NONE, ("orders-2 was not searched",))
    assert judged(*others, marker("COMMIT", 25, epoch=4))[0] is COMMITTED
