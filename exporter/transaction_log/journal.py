"""What the coordinators' log says of producer ids, as an evaluation takes it: whose they are, and how they ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from exporter.transaction_log.events import Outcome
from exporter.transaction_log.records import TransactionRecord

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransaction:
    """A transaction whose outcome its coordinator wrote down. Instants in milliseconds, by the coordinator's clock."""

    producer_epoch: int
    """While it was open."""
    start_ms: int
    """-1 where the log does not tell."""
    decided_ms: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedProducer:
    """What the log says of one producer id."""

    transactional_id: str
    is_former: bool
    """The transactional id has another producer id by now, or is forgotten."""
    latest: TransactionRecord | None
    """Its newest record; None for a former producer id, and where the log was not read to its end: there is a newer one."""
    open_epoch: int = -1
    """While the transaction of `latest` was open: deciding may have taken the next epoch."""
    prepared_ms: int = -1
    """When the outcome of the transaction of `latest` was decided; -1 where it is not."""
    ended: Mapping[TopicPartition, EndedTransaction] = field(default_factory=lambda: MappingProxyType({}))
    """The newest transaction on each partition whose outcome is known."""


@dataclass(frozen=True, slots=True)
class Journal:
    """What was asked of the log, by producer id. Nothing is in it where the log is not read at all."""

    producers: Mapping[int, LoggedProducer] = field(default_factory=lambda: MappingProxyType({}))


NO_JOURNAL = Journal()
