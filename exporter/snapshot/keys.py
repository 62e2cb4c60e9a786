"""Identifies open transactions over cycles: one, or many as columns, which are joined with those of another cycle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from exporter.snapshot.producers import NO_PRODUCER_ID, BoolColumn, Int32Column, Int64Column, ProducerEntries

_TOPIC_SHIFT = 32
_NUMBERS = ("partition", "producer_id", "start_offset")


class TransactionKey(NamedTuple):
    """An open transaction on one partition, for as long as it stays open.

    The epoch is not part of the key: a newer epoch that writes into an open transaction does not change its start offset.
    """

    topic: str
    partition: int
    producer_id: int
    start_offset: int
    topic_id: str = ""
    """"" from brokers without topic ids."""

    @property
    def place(self) -> TransactionKey:
        """Says all but the producer: no two transactions of a partition begin at one offset."""
        return self._replace(producer_id=NO_PRODUCER_ID)


@dataclass(frozen=True, kw_only=True)
class TransactionKeys:
    """N of them, as columns."""

    topics: tuple[str, ...]
    topic_ids: tuple[str, ...]
    """(T,) "" if unknown."""
    topic: Int32Column
    """(N,) index into `topics`."""
    partition: Int32Column
    producer_id: Int64Column
    start_offset: Int64Column

    def __len__(self) -> int:
        return len(self.topic)

    @classmethod
    def of(cls, keys: Iterable[TransactionKey]) -> TransactionKeys:
        """Builds the columns in the same order."""
        topics: dict[tuple[str, str], int] = {}
        rows = [(topics.setdefault((key.topic, key.topic_id), len(topics)), *key[1:4]) for key in keys]
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        return cls(
            topics=tuple(topic for topic, _ in topics),
            topic_ids=tuple(topic_id for _, topic_id in topics),
            topic=table[:, 0].astype(np.int32),
            partition=table[:, 1].astype(np.int32),
            producer_id=table[:, 2],
            start_offset=table[:, 3],
        )

    def those(self, rows: BoolColumn | Int64Column | slice) -> TransactionKeys:
        """Returns the keys of these rows; those of a slice share their memory."""
        columns = {name: getattr(self, name)[rows] for name in ("topic", *_NUMBERS)}
        return replace(self, **columns)

    @classmethod
    def joined(cls, parts: Sequence[TransactionKeys]) -> TransactionKeys:
        """Joins all of `parts`; each topic once, since a cycle's keys are those of the cycle before and more."""
        topics: dict[tuple[str, str], int] = {}
        columns = []
        for part in parts:
            used, place = np.unique(part.topic, return_inverse=True)
            names = ((part.topics[index], part.topic_ids[index]) for index in used.tolist())
            columns.append(np.array([topics.setdefault(topic, len(topics)) for topic in names], dtype=np.int32)[place])
        return cls(
            topics=tuple(topic for topic, _ in topics),
            topic_ids=tuple(topic_id for _, topic_id in topics),
            topic=np.concatenate(columns),
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _NUMBERS},
        )

    def rows(self) -> Iterator[TransactionKey]:
        """Yields each key as a record."""
        numbers = zip(*(getattr(self, name).tolist() for name in _NUMBERS), strict=True)
        for topic, (partition, producer_id, start_offset) in zip(self.topic.tolist(), numbers, strict=True):
            yield TransactionKey(self.topics[topic], partition, producer_id, start_offset, self.topic_ids[topic])

    def places_in(self, other: TransactionKeys) -> Int64Column:
        """(N,) the index in `other` of each key; -1 if it is missing.

        An unknown topic id matches any, and so does an unknown producer: READ may be granted or withdrawn in between.
        """
        if not len(self) or not len(other):
            return np.full(len(self), -1, dtype=np.int64)
        found = _same(self, other)
        if NO_PRODUCER_ID in self.producer_id or NO_PRODUCER_ID in other.producer_id:
            at_place = _same(_without_producers(self), _without_producers(other))
            is_unknown = (self.producer_id == NO_PRODUCER_ID) | (other.producer_id[at_place] == NO_PRODUCER_ID)
            found = np.where((found < 0) & is_unknown, at_place, found)
        return found


def _without_producers(keys: TransactionKeys) -> TransactionKeys:
    return replace(keys, producer_id=np.full_like(keys.producer_id, NO_PRODUCER_ID))


def _same(keys: TransactionKeys, other: TransactionKeys) -> Int64Column:
    """(N,) the index in `other`, which has some, of each of `keys`; -1 if it is missing."""
    topic = _topics_of(keys, other)[keys.topic]
    columns = (
        np.concatenate((other.start_offset, keys.start_offset)),
        np.concatenate((other.producer_id, keys.producer_id)),
        np.concatenate((partition_keys(other.topic, other.partition), partition_keys(topic, keys.partition))),
    )
    order = np.lexsort(columns)  # stable: those of `other` come before the same ones of `keys`
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = False
    for column in columns:
        is_first[1:] |= np.diff(column[order]) != 0
    first = order[np.flatnonzero(is_first)[np.cumsum(is_first) - 1]]
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.where(first < len(other), first, -1)
    found: Int64Column = places[len(other) :]
    return np.where(topic < 0, -1, found)


def partition_keys(topic: Int32Column | Int64Column, partition: Int32Column) -> Int64Column:
    """(N,) topic and partition in one number, in the order of both."""
    keys: Int64Column = (topic.astype(np.int64) << _TOPIC_SHIFT) + partition
    return keys


def _topics_of(keys: TransactionKeys, other: TransactionKeys) -> Int64Column:
    """(T,) the index in `other` of each topic of `keys`; -1 if `other` has none of that name and id."""
    by_name = {name: index for index, name in enumerate(other.topics)}
    known = {topic: index for index, topic in enumerate(zip(other.topics, other.topic_ids, strict=True))}

    def place(name: str, topic_id: str) -> int:
        if not topic_id:
            return by_name.get(name, -1)
        return known.get((name, topic_id), known.get((name, ""), -1))

    return np.array([place(*topic) for topic in zip(keys.topics, keys.topic_ids, strict=True)], dtype=np.int64)


class PartitionTable(Protocol):
    """The columns by which a row of a table of partitions is named: of `Partitions`, or of the metadata."""

    @property
    def topics(self) -> tuple[str, ...]: ...
    @property
    def topic_ids(self) -> tuple[str, ...]: ...
    @property
    def topic(self) -> Int32Column: ...
    @property
    def partition(self) -> Int32Column: ...


def keys_of(partitions: PartitionTable, row: Int32Column | Int64Column, entries: ProducerEntries) -> TransactionKeys:
    """Returns the keys of all `entries`, in their order; `row` has the row of each in `partitions`."""
    return TransactionKeys(
        topics=partitions.topics,
        topic_ids=partitions.topic_ids or ("",) * len(partitions.topics),
        topic=partitions.topic[row],
        partition=partitions.partition[row],
        producer_id=entries.producer_id,
        start_offset=entries.current_txn_start_offset,
    )


_INT32: Int32Column = np.empty(0, dtype=np.int32)
_INT64: Int64Column = np.empty(0, dtype=np.int64)

NO_KEYS = TransactionKeys(
    topics=(), topic_ids=(), topic=_INT32, partition=_INT32, producer_id=_INT64, start_offset=_INT64
)
