"""Sends more requests about transactions that may hold somebody up: the groups behind them, and the outcome of suspects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.consumer_groups import impact_on
from exporter.kafka.collect.disk import disk_space
from exporter.kafka.collect.end_markers import end_markers
from exporter.kafka.collect.examined import EarlierCycles
from exporter.kafka.collect.next_records import with_next_offsets
from exporter.kafka.collect.state import CoordinatorView, Effects, ExaminedEntries, Verification
from exporter.kafka.coordinators import by_producer_id
from exporter.snapshot import (
    COMPLETING_STATES,
    CoordinatorTransaction,
    Int64Column,
    SecondRead,
    holds_back,
)

HOLDING_MAX = 1000
"""Live transactions behind which a cycle looks for groups, and partitions whose size it reads; more partitions make each
response of a broker larger."""
OPEN_MAX = 1000
"""Number of open transactions above which a command queries the groups behind suspects only."""


async def find_impact(
    client: ClusterClient,
    verified: Verification,
    coordinators: CoordinatorView,
    ends: Int64Column,
    now_ms: int,
    earlier: EarlierCycles,
    *,
    search_logs: bool,
) -> Effects:
    """Finds groups and bytes behind transactions that are unverified, may be overdue or stuck, or hold records back.

    `ends` (K, 2) are last stable offset and high watermark of each one's partition. `search_logs`: an operator's command,
    which also shows the groups behind all live transactions, and reads the logs of other partitions for the outcome of
    unverified transactions there.
    """
    examined, unverified = verified.examined, np.flatnonzero(verified.unverified).tolist()
    suspected = [examined.at_leader(i) for i in unverified]
    markers = await end_markers(client, examined.topology, suspected) if suspected and search_logs else None
    described = by_producer_id(coordinators.transactions)
    kept_too_long = [
        i
        for i, producer_id in enumerate(examined.entries.producer_id.tolist())
        if is_kept_too_long(described.get(producer_id), now_ms)
    ]
    by_offsets = [
        i
        for i, second_read in enumerate(examined.second_read.tolist())
        if second_read != int(SecondRead.NOT_ASKED) and verified.held_offset(i) is not None
    ]
    in_doubt = [*unverified, *kept_too_long, *by_offsets, *_holding_back(examined, described, ends)]
    partitions = {examined.partition(i) for i in in_doubt}
    holds = holds_back(examined.entries.current_txn_start_offset, *ends.T)
    held = list(dict.fromkeys(examined.partition(i) for i in in_doubt if holds[i]))[:HOLDING_MAX]
    if search_logs and len(examined) <= OPEN_MAX:
        partitions |= {examined.partition(i) for i in range(len(examined))}
    impact = await impact_on(client, examined.topology, sorted(partitions)) if partitions else None
    if impact is not None:
        of_held = {examined.partition(i): (int(ends[i, 0]), int(ends[i, 1])) for i in np.flatnonzero(holds).tolist()}
        offsets, read = await with_next_offsets(
            client, examined.topology, impact.offsets, of_held, earlier=earlier.positions_read
        )
        impact = replace(impact, offsets=tuple(offsets), positions_read=read)
    disk = await disk_space(client, examined.topology, held, now_ms, earlier.disk)
    return Effects(impact=impact, disk=disk, end_markers=markers)


def _holding_back(
    examined: ExaminedEntries, described: Mapping[int, CoordinatorTransaction], ends: Int64Column
) -> list[int]:
    """Returns those that an earlier cycle has seen and at which the last stable offset stands, with records behind it.

    Up to HOLDING_MAX, the longest open first. What an earlier cycle has not seen is not described, or is unverified.
    """
    entries, since = examined.entries, {}
    for i in np.flatnonzero(holds_back(entries.current_txn_start_offset, *ends.T)).tolist():
        transaction = described.get(int(entries.producer_id[i]))
        if transaction is not None and transaction.is_described and transaction.start_ms is not None:
            since[i] = transaction.start_ms
    return sorted(since, key=since.__getitem__)[:HOLDING_MAX]


def is_kept_too_long(transaction: CoordinatorTransaction | None, now_ms: int) -> bool:
    """Described, and completing or past its own time-out: it may be stuck or overdue."""
    if transaction is None or not transaction.is_described:
        return False
    start_ms = transaction.start_ms
    overdue = start_ms is not None and now_ms - start_ms > transaction.timeout_ms
    return transaction.state in COMPLETING_STATES or overdue
