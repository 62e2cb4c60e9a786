"""The memory between cycles: when a transaction was first seen, and its last known start."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from exporter.snapshot import NO_KEYS, NULL, BoolColumn, Int64Column, Snapshot, TransactionKey, TransactionKeys, keys_of


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


Facts = Mapping[str, npt.NDArray[np.signedinteger[Any]]]
"""Columns by name."""
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

    def __init__(self, identity: TransactionKeys, columns: Facts) -> None:
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
        return cls(identity, {name: _column(rows, name) for name in (*FACTS, *EXAMINED_FACTS)})

    @classmethod
    def first_examined(
        cls, identity: TransactionKeys, rows: Collection[Remembered], facts: Facts
    ) -> RememberedTransactions:
        """The transactions `identity`, of which the first ones were examined: `rows`.

        `facts` has the columns of FACTS (N); the first values of each are replaced by those of `rows`.
        """
        for name, column in facts.items():
            column[: len(rows)] = _column(rows, name)
        return cls(identity, {**facts, **{name: _column(rows, name) for name in EXAMINED_FACTS}})

    @classmethod
    def joined(cls, parts: Sequence[RememberedTransactions]) -> RememberedTransactions:
        """All of `parts`, the examined ones first."""
        some = [part for part in parts if len(part)]
        if len(some) <= 1:
            return some[0] if some else NO_TRANSACTIONS
        halves = [part.half(is_examined=is_examined) for is_examined in (True, False) for part in some]
        return cls(
            TransactionKeys.joined([half.identity for half in halves]),
            {name: np.concatenate([half.columns[name] for half in halves]) for name in (*FACTS, *EXAMINED_FACTS)},
        )

    @property
    def examined_count(self) -> int:
        """K."""
        return len(self.columns[EXAMINED_FACTS[0]])

    def half(self, *, is_examined: bool) -> RememberedTransactions:
        """The examined ones, or the others, in the same memory."""
        count = self.examined_count
        return self._part(slice(count), slice(count)) if is_examined else self._part(slice(count, None), slice(0))

    def those(self, rows: BoolColumn) -> RememberedTransactions:
        """Some of them."""
        return self._part(rows, rows[: self.examined_count])

    def _part(self, rows: BoolColumn | slice, examined: BoolColumn | slice) -> RememberedTransactions:
        facts = {name: self.columns[name][rows] for name in FACTS}
        of_examined = {name: self.columns[name][examined] for name in EXAMINED_FACTS}
        return RememberedTransactions(self.identity.those(rows), {**facts, **of_examined})

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


def _column(rows: Iterable[Remembered], name: str) -> Int64Column:
    values = (getattr(row, name) for row in rows)
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


@dataclass(frozen=True, slots=True)
class MemoryJoin:
    """The open transactions of a snapshot (N), with the row of each in the memory."""

    keys: TransactionKeys
    place: Int64Column
    """(N,) -1 where the memory has none."""
    transactions: RememberedTransactions

    def remembered(self, row: int) -> Remembered | None:
        place = int(self.place[row])
        return self.transactions.row(place) if place >= 0 else None


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

    def join(self, snapshot: Snapshot) -> MemoryJoin:
        """Finds the open transactions of `snapshot` in this memory, which may be that of another cluster."""
        keys = keys_of(snapshot.partitions, snapshot.open_transactions)
        return MemoryJoin(keys, keys.places_in(self.seen if self.is_of(snapshot) else NO_KEYS), self.transactions)

    @property
    def seen(self) -> TransactionKeys:
        """The transactions that earlier cycles have seen open."""
        return self.transactions.identity

    def without_monotonic(self) -> Memory:
        """The memory for a cycle on another machine, whose monotonic clock has another beginning."""
        return replace(self, transactions=self.transactions.without(("completing_from_ms", "watched_from_ms")))
