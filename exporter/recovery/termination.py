"""Terminates the ongoing transaction of a transactional id: reads again, fences its producer, and waits for the abort.

Only the transaction of the plan is fenced. Each fence follows a read at the confirmed coordinator, or, where the login does
not see `__transaction_state`, at the only broker that has the id. It has the producer id and epoch of that read, so that a
coordinator with a newer epoch refuses it; a former coordinator cannot write it. The remaining gap is the time between that
read and the fence: docs/verdicts.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError, ErrorCode
from exporter.kafka.lookups import KafkaRequestError, describe_at, describe_id
from exporter.kafka.markers import UNCLEAR_FAULTS, fence
from exporter.primitives import INT16_MAX
from exporter.recovery.partition import ClusterQueries, confirm_all, coordinator_of
from exporter.snapshot import COMPLETING_STATES, TIMEOUT_MS_TWO_PHASE_COMMIT, CoordinatorTransaction, TransactionState

WAIT_SECONDS = 30.0
POLL_SECONDS = 0.2
LAST_EPOCH = INT16_MAX
_EPOCHS_USED_UP = (
    f"the coordinator cannot fence epoch {LAST_EPOCH}, the last one: brokers before 4.3 neither abort nor commit such a "
    "transaction (KAFKA-20090). Upgrade the coordinator's broker: 4.3 aborts it, and gives the transactional id a new "
    "producer id"
)
_NEWER_PRODUCER = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_MAY_BE_FENCED = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS.name,
        ErrorCode.NOT_COORDINATOR.name,
        ErrorCode.COORDINATOR_NOT_AVAILABLE.name,
    }
)
"""Names of errors whose effect only a read shows. A coordinator responds with the last two before it writes to its log, and
also after it, while its record waits for replicas: the next coordinator may find it there.
"""


class Ending(Enum):
    """The outcome of a termination."""

    ABORTED = "aborted"
    """The coordinator has aborted it."""
    REFUSED = "refused"
    """Nothing was fenced: the transaction has changed since the plan."""
    OVER = "over"
    """The transaction is over with an unknown outcome; nothing else was fenced."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Termination:
    """The outcome, and its sentence for the operator."""

    ending: Ending
    sentence: str


class Coordinator(Protocol):
    """The coordinator of one transactional id. Both raise BrokerFault, KafkaRequestError and ClusterUnavailableError."""

    def look(self) -> CoordinatorTransaction:
        """The present state of the id. Raises KafkaRequestError if the broker is not confirmed as its coordinator."""

    def fence(self, shown: CoordinatorTransaction) -> str | CoordinatorTransaction | None:
        """Read, and fence if it is unchanged since the plan; otherwise return the state.

        None if the id has no transaction any more and its producer was fenced, otherwise the name of Kafka's error. If it
        raises BrokerFault, the fence may have been carried out; with other exceptions nothing was sent.
        """


class CoordinatorOnBrokers:
    """The coordinator of an id in a real cluster."""

    def __init__(self, asks: ClusterQueries, transactional_id: str) -> None:
        self._asks = asks
        self._transactional_id = transactional_id

    def look(self) -> CoordinatorTransaction:
        return self._asks.query(self._look)

    def fence(self, shown: CoordinatorTransaction) -> str | CoordinatorTransaction | None:

        async def look_and_fence(client: ClusterClient) -> str | CoordinatorTransaction | None:
            now = await self._look(client)
            if what_changed(shown, now) is not None:
                return now
            return await fence(client, now)

        return self._asks.query(look_and_fence)

    async def _look(self, client: ClusterClient) -> CoordinatorTransaction:
        claim = await coordinator_of(client, self._transactional_id)
        if claim is None:  # an owner has rights on the id alone, as for Kafka's own tool; only one broker may have it
            return await describe_id(client, self._transactional_id)
        await confirm_all(client, (claim,))
        return await describe_at(client, claim.leader, self._transactional_id)


def what_changed(shown: CoordinatorTransaction, now: CoordinatorTransaction) -> str | None:
    """Returns the first difference of `now` to the transaction of the plan, as a phrase; None if it is the same."""
    for name in ("producer_id", "producer_epoch", "state", "start_ms", "timeout_ms", "coordinator"):
        was, is_now = getattr(shown, name), getattr(now, name)
        if was != is_now:
            was, is_now = (value.value if isinstance(value, TransactionState) else value for value in (was, is_now))
            return f"its {name.removesuffix('_ms').replace('_', ' ')} was {was} and is {is_now}"
    return None


def refusal_to_terminate(transaction: CoordinatorTransaction) -> str | None:
    """Returns why the transaction must not be fenced; None if it may be."""
    name = repr(transaction.transactional_id)
    if transaction.state is not TransactionState.ONGOING:
        return f"only an Ongoing transaction can be terminated, and {name} is {transaction.state.value}"
    if transaction.timeout_ms == TIMEOUT_MS_TWO_PHASE_COMMIT:
        return (
            f"{name} is prepared for two-phase commit: the transaction manager of its application decides it, and may have "
            "decided already; ask there"
        )
    return None


def terminate(
    shown: CoordinatorTransaction,
    coordinator: Coordinator,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Termination:
    """Has the transaction aborted, and waits for the abort. Raises an exception of `coordinator` if nothing was fenced.

    The caller holds the audit log's lock.
    """
    until = clock() + WAIT_SECONDS
    last: CoordinatorTransaction | None = None
    ended, failure = None, ""
    try:
        ended = _fenced(shown, coordinator)
    except BrokerFault as fault:
        if fault.reason not in UNCLEAR_FAULTS:
            raise
        failure = f" (the last request failed: {fault})"  # it may have been fenced: only a read shows it
    while ended is None and clock() < until:
        sleep(POLL_SECONDS)
        try:
            before, last = last, coordinator.look()
            failure = ""
            # Unchanged: another change of its state prevented the fence.
            is_same = what_changed(shown, last) is None
            ended = _fenced(shown, coordinator) if is_same else _how_it_is(shown, before, last)
        except (BrokerFault, KafkaRequestError, ClusterUnavailableError) as error:
            failure = f" (the last request failed: {error})"
    return ended or Termination(Ending.FAILED, _not_over(shown, last, failure))


def _not_over(shown: CoordinatorTransaction, last: CoordinatorTransaction | None, failure: str) -> str:
    name, waited = repr(shown.transactional_id), f"after {WAIT_SECONDS:.0f} s{failure}"
    if last is None:
        return f"whether the coordinator has aborted the transaction of {name} is not known {waited}: see `describe`"
    if last.state in COMPLETING_STATES:
        return (
            f"the coordinator was still completing {name} {waited}: its markers are not written; see find-hanging for "
            "stuck_completing"
        )
    return (
        f"the coordinator still had {name} as {last.state.value}, and did not fence its producer, {waited}: try again"
    )


def _fenced(shown: CoordinatorTransaction, coordinator: Coordinator) -> Termination | None:
    """Fences the producer once; None if the coordinator may be aborting it."""
    name = repr(shown.transactional_id)
    answer = coordinator.fence(shown)
    if isinstance(answer, CoordinatorTransaction):
        changed = what_changed(shown, answer)
        return Termination(Ending.REFUSED, f"nothing was fenced: {name} has changed since it was shown, {changed}")
    if answer in _MAY_BE_FENCED:
        return None
    if answer is None:
        return Termination(
            Ending.OVER, f"the transaction of {name} had just ended by itself, and its producer is fenced"
        )
    if answer in _NEWER_PRODUCER:
        return Termination(Ending.REFUSED, f"nothing was fenced: a newer producer has taken {name} over ({answer})")
    if answer == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name:
        why = (
            f"not authorized to fence {name}: this login needs WRITE on the transactional id; if it is the exporter's, log "
            "in as yourself (--command-config FILE)"
        )
        return Termination(Ending.REFUSED, why)
    if answer == ErrorCode.UNKNOWN_SERVER_ERROR.name and shown.producer_epoch == LAST_EPOCH:
        return Termination(Ending.FAILED, _EPOCHS_USED_UP)
    return Termination(Ending.FAILED, f"the coordinator refused with {answer}")


def _how_it_is(
    shown: CoordinatorTransaction, before: CoordinatorTransaction | None, now: CoordinatorTransaction
) -> Termination | None:
    """The outcome of the fenced transaction; None while it is completing. Fences nothing newer.

    The id may have continued since `before`, the read before this one: Complete* keeps the start of its transaction, and
    what is prepared is decided.
    """
    if now.state in COMPLETING_STATES and now.start_ms in {shown.start_ms, None}:
        return None
    name = repr(shown.transactional_id)
    is_own = now.start_ms == shown.start_ms
    if is_own and now.state is TransactionState.ONGOING:
        return Termination(
            Ending.FAILED, f"the transaction of {name} is still open, {what_changed(shown, now)}: run the command again"
        )
    decided = now if is_own else before or shown
    is_fenced = decided.producer_id != shown.producer_id or decided.producer_epoch > shown.producer_epoch
    newer = (
        f"; its coordinator has continued with {now.state.value} at epoch {now.producer_epoch}, which was not changed"
    )
    continued = "" if is_own else newer
    if decided.state in _ABORTS and is_fenced:
        sentence = f"the transaction of {name} is aborted, and its producer fenced, unless it has aborted it itself"
        return Termination(Ending.ABORTED, f"{sentence}{continued}")
    if decided.state in _ABORTS:
        return Termination(Ending.OVER, f"the transaction of {name} has ended: its producer aborted it{continued}")
    if decided.state in _COMMITS:
        sentence = f"the transaction of {name} has ended: its producer committed it in the meantime"
        return Termination(Ending.OVER, f"{sentence}{continued}")
    return Termination(Ending.OVER, f"the transaction of {name} has ended, how was not seen{newer}")


_ABORTS: Final = {TransactionState.PREPARE_ABORT, TransactionState.PREPARE_EPOCH_FENCE, TransactionState.COMPLETE_ABORT}
_COMMITS: Final = {TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT}
