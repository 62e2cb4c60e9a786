"""Counts the records that an open transaction holds back: its own, and those of others behind its start offset.

An operator decides by these two numbers: an ABORT marker drops the first, and lets consumers read the second.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.log_reader import LogBudget, LogReader
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.lookups import KafkaRequestError, leader_of
from exporter.kafka.messages.fetch import MEGABYTE
from exporter.kafka.messages.log_batches import Batch

BYTES_MAX = 16 * MEGABYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """Records at or after the start offset; markers do not count."""

    own: int = 0
    """Records of the transaction itself."""
    others: int = 0
    """Committed, aborted or open ones of other producers, and those without a transaction."""
    uncounted: str = ""
    """Reason why there may be more, as a phrase; empty when all are counted."""


async def held_back(
    client: ClusterClient, topic: str, partition: int, *, producer_id: int, start_offset: int
) -> HeldBack:
    """Reads the partition from the start offset to its high watermark, BYTES_MAX at most. A fault ends the count.

    Records of any epoch belong to the transaction: a marker ends all that the producer has open, also what hung before.
    """
    own = others = 0
    budget = LogBudget(BYTES_MAX)

    def take(batch: Batch, *_: object) -> None:
        nonlocal own, others
        if batch.is_control:
            return
        if batch.producer_id == producer_id and batch.is_transactional:
            own += batch.records
        else:
            others += batch.records

    try:
        leader = await leader_of(client, topic, partition)
        reader = LogReader(client, leader, (topic, partition), start_offset, take, budget)
        uncounted = await reader.read_to_end(
            lambda: "" if budget.bytes_left > 0 else f"only the first {BYTES_MAX // MEGABYTE} MB were read"
        )
    except (BrokerFault, KafkaRequestError, ClusterUnavailableError) as fault:
        uncounted = str(fault)
    return HeldBack(own=own, others=others, uncounted=uncounted)
