"""Records open transactions beyond the number that one cycle examines one by one, in columns only.

Their leaders show them open; the exporter sent no request about those that would need one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from exporter.snapshot.partitions import OpenTransactions, Partitions
from exporter.snapshot.producers import BoolColumn, Int32Column, Int64Column, ProducerEntries

_TOPIC_SHIFT = 32


class TransactionKey(NamedTuple):
    """An open transaction on one partition, for as long as it stays open.

    The epoch is not part of the key: a newer epoch that writes into an open transaction does not change its start offset.
    """

    topic: str
    partition: int
    producer_id: int
    start_offset: int
    topic_id: str = ""
    """"" from brokers without topic ids, and in state files of versions before 0.3."""


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
        """In the same order."""
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

    def those(self, rows: BoolColumn | Int64Column) -> TransactionKeys:
        columns = {name: getattr(self, name)[rows] for name in ("topic", "partition", "producer_id", "start_offset")}
        return replace(self, **columns)

    def with_others(self, others: TransactionKeys) -> TransactionKeys:
        """These, and `others` after them; each topic once, since a cycle's keys are those of the cycle before and more."""
        topics = {topic: index for index, topic in enumerate(zip(self.topics, self.topic_ids, strict=True))}
        used, place = np.unique(others.topic, return_inverse=True)
        names = ((others.topics[index], others.topic_ids[index]) for index in used.tolist())
        theirs = np.array([topics.setdefault(topic, len(topics)) for topic in names], dtype=np.int32)
        return TransactionKeys(
            topics=tuple(topic for topic, _ in topics),
            topic_ids=tuple(topic_id for _, topic_id in topics),
            topic=np.concatenate((self.topic, theirs[place])),
            partition=np.concatenate((self.partition, others.partition)),
            producer_id=np.concatenate((self.producer_id, others.producer_id)),
            start_offset=np.concatenate((self.start_offset, others.start_offset)),
        )

    def places_in(self, other: TransactionKeys) -> Int64Column:
        """(N,) the index in `other` of each key; -1 if it is missing. An unknown topic id matches any."""
        if not len(self) or not len(other):
            return np.full(len(self), -1, dtype=np.int64)
        topic = _topics_of(self, other)[self.topic]
        columns = (
            np.concatenate((other.start_offset, self.start_offset)),
            np.concatenate((other.producer_id, self.producer_id)),
            np.concatenate((partition_keys(other.topic, other.partition), partition_keys(topic, self.partition))),
        )
        order = np.lexsort(columns)  # stable: those of `other` come before the same ones of this object
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


@dataclass(frozen=True, kw_only=True)
class Unexamined(ProducerEntries):
    """One row per open transaction that was not examined."""

    partition_row: Int32Column
    """(N,) row in `Partitions`."""
    needs_examination: BoolColumn
    """(N,) seen in an earlier cycle, or no coordinator lists its producer; otherwise it has just begun."""
    is_completing: BoolColumn
    """(N,) its producer is listed as completing."""


def keys_of(partitions: Partitions, open_: OpenTransactions | Unexamined) -> TransactionKeys:
    return TransactionKeys(
        topics=partitions.topics,
        topic_ids=partitions.topic_ids or ("",) * len(partitions.topics),
        topic=partitions.topic[open_.partition_row],
        partition=partitions.partition[open_.partition_row],
        producer_id=open_.producer_id,
        start_offset=open_.current_txn_start_offset,
    )


_INT32: Int32Column = np.empty(0, dtype=np.int32)
_INT64: Int64Column = np.empty(0, dtype=np.int64)
_BOOL: BoolColumn = np.empty(0, dtype=np.bool_)

NO_KEYS = TransactionKeys(
    topics=(), topic_ids=(), topic=_INT32, partition=_INT32, producer_id=_INT64, start_offset=_INT64
)
ALL_EXAMINED = Unexamined(
    partition_row=_INT32,
    producer_id=_INT64,
    producer_epoch=_INT32,
    last_sequence=_INT32,
    last_timestamp=_INT64,
    coordinator_epoch=_INT32,
    current_txn_start_offset=_INT64,
    needs_examination=_BOOL,
    is_completing=_BOOL,
)
