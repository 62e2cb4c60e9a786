"""Reads a partition's log at its leader, piece by piece, to its end or until a budget is spent (Fetch, API key 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason, refusal_of
from exporter.kafka.messages import fetch
from exporter.kafka.messages.fetch import Position, fetched
from exporter.kafka.messages.log_batches import Batch, batches_from
from exporter.snapshot import TopicPartition

_LASTING_ERRORS = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OFFSET_OUT_OF_RANGE})
TakeBatch = Callable[[Batch, bytes, int], object]
"""Called with a batch, the piece in which it is, and the offset from which the log was read there."""


@dataclass(slots=True)
class LogBudget:
    """Bytes that may still be read; several readers may share one budget."""

    bytes_left: int


@dataclass(slots=True)
class LogReader:
    """A place in one log, from which `take_batch` gets every batch in order, each offset once."""

    client: ClusterClient
    leader: int
    partition: TopicPartition
    next_offset: int
    take_batch: TakeBatch
    budget: LogBudget
    size: int = 0
    """Bytes read."""
    high_watermark: int = -1
    """High watermark of the last response; -1 before the first."""

    async def read_piece(self) -> None:
        """Reads the next piece. Raises BrokerFault."""
        size, self.high_watermark = await read_piece(
            self.client, self.leader, self.partition, self.next_offset, self.take
        )
        self.size += size
        self.budget.bytes_left -= size

    def take(self, records: bytes) -> None:
        """Hands over the batches of a piece, and moves behind them. Raises MalformedResponseError."""
        for batch in batches_from(records, self.next_offset):
            offset, self.next_offset = self.next_offset, batch.next_offset
            self.take_batch(batch, records, offset)

    async def read_to_end(self, limit: Callable[[], str], is_enough: Callable[[], bool] = lambda: False) -> str:
        """Reads to the high watermark, or until it is enough; returns why the reading ended before, empty if it did not.

        `is_enough` is called after each piece, and `limit` before it: it returns the reason once a budget is spent, and is
        empty before. Raises BrokerFault.
        """
        while not (reason := limit()):
            before = self.next_offset
            await self.read_piece()
            if is_enough() or self.next_offset >= self.high_watermark:
                return ""
            if self.next_offset == before:
                return f"broker {self.leader} returns nothing at offset {before}"
        return reason


async def read_piece(
    client: ClusterClient,
    leader: int,
    partition: TopicPartition,
    offset: int,
    take: Callable[[bytes], object],
    *,
    patience_s: float | None = None,
) -> tuple[int, int]:
    """Returns (bytes, high watermark) of the piece from `offset` on, whose records `take` gets.

    Raises BrokerFault, which is lasting where a later request gets the same response.
    """

    def read(answer: Any) -> tuple[int, int, int]:
        error, records, high_watermark = fetched(answer)
        if error == ErrorCode.NONE:
            take(records)
        return error, len(records), high_watermark

    topic, number = partition
    request = fetch.request(topic, {number: Position(offset)})
    error, size, high_watermark = await client.request(leader, "Fetch", request, read, patience_s=patience_s)
    if error:
        reason = FaultReason.REFUSED if error in _LASTING_ERRORS else FaultReason.TIMED_OUT
        raise BrokerFault(reason, refusal_of(leader, topic, error))
    return size, high_watermark
