"""What one cycle read: facts, and how much of the cluster they cover."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exporter.snapshot.coverage import (
    NOTHING_HIDDEN,
    BrokerCoverage,
    ClockSource,
    CoordinatorCoverage,
    Impact,
    MaxTimeout,
    Visibility,
)
from exporter.snapshot.outcome import EndMarkers
from exporter.snapshot.partitions import Answer, OpenTransactions, Partitions, SecondRead
from exporter.snapshot.proof import CoordinatorProof
from exporter.snapshot.transactions import CoordinatorTransaction
from exporter.snapshot.unexamined import ALL_EXAMINED, Unexamined


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What one cycle read: facts, and how much of the cluster they cover."""

    cluster_id: str
    taken_at_ms: int
    """The instant at which reading began, by our own wall clock: nothing in here is older."""
    finished_at_ms: int
    took_ms: int = 0
    """How long reading took, by a clock that only goes on: nothing in here is younger than `taken_at_ms` and this."""
    clock_offset_ms: int = 0
    """What the cluster's clock is ahead of our wall clock."""
    clock_source: ClockSource = ClockSource.CONTROLLER
    monotonic_ms: int | None = None
    """`taken_at_ms` by a clock that only goes on, for differences within one process; None where there is no such clock."""
    visibility: Visibility = NOTHING_HIDDEN
    partitions: Partitions
    open_transactions: OpenTransactions
    """Those that were examined: all of them, up to a limit."""
    unexamined: Unexamined = ALL_EXAMINED
    """The others."""
    transactions: tuple[CoordinatorTransaction, ...]
    """Active transactions of producers that have one open, as the coordinators listed them; described where they matter."""
    unclear_producer_ids: frozenset[int] = frozenset()
    """Listed as active and asked for, but the description failed or named another producer id."""
    proof: CoordinatorProof | None
    """None when no transaction was in doubt."""
    impact: Impact | None = None
    """None when nobody needed to be asked."""
    end_markers: EndMarkers | None = None
    """None when no log was searched: only a person's question is worth it."""
    brokers: tuple[BrokerCoverage, ...]
    coordinators: tuple[CoordinatorCoverage, ...]
    """Empty when nothing was open: the coordinators were not asked."""
    max_timeout: MaxTimeout

    @property
    def cluster_time_ms(self) -> int:
        """`taken_at_ms` by the cluster's clock: what the brokers' own instants are compared with."""
        return self.taken_at_ms + self.clock_offset_ms

    @property
    def is_complete(self) -> bool:
        """True when everything was visible and responded; partitions refused for lack of READ count as unread."""
        return (
            not self.visibility.gaps
            and not np.any(self.partitions.answer != Answer.READ)
            and all(broker.failure is None for broker in self.brokers)
            and all(coordinator.failure is None for coordinator in self.coordinators)
            and not self.unclear_producer_ids
            and (self.proof is None or self.proof.is_whole)
            and not np.any(self.open_transactions.second_read == SecondRead.UNREAD)
            and not any(self.open_transactions.silent_replicas)
            and not any(self.open_transactions.unconfirmed)
            and not np.any(self.unexamined.needs_examination)
        )
