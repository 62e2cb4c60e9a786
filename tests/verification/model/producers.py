"""Events of producers and their coordinators between two requests. Each returns False if it cannot happen."""

from __future__ import annotations

from collections.abc import Callable

from tests.verification.model import coordinator
from tests.verification.model.logs import data_error, next_data
from tests.verification.model.world import World


def begin(world: World, name: str, topic: str, index: int) -> bool:
    """Its transaction takes the partition in; a producer begins no two transactions in one millisecond."""
    txn = coordinator.truth_of(world.cluster, name)
    if world.cluster.image.partition(topic, index) is None:
        return False
    if not coordinator.add_partition(world.cluster, name, (topic, index)):
        return False
    if txn is None or txn.state != "Ongoing":
        world.pass_time(1)
    return True


def append(world: World, topic: str, index: int, credentials: tuple[int, int, int]) -> bool:
    cluster = world.cluster
    replica = cluster.leader_replica(topic, index)
    if replica is None or not cluster.is_writable(topic, index, acknowledged=False):
        return False
    producer_id, epoch, serial = credentials
    if data_error(replica, producer_id, epoch):
        return False
    timestamp_ms = max(cluster.now_ms + cluster.client_skew_ms, -1)
    cluster.append(topic, index, next_data(replica, producer_id, epoch, timestamp_ms, serial))
    return True


def write(world: World, name: str, topic: str, index: int) -> bool:
    """A record of the ongoing transaction, on a partition that the coordinator knows of."""
    txn, client = coordinator.truth_of(world.cluster, name), world.cluster.clients.get(name)
    if txn is None or client is None or txn.state != "Ongoing" or (topic, index) not in txn.partitions:
        return False
    if (txn.producer_id, txn.epoch) != (client.producer_id, client.epoch):
        return False
    return append(world, topic, index, (txn.producer_id, txn.epoch, txn.serial))


def begin_and_write(world: World, name: str, topic: str, index: int) -> bool:
    return begin(world, name, topic, index) and write(world, name, topic, index)


def write_late(world: World, name: str, topic: str, index: int) -> bool:
    """A request of the last transaction arrives after its end; with verification it would be refused."""
    cluster = world.cluster
    client, txn = cluster.clients.get(name), coordinator.truth_of(cluster, name)
    if cluster.kind.verifies or client is None or client.last[0] < 0:
        return False
    if txn is not None and txn.serial == client.last[2] and txn.state == "Ongoing":
        return False
    return append(world, topic, index, client.last)


def end(decision: str) -> Callable[[World, str], bool]:
    return lambda world, name: coordinator.end(world.cluster, name, decision)


def time_out(world: World, name: str) -> bool:
    txn = coordinator.truth_of(world.cluster, name)
    if txn is None or txn.state != "Ongoing" or txn.timeout_ms == 2**31 - 1:
        return False
    is_over = world.cluster.now_ms - txn.start_ms > txn.timeout_ms
    return is_over and coordinator.fence(world.cluster, name)


def init(world: World, name: str) -> bool:
    before = coordinator.truth_of(world.cluster, name)
    coordinator.init(world.cluster, name)
    return coordinator.truth_of(world.cluster, name) != before


def expire(world: World, name: str) -> bool:
    txn = coordinator.truth_of(world.cluster, name)
    return txn is not None and not txn.is_active and coordinator.forget(world.cluster, name)
