"""Events of records that are deleted, and of replicas that are made later. Each returns False if it cannot happen."""

from __future__ import annotations

from tests.verification.model.cluster import Cluster
from tests.verification.model.image import NO_LEADER, PartitionImage
from tests.verification.model.logs import Replica
from tests.verification.model.world import World

REPLICAS_MAX = 3


def delete_records(world: World, topic: str, index: int) -> bool:
    """DeleteRecords to the end, or retention: leader and followers forget the records, and no producer."""
    leader = world.cluster.leader_replica(topic, index)
    return leader is not None and _delete_before(world, topic, index, leader.end)


def delete_first_record(world: World, topic: str, index: int) -> bool:
    """The same of the oldest record alone: an open transaction may have later ones."""
    leader = world.cluster.leader_replica(topic, index)
    return leader is not None and _delete_before(world, topic, index, leader.start + 1)


def _delete_before(world: World, topic: str, index: int, offset: int) -> bool:
    cluster = world.cluster
    partition, leader = cluster.image.partition(topic, index), cluster.leader_replica(topic, index)
    if partition is None or leader is None or not cluster.is_writable(topic, index):
        return False
    if not leader.start < offset <= leader.end:
        return False
    for node_id in partition.replicas:
        replica = cluster.brokers[node_id].logs[cluster.image.topics[topic].topic_id, index]
        if replica is leader or (cluster.brokers[node_id].is_connected and replica.keeps_up):
            replica.start = min(max(replica.start, offset), replica.end)
    return True


def add_replica(world: World, topic: str, index: int) -> bool:
    """A reassignment gives the partition one replica more, which reads the leader's log from its start on."""
    cluster = world.cluster
    partition = cluster.image.partition(topic, index)
    if partition is None or len(partition.replicas) >= REPLICAS_MAX or not _is_led(cluster, topic, index, partition):
        return False
    # The controller takes no broker that it has fenced into a partition's in-sync replicas (KIP-841).
    free = [
        node
        for node, broker in cluster.brokers.items()
        if node not in partition.replicas and broker.is_connected and node in cluster.image.live
    ]
    if not free:
        return False
    _rebuild(cluster, topic, index, partition, free[0])
    more = partition._replace(replicas=(*partition.replicas, free[0]), in_sync=(*partition.in_sync, free[0]))
    cluster.decide(cluster.image.with_partition(topic, index, more))
    return True


def rebuild_replica(world: World, topic: str, index: int) -> bool:
    """The last follower has a new disk."""
    cluster = world.cluster
    partition = cluster.image.partition(topic, index)
    if partition is None or not _is_led(cluster, topic, index, partition):
        return False
    followers = [node_id for node_id in partition.in_sync if node_id != partition.leader]
    if not followers or not cluster.brokers[followers[-1]].is_connected:
        return False
    _rebuild(cluster, topic, index, partition, followers[-1])
    return True


def _is_led(cluster: Cluster, topic: str, index: int, partition: PartitionImage) -> bool:
    return partition.leader != NO_LEADER and cluster.leads(cluster.brokers[partition.leader], topic, index)


def _rebuild(cluster: Cluster, topic: str, index: int, partition: PartitionImage, node_id: int) -> None:
    key = cluster.image.topics[topic].topic_id, index
    replica = Replica()
    replica.rebuild_from(cluster.brokers[partition.leader].logs[key])
    cluster.brokers[node_id].logs[key] = replica
