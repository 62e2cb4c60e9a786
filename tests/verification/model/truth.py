"""Derives the truth about each open transaction, independent of any broker's view."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tests.verification.model.cluster import Cluster, Txn
from tests.verification.model.coordinator import every_truth
from tests.verification.model.image import STATE_TOPIC
from tests.verification.model.logs import Batch, Entry, Replica


class Fate(Enum):
    """The future of an open transaction without interference."""

    LIVE = "live"
    """Its coordinator has it ongoing, and can end it."""
    COMPLETING = "completing"
    """Its coordinator has decided, and its marker will be taken."""
    STUCK = "stuck"
    """Its coordinator has decided, and its marker was refused, or will be."""
    STALE = "stale"
    """A newer transaction of the same id includes the partition: its marker will close these older records."""
    HANGING = "hanging"
    """No coordinator will ever end it."""

    @property
    def is_owned(self) -> bool:
        """True when its own coordinator can still end it."""
        return self in {Fate.LIVE, Fate.COMPLETING, Fate.STUCK}


class OpenKey(NamedTuple):
    """How the exporter names an open transaction."""

    topic: str
    partition: int
    producer_id: int
    start_offset: int


class Standing(NamedTuple):
    """One open transaction at the leader that the controller names."""

    topic_id: int
    fate: Fate
    epoch: int
    records: int
    """How many data batches it has: a producer that goes on adds to them."""
    serials: frozenset[int]
    """The transactions in which its records were sent that are not deleted."""
    is_closed_in_sync: bool
    """An in-sync follower has its marker."""
    is_unknown_in_sync: bool
    """An in-sync follower does not show it open: it was made after the records were deleted, or has a marker."""
    transaction: Txn | None
    is_commit_shown: bool
    """Its records were committed, and a coordinator or a log that is searched shows it."""

    @property
    def identity(self) -> tuple[int, int, int]:
        """Changes when other records are meant."""
        return self.topic_id, self.epoch, self.records


Standings = dict[OpenKey, Standing]


def standings(cluster: Cluster) -> Standings:
    """All that is open now."""
    found: Standings = {}
    by_producer: dict[int, Txn] | None = None
    for topic, index, topic_id, producer_id, replica in cluster.open_entries():
        if by_producer is None:
            by_producer = {txn.producer_id: txn for txn in every_truth(cluster)}
        entry = replica.entries[producer_id]
        txn = by_producer.get(producer_id)
        batches = replica.open_batches(producer_id)
        serials = frozenset(batch.serial for batch in batches if batch.offset >= replica.start)
        found[OpenKey(topic, index, producer_id, entry.start_offset)] = Standing(
            topic_id=topic_id,
            fate=_fate(cluster, txn, entry, (topic, index)),
            epoch=entry.epoch,
            records=len(batches),
            serials=serials,
            is_closed_in_sync=_is_closed_in_sync(cluster, topic, index, producer_id, replica),
            is_unknown_in_sync=_is_unknown_in_sync(cluster, topic, index, producer_id, entry),
            transaction=txn,
            is_commit_shown=_is_commit_shown(cluster, txn, serials, producer_id),
        )
    return found


def _fate(cluster: Cluster, txn: Txn | None, entry: Entry, partition: tuple[str, int]) -> Fate:
    if txn is None or not txn.is_active or partition not in txn.partitions:
        return Fate.HANGING
    if txn.is_preparing:
        return Fate.STUCK if txn.gave_up or _is_refused(cluster, txn, entry) else Fate.COMPLETING
    written_epoch = txn.epoch - 1 if txn.fence_failed else txn.epoch
    return Fate.STALE if entry.epoch < written_epoch else Fate.LIVE


def _is_refused(cluster: Cluster, txn: Txn, entry: Entry) -> bool:
    is_strict = cluster.kind.transaction_version >= 2
    return entry.epoch > txn.epoch or (is_strict and entry.epoch == txn.epoch)


def _is_closed_in_sync(cluster: Cluster, topic: str, index: int, producer_id: int, leader: Replica) -> bool:
    partition = cluster.image.partition(topic, index)
    assert partition is not None
    if len(partition.in_sync) < 2:
        return False
    start = leader.entries[producer_id].start_offset
    topic_id = cluster.image.topics[topic].topic_id
    return any(
        batch.producer_id == producer_id and batch.kind != "data" and batch.offset > start
        for broker in partition.in_sync
        if broker != partition.authority
        for batch in cluster.brokers[broker].logs[topic_id, index].batches
    )


def _is_unknown_in_sync(cluster: Cluster, topic: str, index: int, producer_id: int, entry: Entry) -> bool:
    partition = cluster.image.partition(topic, index)
    assert partition is not None
    topic_id = cluster.image.topics[topic].topic_id
    known = [
        cluster.brokers[broker].logs[topic_id, index].entries.get(producer_id)
        for broker in partition.in_sync
        if broker != partition.authority
    ]
    return any(other is None or other.start_offset != entry.start_offset for other in known)


def _is_commit_shown(cluster: Cluster, txn: Txn | None, serials: frozenset[int], producer_id: int) -> bool:
    """True if the coordinator, or the log of a leader that remembers the producer, shows that they were committed."""
    if all(cluster.outcomes.get(serial) != "commit" for serial in serials):
        return False
    if txn is not None and txn.serial in serials and txn.state in {"PrepareCommit", "CompleteCommit"}:
        return True
    return any(
        batch.kind == "commit" and batch.producer_id == producer_id and batch.serial in serials
        for name, index, _ in cluster.image.each()
        if name != STATE_TOPIC
        for batch in _remembered_batches(cluster, name, index, producer_id)
    )


def _remembered_batches(cluster: Cluster, topic: str, index: int, producer_id: int) -> list[Batch]:
    replica = cluster.leader_replica(topic, index)
    if replica is None or producer_id not in replica.entries:
        return []
    return [batch for batch in replica.batches if batch.offset >= replica.start]
