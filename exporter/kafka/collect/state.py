"""Declares what the phases of a cycle return: each phase takes what earlier ones returned, and changes none of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from exporter.kafka.collect.replicas import EVERYBODY_AGREES, Followers, OpenAtLeader
from exporter.kafka.collect.scan import Entries
from exporter.kafka.coordinators import Listing
from exporter.kafka.topology import Topology
from exporter.snapshot import (
    BoolColumn,
    CoordinatorProof,
    CoordinatorTransaction,
    DiskSpace,
    EndMarkers,
    HeldOffset,
    Impact,
    Int8Column,
    SecondRead,
    TopicPartition,
    TransactionKey,
)


@dataclass(frozen=True, slots=True)
class ExaminedEntries:
    """The open transactions that a cycle examines (K), as their leaders show them."""

    topology: Topology
    entries: Entries
    second_read: Int8Column
    """(K,) `SecondRead`."""
    strangers: frozenset[int]
    """Brokers whose address leads to another broker."""

    @classmethod
    def of(cls, topology: Topology, entries: Entries, strangers: frozenset[int]) -> ExaminedEntries:
        """Entries that were read once."""
        return cls(topology, entries, np.full(len(entries), int(SecondRead.NOT_ASKED), dtype=np.int8), strangers)

    def __len__(self) -> int:
        return len(self.entries)

    def those(self, rows: BoolColumn) -> ExaminedEntries:
        """Returns the entries of these rows."""
        return replace(self, entries=self.entries.those(rows), second_read=self.second_read[rows])

    def at_leader(self, entry: int) -> OpenAtLeader:
        """Returns one entry, as its followers are queried about it."""
        return OpenAtLeader(self.partition(entry), self.entries.one(entry))

    def key(self, entry: int) -> TransactionKey:
        """Identity of an entry over cycles."""
        topic, partition = self.partition(entry)
        producer_id, start = int(self.entries.producer_id[entry]), int(self.entries.current_txn_start_offset[entry])
        return TransactionKey(topic, partition, producer_id, start, self.topology.topic_id_of(topic))

    def partition(self, entry: int) -> TopicPartition:
        """(topic, partition) of one entry."""
        return self.topology.name(self.entries.row[entry])


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


@dataclass(frozen=True, slots=True)
class CoordinatorView:
    """The coordinators' responses about active transactions."""

    listings: tuple[Listing, ...] = ()
    transactions: tuple[CoordinatorTransaction, ...] = ()
    """Transactions of producers with an open transaction."""
    unclear_producer_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Verification:
    """The entries that are left after the reads of what no coordinator explains, and the proof about them."""

    examined: ExaminedEntries
    unverified: BoolColumn
    """(K,) entries that no coordinator's active transaction explains."""
    proof: CoordinatorProof | None = None
    """Proof by the coordinators; None if no transaction is unverified, or if no proof was begun."""
    followers: Followers = EVERYBODY_AGREES
    held_offsets: tuple[HeldOffset, ...] = ()
    """Facts of the last entries, of which only the offset is known."""
    offset_proof: CoordinatorProof | None = None
    """Proof by the coordinators about those; None if none was begun."""

    def held_offset(self, entry: int) -> HeldOffset | None:
        """Returns what is known of an entry of which only the offset is known; None for any other."""
        place = entry - (len(self.examined) - len(self.held_offsets))
        return self.held_offsets[place] if place >= 0 else None


@dataclass(frozen=True, slots=True)
class Effects:
    """The consumer groups and the space on disk behind transactions, and the outcome of suspects on other partitions."""

    impact: Impact | None = None
    """Blocked groups; None if no query was needed."""
    disk: DiskSpace | None = None
    """Space on disk; None if nothing is held back."""
    end_markers: EndMarkers | None = None
    """Markers in the logs; None if no log was searched."""
