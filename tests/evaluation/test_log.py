"""The evaluation uses starts, decisions, names and outcomes of the transaction log. The log proves no hang."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import OutcomeEvidence, Policy, StartSource, TransactionRow, Verdict
from exporter.snapshot import SecondRead, Snapshot
from exporter.snapshot import TransactionState as State
from exporter.transaction_log.events import Outcome
from exporter.transaction_log.journal import NO_JOURNAL, EndedTransaction, Journal, LoggedProducer
from exporter.transaction_log.records import TransactionRecord
from tests.evaluation.builders import MINUTE_MS, NOW_MS, Entry, listed, proof, snapshot, transaction
from tests.transaction_log.builders import record

HERE = ("orders", 0)
STARTED_MS = NOW_MS - 5 * MINUTE_MS


def latest(status: State = State.ONGOING, **fields: Any) -> TransactionRecord:
    known: dict[str, Any] = {"transactional_id": "app-1", "last_update_ms": STARTED_MS, "start_ms": STARTED_MS}
    return record(status, **{**known, **fields})


def journal(**fields: Any) -> Journal:
    """The journal of producer 7, whose transaction is open on orders-0."""
    known: dict[str, Any] = {"transactional_id": "app-1", "is_former": False, "latest": latest(), "open_epoch": 3}
    return Journal(MappingProxyType({7: LoggedProducer(**{**known, **fields})}))


def row_of(taken: Snapshot, log: Journal, memory: Memory | None = None) -> TransactionRow:
    (row,) = all_rows(evaluate(taken, memory or Memory(), Policy(), log))
    return row


@pytest.mark.parametrize(
    ("sentence", "log", "start_ms", "source"),
    [
        ("it is open here in the log", journal(), STARTED_MS, StartSource.TRANSACTION_LOG),
        ("no log", NO_JOURNAL, NOW_MS, StartSource.FIRST_SEEN),
        ("another epoch", journal(open_epoch=2), NOW_MS, StartSource.FIRST_SEEN),
        ("open elsewhere", journal(latest=latest(partitions=frozenset())), NOW_MS, StartSource.FIRST_SEEN),
        ("no start", journal(latest=latest(start_ms=-1)), NOW_MS, StartSource.FIRST_SEEN),
        ("the log is behind", journal(latest=None, open_epoch=-1), NOW_MS, StartSource.FIRST_SEEN),
    ],
)
def test_the_start_of_a_transaction_that_was_not_described(
    sentence: str, log: Journal, start_ms: int, source: StartSource
) -> None:
    """First seen in this cycle, so its coordinator was not requested: the transaction log has its start."""
    row = row_of(snapshot([Entry()], transactions=(listed(),)), log)

    assert (row.start_ms, row.start_source) == (start_ms, source), sentence


def test_the_coordinator_s_own_word_comes_first() -> None:
    """A description is newer than the log."""
    row = row_of(snapshot([Entry()], transactions=(transaction(),)), journal())

    assert row.start_source is StartSource.COORDINATOR


def test_a_hang_is_not_as_old_as_what_the_log_has_open() -> None:
    """The log may be a moment behind: the start of a hang is that of its partition, or its first sight."""
    listed = transaction("Empty", start_ms=None, partitions=frozenset())
    hang = snapshot(
        [Entry(second_read=SecondRead.UNCHANGED)], transactions=(listed,), proof=proof(transactions=(listed,))
    )

    row = row_of(hang, journal())

    assert row.verdict is Verdict.HANGING_NOT_IN_TRANSACTION
    assert row.start_source is not StartSource.TRANSACTION_LOG


@pytest.mark.parametrize(
    ("sentence", "log", "verdict"),
    [
        (
            "decided long ago",
            journal(latest=latest(State.PREPARE_COMMIT), prepared_ms=STARTED_MS),
            "stuck_completing",
        ),
        ("no log", NO_JOURNAL, "completing"),
        (
            "decided just now",
            journal(latest=latest(State.PREPARE_COMMIT), prepared_ms=NOW_MS - 1),
            "completing",
        ),
        (
            "another transaction of this producer was",
            journal(latest=latest(State.PREPARE_COMMIT, start_ms=1), prepared_ms=STARTED_MS),
            "completing",
        ),
        ("the log is behind, and has no decision yet", journal(prepared_ms=-1), "completing"),
    ],
)
def test_since_when_it_completes(sentence: str, log: Journal, verdict: str) -> None:
    """Seen completing for ten seconds; the log has the exact beginning, of this very transaction."""
    preparing = transaction("PrepareCommit", start_ms=STARTED_MS)
    earlier = snapshot([Entry()], transactions=(preparing,), taken_at_ms=NOW_MS - 10_000)
    first = evaluate(earlier, Memory(), Policy(), log)
    now = snapshot([Entry()], transactions=(preparing,))

    assert Verdict.ranked(int(first.transactions.verdict[0])) is Verdict.COMPLETING, "once is not enough: clocks differ"
    assert row_of(now, log, first.memory).verdict.label == verdict, sentence


def test_one_cycle_that_sees_it_decided_is_not_enough() -> None:
    """It was seen open before, and decided long ago by the log: the coordinator's clock may be behind."""
    log = journal(latest=latest(State.PREPARE_COMMIT), prepared_ms=STARTED_MS)
    earlier = snapshot([Entry()], transactions=(transaction(start_ms=STARTED_MS),), taken_at_ms=NOW_MS - 10_000)
    now = snapshot([Entry()], transactions=(transaction("PrepareCommit", start_ms=STARTED_MS),))

    first = evaluate(earlier, Memory(), Policy(), log)

    assert row_of(now, log, first.memory).verdict is Verdict.COMPLETING


def nobody_lists_it() -> Snapshot:
    return snapshot([Entry(second_read=SecondRead.UNCHANGED)], proof=proof())


def test_a_producer_id_that_no_coordinator_lists_has_its_former_name() -> None:
    """In the row and in its sentence, which names the source."""
    row = row_of(nobody_lists_it(), journal(is_former=True, latest=None, open_epoch=-1))
    nameless = row_of(nobody_lists_it(), NO_JOURNAL)

    assert (row.verdict, row.transactional_id) == (Verdict.HANGING_NO_TRANSACTIONAL_ID, "app-1")
    assert "The transaction log has this producer id under transactional id 'app-1'" in row.reason
    assert (nameless.verdict, nameless.transactional_id) == (Verdict.HANGING_NO_TRANSACTIONAL_ID, None)
    assert "log" not in nameless.reason


@pytest.mark.parametrize(
    ("decided_ms", "epoch", "outcome"),
    [
        (STARTED_MS - 1, 3, OutcomeEvidence.NONE),
        (STARTED_MS + 1, 3, OutcomeEvidence.COMMITTED),
        (STARTED_MS - 1, 2, OutcomeEvidence.COMMITTED),
    ],
    ids=["another one began here later", "the log has it open, and its end", "one of another epoch is open"],
)
def test_the_commit_before_is_not_that_of_the_transaction_that_is_open_in_the_log(
    decided_ms: int, epoch: int, outcome: OutcomeEvidence
) -> None:
    """An older client commits all day at one epoch: each of its transactions "was committed" while it was open."""
    past = EndedTransaction(producer_epoch=3, start_ms=-1, decided_ms=decided_ms, outcome=Outcome.COMMITTED)
    log = journal(open_epoch=epoch, ended=MappingProxyType({HERE: past}))

    row = row_of(nobody_lists_it(), log)

    assert row.outcome_evidence is outcome
    assert bool(row.outcome_seen) == (outcome is OutcomeEvidence.COMMITTED)


@pytest.mark.parametrize(
    ("ended", "epoch", "outcome", "phrase"),
    [
        (Outcome.COMMITTED, 3, OutcomeEvidence.COMMITTED, "ended with a commit, 2 s after the last write here"),
        (Outcome.ABORTED, 3, OutcomeEvidence.NONE, "ended with an abort, 2 s after the last write here"),
        (Outcome.TIMED_OUT, 3, OutcomeEvidence.NONE, "ended with a time-out, 2 s after the last write here"),
        (
            Outcome.FENCED,
            3,
            OutcomeEvidence.NONE,
            "ended with a fence by a newer producer, 2 s after the last write here",
        ),
        (Outcome.COMMITTED, 2, OutcomeEvidence.NONE, ""),
    ],
)
def test_how_it_ended_by_the_log(ended: Outcome, epoch: int, outcome: OutcomeEvidence, phrase: str) -> None:
    """The newest transaction of this epoch on this partition: it may be another one, so only a commit of it counts."""
    past = EndedTransaction(producer_epoch=epoch, start_ms=STARTED_MS, decided_ms=NOW_MS + 1500, outcome=ended)
    log = journal(latest=None, is_former=True, ended=MappingProxyType({HERE: past}))

    row = row_of(nobody_lists_it(), log)

    assert row.outcome_evidence is outcome
    assert phrase in "; ".join(row.outcome_seen)
    assert bool(row.outcome_seen) == bool(phrase)
