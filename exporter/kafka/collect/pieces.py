"""Reads a partition's log at its leader, one piece after the other (Fetch, API key 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason, error_name
from exporter.kafka.messages.fetch import fetched, piece_request
from exporter.snapshot import TopicPartition


async def read_piece(
    client: ClusterClient,
    leader: int,
    partition: TopicPartition,
    offset: int,
    take: Callable[[bytes], object],
    *,
    patience_s: float | None = None,
) -> tuple[int, int]:
    """(bytes, high watermark) of the piece from `offset` on, whose records `take` gets. Raises BrokerFault."""

    def read(answer: Any) -> tuple[int, int, int]:
        error, records, high_watermark = fetched(answer)
        if error == ErrorCode.NONE:
            take(records)
        return error, len(records), high_watermark

    request = piece_request(*partition, offset)
    error, size, high_watermark = await client.request(leader, "Fetch", request, read, patience_s=patience_s)
    if error:
        raise BrokerFault(FaultReason.REFUSED, f"broker {leader} responded with {error_name(error)}")
    return size, high_watermark
