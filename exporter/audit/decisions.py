"""Derives what coordinators have decided from the records of one transactional id, in the order of its log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from exporter.snapshot import TopicPartition, TransactionState
from exporter.transaction_log.events import TRANSACTION_VERSION_2, Happening, Outcome, StateMachine
from exporter.transaction_log.records import StateLogRecord, Tombstone, TransactionRecord


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decision:
    """A transaction as its coordinator has it; equal to itself alone. Instants in ms since 1970 UTC, by their clocks."""

    transactional_id: str
    producer_id: int
    open_epoch: int
    """Epoch of its records."""
    has_own_epoch: bool
    """True if no other transaction has had this epoch (KIP-890: TransactionVersion 2)."""
    is_epoch_sure: bool
    """False where the log does not show the transaction open: its records may have the epoch before."""
    marker_epoch: int
    """Epoch with which the coordinator sends its markers: with TransactionVersion 2, and for a time-out or a fence, the
    one after that of its records."""
    commit: bool | None
    """None while nothing is decided."""
    partitions: frozenset[TopicPartition] | None
    """None where the log does not show the decision, only that it is done."""
    start_ms: int | None
    decided_ms: int | None
    completed_ms: int | None
    """Instant at which every marker was written; None before."""
    log_partition: int
    completed_offset: int | None
    """Offset of the record that says so in that partition of `__transaction_state`."""

    @property
    def oldest_epoch(self) -> int:
        """The lowest epoch that its records may have."""
        return self.open_epoch if self.is_epoch_sure else self.marker_epoch - 1

    @property
    def newest_epoch(self) -> int:
        return self.open_epoch if self.is_epoch_sure else self.marker_epoch


@dataclass(frozen=True, slots=True)
class ProducerDecisions:
    """All decisions about one producer id, in the order of the log, and where to find them."""

    all: Sequence[Decision]
    on_partition: Mapping[TopicPartition, Sequence[Decision]]
    """Decisions that include it."""
    of_unknown_partitions: Mapping[int, Sequence[Decision]]
    """Decisions that do not show their partitions, by marker epoch."""
    with_own_epoch: Mapping[int, Sequence[Decision]]
    """Decisions whose epoch no other one has, by the epoch of their records."""

    @classmethod
    def of(cls, decisions: Sequence[Decision]) -> ProducerDecisions:
        on_partition: dict[TopicPartition, list[Decision]] = defaultdict(list)
        of_unknown: dict[int, list[Decision]] = defaultdict(list)
        with_own_epoch: dict[int, list[Decision]] = defaultdict(list)
        for decision in decisions:
            if decision.partitions is None:
                of_unknown[decision.marker_epoch].append(decision)
            for partition in decision.partitions or ():
                on_partition[partition].append(decision)
            if decision.has_own_epoch:
                with_own_epoch[decision.open_epoch].append(decision)
        return cls(decisions, on_partition, of_unknown, with_own_epoch)

    def without(self, partition: TopicPartition, open_epoch: int | None) -> list[Decision]:
        """Decisions with this epoch of their own that are known to leave the partition out."""
        found = self.with_own_epoch.get(-1 if open_epoch is None else open_epoch, ())
        return [each for each in found if each.partitions is not None and partition not in each.partitions]


def decisions_of(records: Iterable[StateLogRecord]) -> Iterator[Decision]:
    """The transactions of one transactional id, from its records in the order of their offsets."""
    machine = StateMachine()
    newest: Decision | None = None
    for record in records:
        content = record.content
        if newest is not None and newest.completed_ms is None and _is_next(newest, content):
            # A coordinator completes a transaction before it begins the next one, or forgets the id.
            if newest.commit is not None:
                yield replace(newest, completed_ms=record.written_at_ms, completed_offset=record.offset)
            newest = None
        for event in machine.take(content, record.written_at_ms):
            if event.happening in (Happening.INITIALIZED, Happening.EXPIRED):
                continue
            assert isinstance(content, TransactionRecord)
            same = newest if newest is not None and _is_same(newest, content) else None
            if newest is not None and same is None:
                yield newest
            is_decided = event.outcome is not None
            is_completed = event.happening is Happening.COMPLETED
            known = None if same is None else same.partitions
            is_sure = content.status is TransactionState.ONGOING or (same is not None and same.is_epoch_sure)
            newest = Decision(
                transactional_id=content.transactional_id,
                producer_id=event.producer_id,
                open_epoch=event.producer_epoch,
                has_own_epoch=(same is not None and same.has_own_epoch)
                or _has_own_epoch(content, event.producer_epoch, is_sure=is_sure),
                is_epoch_sure=is_sure,
                marker_epoch=content.producer_epoch if same is None or not is_completed else same.marker_epoch,
                commit=event.outcome is Outcome.COMMITTED if is_decided else None,
                partitions=known if is_completed else content.partitions,
                start_ms=_known(content.start_ms),
                decided_ms=event.at_ms
                if is_decided and not is_completed
                else None
                if same is None
                else same.decided_ms,
                completed_ms=event.at_ms if is_completed else None,
                log_partition=record.log_partition,
                completed_offset=record.offset if is_completed else None,
            )
        if isinstance(content, TransactionRecord) and newest is not None and _is_decided_again(newest, content):
            newest = replace(newest, marker_epoch=content.producer_epoch)
    if newest is not None:
        yield newest


def _is_decided_again(decision: Decision, content: TransactionRecord) -> bool:
    """True for a decision that a time-out writes once more, with the next epoch: that of its markers."""
    is_prepared = content.status in {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
    return is_prepared and decision.marker_epoch != content.producer_epoch and _is_same(decision, content)


def _is_next(decision: Decision, content: TransactionRecord | Tombstone) -> bool:
    """True if the record is not about the transaction any more."""
    return isinstance(content, Tombstone) or not _is_same(decision, content)


def _is_same(decision: Decision, content: TransactionRecord) -> bool:
    return decision.completed_ms is None and decision.start_ms is not None and decision.start_ms == content.start_ms


def _has_own_epoch(content: TransactionRecord, open_epoch: int, *, is_sure: bool) -> bool:
    """Returns what the client's version says; only a client of version 2 commits with the next epoch."""
    if content.status is TransactionState.ONGOING:
        return content.client_transaction_version >= TRANSACTION_VERSION_2
    is_commit = content.status is TransactionState.PREPARE_COMMIT
    return is_commit and is_sure and content.producer_epoch == open_epoch + 1


def _known(instant_ms: int) -> int | None:
    return None if instant_ms < 0 else instant_ms
