"""I6: in a quiet cluster with full rights, what hangs is called hanging, and what is stuck is called stuck."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.evaluation.verdicts import InconclusiveReason, TransactionRow, Verdict
from tests.verification.model import coordinator
from tests.verification.model.checks import Violation
from tests.verification.model.cluster import Cluster
from tests.verification.model.image import STATE_TOPIC
from tests.verification.model.rights import describes_everything, may_read, sees_everything
from tests.verification.model.truth import Fate, OpenKey, Standing
from tests.verification.model.world import World


def unproved(world: World, rows: tuple[TransactionRow, ...]) -> Iterator[Violation]:
    """What should have been proved by now."""
    cluster = world.cluster
    if not sees_everything(cluster.image.rights) or not _has_majority(cluster):
        return
    if STATE_TOPIC not in cluster.image.topics or cluster.kind.gateway:
        return  # absence is not evidence
    verdicts = {OpenKey(row.topic, row.partition, row.producer_id, row.start_offset): row for row in rows}
    for key, standing in world.moments[-1].standings.items():
        if not _can_be_read(cluster, key, standing):
            continue
        row = verdicts.get(key)
        verdict = "nothing" if row is None else row.verdict.label
        why = "" if row is None or row.inconclusive_reason is None else f" ({row.inconclusive_reason.value})"
        where = f"{key.topic}-{key.partition} from {key.start_offset}, producer {key.producer_id}"
        if standing.fate in {Fate.HANGING, Fate.STALE} and not _is_named(row, standing):
            yield Violation("I6", "hanging", f"{where} hangs, and {verdict}{why} is said")
        if standing.fate is Fate.STUCK and (row is None or row.verdict is not Verdict.STUCK_COMPLETING):
            yield Violation("I6", "stuck", f"{where} is stuck completing, and {verdict}{why} is said")


def unproved_by_offsets(world: World, rows: tuple[TransactionRow, ...]) -> Iterator[Violation]:
    """What should have been proved by now without READ: nothing active may own it."""
    cluster, rights = world.cluster, world.cluster.image.rights
    if not describes_everything(rights, tuple(cluster.image.topics)) or not _has_majority(cluster):
        return
    if STATE_TOPIC not in cluster.image.topics or cluster.kind.gateway:
        return
    named = {(row.topic, row.partition) for row in rows if row.verdict.is_hanging}
    active = [txn.partitions for txn in coordinator.every_truth(cluster) if txn.is_active]
    for key, standing in world.moments[-1].standings.items():
        partition = (key.topic, key.partition)
        replica = cluster.leader_replica(*partition)
        if may_read(rights, key.topic) or standing.fate is not Fate.HANGING or replica is None:
            continue
        if replica.high is not None:  # a new leader tells no offsets until its followers have fetched (KIP-207)
            continue
        is_first = max(key.start_offset, replica.start) == replica.stable < replica.high_watermark
        owned = any(partition in partitions for partitions in active)
        if not is_first or owned or not _can_be_read(cluster, key, standing._replace(transaction=None)):
            continue
        if partition not in named:
            yield Violation("I6", "by offsets", f"{key.topic}-{key.partition} from {key.start_offset} hangs")


def _is_named(row: TransactionRow | None, standing: Standing) -> bool:
    if row is None:
        return False
    if row.verdict.is_hanging or row.verdict is Verdict.REPLICA_DIVERGED:
        return True
    txn, why = standing.transaction, row.inconclusive_reason
    is_other_in_sync = standing.is_closed_in_sync or standing.is_unknown_in_sync
    if is_other_in_sync and why in {InconclusiveReason.REPLICA_UNREAD, InconclusiveReason.REPLICA_UNAWARE}:
        return True  # its follower shows no end: it has forgotten the producer, never knew it, or that went on
    is_next_epoch = standing.fate is Fate.STALE and txn is not None and txn.epoch == standing.epoch + 1
    return is_next_epoch and why is InconclusiveReason.MAY_BE_FENCED


def _has_majority(cluster: Cluster) -> bool:
    fine = [broker for broker in cluster.brokers.values() if broker.is_connected and not broker.is_silent]
    return 2 * len(fine) > len(cluster.brokers) and all(broker.view.offset == cluster.image.offset for broker in fine)


def _can_be_read(cluster: Cluster, key: OpenKey, standing: Standing) -> bool:
    """True if its partition's in-sync replicas, and the coordinators that must write its marker, can be queried."""
    partition = cluster.image.partition(key.topic, key.partition)
    if partition is None or not all(_is_fine(cluster, node_id) for node_id in (*partition.in_sync, partition.leader)):
        return False
    topic_id = cluster.image.topics[key.topic].topic_id
    if not all(cluster.brokers[node_id].logs[topic_id, key.partition].keeps_up for node_id in partition.in_sync):
        return False  # a real one would be out of sync after `replica.lag.time.max.ms`
    if standing.transaction is not None:
        return _is_coordinated(cluster, coordinator.home(cluster, standing.transaction.transactional_id))
    return all(_is_coordinated(cluster, index) for index in cluster.transaction_log)


def _is_fine(cluster: Cluster, broker: int) -> bool:
    node = cluster.brokers.get(broker)
    return node is not None and node.is_connected and not node.is_silent


def _is_coordinated(cluster: Cluster, index: int) -> bool:
    partition = cluster.image.partition(STATE_TOPIC, index)
    if partition is None or not _is_fine(cluster, partition.leader):
        return False
    # One partition that is loading makes ListTransactions of its whole broker an error.
    held = cluster.brokers[partition.leader].coordinating
    return index in held and not any(coordinator.loading for coordinator in held.values())
