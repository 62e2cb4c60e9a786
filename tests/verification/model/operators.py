"""Events of operators, clocks and rights between two requests. Each returns False if it cannot happen."""

from __future__ import annotations

from collections.abc import Callable

from tests.verification.model import coordinator, rights
from tests.verification.model.rights import Acl
from tests.verification.model.world import World

MINUTE_MS = 60_000
LONG_MS = 10 * MINUTE_MS
SKEW_MS = 10_000
NO_TIMESTAMPS = -(2**62)
"""Of a client that writes none: brokers take CreateTime -1."""


def another_operator_aborts(world: World, topic: str, index: int) -> bool:
    """Somebody else aborts what is open there, at its leader."""
    cluster = world.cluster
    replica, partition = cluster.leader_replica(topic, index), cluster.image.partition(topic, index)
    if replica is None or partition is None or not cluster.is_writable(topic, index):
        return False
    open_ = [(producer_id, entry) for producer_id, entry in replica.entries.items() if entry.start_offset >= 0]
    if not open_:
        return False
    producer_id, entry = open_[0]
    marker = (producer_id, entry.epoch, max(entry.coordinator_epoch, 0), False)
    return not coordinator.operators_marker(cluster, cluster.brokers[partition.leader], topic, index, marker)


def poison(world: World, topic: str, index: int) -> bool:
    """An operator's marker with a coordinator epoch that is too high: the entry remembers it."""
    cluster = world.cluster
    replica = cluster.leader_replica(topic, index)
    if replica is None or not replica.entries or not cluster.is_writable(topic, index):
        return False
    for broker in cluster.brokers.values():
        mine = broker.logs.get((cluster.image.topics[topic].topic_id, index))
        if mine is None:
            continue
        for producer_id, entry in tuple(mine.entries.items()):
            mine.entries[producer_id] = entry._replace(coordinator_epoch=1000)
    return True


def rule(acl: Acl) -> Callable[[World], bool]:
    def add(world: World) -> bool:
        image = world.cluster.image
        if not image.rights.has_authorizer or acl in image.rights.acls:
            return False
        world.cluster.decide(image._replace(rights=image.rights.with_acls((*image.rights.acls, acl))))
        return True

    return add


def deny_id(world: World, name: str) -> bool:
    return rule(Acl(rights.TRANSACTIONAL_ID, name, rights.DESCRIBE, rights.DENY))(world)


def deny_topic(world: World, topic: str) -> bool:
    return rule(Acl(rights.TOPIC, topic, rights.ALL, rights.DENY))(world)


def tick(world: World, milliseconds: int) -> bool:
    """Time passes. In a long time coordinators do what they owe: time-outs, and markers that can be written."""
    world.pass_time(milliseconds)
    for name in tuple(world.cluster.clients) if milliseconds > LONG_MS else ():
        txn = coordinator.truth_of(world.cluster, name)
        if txn is not None and txn.state == "Ongoing" and txn.timeout_ms < world.cluster.now_ms - txn.start_ms:
            coordinator.fence(world.cluster, name)
        coordinator.send_every_marker(world.cluster, name)
    return True


def step_clock(world: World, milliseconds: int) -> bool:
    if abs(world.wall_skew_ms + milliseconds) > 61 * MINUTE_MS:
        return False
    world.wall_skew_ms += milliseconds
    return True


def restart_exporter(world: World) -> bool:
    """Before its next cycle; a cycle that runs is finished first, as on SIGTERM."""
    world.is_restart_due, was = True, world.is_restart_due
    return not was


def skew_broker(world: World, broker: int) -> bool:
    """Clocks of brokers are up to ten seconds apart, the one way or the other."""
    skews = world.cluster.clock_skew_ms
    skews[broker] = -SKEW_MS if skews.get(broker, 0) > 0 else SKEW_MS
    return True


def client_dates(world: World, milliseconds: int) -> bool:
    """Records carry other timestamps from now on: events are replayed, or a client's clock is wrong."""
    world.cluster.client_skew_ms, before = milliseconds, world.cluster.client_skew_ms
    return milliseconds != before
