"""What a cycle has read so far, before it is a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.kafka.coordinators import Listing
from exporter.kafka.leaders import OpenEntries, Scan
from exporter.kafka.topology import Topology
from exporter.snapshot import CoordinatorProof, CoordinatorTransaction, Int8Column, MaxTimeout


@dataclass(slots=True)
class Reading:
    """What a cycle has read so far; `entries` and `second_read` shrink as transactions are seen to end."""

    topology: Topology
    scan: Scan
    max_timeout: MaxTimeout
    entries: OpenEntries
    second_read: Int8Column
    listings: tuple[Listing, ...] = ()
    transactions: tuple[CoordinatorTransaction, ...] = ()
    unclear_producer_ids: frozenset[int] = frozenset()
    proof: CoordinatorProof | None = None

    def partition(self, entry: int) -> tuple[str, int]:
        row = int(self.entries.row[entry])
        return self.topology.topics[self.topology.topic[row]], int(self.topology.partition[row])
