"""Holds what a cycle has read before the snapshot is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.kafka.collect.replicas import EVERYBODY_AGREES, Followers, OpenAtLeader
from exporter.kafka.collect.scan import Entries, LeaderScan
from exporter.kafka.coordinators import Listing
from exporter.kafka.topology import Topology
from exporter.snapshot import (
    BoolColumn,
    CoordinatorProof,
    CoordinatorTransaction,
    EndMarkers,
    Impact,
    Int8Column,
    MaxTimeout,
    TransactionKey,
)


@dataclass(frozen=True, slots=True)
class UnexaminedEntries:
    """Entries without requests of their own.

    `entries` has those that are examined, too: `entries[:first]` is room for what is left of them at the end, so that a
    million entries are not copied.
    """

    entries: Entries
    first: int
    needs_examination: BoolColumn
    """(N,) seen in an earlier cycle, or no coordinator lists its producer; otherwise it has just begun."""
    is_completing: BoolColumn
    """(N,) its producer is listed as completing."""

    def after(self, examined: Entries) -> Entries:
        """`examined`, and these after them, in the memory of `entries`."""
        begin = self.first - len(examined)
        for name, column in examined.all_columns().items():
            getattr(self.entries, name)[begin : self.first] = column
        return self.entries.those(slice(begin, None))


@dataclass(slots=True)
class CollectionState:
    """What a cycle has read so far; `entries` and `second_read` shrink as transactions are seen to end."""

    topology: Topology
    scan: LeaderScan
    max_timeout: MaxTimeout
    entries: Entries
    second_read: Int8Column
    listings: tuple[Listing, ...] = ()
    transactions: tuple[CoordinatorTransaction, ...] = ()
    unclear_producer_ids: frozenset[int] = frozenset()
    proof: CoordinatorProof | None = None
    impact: Impact | None = None
    end_markers: EndMarkers | None = None
    followers: Followers = EVERYBODY_AGREES
    unconfirmed_owners: Mapping[int, str] = field(default_factory=dict)
    """Entry -> why the leaders behind it are not confirmed, if it may be overdue or stuck."""
    not_open_at_ms: Mapping[int, int | None] = field(default_factory=dict)
    """Entry -> the latest instant by a broker's clock in the log before its start, for suspects that look old."""
    unexamined: UnexaminedEntries | None = None
    """Entries beyond the limit of examined ones; None if all are examined."""

    def at_leader(self, entry: int) -> OpenAtLeader:
        """One entry, as its followers are queried about it."""
        return OpenAtLeader(self.partition(entry), self.entries.one(entry))

    def key(self, entry: int) -> TransactionKey:
        """Its identity over cycles."""
        topic, partition = self.partition(entry)
        producer_id, start = int(self.entries.producer_id[entry]), int(self.entries.current_txn_start_offset[entry])
        return TransactionKey(topic, partition, producer_id, start, self.topology.topic_id_of(topic))

    def partition(self, entry: int) -> tuple[str, int]:
        """(topic, partition) of one entry."""
        row = int(self.entries.row[entry])
        return self.topology.topics[self.topology.topic[row]], int(self.topology.partition[row])
