"""Derives events from records in the order of one partition of `__transaction_state`: a pure state machine.

A coordinator writes each state before it acts on it, so the log shows when a transaction began, what was decided and when
its markers were written. The epoch shows who decided an abort (KIP-588, KIP-890): the coordinator takes the next epoch to
fence the client, and a client before transaction version 2 keeps its own. From version 2 on every end takes the next epoch,
so only the time is left: an abort at or after the transaction's own time-out is a time-out.

A record has the state, not the change. Missing records before it (compaction, a start in the middle, a log truncated by a
new leader) make an event less complete, never wrong; a record that occurs twice makes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from exporter.snapshot import TopicPartition, TransactionState
from exporter.transaction_log.records import Decoded, Tombstone, TransactionRecord, UnknownVersion

TRANSACTION_VERSION_2 = 2
_OF_A_COORDINATOR: Final = 2
"""Epochs of a coordinator's own abort in Kafka 4.0.0 with TransactionVersion 2 (KAFKA-19367); a client's takes one."""


class Happening(Enum):
    """Kind of an event."""

    INITIALIZED = "initialized"
    """A producer took the id, possibly from another producer."""
    BEGUN = "begun"
    PARTITIONS_ADDED = "partitions_added"
    PREPARED = "prepared"
    """The outcome is decided; the coordinator is writing the markers."""
    COMPLETED = "completed"
    """Every marker is written."""
    EXPIRED = "expired"
    """The coordinator has removed the id."""


class Outcome(Enum):
    COMMITTED = "commit"
    ABORTED = "abort"
    """The client aborted; or the log cannot show who did, as with a fence from transaction version 2 on."""
    TIMED_OUT = "timeout"
    FENCED = "fenced"
    """The coordinator aborted, for a newer producer of the same id or for `force-terminate`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of one transactional id. Instants and durations in milliseconds."""

    happening: Happening
    transactional_id: str
    producer_id: int
    producer_epoch: int
    """Epoch of the open transaction, if it was seen; otherwise as in the record."""
    at_ms: int
    """Time by the coordinator's clock; for EXPIRED the timestamp of the record."""
    outcome: Outcome | None = None
    """Outcome, for PREPARED and COMPLETED."""
    start_ms: int = -1
    """-1 if the log does not show it."""
    duration_ms: int = -1
    """PREPARED: from start to decision; COMPLETED: from decision to last marker; -1 if that was not seen."""
    timeout_ms: int = -1
    """PREPARED: the transaction's own time-out; -1 for the others."""
    client_transaction_version: int = -1
    """PREPARED: the version by which the client wrote the transaction (KIP-890); -1 if that was not seen."""
    partitions: frozenset[TopicPartition] = frozenset()
    """BEGUN and PARTITIONS_ADDED: the new ones; PREPARED: all of them."""


@dataclass(slots=True)
class TransactionalIdState:
    """The remembered state of one transactional id."""

    record: TransactionRecord
    outcome: Outcome | None = None
    """Outcome of the transaction that is completing, as are the next two."""
    open_epoch: int = -1
    prepared_at_ms: int = -1


@dataclass(slots=True)
class StateMachine:
    """The latest state of each transactional id of one partition of the log. Bounded by the number of live ids."""

    known: dict[str, TransactionalIdState] = field(default_factory=dict)

    def take(self, decoded: Decoded, written_at_ms: int) -> Iterator[Event]:
        """The events of one more record, in order; `written_at_ms` is the record's own timestamp."""
        if isinstance(decoded, UnknownVersion):
            return
        if isinstance(decoded, Tombstone):
            yield from self._forget(decoded, written_at_ms)
            return
        before = self.known.get(decoded.transactional_id)
        if before is not None and before.record == decoded:
            return
        known = TransactionalIdState(decoded)
        self.known[decoded.transactional_id] = known
        if decoded.status is TransactionState.EMPTY:
            yield from _initialized(decoded, before)
            return
        same = before if before is not None and _is_same_transaction(before.record, decoded) else None
        if decoded.status is TransactionState.ONGOING:
            yield from _ongoing(decoded, same)
        elif decoded.status in _DECIDED:
            yield from _prepared(decoded, known, same)
        elif decoded.status in _ENDED:
            yield from _completed(decoded, same, written_at_ms)

    def _forget(self, tombstone: Tombstone, written_at_ms: int) -> Iterator[Event]:
        known = self.known.pop(tombstone.transactional_id, None)
        if known is None:
            return
        yield Event(
            happening=Happening.EXPIRED,
            transactional_id=tombstone.transactional_id,
            producer_id=known.record.producer_id,
            producer_epoch=known.record.producer_epoch,
            at_ms=written_at_ms,
        )


_DECIDED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_ENDED = {TransactionState.COMPLETE_COMMIT: Outcome.COMMITTED, TransactionState.COMPLETE_ABORT: Outcome.ABORTED}


def _initialized(record: TransactionRecord, before: TransactionalIdState | None) -> Iterator[Event]:
    if before is not None and _producer(before.record) == _producer(record):
        return
    yield Event(
        happening=Happening.INITIALIZED,
        transactional_id=record.transactional_id,
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        at_ms=record.last_update_ms,
    )


def _producer(record: TransactionRecord) -> tuple[int, int]:
    return record.producer_id, record.producer_epoch


def _ongoing(record: TransactionRecord, same: TransactionalIdState | None) -> Iterator[Event]:
    """`same` is the previous knowledge of the same transaction, here and below."""
    was_open = same is not None and same.record.status is TransactionState.ONGOING
    added = record.partitions - same.record.partitions if same is not None and was_open else record.partitions
    if was_open and not added:
        return
    yield Event(
        happening=Happening.PARTITIONS_ADDED if was_open else Happening.BEGUN,
        transactional_id=record.transactional_id,
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        at_ms=record.last_update_ms if was_open else record.start_ms,
        start_ms=record.start_ms,
        partitions=frozenset(added),
    )


def _prepared(
    record: TransactionRecord, known: TransactionalIdState, same: TransactionalIdState | None
) -> Iterator[Event]:
    if same is not None and same.record.status is record.status:
        # Written again, by a coordinator that took over: there is no new decision.
        known.outcome, known.open_epoch, known.prepared_at_ms = same.outcome, same.open_epoch, same.prepared_at_ms
        return
    # After another decision nothing was sent: its record is in the log, but the coordinator has not learned that in time.
    ongoing = same.record if same is not None and same.record.status is TransactionState.ONGOING else None
    known.outcome = outcome_of(record, ongoing)
    known.open_epoch = record.producer_epoch
    if ongoing is not None:
        known.open_epoch = ongoing.producer_epoch
    elif same is not None and same.outcome is not None:
        known.open_epoch = same.open_epoch
    known.prepared_at_ms = record.last_update_ms
    yield Event(
        happening=Happening.PREPARED,
        transactional_id=record.transactional_id,
        producer_id=record.producer_id,
        producer_epoch=known.open_epoch,
        at_ms=record.last_update_ms,
        outcome=known.outcome,
        start_ms=record.start_ms,
        duration_ms=_between(record.start_ms, record.last_update_ms),
        timeout_ms=record.timeout_ms,
        client_transaction_version=-1 if ongoing is None else ongoing.client_transaction_version,
        partitions=record.partitions,
    )


def _completed(record: TransactionRecord, same: TransactionalIdState | None, written_at_ms: int) -> Iterator[Event]:
    if same is not None and same.record.status is record.status:
        return
    outcome = _ENDED[record.status]
    prepared = same if same is not None and same.outcome is not None else None
    # A fence or a time-out is an abort too; of contradicting records the last one counts.
    if prepared is not None and (prepared.outcome is Outcome.COMMITTED) == (outcome is Outcome.COMMITTED):
        outcome = prepared.outcome or outcome
    yield Event(
        happening=Happening.COMPLETED,
        transactional_id=record.transactional_id,
        producer_id=record.producer_id if prepared is None else prepared.record.producer_id,
        producer_epoch=record.producer_epoch if prepared is None else prepared.open_epoch,
        at_ms=written_at_ms,
        outcome=outcome,
        start_ms=record.start_ms,
        duration_ms=-1 if prepared is None else _between(prepared.prepared_at_ms, written_at_ms),
    )


def outcome_of(prepared: TransactionRecord, ongoing: TransactionRecord | None) -> Outcome:
    """Returns the outcome, by client or coordinator; `ongoing` is the last record before the decision, None without one."""
    if prepared.status is TransactionState.PREPARE_COMMIT:
        return Outcome.COMMITTED
    if ongoing is None or prepared.producer_id != ongoing.producer_id:
        return Outcome.ABORTED
    epochs = prepared.producer_epoch - ongoing.producer_epoch
    if epochs not in {1, _OF_A_COORDINATOR}:
        return Outcome.ABORTED
    if _between(prepared.start_ms, prepared.last_update_ms) >= prepared.timeout_ms:
        return Outcome.TIMED_OUT
    # The client's version is in its own record: the coordinator writes its aborts in the newest version.
    is_version_2 = ongoing.client_transaction_version >= TRANSACTION_VERSION_2
    return Outcome.ABORTED if is_version_2 and epochs != _OF_A_COORDINATOR else Outcome.FENCED


def _is_same_transaction(before: TransactionRecord, after: TransactionRecord) -> bool:
    """True if both are states of one transaction: its start is the same until its end."""
    return before.start_ms >= 0 and before.start_ms == after.start_ms


def _between(from_ms: int, to_ms: int) -> int:
    return to_ms - from_ms if 0 <= from_ms <= to_ms else -1
