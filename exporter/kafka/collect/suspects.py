"""Sends more requests about suspects: their outcome on other partitions, and the consumer groups that they block."""

from __future__ import annotations

import numpy as np

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.consumer_groups import impact_on
from exporter.kafka.collect.end_markers import end_markers
from exporter.kafka.collect.state import CoordinatorView, Effects, Verification
from exporter.kafka.coordinators import by_producer_id
from exporter.snapshot import COMPLETING_STATES, CoordinatorTransaction

OPEN_MAX = 1000
"""Number of open transactions above which a command queries the groups behind suspects only."""


async def find_impact(
    client: ClusterClient,
    verified: Verification,
    coordinators: CoordinatorView,
    now_ms: int,
    *,
    search_logs: bool,
) -> Effects:
    """Finds the groups blocked by unverified transactions, and by those that may be overdue or stuck.

    `search_logs`: an operator's command. It also shows the groups behind live transactions, and reads the logs of other
    partitions for the outcome of unverified transactions there.
    """
    examined, unverified = verified.examined, np.flatnonzero(verified.unverified).tolist()
    suspected = [examined.at_leader(i) for i in unverified]
    markers = await end_markers(client, examined.topology, suspected) if suspected and search_logs else None
    described = by_producer_id(coordinators.transactions)
    kept_too_long = (
        i
        for i, producer_id in enumerate(examined.entries.producer_id.tolist())
        if is_kept_too_long(described.get(producer_id), now_ms)
    )
    partitions = {examined.partition(i) for i in [*unverified, *kept_too_long]}
    if search_logs and len(examined) <= OPEN_MAX:
        partitions |= {examined.partition(i) for i in range(len(examined))}
    impact = await impact_on(client, examined.topology, sorted(partitions)) if partitions else None
    return Effects(impact=impact, end_markers=markers)


def is_kept_too_long(transaction: CoordinatorTransaction | None, now_ms: int) -> bool:
    """Described, and completing or past its own time-out: it may be stuck or overdue."""
    if transaction is None or not transaction.is_described:
        return False
    start_ms = transaction.start_ms
    overdue = start_ms is not None and now_ms - start_ms > transaction.timeout_ms
    return transaction.state in COMPLETING_STATES or overdue
