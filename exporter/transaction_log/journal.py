"""Holds the transaction log's data for an evaluation: the transactional id of each producer id, and past outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from exporter.snapshot import TopicPartition
from exporter.transaction_log.events import Outcome
from exporter.transaction_log.records import TransactionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransaction:
    """A transaction whose coordinator has decided its outcome. Instants in milliseconds, by the coordinator's clock."""

    producer_epoch: int
    """While it was open."""
    start_ms: int
    """-1 if the log does not show it."""
    decided_ms: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedProducer:
    """The transaction log's data on one producer id."""

    transactional_id: str
    is_former: bool
    """The transactional id has another producer id now, or was removed."""
    latest: TransactionRecord | None
    """Newest record; None for a former producer id, and if the log was not read to its end: a newer record exists."""
    open_epoch: int = -1
    """While the transaction of `latest` was open: the decision may have taken the next epoch."""
    prepared_ms: int = -1
    """Time at which the outcome of the transaction of `latest` was decided; -1 if it is not."""
    ended: Mapping[TopicPartition, EndedTransaction] = field(default_factory=lambda: MappingProxyType({}))
    """The newest transaction on each partition whose outcome is known."""
    takes_new_ids: bool = False
    """True if others with the same prefix were used last before it appeared: its application takes a new id each time."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The requested entries of the log, by producer id. Empty if the log is not read."""

    producers: Mapping[int, LoggedProducer] = field(default_factory=lambda: MappingProxyType({}))


NO_JOURNAL = Journal()
