"""Sends more requests about suspects: their outcome on other partitions, and the consumer groups that they block."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.consumer_groups import impact_on
from exporter.kafka.collect.end_markers import end_markers
from exporter.kafka.collect.state import CollectionState
from exporter.kafka.coordinators import by_producer_id
from exporter.snapshot import COMPLETING_STATES, CoordinatorTransaction

OPEN_MAX = 1000
"""With more open transactions, a command asks for the groups behind suspects only."""


async def find_impact(
    client: ClusterClient,
    reading: CollectionState,
    unverified: npt.NDArray[np.bool_],
    now_ms: int,
    *,
    search_logs: bool,
) -> None:
    """Find the groups blocked by unverified transactions, and by those that may be overdue or stuck.

    `search_logs`: an operator's command. It also shows the groups behind live transactions, and reads the logs of other
    partitions for the outcome of unverified transactions there.
    """
    suspected = [reading.at_leader(int(i)) for i in np.flatnonzero(unverified)]
    if suspected and search_logs:
        reading.end_markers = await end_markers(client, reading.topology, suspected)
    described = by_producer_id(reading.transactions)
    kept_too_long = (
        i
        for i in range(len(reading.entries))
        if is_kept_too_long(described.get(int(reading.entries.producer_id[i])), now_ms)
    )
    partitions = {reading.partition(int(i)) for i in [*np.flatnonzero(unverified), *kept_too_long]}
    if search_logs and len(reading.entries) <= OPEN_MAX:
        partitions |= {reading.partition(i) for i in range(len(reading.entries))}
    if partitions:
        reading.impact = await impact_on(client, reading.topology, sorted(partitions))


def is_kept_too_long(transaction: CoordinatorTransaction | None, now_ms: int) -> bool:
    """Described, and completing or past its own time-out: it may be stuck or overdue."""
    if transaction is None or not transaction.is_described:
        return False
    start_ms = transaction.start_time_ms
    overdue = start_ms is not None and now_ms - start_ms > transaction.timeout_ms
    return transaction.state in COMPLETING_STATES or overdue
