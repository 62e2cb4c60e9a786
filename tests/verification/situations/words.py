"""Says which verdicts and reasons of the exporter are right for a truth of HangBench."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exporter.evaluation.verdicts import InconclusiveReason, Verdict
from hangbench.situations.words import PASSING, UNREADABLE, Expected, Lacking, Truth

INVISIBLE: Final = "invisible"
UNREAD: Final = {
    Lacking.READ_DENIED: "TOPIC_AUTHORIZATION_FAILED",
    Lacking.NO_LEADER: "no_leader",
    Lacking.TOPIC_HIDDEN: INVISIBLE,
}
VERDICTS: Final = {
    Truth.HANGING: Verdict.HANGING_NOT_IN_TRANSACTION,
    Truth.LIVE: Verdict.OPEN_WITHIN_TIMEOUT,
    Truth.FENCED: Verdict.OPEN_WITHIN_TIMEOUT,
    Truth.COMPLETING: Verdict.COMPLETING,
    Truth.STUCK: Verdict.STUCK_COMPLETING,
    Truth.JUST_PAST: Verdict.OPEN_WITHIN_TIMEOUT,
    Truth.OVERDUE: Verdict.OVERDUE_AT_COORDINATOR,
}
VERDICTS_IN: Final = {
    "older epoch": Verdict.HANGING_STALE_EPOCH,
    "id expired": Verdict.HANGING_NO_TRANSACTIONAL_ID,
    "prepared for two phase commit": Verdict.PREPARED_TWO_PHASE_COMMIT,
}
"""The verdict on every transaction of a situation, where the truth alone does not say which."""
MAY_SHOW: Final = {
    "rapid commits": frozenset({Verdict.OPEN_WITHIN_TIMEOUT, Verdict.COMPLETING}),
    "topic deleted in mid proof": frozenset({Verdict.INCONCLUSIVE}),
}
"""Verdicts of transactions that come and go: not expected, not surprising."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RightAnswer:
    """What the exporter must say of one transaction."""

    verdicts: frozenset[Verdict]
    """In the last cycle; empty where no row may be shown."""
    first: frozenset[Verdict]
    """In the first cycle; empty where every verdict except a false hanging is right."""
    reasons: frozenset[InconclusiveReason]
    """Where inconclusive: why."""
    unread: str | None
    """Why its partition cannot be read, INVISIBLE if its topic is not visible; None if it can be read."""


def right_answer(situation: str, expected: Expected) -> RightAnswer:
    reasons = frozenset(InconclusiveReason[lacking.name] for lacking in expected.lacking - UNREADABLE - PASSING)
    right = verdict_on(situation, expected) if expected.is_known else None
    unsure = Verdict.INCONCLUSIVE if reasons else None
    return RightAnswer(
        verdicts=frozenset(verdict for verdict in (right, unsure) if verdict is not None),
        first=_first(expected),
        reasons=reasons,
        unread=next((UNREAD[lacking] for lacking in expected.lacking & UNREADABLE), None),
    )


def verdict_on(situation: str, expected: Expected) -> Verdict | None:
    """The right verdict on complete evidence; None where nothing is open."""
    if expected.truth is Truth.CLOSED:
        return None
    if situation in VERDICTS_IN:
        return VERDICTS_IN[situation]
    if expected.truth is Truth.HANGING and expected.transactional_id is None:
        return Verdict.HANGING_NO_TRANSACTIONAL_ID
    return VERDICTS[expected.truth]


def _first(expected: Expected) -> frozenset[Verdict]:
    """What changes between two reads of it may not be called anything."""
    if expected.truth in {Truth.STUCK, Truth.COMPLETING}:
        return frozenset({Verdict.COMPLETING})
    return frozenset({Verdict.INCONCLUSIVE} if Lacking.CHANGED_BETWEEN_READS in expected.lacking else ())
