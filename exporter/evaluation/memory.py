"""The memory between cycles: when a transaction was first seen, and its last known start."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from exporter.evaluation.possible_owners import RememberedOffset
from exporter.evaluation.silences import NO_SILENCES, Silences
from exporter.snapshot import (
    NO_KEYS,
    NOTHING_REMEMBERED,
    NULL,
    UNKNOWN_OFFSET,
    BoolColumn,
    Int64Column,
    RememberedBytes,
    RememberedCompletions,
    Snapshot,
    TopicPartition,
    TransactionKey,
    TransactionKeys,
    keys_of,
)


class GroupKey(NamedTuple):
    """A consumer group on one partition."""

    group: str
    topic: str
    partition: int
    topic_id: str = ""
    """"" from brokers without topic ids, and from files of earlier versions."""


class RememberedBlock(NamedTuple):
    """The block of a consumer group on one partition."""

    since_ms: int
    """Start of it, by the cluster's clock."""
    last_stable_offset: int = UNKNOWN_OFFSET
    """Offset at which it stands; a later one ends the block. UNKNOWN_OFFSET on `__consumer_offsets`, where it says nothing
    of one group, and from files of earlier versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedTransaction:
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
    """Time at which the transaction was first seen in PrepareCommit or PrepareAbort."""
    clock_offset_ms: int = 0
    """The cluster's clock minus this machine's when it was first seen: either may be set afterwards."""
    open_at_ms: int | None = None
    """`first_seen_ms`; earlier if the cluster's clock was set back since, which the monotonic clock shows."""
    superseded_epoch: int | None = None
    """The epoch of its records, if a proof found its id at a newer epoch without a transaction; not kept on disk."""
    completing_from_ms: int | None = None
    """Instant of `completing_since_ms` by this machine's monotonic clock; never carried over a restart."""
    watched_from_ms: int | None = None
    """Time at which this process first saw the transaction, by that clock; never carried over a restart."""
    last_sequence: int | None = None
    last_timestamp_ms: int | None = None
    """Sequence and timestamp of its producer's last write on the partition."""
    unchanged_from_ms: int | None = None
    """Time since which this process has seen these two, by the monotonic clock; never carried over a restart."""


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
"""Facts about open transactions that were not examined; `RememberedTransaction` has more about those that were."""


class RememberedTransactions(Mapping[TransactionKey, RememberedTransaction]):
    """Open transactions of earlier cycles (N): records of those that were examined (K), then columns of the others.

    Each is a row, `RememberedTransaction`, on request; a million that were not examined are no objects.
    """

    def __init__(self, identity: TransactionKeys, examined: tuple[RememberedTransaction, ...], others: Facts) -> None:
        """`others` has the columns of FACTS (N - K), with NULL where nothing is known."""
        self.identity = identity
        self.examined = examined
        self.others = others

    @classmethod
    def of(cls, rows: Mapping[TransactionKey, RememberedTransaction]) -> RememberedTransactions:
        """Returns the memory of these transactions; all are examined."""
        return cls(TransactionKeys.of(rows), tuple(rows.values()), NO_FACTS)

    @classmethod
    def joined(cls, parts: Sequence[RememberedTransactions]) -> RememberedTransactions:
        """Joins all of `parts`, the examined ones first."""
        some = [part for part in parts if len(part)]
        if len(some) <= 1:
            return some[0] if some else NO_TRANSACTIONS
        examined = [part.identity.those(slice(part.examined_count)) for part in some]
        others = [part.identity.those(slice(part.examined_count, None)) for part in some]
        return cls(
            TransactionKeys.joined([*examined, *others]),
            tuple(row for part in some for row in part.examined),
            {name: np.concatenate([part.others[name] for part in some]) for name in FACTS},
        )

    @property
    def examined_count(self) -> int:
        """K."""
        return len(self.examined)

    def those(self, rows: BoolColumn) -> RememberedTransactions:
        """Returns the transactions of these rows."""
        count = self.examined_count
        return RememberedTransactions(
            self.identity.those(rows),
            tuple(compress(self.examined, rows[:count].tolist())),
            {name: column[rows[count:]] for name, column in self.others.items()},
        )

    def row(self, place: int) -> RememberedTransaction:
        """The facts in one row."""
        at = place - self.examined_count
        if at < 0:
            return self.examined[place]
        numbers = {name: int(column[at]) for name, column in self.others.items()}
        return RememberedTransaction(**{name: None if number == NULL else number for name, number in numbers.items()})  # type: ignore[arg-type]

    def facts_at(self, place: Int64Column) -> dict[str, Int64Column]:
        """The columns of FACTS for these rows."""
        at = place - self.examined_count
        is_other = at >= 0
        rows = [self.examined[row] for row in place[~is_other].tolist()]
        columns = {}
        for name, column in self.others.items():
            values: Int64Column = np.empty(len(place), dtype=np.int64)
            values[is_other] = column[at[is_other]]
            values[~is_other] = [NULL if getattr(row, name) is None else getattr(row, name) for row in rows]
            columns[name] = values
        return columns

    def last_seen_ms(self) -> Int64Column:
        """(N,) as in `RememberedTransaction`."""
        of_examined = np.array([row.last_seen_ms for row in self.examined], dtype=np.int64)
        return np.concatenate((of_examined, self.others["last_seen_ms"]))

    def without_monotonic(self) -> RememberedTransactions:
        """Removes monotonic instants, for another machine, whose monotonic clock has another beginning."""
        rows = tuple(
            replace(row, completing_from_ms=None, watched_from_ms=None, unchanged_from_ms=None) for row in self.examined
        )
        return RememberedTransactions(self.identity, rows, self.others)

    def place(self, key: TransactionKey) -> int | None:
        """The row of `key`, also from before its topic id was known; None if it is missing."""
        keys = self.identity
        is_here = (keys.producer_id == key.producer_id) & (keys.start_offset == key.start_offset)
        for place in np.flatnonzero(is_here & (keys.partition == key.partition)).tolist():
            topic = int(keys.topic[place])
            if keys.topics[topic] == key.topic and keys.topic_ids[topic] in {key.topic_id, ""}:
                return int(place)
        return None

    def __getitem__(self, key: TransactionKey) -> RememberedTransaction:
        place = self.place(key)
        if place is None:
            raise KeyError(key)
        return self.row(place)

    def __iter__(self) -> Iterator[TransactionKey]:
        return self.identity.rows()

    def __len__(self) -> int:
        return len(self.identity)


NO_FACTS: Facts = {name: np.empty(0, dtype=np.int64) for name in FACTS}
NO_TRANSACTIONS = RememberedTransactions.of({})


@dataclass(frozen=True, kw_only=True)
class LastReading:
    """The partitions that a cycle has read, with all transactions that were open there in the memory."""

    at_ms: int
    """Time at which reading began, by the cluster's clock."""
    topics: tuple[str, ...]
    topic_ids: tuple[str, ...]
    """"" if unknown."""
    partitions: tuple[int, ...]
    """Number of partitions of each topic."""
    unread: frozenset[TopicPartition] = frozenset()

    def has_read(self, key: TransactionKey) -> bool:
        """True if the partition of `key` was read."""
        at = self._row_of_topic.get(key.topic)
        if at is None or (key.topic, key.partition) in self.unread:
            return False
        return self.topic_ids[at] == key.topic_id and key.partition < self.partitions[at]

    @cached_property
    def _row_of_topic(self) -> Mapping[str, int]:
        """Each new transaction of a cycle is looked up."""
        return {topic: row for row, topic in enumerate(self.topics)}


@dataclass(frozen=True, slots=True)
class MemoryJoin:
    """The open transactions of a snapshot (N), with the row of each in the memory."""

    keys: TransactionKeys
    place: Int64Column
    """(N,) -1 where the memory has none."""
    transactions: RememberedTransactions

    def remembered(self, row: int) -> RememberedTransaction | None:
        place = int(self.place[row])
        return self.transactions.row(place) if place >= 0 else None


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Open transactions remembered from earlier cycles of one cluster."""

    cluster_id: str = ""
    """Empty before the first cycle."""
    transactions: RememberedTransactions = field(default_factory=lambda: NO_TRANSACTIONS)
    blocked: Mapping[GroupKey, RememberedBlock] = field(default_factory=lambda: MappingProxyType({}))
    completing: RememberedCompletions = field(default_factory=lambda: NOTHING_REMEMBERED)
    """Transactions that a coordinator listed as completing in the last cycle."""
    held: Mapping[TransactionKey, RememberedBytes] = field(default_factory=lambda: MappingProxyType({}))
    """Bytes behind each transaction that holds the last stable offset, as far as they were measured."""
    offsets: Mapping[TransactionKey, RememberedOffset] = field(default_factory=lambda: MappingProxyType({}))
    """Facts about transactions of which only the offset is known; never carried over a restart."""
    silences: Silences = NO_SILENCES
    """The silences of owners; never carried over a restart."""
    last_reading: LastReading | None = None
    """Latest reading; None before the first complete view of the cluster's topics."""

    def block(self, key: GroupKey) -> RememberedBlock | None:
        """The group's block on this very topic, not on an earlier one of its name; None if it is not blocked."""
        known = self.blocked.get(key)
        return self.blocked.get(key._replace(topic_id="")) if known is None else known

    def blocked_since_ms(self, key: GroupKey) -> int | None:
        known = self.block(key)
        return None if known is None else known.since_ms

    def examined_producer_ids(self) -> Collection[int]:
        """The producers of transactions that were examined."""
        producer_ids: list[int] = self.seen.producer_id[: self.transactions.examined_count].tolist()
        return producer_ids

    def is_of(self, snapshot: Snapshot) -> bool:
        """True if it may have the transactions of this cluster."""
        return self.cluster_id in {"", snapshot.cluster_id}

    def join(self, snapshot: Snapshot) -> MemoryJoin:
        """Finds the open transactions of `snapshot` in this memory, which may be that of another cluster."""
        open_ = snapshot.open_transactions
        keys = keys_of(snapshot.partitions, open_.partition_row, open_)
        return MemoryJoin(keys, keys.places_in(self.seen if self.is_of(snapshot) else NO_KEYS), self.transactions)

    @property
    def seen(self) -> TransactionKeys:
        """The transactions that earlier cycles have seen open."""
        return self.transactions.identity

    def without_monotonic(self) -> Memory:
        """The memory for a cycle on another machine, whose monotonic clock has another beginning."""
        completing = {identity: replace(seen, from_ms=None) for identity, seen in self.completing.items()}
        transactions = self.transactions.without_monotonic()
        return replace(self, transactions=transactions, completing=completing, silences=NO_SILENCES)
