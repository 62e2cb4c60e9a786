"""The memory between cycles: when a transaction was first seen, and its last known start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from exporter.snapshot import BoolColumn, Int32Column, Int64Column, TransactionKey, TransactionKeys
from exporter.snapshot.unexamined import NO_KEYS


class GroupKey(NamedTuple):
    """A consumer group on one partition."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """Facts about one open transaction from earlier cycles. Instants in milliseconds, by the cluster's clock."""

    first_seen_ms: int
    last_seen_ms: int
    producer_epoch: int
    coordinator_start_ms: int = -1
    """Start from its coordinator while that owned the transaction at `producer_epoch`; -1 if it never did."""
    completing_since_ms: int = -1
    """When it was first seen in PrepareCommit or PrepareAbort; -1 if it is not."""
    start_ms: int = -1
    """The earliest start that any source gave while it is open, without first-seen times; -1 before one did."""
    start_source: int = -1
    """`StartSource` of that."""
    clock_offset_ms: int = 0
    """The cluster's clock minus this machine's when it was first seen: either may be set afterwards."""
    not_open_at_ms: int = -1
    """The latest instant, by a broker's clock, at which it is known not to have been open yet; -1 if there is none."""
    open_at_ms: int | None = None
    """`first_seen_ms`; earlier if the cluster's clock was set back since, which the monotonic clock shows."""
    superseded_epoch: int | None = None
    """The epoch of its records, if a proof found its id at a newer epoch without a transaction; not kept on disk."""
    completing_from_ms: int | None = None
    """The same instant as `completing_since_ms` by this machine's monotonic clock; never carried over a restart."""
    watched_from_ms: int | None = None
    """When this process first saw it, by that clock; never carried over a restart."""


@dataclass(frozen=True, kw_only=True)
class SeenUnexamined:
    """Facts about open transactions that were not examined, as columns; not kept on disk."""

    keys: TransactionKeys
    first_seen_ms: Int64Column
    last_seen_ms: Int64Column
    producer_epoch: Int32Column
    coordinator_start_ms: Int64Column
    """As in `Remembered`, from the time when they were examined; the next three as well."""
    start_ms: Int64Column
    start_source: Int64Column
    not_open_at_ms: Int64Column

    def __len__(self) -> int:
        return len(self.keys)

    def those(self, rows: BoolColumn) -> SeenUnexamined:
        """Some of them."""
        columns = {name: getattr(self, name)[rows] for name in FACTS}
        return SeenUnexamined(keys=self.keys.those(rows), **columns)

    def with_others(self, others: SeenUnexamined) -> SeenUnexamined:
        """These, and `others` after them."""
        if not len(others):
            return self
        columns = {name: np.concatenate((getattr(self, name), getattr(others, name))) for name in FACTS}
        return SeenUnexamined(keys=self.keys.with_others(others.keys), **columns)

    def remembered(self, place: int) -> Remembered:
        """The facts about one that is examined now."""
        return Remembered(**{name: int(getattr(self, name)[place]) for name in FACTS})


FACTS = (
    "first_seen_ms",
    "last_seen_ms",
    "producer_epoch",
    "coordinator_start_ms",
    "start_ms",
    "start_source",
    "not_open_at_ms",
)
"""Those that both records have."""
_NONE: Int64Column = np.empty(0, dtype=np.int64)
NONE_UNEXAMINED = SeenUnexamined(
    keys=NO_KEYS,
    first_seen_ms=_NONE,
    last_seen_ms=_NONE,
    producer_epoch=np.empty(0, dtype=np.int32),
    coordinator_start_ms=_NONE,
    start_ms=_NONE,
    start_source=_NONE,
    not_open_at_ms=_NONE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReading:
    """The partitions that a cycle has read, with all transactions that were open there in the memory."""

    at_ms: int
    """When reading began, by the cluster's clock."""
    topics: tuple[str, ...]
    topic_ids: tuple[str, ...]
    """"" if unknown."""
    partitions: tuple[int, ...]
    """How many each topic had."""
    unread: frozenset[tuple[str, int]] = frozenset()

    def has_read(self, key: TransactionKey) -> bool:
        """True if the partition of `key` was read."""
        if (key.topic, key.partition) in self.unread or key.topic not in self.topics:
            return False
        at = self.topics.index(key.topic)
        return self.topic_ids[at] == key.topic_id and key.partition < self.partitions[at]


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Open transactions remembered from earlier cycles of one cluster."""

    cluster_id: str = ""
    """Empty before the first cycle."""
    transactions: Mapping[TransactionKey, Remembered] = field(default_factory=lambda: MappingProxyType({}))
    unexamined: SeenUnexamined = NONE_UNEXAMINED
    """Transactions that were not examined."""
    blocked: Mapping[GroupKey, int] = field(default_factory=lambda: MappingProxyType({}))
    """Since when a suspect blocks each group, by the cluster's clock."""

    last_reading: LastReading | None = None
    """None before the first complete view of the cluster's topics."""

    def without_monotonic(self) -> Memory:
        """For a cycle on another machine, whose monotonic clock has another beginning."""
        known = {
            key: replace(each, completing_from_ms=None, watched_from_ms=None) for key, each in self.transactions.items()
        }
        return replace(self, transactions=MappingProxyType(known))

    def of(self, key: TransactionKey) -> Remembered | None:
        """Facts about `key`, also from before its topic id was known."""
        return self.transactions.get(key) or self.transactions.get(key._replace(topic_id=""))
