"""The Snapshot: what one cycle read, and how much of the cluster it covers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from exporter.snapshot.completing import NOTHING_COMPLETES, Completions
from exporter.snapshot.coverage import (
    NOTHING_HIDDEN,
    BrokerCoverage,
    ClockSource,
    CoordinatorCoverage,
    Impact,
    MaxTimeout,
    Visibility,
)
from exporter.snapshot.disk import DiskSpace
from exporter.snapshot.identity import ClusterIdentity
from exporter.snapshot.open_transactions import OpenTransactions
from exporter.snapshot.outcome import EndMarkers
from exporter.snapshot.partitions import Partitions, SecondRead
from exporter.snapshot.preconditions import ProofLevel
from exporter.snapshot.proof import CoordinatorProof
from exporter.snapshot.transactions import CoordinatorTransaction


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Data of one cycle, and how much of the cluster it covers."""

    cluster_id: str
    taken_at_ms: int
    """The instant at which reading began, by the exporter's wall clock: no data is older."""
    finished_at_ms: int
    took_ms: int = 0
    """Duration of reading, by a monotonic clock: no data is younger than `taken_at_ms` plus this."""
    clock_offset_ms: int = 0
    """The cluster's clock minus the exporter's wall clock."""
    clock_source: ClockSource = ClockSource.CONTROLLER
    monotonic_ms: int | None = None
    """`taken_at_ms` by a monotonic clock, for differences within one process; None if there is no such clock."""
    visibility: Visibility = NOTHING_HIDDEN
    partitions: Partitions
    open_transactions: OpenTransactions
    transactions: tuple[CoordinatorTransaction, ...]
    """Active transactions of producers with an open one, as the coordinators listed them; described if needed."""
    unclear_producer_ids: frozenset[int] = frozenset()
    """Listed as active and queried, but the description failed or named another producer id."""
    completing: Completions = NOTHING_COMPLETES
    """Transactions that coordinators list as completing, whether or not a partition has them open."""
    proof: CoordinatorProof | None
    """Proof by the coordinators; None if no transaction was unverified."""
    offset_proof: CoordinatorProof | None = None
    """Proof about transactions of which only the offset is known; None if no earlier cycle has seen one."""
    proof_level: ProofLevel | None = None
    """Level of proof, as `doctor` decides it; None if it was not asked for."""
    impact: Impact | None = None
    """Blocked groups; None if no query was needed."""
    disk: DiskSpace | None = None
    """Space on disk behind transactions that hold records back; None if there are none that an earlier cycle has seen."""
    end_markers: EndMarkers | None = None
    """Markers in the logs; None if no log was searched: only an operator's command does it."""
    brokers: tuple[BrokerCoverage, ...]
    coordinators: tuple[CoordinatorCoverage, ...]
    """Brokers that were queried for active transactions, or for completing ones only if nothing was open."""
    max_timeout: MaxTimeout

    @property
    def identity(self) -> ClusterIdentity:
        """The ids by which its cluster is recognized; hidden topics have "" as id."""
        topics, topic_ids = self.partitions.topics, self.partitions.topic_ids
        shown = dict(zip(topics, topic_ids or ("",) * len(topics), strict=True))
        return ClusterIdentity(
            cluster_id=self.cluster_id, topic_ids={**dict.fromkeys(self.visibility.hidden_topics, ""), **shown}
        )

    @property
    def cluster_time_ms(self) -> int:
        """`taken_at_ms` by the cluster's clock, for comparison with the brokers' own instants."""
        return self.taken_at_ms + self.clock_offset_ms

    @property
    def proofs(self) -> tuple[CoordinatorProof, ...]:
        """The proofs of this cycle."""
        return tuple(proof for proof in (self.proof, self.offset_proof) if proof is not None)

    @property
    def shows_every_topic(self) -> bool:
        """True if nothing is known to be missing in the list of topics: a topic that it lacks is deleted.

        Unread partitions and brokers that do not respond leave the list whole.
        """
        return not self.visibility.gaps

    @property
    def is_complete(self) -> bool:
        """True if everything was visible and every broker responded; excluded partitions need no response."""
        return (
            not self.visibility.gaps
            and not np.any(self.partitions.is_unread)
            and all(broker.failure is None for broker in self.brokers)
            and all(coordinator.failure is None for coordinator in self.coordinators)
            and not self.unclear_producer_ids
            and not self.completing.undescribed
            and all(proof.is_whole for proof in self.proofs)
            and not np.any(self.open_transactions.second_read == int(SecondRead.UNREAD))
            and not any(self.open_transactions.silent_replicas)
            and not any(self.open_transactions.unconfirmed)
            and not np.any(self.open_transactions.needs_examination)
            and not (self.impact is not None and self.impact.unread)
        )

    def has_the_id_of_another(self, other: Snapshot) -> bool:
        """True if two clusters have one id: no topic that both have is the same one, by its topic id.

        Kafka's own container image gives every cluster the same id, unless `CLUSTER_ID` is set.
        """
        return set(self._compare_topic_ids(other)) == {False}

    def shares_topics_with(self, other: Snapshot) -> bool:
        """True if a topic of both is the same one, by its id: one cluster was read by two names."""
        return any(self._compare_topic_ids(other))

    def _compare_topic_ids(self, other: Snapshot) -> Iterator[bool]:
        """Yields whether a topic has the same id in both, for each that both have; nothing for clusters with other ids."""
        if self.cluster_id == other.cluster_id:
            mine, others = self.partitions.id_of_topic, other.partitions.id_of_topic
            yield from (mine[topic] == others[topic] for topic in mine.keys() & others.keys())
