"""Carrying out a plan: read once more, write one marker, and read until it is plain what has become of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from exporter.kafka.errors import BrokerFault, ClusterUnavailableError, ErrorCode
from exporter.kafka.inquiry import Inquiry
from exporter.kafka.markers import MarkerAnswer, MarkerOutcome, write_marker
from exporter.kafka.offsets import latest_offsets
from exporter.kafka.questions import ProducerEntry, RefusedError, leader_of, producers_of
from exporter.recovery.audit import AuditError, AuditLog
from exporter.recovery.plan import Action, Plan, document, is_open, is_unchanged
from exporter.snapshot import UNKNOWN_OFFSET

T = TypeVar("T")

CHECK_SECONDS = 10.0
"""How long the partition is read for the marker's effect."""
POLL_SECONDS = 0.2

EXPLANATIONS = {
    ErrorCode.INVALID_PRODUCER_EPOCH.name: (
        "the partition has seen a newer epoch of this producer: it is alive; look again with find-hanging"
    ),
    ErrorCode.TRANSACTION_COORDINATOR_FENCED.name: (
        "the partition remembers a newer coordinator epoch: its coordinator has written meanwhile; look again"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name: (
        "we may not write markers: grant ALTER (Kafka 3.8 and later) or CLUSTER_ACTION on the cluster to this principal"
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER.name: "the partition's leader has just moved; look again",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name: "the partition is gone",
}


class Asks(Protocol):
    """What is needed of a Collector."""

    def inquire(self, question: Callable[[Inquiry], Coroutine[Any, Any, T]]) -> T: ...


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a plan. `is_done` only when the transaction was seen to be gone."""

    is_done: bool
    sentence: str


def carry_out(
    plan: Plan,
    asks: Asks,
    audit: AuditLog,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """Write the plan's marker, once, and say what is to be seen afterwards.

    Raises AuditError before anything is written; after that a failing audit log is told in the result.
    """
    try:
        before = _read(plan, asks)
    except (BrokerFault, RefusedError, ClusterUnavailableError) as error:
        return _end(audit, plan, Result(is_done=False, sentence=f"nothing was written: {error}"))
    if not is_unchanged(plan, before):
        changed = "nothing was written: the transaction has changed or ended since it was judged"
        return _end(audit, plan, Result(is_done=False, sentence=changed))
    stable_before = _last_stable_offset(plan, asks)
    audit.step("sending", plan=document(plan), last_stable_offset=stable_before)
    answer = asks.inquire(lambda inquiry: _send(inquiry, plan))
    with suppress(AuditError):  # the end is logged as well, and says so when it cannot be
        audit.step("answered", outcome=answer.outcome.value, detail=answer.detail)
    if answer.outcome is MarkerOutcome.REFUSED:
        why = EXPLANATIONS.get(answer.detail, "look again with find-hanging")
        return _end(
            audit, plan, Result(is_done=False, sentence=f"the broker refused the marker ({answer.detail}): {why}")
        )
    return _end(audit, plan, _check(plan, asks, answer, stable_before, clock, sleep))


async def _send(inquiry: Inquiry, plan: Plan) -> MarkerAnswer:
    try:
        leader = await leader_of(inquiry, plan.row.topic, plan.row.partition)
    except (RefusedError, ClusterUnavailableError) as error:
        return MarkerAnswer(MarkerOutcome.REFUSED, str(error))
    return await write_marker(inquiry, leader, plan.marker)


def _check(
    plan: Plan,
    asks: Asks,
    answer: MarkerAnswer,
    stable_before: int,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Result:
    """Read the partition until the transaction is gone, or for long enough."""
    until = clock() + CHECK_SECONDS
    failure = ""
    while True:
        try:
            if not is_open(plan, _read(plan, asks)):
                return _gone(plan, asks, stable_before)
        except (BrokerFault, RefusedError, ClusterUnavailableError) as error:
            failure = f" (the last look failed: {error})"
        if clock() >= until:
            break
        sleep(POLL_SECONDS)
    unclear = "" if answer.outcome is MarkerOutcome.WRITTEN else f"the broker's answer was lost ({answer.detail}), and "
    return Result(
        is_done=False,
        sentence=f"{unclear}the transaction is still open after {CHECK_SECONDS:.0f} s{failure}: "
        "look again before anything else is written",
    )


def _gone(plan: Plan, asks: Asks, stable_before: int) -> Result:
    stable = _last_stable_offset(plan, asks)
    moved = f"the last stable offset went from {stable_before} to {stable}"
    if stable == UNKNOWN_OFFSET or stable <= stable_before:
        moved = f"the last stable offset stands at {stable}: something else holds it, see describe-producers"
    after = ""
    if plan.action is Action.COMPLETE:
        after = (
            f"; coordinator {plan.row.coordinator} will go on showing {plan.row.coordinator_state} until it loads its "
            "partition of __transaction_state anew, for example when its broker restarts"
        )
    return Result(is_done=True, sentence=f"the transaction is closed; {moved}{after}")


def _read(plan: Plan, asks: Asks) -> tuple[ProducerEntry, ...]:
    return asks.inquire(lambda inquiry: producers_of(inquiry, plan.row.topic, plan.row.partition))


def _last_stable_offset(plan: Plan, asks: Asks) -> int:
    async def ask(inquiry: Inquiry) -> int:
        partition = (plan.row.topic, plan.row.partition)
        try:
            leader = await leader_of(inquiry, *partition)
        except (RefusedError, ClusterUnavailableError):
            return UNKNOWN_OFFSET
        offsets = await latest_offsets(inquiry, {partition: leader})
        return offsets[partition][0]

    return asks.inquire(ask)


def _end(audit: AuditLog, plan: Plan, result: Result) -> Result:
    row = plan.row
    try:
        audit.step(
            "ended",
            topic=row.topic,
            partition=row.partition,
            start_offset=row.start_offset,
            done=result.is_done,
            sentence=result.sentence,
        )
    except AuditError as error:
        return Result(is_done=result.is_done, sentence=f"{result.sentence} (not logged: {error})")
    return result
