"""Carries out a plan: reads the partition, writes one marker at the same broker, and reads until its effect is visible.

`Partition.write` is called once at most, also after a failure. The caller holds the audit log's lock, and has proved the
hang after it got the lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final

from exporter.kafka.errors import BrokerFault, ClusterUnavailableError, ErrorCode
from exporter.kafka.lookups import KafkaRequestError
from exporter.kafka.markers import MarkerOutcome, MarkerResponse
from exporter.recovery.audit import AuditError, AuditLog
from exporter.recovery.partition import Partition, PartitionState
from exporter.recovery.plan import (
    Action,
    Plan,
    coordinated,
    document,
    is_closed,
    is_open,
    is_unchanged,
    is_unreplicated,
    which,
)
from exporter.snapshot import UNKNOWN_OFFSET

CHECK_SECONDS = 10.0
"""Time limit for the marker's effect to become visible."""
POLL_SECONDS = 0.2
LOOK_FAULTS = (BrokerFault, KafkaRequestError, ClusterUnavailableError)

MARKERS_NEED_A_RIGHT: Final = (
    "not authorized to write markers: this login needs ALTER (Kafka 3.8 and later) or CLUSTER_ACTION on the cluster; if it "
    "is the exporter's, log in as yourself (--command-config FILE)"
)
EXPLANATIONS = {
    ErrorCode.INVALID_PRODUCER_EPOCH.name: (
        "the partition has seen a newer epoch of this producer, so the producer is alive; run find-hanging again"
    ),
    ErrorCode.TRANSACTION_COORDINATOR_FENCED.name: (
        "the partition remembers a newer coordinator epoch, so the coordinator has written to it since; run "
        "find-hanging again"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name: MARKERS_NEED_A_RIGHT,
    ErrorCode.NOT_ENOUGH_REPLICAS.name: "the partition has fewer replicas in sync than min.insync.replicas: restore them",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name: "the partition does not exist any more",
}


class RecoveryOutcome(Enum):
    DONE = "done"
    """A marker was sent, and the transaction is gone."""
    GONE = "gone"
    """Nothing was written: the transaction was already gone."""
    UNTOUCHED = "untouched"
    """Nothing was written: the transaction has changed, could not be read, or its leader could not be confirmed."""
    REFUSED = "refused"
    """The broker refused the marker."""
    STILL_OPEN = "still_open"
    """A marker was sent, and the transaction is still open, could not be read, or holds the last stable offset."""
    INTERRUPTED = "interrupted"
    """The operator cancelled the command after the marker was sent."""


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """The outcome of a plan, and its sentence for the operator."""

    outcome: RecoveryOutcome
    sentence: str

    @property
    def is_done(self) -> bool:
        """True only if the transaction is gone after this command's marker."""
        return self.outcome is RecoveryOutcome.DONE


def carry_out(
    plan: Plan,
    partition: Partition,
    audit: AuditLog,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> RecoveryResult:
    """Writes the plan's marker, once, and returns its effect.

    Raises AuditError before anything is written; a later failure of the audit log is in the result.
    """
    try:
        look = partition.look(coordinated(plan))
    except LOOK_FAULTS as error:
        return _end(audit, plan, RecoveryResult(RecoveryOutcome.UNTOUCHED, f"nothing was written: {error}"))
    against = _what_stands_against(plan, look)
    if against is not None:
        return _end(audit, plan, against)
    audit.step(
        "sending",
        plan=document(plan),
        leader=look.leader,
        leader_epoch=look.leader_epoch,
        last_stable_offset=look.last_stable_offset,
    )
    try:
        result = _send_and_check(plan, partition, audit, look.last_stable_offset, clock, sleep)
    except KeyboardInterrupt:
        left = "interrupted when the marker may have been written: run find-hanging before you write anything else"
        result = RecoveryResult(RecoveryOutcome.INTERRUPTED, left)
    return _end(audit, plan, result)


def _what_stands_against(plan: Plan, look: PartitionState) -> RecoveryResult | None:
    """Returns the difference since the proof; None if the transaction has not changed."""
    if look.topic_id != plan.row.topic_id:
        again = "nothing was written: the topic was deleted and created again since the proof"
        return RecoveryResult(RecoveryOutcome.UNTOUCHED, again)
    if is_closed(plan, look) or not is_open(plan, look.entries):
        return RecoveryResult(
            RecoveryOutcome.GONE, "nothing was written: the transaction has ended since it was judged"
        )
    if is_unchanged(plan, look):
        return None
    return RecoveryResult(
        RecoveryOutcome.UNTOUCHED, "nothing was written: the transaction has changed since it was judged"
    )


def _send_and_check(
    plan: Plan,
    partition: Partition,
    audit: AuditLog,
    stable_before: int,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> RecoveryResult:
    try:
        answer = partition.write(plan.marker, lambda look: _what_stands_against(plan, look) is None, coordinated(plan))
    except LOOK_FAULTS as error:
        return RecoveryResult(RecoveryOutcome.UNTOUCHED, f"nothing was written: {error}")
    if isinstance(answer, PartitionState):
        against = _what_stands_against(plan, answer)
        assert against is not None, "a read is returned only if something prevents the marker"
        return against
    with suppress(AuditError):  # the end is logged as well, and says so when it cannot be
        audit.step("answered", **which(plan), outcome=answer.outcome.value, detail=answer.detail)
    if answer.outcome is MarkerOutcome.REFUSED:
        why = EXPLANATIONS.get(answer.detail, "run find-hanging again")
        return RecoveryResult(RecoveryOutcome.REFUSED, f"the broker refused the marker ({answer.detail}): {why}")
    return _check(plan, partition, answer, stable_before, clock, sleep)


def _check(
    plan: Plan,
    partition: Partition,
    answer: MarkerResponse,
    stable_before: int,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> RecoveryResult:
    """Reads the partition until the transaction is gone and holds nothing, or the time limit is reached."""
    until = clock() + CHECK_SECONDS
    is_written = answer.outcome is MarkerOutcome.WRITTEN
    unclear = "" if is_written else f"the marker may have been written or not ({answer.detail}), and "
    limit = f"{CHECK_SECONDS:.0f} s"
    while True:
        try:
            entries = partition.producers()
            if is_open(plan, entries):
                seen = f"{unclear}the transaction is still open after {limit}"
            elif is_unreplicated(plan, entries, stable := partition.last_stable_offset()):
                seen = f"the marker is on the leader, and after {limit} not on all in-sync replicas"
            else:
                return _gone(plan, stable_before, stable)
        except LOOK_FAULTS as error:
            seen = f"{unclear}the transaction was not seen to end within {limit} (the last read failed: {error})"
        if clock() >= until:
            break
        sleep(POLL_SECONDS)
    return RecoveryResult(RecoveryOutcome.STILL_OPEN, f"{seen}: run find-hanging before you write anything else")


def _gone(plan: Plan, stable_before: int, stable: int) -> RecoveryResult:
    after = ""
    if plan.action is Action.COMPLETE:
        after = (
            f"; coordinator {plan.row.coordinator} continues to show {plan.row.coordinator_state}, and the producer cannot "
            f"start: why --producer-id {plan.row.producer_id} says in a minute whether a restart of that broker ends it"
        )
    freed = _stability(stable_before, stable)
    return RecoveryResult(RecoveryOutcome.DONE, f"the transaction is closed; {freed}{after}")


def _stability(before: int, now: int) -> str:
    if now == UNKNOWN_OFFSET:
        return "the last stable offset could not be read"
    if before == UNKNOWN_OFFSET:
        return f"the last stable offset is {now}; the previous one could not be read"
    if now <= before:
        return f"the last stable offset is {now}: another transaction holds it, why --topic names it"
    return f"the last stable offset went from {before} to {now}"


def _end(audit: AuditLog, plan: Plan, result: RecoveryResult) -> RecoveryResult:
    try:
        audit.step("ended", **which(plan), done=result.is_done, outcome=result.outcome.value, sentence=result.sentence)
    except AuditError as error:
        return RecoveryResult(result.outcome, f"{result.sentence} (not logged: {error})")
    return result
