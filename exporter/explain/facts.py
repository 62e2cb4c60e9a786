"""Joins what was read about one transaction, for the rules that name a cause."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from exporter.evaluation.verdicts import Verdict
from exporter.snapshot import TopicPartition, TransactionKey
from exporter.snapshot.origin import LoggedBatch, LoggedMarker, PartitionLogs, Protection
from exporter.transaction_log.past import Past, PastTransaction, StateRead, past_of

CLOCKS_APART_MS = 1000
"""Difference up to which two clocks of the cluster, or of its clients, count as the same."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts about the logs. Instants are in milliseconds."""

    opened: TransactionKey
    verdict: Verdict | None
    """Verdict; None if the transaction is not open any more."""
    logs: PartitionLogs
    state: StateRead
    protection: Protection
    headers: tuple[str, ...] | None = None
    """Names of the headers of the first record; None if they were not wanted or could not be read."""
    known_id: str | None = None
    """The transactional id that an incident remembers."""

    @cached_property
    def past(self) -> Past:
        return past_of(self.state.states)

    @cached_property
    def first(self) -> LoggedBatch | None:
        """The batch that opened the transaction."""
        start = self.opened.start_offset
        return next((batch for batch in self.logs.own.batches if batch.offset == start), None)

    @cached_property
    def open_batches(self) -> tuple[LoggedBatch, ...]:
        """The producer's batches from the start offset to its next marker."""
        end = min((one.offset for one in self.logs.own.markers if one.offset > self.opened.start_offset), default=None)
        return tuple(
            batch
            for batch in self.logs.own.batches
            if batch.offset >= self.opened.start_offset and (end is None or batch.offset < end)
        )

    @cached_property
    def markers(self) -> tuple[LoggedMarker, ...]:
        """Markers of the producer on every partition that was searched, by time."""
        return tuple(sorted((*self.logs.own.markers, *self.logs.markers), key=lambda marker: marker.timestamp_ms))

    @property
    def partition(self) -> TopicPartition:
        return self.opened.topic, self.opened.partition

    @cached_property
    def of_producer(self) -> tuple[PastTransaction, ...]:
        return tuple(one for one in self.past.transactions if one.producer_id == self.opened.producer_id)

    @cached_property
    def with_partition(self) -> tuple[PastTransaction, ...]:
        """Returns the past transactions that include the partition."""
        return tuple(one for one in self.of_producer if self.partition in one.partitions)

    @cached_property
    def is_producer_known(self) -> bool:
        """True if a record of `__transaction_state` names the producer id."""
        return self.opened.producer_id in {producer_id for producer_id, _ in self.past.initialized}

    def ended_by(self, marker: LoggedMarker) -> PastTransaction | None:
        """The transaction that a coordinator ended with this marker; None if none is known, or several may be.

        From transaction version 2 on every transaction has an epoch of its own, and its marker the next one. Before, the
        latest decision before the marker is taken, if the one before that is clearly older.
        """
        decided = [
            one
            for one in self.of_producer
            if 0 <= one.prepared_ms <= marker.timestamp_ms + CLOCKS_APART_MS
            and 0 <= marker.producer_epoch - one.producer_epoch <= 1
            and (marker.topic, marker.partition) in one.partitions
        ]
        if not decided:
            return None
        bumped = [one for one in decided if one.producer_epoch + 1 == marker.producer_epoch]
        if len(bumped) == 1:
            return bumped[0]
        decided.sort(key=lambda one: one.prepared_ms)
        latest = decided[-1]
        is_clear = len(decided) == 1 or latest.prepared_ms - decided[-2].prepared_ms > 2 * CLOCKS_APART_MS
        return latest if is_clear else None
