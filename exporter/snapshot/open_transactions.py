"""Records open transactions in columns (numpy): as the leaders show them, or as offsets show them.

Where this principal may not read the producers of a partition (DESCRIBE without READ), a last stable offset below the high
watermark is the start of an open transaction, of an unknown producer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from exporter.snapshot.producers import BoolColumn, Int8Column, Int32Column, Int64Column, ProducerEntries
from exporter.snapshot.transactions import CoordinatorTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOffset:
    """A last stable offset that stands below the high watermark, and the transactions that may hold it."""

    leader_epoch: int
    """Leader epoch in which it was read. Within one it never goes back; -1 if the broker does not say."""
    described: tuple[tuple[CoordinatorTransaction, ...], ...] = ()
    """Active transactions that include the partition, as coordinators described them several times between two reads."""
    later: tuple[CoordinatorTransaction, ...] = ()
    """Active ones after the second read: a producer may have taken the open records into its next transaction."""

    @property
    def active(self) -> tuple[CoordinatorTransaction, ...]:
        """The newest transaction of each producer that was active at the last description before that read, or after it."""
        before = self.described[-1] if self.described else ()
        return tuple({of.producer_id: of for of in (*before, *self.later)}.values())


NO_ROW: BoolColumn = np.empty(0, dtype=np.bool_)


@dataclass(frozen=True, kw_only=True)
class OpenTransactions(ProducerEntries):
    """One row per open transaction (N): an entry of DescribeProducers with a start offset of 0 or more.

    The first K rows were examined, all of them up to a limit; the exporter sent no request about the others that would
    need one. Rows that were seen to end within the cycle are left out.
    """

    partition_row: Int32Column
    """(N,) row in `Partitions`."""
    second_read: Int8Column
    """(K,) `SecondRead`."""
    diverged_replicas: tuple[tuple[int, ...], ...] = ()
    """(K,) followers that have seen the transaction end; empty if no follower has."""
    silent_replicas: tuple[tuple[int, ...], ...] = ()
    """(K,) in-sync followers that did not respond, or show another state of the producer; empty if there are none."""
    unaware_replicas: tuple[tuple[int, ...], ...] = ()
    """(K,) in-sync followers that do not know the producer; empty if all know it."""
    held_offsets: tuple[HeldOffset | None, ...] = ()
    """(K,) of those of which only the offset is known; empty if there are none."""
    unconfirmed: tuple[str | None, ...] = ()
    """(K,) why the leaders behind an overdue or stuck transaction are not confirmed; empty if all are."""
    not_open_at_ms: tuple[int | None, ...] = ()
    """(K,) the latest instant by a broker's clock in the log before its start; empty if no log was read."""
    high_watermark: Int64Column
    """(K,) of the partition, UNKNOWN_OFFSET if it could not be read."""
    last_stable_offset: Int64Column
    """(K,) of the partition, UNKNOWN_OFFSET if it could not be read."""
    needs_examination: BoolColumn = field(default_factory=lambda: NO_ROW)
    """(N - K,) seen in an earlier cycle, or no coordinator lists its producer; otherwise it has just begun."""
    is_completing: BoolColumn = field(default_factory=lambda: NO_ROW)
    """(N - K,) its producer is listed as completing."""

    @property
    def examined_count(self) -> int:
        """K."""
        return len(self.second_read)

    @cached_property
    def holds_back(self) -> BoolColumn:
        """(K,) as `holds_back`."""
        starts = self.current_txn_start_offset[: self.examined_count]
        return holds_back(starts, self.last_stable_offset, self.high_watermark)


def holds_back(start_offset: Int64Column, last_stable_offset: Int64Column, high_watermark: Int64Column) -> BoolColumn:
    """(K,) transactions at which the last stable offset of the partition stands, with something behind it."""
    stands: BoolColumn = (start_offset == last_stable_offset) & (last_stable_offset < high_watermark)
    return stands
