"""Counts the records that an open transaction holds back: its own, and those of others behind its start offset.

An operator decides by these two numbers: an ABORT marker drops the first, and lets consumers read the second.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.log_reader import LogBudget, LogReader
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.lookups import KafkaRequestError, leader_of
from exporter.kafka.messages.fetch import MEGABYTE
from exporter.kafka.messages.log_batches import Batch, markers_in

BYTES_MAX = 16 * MEGABYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """Records at or after the start offset; markers do not count."""

    own: int = 0
    """Records of the transaction itself."""
    others: int = 0
    """Records that consumers of committed records wait for: committed ones of others, and those without a transaction."""
    others_open: int = 0
    """Records of other transactions that are open; 0 where not all are counted."""
    uncounted: str = ""
    """Reason why there may be more, as a phrase; empty when all are counted."""


async def held_back(
    client: ClusterClient, topic: str, partition: int, *, producer_id: int, start_offset: int
) -> HeldBack:
    """Reads the partition from the start offset to its high watermark, BYTES_MAX at most. A fault ends the count.

    Records of any epoch belong to the transaction: a marker ends all that the producer has open, also what hung before.
    """
    own = others = 0
    undecided: Counter[int] = Counter()
    budget = LogBudget(BYTES_MAX)

    def take(batch: Batch, records: bytes, *_: object) -> None:
        nonlocal own, others
        if batch.is_control:
            ended = undecided.pop(batch.producer_id, 0)
            others += ended if any(marker.commit for marker in markers_in(batch, records)) else 0
        elif not batch.is_transactional:
            others += batch.records
        elif batch.producer_id == producer_id:
            own += batch.records
        else:
            undecided[batch.producer_id] += batch.records

    try:
        leader = await leader_of(client, topic, partition)
        reader = LogReader(client, leader, (topic, partition), start_offset, take, budget)
        uncounted = await reader.read_to_end(
            lambda: "" if budget.bytes_left > 0 else f"only the first {BYTES_MAX // MEGABYTE} MB were read"
        )
    except (BrokerFault, KafkaRequestError, ClusterUnavailableError) as fault:
        uncounted = str(fault)
    return HeldBack(own=own, others=others, others_open=0 if uncounted else undecided.total(), uncounted=uncounted)
