"""Chooses the open transactions that a cycle examines one by one: all of them, up to a limit.

Beyond the limit transactions stay columns: they are counted with their age, and inconclusive if they need a request to
their coordinators. Those that need one come before those that have just begun, and the longest idle come first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from exporter.kafka.collect.log_before import LogFacts
from exporter.kafka.collect.scan import Entries
from exporter.kafka.collect.state import ExaminedEntries, UnexaminedEntries
from exporter.kafka.coordinators import Listing
from exporter.kafka.topology import Topology
from exporter.snapshot import (
    ACTIVE_STATES,
    COMPLETING_STATES,
    NO_KEYS,
    BoolColumn,
    TransactionKeys,
    TransactionState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBefore:
    """Transactions that earlier cycles have seen open."""

    keys: TransactionKeys | None = NO_KEYS
    """Keys of transactions seen before; None treats every transaction as seen."""
    log_facts: LogFacts = field(default_factory=dict)
    """Facts from the logs of suspects that were read."""


def set_aside(
    examined: ExaminedEntries, listings: Sequence[Listing], seen: SeenBefore, limit: int
) -> tuple[ExaminedEntries, UnexaminedEntries | None]:
    """Returns at most `limit` of the entries, and the others; None if there are no others."""
    entries = examined.entries
    if len(entries) <= limit:
        return examined, None
    is_listed, is_completing = _listed(entries, listings)
    needs = _was_seen(keys_of(examined.topology, entries), seen) | ~is_listed
    order = np.lexsort((entries.last_timestamp, ~needs))
    for part in (order[:limit], order[limit:]):
        part.sort()
    in_order = entries.those(order)
    others = UnexaminedEntries(in_order, limit, needs[order[limit:]], is_completing[order[limit:]])
    return replace(examined.those(order[:limit]), entries=in_order.those(slice(limit))), others


def were_seen(examined: ExaminedEntries, seen: SeenBefore) -> BoolColumn:
    """(K,) entries that an earlier cycle has seen open."""
    return _was_seen(keys_of(examined.topology, examined.entries), seen)


def keys_of(topology: Topology, entries: Entries) -> TransactionKeys:
    """Returns the identity of the entries over cycles."""
    return TransactionKeys(
        topics=topology.topics,
        topic_ids=topology.topic_ids,
        topic=topology.topic[entries.row],
        partition=topology.partition[entries.row],
        producer_id=entries.producer_id,
        start_offset=entries.current_txn_start_offset,
    )


def _was_seen(keys: TransactionKeys, seen: SeenBefore) -> BoolColumn:
    if seen.keys is None:
        return np.ones(len(keys), dtype=np.bool_)
    was_seen: BoolColumn = keys.places_in(seen.keys) >= 0
    return was_seen


def _listed(entries: Entries, listings: Sequence[Listing]) -> tuple[BoolColumn, BoolColumn]:
    """(N,) entries whose producer some coordinator lists as active, and those that it lists as completing."""

    def is_in(states: Collection[TransactionState]) -> BoolColumn:
        parts = [listing.listed.producer_id[listing.listed.is_in(states)] for listing in listings]
        return np.isin(entries.producer_id, np.concatenate([np.empty(0, dtype=np.int64), *parts]))

    return is_in(ACTIVE_STATES), is_in(COMPLETING_STATES)
