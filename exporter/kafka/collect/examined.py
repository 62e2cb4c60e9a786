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
from exporter.snapshot import (
    ACTIVE_STATES,
    COMPLETING_STATES,
    NO_KEYS,
    BoolColumn,
    DiskSpace,
    PositionRead,
    RememberedCompletions,
    TransactionKeys,
    TransactionState,
    keys_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierCycles:
    """Knowledge of earlier cycles about open transactions."""

    keys: TransactionKeys | None = NO_KEYS
    """Keys of transactions seen before; None treats every transaction as seen."""
    completing: RememberedCompletions | None = None
    """Transactions that coordinators listed as completing; None where only some partitions are read."""
    log_facts: LogFacts = field(default_factory=dict)
    """Facts from the logs of suspects that were read."""
    disk: DiskSpace | None = None
    """The last reading of log directories."""
    positions_read: tuple[PositionRead, ...] = ()
    """Positions from which the last cycle knew logs."""


def set_aside(
    examined: ExaminedEntries, listings: Sequence[Listing], was_seen: BoolColumn, limit: int
) -> tuple[ExaminedEntries, BoolColumn, UnexaminedEntries | None]:
    """Returns at most `limit` of the entries with their `was_seen`, and the others; None if there are no others."""
    entries = examined.entries
    if len(entries) <= limit:
        return examined, was_seen, None
    is_listed, is_completing = _listed(entries, listings)
    needs = was_seen | ~is_listed
    order = np.lexsort((entries.last_timestamp, ~needs))
    for part in (order[:limit], order[limit:]):
        part.sort()
    in_order = entries.those(order)
    others = UnexaminedEntries(in_order, limit, needs[order[limit:]], is_completing[order[limit:]])
    chosen = order[:limit]
    first = replace(examined, entries=in_order.those(slice(limit)), second_read=examined.second_read[chosen])
    return first, was_seen[chosen], others


def were_seen(examined: ExaminedEntries, earlier: EarlierCycles) -> BoolColumn:
    """(N,) entries that an earlier cycle has seen open."""
    if earlier.keys is None:
        return np.ones(len(examined), dtype=np.bool_)
    keys = keys_of(examined.topology, examined.entries.row, examined.entries)
    was_seen: BoolColumn = keys.places_in(earlier.keys) >= 0
    return was_seen


def _listed(entries: Entries, listings: Sequence[Listing]) -> tuple[BoolColumn, BoolColumn]:
    """(N,) entries whose producer some coordinator lists as active, and those that it lists as completing."""

    def is_in(states: Collection[TransactionState]) -> BoolColumn:
        parts = [listing.listed.producer_id[listing.listed.is_in(states)] for listing in listings]
        return np.isin(entries.producer_id, np.concatenate([np.empty(0, dtype=np.int64), *parts]))

    return is_in(ACTIVE_STATES), is_in(COMPLETING_STATES)
