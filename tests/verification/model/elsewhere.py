"""Events of a second cluster behind the same names. Each returns False if it cannot happen.

A connection stays at its broker. So the names lead elsewhere once in a cycle or command at most, and not back within it.
"""

from __future__ import annotations

from tests.verification.model import coordinator
from tests.verification.model.answers import Answers
from tests.verification.model.cluster import CLUSTER_ID, Cluster
from tests.verification.model.world import World

ANOTHER_ID, SAME_ID = "another id", "the same id"
FIRST_TOPIC_ID = FIRST_SERIAL = 1000
"""Two clusters never have a topic id in common, even if one was formatted with the other's cluster id."""


def lead_elsewhere(world: World, which: str) -> bool:
    """The names lead to a second cluster with topics of the same names, where the ids have begun nothing."""
    first = world.cluster
    if first.is_second or world.led_elsewhere_in == world.cycles:
        return False
    second = first.behind
    if second is None:
        second = _second(first, CLUSTER_ID if which == SAME_ID else f"not {CLUSTER_ID}")
    elif (second.cluster_id == CLUSTER_ID) != (which == SAME_ID):
        return False
    _switch(world, second)
    return True


def lead_back(world: World) -> bool:
    """The names lead to the first cluster again."""
    first = world.cluster.behind
    if not world.cluster.is_second or first is None or world.led_elsewhere_in == world.cycles:
        return False
    _switch(world, first)
    return True


def _switch(world: World, cluster: Cluster) -> None:
    left = world.cluster
    cluster.behind, left.behind = left, None
    cluster.now_ms = left.now_ms
    world.cluster, world.answers = cluster, Answers(cluster)
    world.led_elsewhere_in = world.cycles


def _second(first: Cluster, cluster_id: str) -> Cluster:
    second = Cluster(first.kind, len(first.brokers))
    second.cluster_id, second.is_second = cluster_id, True
    second.listed_first, second.last_topic_id = first.listed_first, FIRST_TOPIC_ID
    second.now_ms, second.last_serial = first.now_ms, FIRST_SERIAL
    for name, topic in first.image.topics.items():
        second.decide(second.create_topic(name, [partition.replicas for partition in topic.partitions]))
    second.decide(second.image._replace(rights=first.image.rights))
    for name in first.clients:
        coordinator.init(second, name)
    return second
