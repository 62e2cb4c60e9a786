"""Decides how far the time of a record can be trusted: applications choose it, often as the time of an event.

The earlier records of the same producer on the partition show it. Each was made while its transaction was open, so its time
lies between the begin and the end that the coordinator wrote, if client and coordinator mean the same clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from exporter.evaluation.humanize import humanize_count
from exporter.explain.facts import CLOCKS_APART_MS, Facts
from exporter.snapshot.origin import LoggedBatch

EARLIER_MIN = 3
"""Batches whose times must fit: one alone may do so by chance."""
MARGIN_MS = 1000
"""A record belongs to a transaction if it was made so long before its end; three times the lag, if that is more."""
LAG_MAX_MS = 60_000
"""Records whose time is further before their transaction carry the time of an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamps:
    """The times of the producer's records against the coordinator's clock."""

    lag_ms: int = 0
    """The most that an earlier record's time was before the begin of its transaction."""
    doubt: str = ""
    """Reason why the time of a record shows nothing, a sentence without its full stop; empty if it can be used."""

    def is_before(self, batch: LoggedBatch, instant_ms: int) -> bool:
        """True if the record was made clearly before an instant of the coordinator's clock."""
        return batch.first_timestamp_ms + max(3 * self.lag_ms, MARGIN_MS) <= instant_ms


def stamps_of(facts: Facts, first: LoggedBatch) -> Stamps:
    """Compares clocks by the producer's records before the first one of the open transaction."""
    if first.has_log_append_time:
        return Stamps(
            doubt="the topic has message.timestamp.type=LogAppendTime, so when the client made the record is unknown"
        )
    pairs = list(_earlier(facts, first))
    if len(pairs) < EARLIER_MIN:
        few = humanize_count(len(pairs), "earlier batch", "earlier batches")
        return Stamps(doubt=f"the producer has {few} here, too few to show whether the record's time can be trusted")
    lag_ms = max(0, *(begun - at for at, begun, _ in pairs))
    if lag_ms > LAG_MAX_MS or any(at > ended + CLOCKS_APART_MS for at, _, ended in pairs):
        return Stamps(
            doubt="the times of earlier records do not fit their transactions, so when the client made this one is unknown"
        )
    return Stamps(lag_ms=lag_ms)


def _earlier(facts: Facts, first: LoggedBatch) -> Iterator[tuple[int, int, int]]:
    """(its time, begin and end of its transaction) of each earlier record."""
    for batch in facts.logs.own.batches:
        if batch.offset >= first.offset or not batch.is_transactional or batch.has_log_append_time:
            continue
        marker = next((one for one in facts.logs.own.markers if one.offset >= batch.next_offset), None)
        transaction = None if marker is None else facts.ended_by(marker)
        if transaction is not None and transaction.start_ms >= 0:
            yield batch.first_timestamp_ms, transaction.start_ms, transaction.prepared_ms
