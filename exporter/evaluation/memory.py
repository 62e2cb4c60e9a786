"""The memory between cycles: when a transaction was first seen, and its last known start."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from exporter.snapshot import NO_KEYS, NULL, BoolColumn, Int64Column, Snapshot, TransactionKey, TransactionKeys


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
    coordinator_start_ms: int | None = None
    """Start from its coordinator while that owned the transaction at `producer_epoch`."""
    start_ms: int | None = None
    """The earliest start that any source gave while it is open, without first-seen times."""
    start_source: int | None = None
    """`StartSource` of that."""
    not_open_at_ms: int | None = None
    """The latest instant, by a broker's clock, at which it is known not to have been open yet."""
    completing_since_ms: int | None = None
    """When it was first seen in PrepareCommit or PrepareAbort."""
    clock_offset_ms: int = 0
    """The cluster's clock minus this machine's when it was first seen: either may be set afterwards."""
    open_at_ms: int | None = None
    """`first_seen_ms`; earlier if the cluster's clock was set back since, which the monotonic clock shows."""
    superseded_epoch: int | None = None
    """The epoch of its records, if a proof found its id at a newer epoch without a transaction; not kept on disk."""
    completing_from_ms: int | None = None
    """The same instant as `completing_since_ms` by this machine's monotonic clock; never carried over a restart."""
    watched_from_ms: int | None = None
    """When this process first saw it, by that clock; never carried over a restart."""


FACTS = (
    "first_seen_ms",
    "last_seen_ms",
    "producer_epoch",
    "coordinator_start_ms",
    "start_ms",
    "start_source",
    "not_open_at_ms",
)
"""Facts about every open transaction; those about the examined ones alone are the other fields of `Remembered`."""
EXAMINED_FACTS = tuple(one.name for one in fields(Remembered) if one.name not in FACTS)


class RememberedTransactions(Mapping[TransactionKey, Remembered]):
    """Open transactions of earlier cycles, as columns (N): those that were examined (K) come first.

    Each is a row, `Remembered`, on request. A million of them are no objects.
    """

    def __init__(self, identity: TransactionKeys, columns: Mapping[str, Int64Column]) -> None:
        """`columns` has those of FACTS (N) and of EXAMINED_FACTS (K), with NULL where nothing is known."""
        self.identity = identity
        self.columns = columns

    @classmethod
    def of(cls, rows: Mapping[TransactionKey, Remembered]) -> RememberedTransactions:
        """The same as columns; all are examined."""
        return cls.examined(TransactionKeys.of(rows), rows.values())

    @classmethod
    def examined(cls, identity: TransactionKeys, rows: Collection[Remembered]) -> RememberedTransactions:
        """The examined transactions `identity`, one row each."""
        return cls(identity, {name: _column(getattr(row, name) for row in rows) for name in (*FACTS, *EXAMINED_FACTS)})

    @classmethod
    def unexamined(cls, identity: TransactionKeys, columns: Mapping[str, Int64Column]) -> RememberedTransactions:
        """Those that were not examined; `columns` has those of FACTS."""
        return cls(identity, {**columns, **dict.fromkeys(EXAMINED_FACTS, _NOTHING)})

    @classmethod
    def joined(cls, parts: Sequence[RememberedTransactions]) -> RememberedTransactions:
        """All of `parts`, the examined ones first."""
        halves = [part.half(is_examined=is_examined) for is_examined in (True, False) for part in parts]
        return cls(
            TransactionKeys.joined([half.identity for half in halves]),
            {name: np.concatenate([half.columns[name] for half in halves]) for name in (*FACTS, *EXAMINED_FACTS)},
        )

    @property
    def examined_count(self) -> int:
        """K."""
        return len(self.columns[EXAMINED_FACTS[0]])

    def half(self, *, is_examined: bool) -> RememberedTransactions:
        """The examined ones, or the others."""
        place = np.arange(len(self))
        return self.those(place < self.examined_count if is_examined else place >= self.examined_count)

    def those(self, rows: BoolColumn) -> RememberedTransactions:
        """Some of them."""
        examined = rows[: self.examined_count]
        return RememberedTransactions(
            self.identity.those(rows),
            {
                **{name: self.columns[name][rows] for name in FACTS},
                **{name: self.columns[name][examined] for name in EXAMINED_FACTS},
            },
        )

    def row(self, place: int) -> Remembered:
        """The facts in one row."""
        names = FACTS if place >= self.examined_count else (*FACTS, *EXAMINED_FACTS)
        return Remembered(**{name: _value(self.columns[name][place]) for name in names})  # type: ignore[arg-type]

    def rows(self) -> Iterator[Remembered]:
        """The rows of the examined ones."""
        return map(self.row, range(self.examined_count))

    def without(self, names: Collection[str]) -> RememberedTransactions:
        """The same without these facts about the examined ones."""
        nothing = np.full(self.examined_count, NULL, dtype=np.int64)
        return RememberedTransactions(self.identity, {**self.columns, **dict.fromkeys(names, nothing)})

    def place(self, key: TransactionKey) -> int | None:
        """The row of `key`, also from before its topic id was known; None if it is missing."""
        keys = self.identity
        is_here = (keys.producer_id == key.producer_id) & (keys.start_offset == key.start_offset)
        for place in np.flatnonzero(is_here & (keys.partition == key.partition)).tolist():
            topic = int(keys.topic[place])
            if keys.topics[topic] == key.topic and keys.topic_ids[topic] in {key.topic_id, ""}:
                return int(place)
        return None

    def __getitem__(self, key: TransactionKey) -> Remembered:
        place = self.place(key)
        if place is None:
            raise KeyError(key)
        return self.row(place)

    def __iter__(self) -> Iterator[TransactionKey]:
        return self.identity.rows()

    def __len__(self) -> int:
        return len(self.identity)


_NOTHING: Int64Column = np.empty(0, dtype=np.int64)


def _column(values: Iterable[int | None]) -> Int64Column:
    return np.fromiter((NULL if value is None else value for value in values), dtype=np.int64)


def _value(number: np.int64) -> int | None:
    return None if number == NULL else int(number)


NO_TRANSACTIONS = RememberedTransactions.of({})


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
    transactions: RememberedTransactions = field(default_factory=lambda: NO_TRANSACTIONS)
    blocked: Mapping[GroupKey, int] = field(default_factory=lambda: MappingProxyType({}))
    """Since when a suspect blocks each group, by the cluster's clock."""

    last_reading: LastReading | None = None
    """None before the first complete view of the cluster's topics."""

    def examined_producer_ids(self) -> Collection[int]:
        """The producers of transactions that were examined."""
        producer_ids: list[int] = self.seen.producer_id[: self.transactions.examined_count].tolist()
        return producer_ids

    def is_of(self, snapshot: Snapshot) -> bool:
        """True if it may have the transactions of this cluster."""
        return self.cluster_id in {"", snapshot.cluster_id}

    def places_of(self, keys: TransactionKeys, snapshot: Snapshot) -> Int64Column:
        """(N,) the row of each in `transactions`; -1 if there is none, or if the memory is of another cluster."""
        return keys.places_in(self.seen if self.is_of(snapshot) else NO_KEYS)

    @property
    def seen(self) -> TransactionKeys:
        """The transactions that earlier cycles have seen open."""
        return self.transactions.identity

    def without_monotonic(self) -> Memory:
        """The memory for a cycle on another machine, whose monotonic clock has another beginning."""
        return replace(self, transactions=self.transactions.without(("completing_from_ms", "watched_from_ms")))
