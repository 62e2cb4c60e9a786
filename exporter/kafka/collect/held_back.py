"""Counts the records that an open transaction holds back: its own, and those of others behind its start offset.

An operator decides by these two numbers: an ABORT marker drops the first, and lets consumers read the second.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.pieces import read_piece
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.lookups import KafkaRequestError, leader_of
from exporter.kafka.messages.fetch import MEGABYTE
from exporter.kafka.messages.log_batches import batches_from

BYTES_MAX = 16 * MEGABYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """Records at or after the start offset; markers do not count."""

    own: int = 0
    """Of the transaction itself."""
    others: int = 0
    """Committed, aborted or open ones of other producers, and those without a transaction."""
    uncounted: str = ""
    """Why there may be more, as a phrase; empty when all are counted."""


@dataclass(slots=True)
class _Count:
    producer_id: int
    producer_epoch: int
    next_offset: int
    own: int = 0
    others: int = 0
    size: int = 0
    """Bytes read."""

    def take(self, records: bytes) -> None:
        """Count the next piece. Raises MalformedAnswerError."""
        self.size += len(records)
        for batch in batches_from(records, self.next_offset):
            self.next_offset = batch.next_offset
            if batch.is_control:
                continue
            is_own = (batch.producer_id, batch.producer_epoch) == (self.producer_id, self.producer_epoch)
            if is_own and batch.is_transactional:
                self.own += batch.records
            else:
                self.others += batch.records


async def held_back(
    client: ClusterClient, topic: str, partition: int, *, producer_id: int, producer_epoch: int, start_offset: int
) -> HeldBack:
    """Read the partition from the start offset to its high watermark, BYTES_MAX at most. A fault ends the count."""
    count = _Count(producer_id=producer_id, producer_epoch=producer_epoch, next_offset=start_offset)
    try:
        uncounted = await _read(client, topic, partition, count)
    except (BrokerFault, KafkaRequestError, ClusterUnavailableError) as fault:
        uncounted = str(fault)
    return HeldBack(own=count.own, others=count.others, uncounted=uncounted)


async def _read(client: ClusterClient, topic: str, partition: int, count: _Count) -> str:
    """Why the count ended before the high watermark; empty if it did not."""
    leader = await leader_of(client, topic, partition)
    while count.size < BYTES_MAX:
        before = count.next_offset
        _, high_watermark = await read_piece(client, leader, (topic, partition), before, count.take)
        if count.next_offset >= high_watermark:
            return ""
        if count.next_offset == before:
            return f"broker {leader} returns nothing at offset {before}"
    return f"only the first {BYTES_MAX // MEGABYTE} MB were read"
