"""Only the transaction that was shown is fenced, whatever the coordinator responds in between."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from exporter.kafka.errors import BrokerFault, FaultReason
from exporter.recovery.termination import (
    LAST_EPOCH,
    WAIT_SECONDS,
    Ending,
    Termination,
    refusal_to_terminate,
    terminate,
    what_changed,
)
from exporter.snapshot import TIMEOUT_MS_TWO_PHASE_COMMIT, CoordinatorTransaction, TransactionState
from tests.evaluation.builders import NOW_MS, transaction

SHOWN = transaction()
"""Ongoing at epoch 3."""
ABORTING = replace(SHOWN, state=TransactionState.PREPARE_ABORT, producer_epoch=4)
ABORTED = replace(SHOWN, state=TransactionState.COMPLETE_ABORT, producer_epoch=4)
COMMITTED = replace(SHOWN, state=TransactionState.COMPLETE_COMMIT)
NEXT = replace(SHOWN, start_ms=NOW_MS)
NEWER = replace(NEXT, producer_epoch=5)
COMMITTING = replace(SHOWN, state=TransactionState.PREPARE_COMMIT, producer_epoch=4)
LATER_COMMITTED = replace(NEWER, state=TransactionState.COMPLETE_COMMIT)
LATER_ABORTED = replace(NEWER, state=TransactionState.COMPLETE_ABORT)
MOVED = replace(SHOWN, coordinator=2)
"""The next coordinator has not got the fence."""
CONCURRENT = "CONCURRENT_TRANSACTIONS"
LOST = BrokerFault(FaultReason.CONNECTION_LOST, "broker 1 hung up")
Listing = CoordinatorTransaction | BaseException
Answer = str | BaseException | None


class CoordinatorStandIn:
    """Says what `looks` hold, one after the other, the last again and again; counts what it is asked to fence."""

    def __init__(self, looks: Sequence[Listing], answers: Sequence[Answer] = (CONCURRENT,)) -> None:
        self._looks = list(looks)
        self._answers = list(answers)
        self.fenced: list[CoordinatorTransaction] = []

    def look(self) -> CoordinatorTransaction:
        listed = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if isinstance(listed, BaseException):
            raise listed
        return listed

    def fence(self, shown: CoordinatorTransaction) -> str | CoordinatorTransaction | None:
        now = self.look()
        if what_changed(shown, now) is not None:
            return now
        self.fenced.append(now)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def run(coordinator: CoordinatorStandIn) -> Termination:
    clock = Clock()
    ended = terminate(SHOWN, coordinator, clock=clock, sleep=clock.sleep)
    assert clock.now <= WAIT_SECONDS + 1
    return ended


@pytest.mark.parametrize(
    ("looks", "answers", "ending", "fences"),
    [
        ([SHOWN, ABORTING, ABORTED], [CONCURRENT], Ending.ABORTED, 1),
        ([SHOWN, LOST, ABORTED], [CONCURRENT], Ending.ABORTED, 1),
        ([SHOWN, SHOWN, SHOWN, ABORTED], [CONCURRENT], Ending.ABORTED, 2),
        ([SHOWN, COMMITTED], [CONCURRENT], Ending.OVER, 1),
        ([SHOWN, replace(ABORTED, producer_epoch=3)], [CONCURRENT], Ending.OVER, 1),
        ([SHOWN, replace(ABORTED, producer_id=8, producer_epoch=0)], [CONCURRENT], Ending.ABORTED, 1),
        ([SHOWN, replace(ABORTING, start_ms=NOW_MS)], [CONCURRENT], Ending.OVER, 1),
        ([SHOWN, ABORTING, NEWER], [CONCURRENT], Ending.ABORTED, 1),
        ([SHOWN, ABORTING, LATER_COMMITTED], [CONCURRENT], Ending.ABORTED, 1),
        ([SHOWN, COMMITTING, LATER_ABORTED], [CONCURRENT], Ending.OVER, 1),
        ([SHOWN, LATER_COMMITTED], [CONCURRENT], Ending.OVER, 1),
        ([SHOWN, LATER_ABORTED], [CONCURRENT], Ending.OVER, 1),
        ([SHOWN, LOST], [CONCURRENT], Ending.FAILED, 1),
        ([SHOWN, NEXT], [CONCURRENT], Ending.OVER, 1),
        ([SHOWN, ABORTING], [CONCURRENT], Ending.FAILED, 1),
        ([SHOWN, ABORTED], [LOST], Ending.ABORTED, 1),
        ([SHOWN, LOST, ABORTING, NEWER], [LOST], Ending.ABORTED, 1),
        ([SHOWN, COMMITTED], [LOST], Ending.OVER, 1),
        ([SHOWN, LOST], [LOST], Ending.FAILED, 1),
        ([SHOWN, SHOWN, SHOWN, ABORTED], [LOST, CONCURRENT], Ending.ABORTED, 2),
        ([LOST, SHOWN, SHOWN, ABORTED], [CONCURRENT], Ending.ABORTED, 1),
        ([SHOWN, replace(ABORTED, coordinator=2)], ["NOT_COORDINATOR"], Ending.ABORTED, 1),
        ([SHOWN, SHOWN, SHOWN, ABORTED], ["COORDINATOR_NOT_AVAILABLE", CONCURRENT], Ending.ABORTED, 2),
        ([SHOWN, MOVED], [CONCURRENT], Ending.FAILED, 1),
        ([SHOWN], [None], Ending.OVER, 1),
        ([SHOWN], ["PRODUCER_FENCED"], Ending.REFUSED, 1),
        ([SHOWN], ["INVALID_PRODUCER_EPOCH"], Ending.REFUSED, 1),
        ([SHOWN], ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"], Ending.REFUSED, 1),
        ([NEWER], [CONCURRENT], Ending.REFUSED, 0),
        ([NEXT], [CONCURRENT], Ending.REFUSED, 0),
        ([COMMITTED], [CONCURRENT], Ending.REFUSED, 0),
        ([replace(SHOWN, coordinator=2)], [CONCURRENT], Ending.REFUSED, 0),
        ([replace(SHOWN, producer_id=8)], [CONCURRENT], Ending.REFUSED, 0),
        ([replace(SHOWN, producer_epoch=4)], [CONCURRENT], Ending.REFUSED, 0),
        ([replace(SHOWN, timeout_ms=1)], [CONCURRENT], Ending.REFUSED, 0),
    ],
)
def test_how_a_termination_ends(looks: list[Listing], answers: list[Answer], ending: Ending, fences: int) -> None:
    """Each way, and how often something was fenced on it. What a lost response did is read."""
    coordinator = CoordinatorStandIn(looks, answers)

    assert run(coordinator).ending is ending
    assert len(coordinator.fenced) == fences


def test_only_an_ongoing_transaction_without_two_phase_commit_may_be_fenced() -> None:
    """A decision stays, and a prepared transaction is decided by its transaction manager alone."""
    prepared = replace(SHOWN, timeout_ms=TIMEOUT_MS_TWO_PHASE_COMMIT)

    assert refusal_to_terminate(SHOWN) is None
    assert "'app-1' is prepared for two-phase commit" in (refusal_to_terminate(prepared) or "")
    for state in set(TransactionState) - {TransactionState.ONGOING}:
        why = f"only an Ongoing transaction can be terminated, and 'app-1' is {state.value}"
        assert refusal_to_terminate(replace(SHOWN, state=state)) == why


NOBODY_SAW = "has ended, how was not seen; its coordinator has continued with"


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ([SHOWN, LATER_COMMITTED], f"{NOBODY_SAW} CompleteCommit at epoch 5, which was not changed"),
        ([SHOWN, LATER_ABORTED], f"{NOBODY_SAW} CompleteAbort at epoch 5, which was not changed"),
        ([SHOWN, replace(LATER_COMMITTED, producer_id=9)], f"{NOBODY_SAW} CompleteCommit"),
        (
            [SHOWN, ABORTING, LATER_COMMITTED],
            "is aborted, and its producer fenced, unless it has aborted it itself; its",
        ),
        (
            [SHOWN, COMMITTING, LATER_ABORTED],
            "its producer committed it in the meantime; its coordinator has continued",
        ),
        ([SHOWN, replace(ABORTED, producer_epoch=3)], "has ended: its producer aborted it"),
        ([SHOWN, LOST], "is not known after 30 s (the last request failed: broker 1 hung up): see `describe`"),
        ([SHOWN, MOVED], "'app-1' is still open, its coordinator was 1 and is 2: run the command again"),
        ([SHOWN, LOST, ABORTING], "was still completing 'app-1' after 30 s: its markers are not written"),
        (
            [SHOWN],
            "the coordinator still had 'app-1' as Ongoing, and did not fence its producer, after 30 s: try again",
        ),
    ],
)
def test_nothing_is_said_that_was_not_seen(looks: list[Listing], said: str) -> None:
    """Another transaction's end is not this one's, and a read that has succeeded is the last one."""
    assert said in run(CoordinatorStandIn(looks, [CONCURRENT])).sentence


def test_nothing_newer_is_ever_fenced() -> None:
    """Every sequence of four states and responses: only what was shown is fenced, and nothing after it was seen changed."""
    possible: list[Listing] = [SHOWN, ABORTING, ABORTED, COMMITTED, NEXT, NEWER, MOVED, LOST]
    ran = 0
    for looks in itertools.product(possible, repeat=4):
        for answer in (CONCURRENT, None, "PRODUCER_FENCED", LOST):
            coordinator = CoordinatorStandIn(looks, [answer])
            run(coordinator)
            assert all(fenced == SHOWN for fenced in coordinator.fenced)
            ran += 1

    assert ran == 4 * 8**4


def test_a_fence_that_was_not_sent_is_no_lost_response() -> None:
    """A broker that does not offer the API has fenced nothing, and never will."""
    coordinator = CoordinatorStandIn([SHOWN], [BrokerFault(FaultReason.UNSUPPORTED_API, "broker 1 is too old")])

    with pytest.raises(BrokerFault, match="too old"):
        run(coordinator)
    assert len(coordinator.fenced) == 1


def test_the_last_epoch_is_named_as_the_cause() -> None:
    """Kafka before 4.3 refuses with an error that says nothing; at another epoch it stays as it is."""
    for epoch, words in ((LAST_EPOCH, "KAFKA-20090"), (LAST_EPOCH - 1, "refused with UNKNOWN_SERVER_ERROR")):
        shown = replace(SHOWN, producer_epoch=epoch)
        ended = terminate(shown, CoordinatorStandIn([shown], ["UNKNOWN_SERVER_ERROR"]))

        assert ended.ending is Ending.FAILED
        assert words in ended.sentence
