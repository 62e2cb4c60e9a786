"""Joins the states that a coordinator wrote for one transactional id to its past transactions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.snapshot import TopicPartition
from exporter.transaction_log.events import Event, Happening, Outcome, StateMachine
from exporter.transaction_log.records import Decoded, Tombstone, TransactionRecord


class LoggedState(NamedTuple):
    """Record of `__transaction_state`."""

    state_partition: int
    offset: int
    written_at_ms: int
    """The record's own timestamp, by the coordinator's clock."""
    leader_epoch: int
    """Epoch of the coordinator that wrote the record."""
    decoded: Decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRead:
    """The part of `__transaction_state` that was read for one producer id or transactional id."""

    transactional_id: str | None
    """Transactional id; None if no record names the producer id."""
    states: tuple[LoggedState, ...] = ()
    """States of the transactional id, in the order of their partition."""
    owner_leader_epoch: int = -1
    """The current leader epoch of the id's partition; -1 if the id is unknown."""
    is_whole: bool = False
    """Every record since the creation of the topic was read, none is missing (compaction)."""
    has_gaps: bool = False
    """Compaction has removed records between those that were read."""
    producer_ids: frozenset[int] = frozenset()
    """Producer ids of all records that were read."""
    partitions_read: int = 0
    records_read: int = 0
    unread: str = ""
    """Reason why less was read than requested, as a phrase."""


@dataclass(slots=True, kw_only=True)
class PastTransaction:
    """One transaction of the id, as far as the log shows it. Instants by the coordinator's clock, -1 if unknown."""

    producer_id: int
    producer_epoch: int
    """Epoch of the transaction's records."""
    start_ms: int = -1
    prepared_ms: int = -1
    """Time of the decision."""
    completed_ms: int = -1
    """Time at which every marker was written."""
    timeout_ms: int = -1
    outcome: Outcome | None = None
    partitions: dict[TopicPartition, int] = field(default_factory=dict)
    """Partition -> when it was added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The life of one transactional id, from its coordinator's log."""

    events: tuple[Event, ...] = ()
    transactions: tuple[PastTransaction, ...] = ()
    initialized: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(producer id, epoch) -> when the log shows it first."""
    expired_ms: tuple[int, ...] = ()
    """Times at which the coordinator removed the id."""


def past_of(states: Iterable[LoggedState]) -> Past:
    """The events and transactions of one id."""
    machine = StateMachine()
    events: list[Event] = []
    transactions: list[PastTransaction] = []
    initialized: dict[tuple[int, int], int] = {}
    expired: list[int] = []
    for state in states:
        if isinstance(state.decoded, TransactionRecord):
            record = state.decoded
            initialized.setdefault((record.producer_id, record.producer_epoch), record.last_update_ms)
        elif isinstance(state.decoded, Tombstone):
            expired.append(state.written_at_ms)
        for event in machine.take(state.decoded, state.written_at_ms):
            events.append(event)
            _take(transactions, event)
    return Past(
        events=tuple(events), transactions=tuple(transactions), initialized=initialized, expired_ms=tuple(expired)
    )


def _take(transactions: list[PastTransaction], event: Event) -> None:
    current = transactions[-1] if transactions and transactions[-1].completed_ms < 0 else None
    if event.happening is Happening.BEGUN:
        transactions.append(
            PastTransaction(
                producer_id=event.producer_id,
                producer_epoch=event.producer_epoch,
                start_ms=event.start_ms,
                partitions=dict.fromkeys(event.partitions, event.at_ms),
            )
        )
    elif event.happening is Happening.PARTITIONS_ADDED and current is not None:
        for partition in event.partitions:
            current.partitions.setdefault(partition, event.at_ms)
    elif event.happening is Happening.PREPARED:
        if current is None or current.prepared_ms >= 0:
            current = PastTransaction(
                producer_id=event.producer_id, producer_epoch=event.producer_epoch, start_ms=event.start_ms
            )
            transactions.append(current)
        for partition in event.partitions:
            current.partitions.setdefault(partition, event.start_ms)
        current.prepared_ms, current.outcome, current.timeout_ms = event.at_ms, event.outcome, event.timeout_ms
    elif event.happening is Happening.COMPLETED and current is not None:
        current.completed_ms, current.outcome = event.at_ms, event.outcome
