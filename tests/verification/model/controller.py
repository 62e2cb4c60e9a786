"""Events of controller, brokers and replicas between two requests. Each returns False if it cannot happen."""

from __future__ import annotations

from tests.verification.model.cluster import Broker
from tests.verification.model.image import NO_LEADER, Image, PartitionImage
from tests.verification.model.logs import lose_last_marker
from tests.verification.model.world import World

SESSION_MS = 9_000
"""`broker.session.timeout.ms`: a broker that is cut off is fenced no sooner."""


def elect(image: Image, topic: str, index: int, partition: PartitionImage, without: int = 0) -> Image:
    """The next in-sync replica leads; none where there is none."""
    candidates = [node_id for node_id in partition.in_sync if node_id != without and node_id in image.live]
    others = [node_id for node_id in candidates if node_id != partition.leader] or candidates
    leader = others[0] if others else NO_LEADER
    in_sync = tuple(node_id for node_id in partition.in_sync if node_id != without) or partition.in_sync
    return image.with_partition(topic, index, partition._replace(in_sync=in_sync).led_by(leader))


def move(
    world: World, topic: str, index: int, *, late: bool = False, slow: bool = False, to_last: bool = False
) -> bool:
    """Another in-sync replica leads: the next one, or the last one, which may be the third."""
    cluster = world.cluster
    partition = cluster.image.partition(topic, index)
    if (
        partition is None
        or len([node_id for node_id in partition.in_sync if cluster.brokers[node_id].is_connected]) < 2
    ):
        return False
    chosen = partition._replace(in_sync=partition.in_sync[::-1]) if to_last else partition
    image = elect(cluster.image, topic, index, chosen)
    if to_last:
        elected = image.topics[topic].partitions[index]
        image = image.with_partition(topic, index, elected._replace(in_sync=partition.in_sync))
    new = image.topics[topic].partitions[index].leader
    if new in {partition.leader, NO_LEADER} or not cluster.brokers[new].is_connected:
        return False
    cluster.decide(image, late=tuple(node for node in cluster.brokers if node != new) if late else (), slow=slow)
    return True


def move_lagging(world: World, topic: str, index: int) -> bool:
    """Another replica leads, which does not know yet that its last batch is replicated."""
    if not move(world, topic, index):
        return False
    replica = world.cluster.leader_replica(topic, index)
    # It has moved whatever it holds: an event that did something says so, or its schedule cannot be replayed.
    if replica is not None and replica.batches:
        replica.high = max(replica.batches[-1].offset, replica.start)
    return True


def catch_up_high_watermark(world: World, topic: str, index: int) -> bool:
    """The followers of a new leader have fetched to its end."""
    replica = world.cluster.leader_replica(topic, index)
    if replica is None or replica.high is None:
        return False
    replica.high = None
    return True


def fence(world: World, broker: Broker) -> None:
    """The controller fences the broker: others lead its partitions."""
    cluster = world.cluster
    image = cluster.image._replace(live=tuple(node_id for node_id in cluster.image.live if node_id != broker.id))
    for topic, index, partition in tuple(image.each()):
        if broker.id in partition.in_sync and partition.leader == broker.id:
            image = elect(image, topic, index, partition, broker.id)
        elif broker.id in partition.in_sync and len(partition.in_sync) > 1:
            in_sync = tuple(node_id for node_id in partition.in_sync if node_id != broker.id)
            image = image.with_partition(topic, index, partition._replace(in_sync=in_sync))
    cluster.decide(image)


def register(world: World, broker: Broker) -> None:
    """The broker is registered again; it catches up, and leads what had no leader."""
    cluster = world.cluster
    cluster.decide(cluster.image._replace(live=tuple(sorted({*cluster.image.live, broker.id}))))
    image = cluster.image
    for topic, index, partition in tuple(image.each()):
        if broker.id not in partition.replicas:
            continue
        if partition.leader == NO_LEADER and broker.id in partition.in_sync:
            image = image.with_partition(topic, index, partition.led_by(broker.id))
        elif (
            partition.leader != NO_LEADER
            and broker.id not in partition.in_sync
            and cluster.brokers[partition.leader].is_connected
        ):
            in_sync = tuple(node_id for node_id in partition.replicas if node_id in {*partition.in_sync, broker.id})
            image = image.with_partition(topic, index, partition._replace(in_sync=in_sync))
    cluster.decide(image)


def cut_off(world: World, broker: int) -> bool:
    node = world.cluster.brokers[broker]
    if not node.is_connected:
        return False
    node.is_cut_off = True
    node.behind_since_ms = min(node.behind_since_ms or world.cluster.now_ms, world.cluster.now_ms - SESSION_MS)
    fence(world, node)
    return True


def reconnect(world: World, broker: int, *, late: bool = False) -> bool:
    """`late`: it reaches the controller, and has not read yet what it missed."""
    node = world.cluster.brokers[broker]
    if not node.is_cut_off or not node.is_up:
        return False
    node.is_cut_off = False
    if not late:
        register(world, node)
    return True


def kill(world: World, broker: int) -> bool:
    node = world.cluster.brokers[broker]
    if not node.is_connected:
        return False
    node.is_up = False
    node.coordinating.clear()
    fence(world, node)
    return True


def start(world: World, broker: int) -> bool:
    node = world.cluster.brokers[broker]
    if node.is_up:
        return False
    node.is_up, node.is_cut_off = True, False
    node.coordinating.clear()
    register(world, node)
    return True


def silence(world: World, broker: int) -> bool:
    node = world.cluster.brokers[broker]
    if not node.is_up or node.is_silent:
        return False
    node.is_silent = True
    return True


def speak(world: World, broker: int) -> bool:
    node = world.cluster.brokers[broker]
    node.is_silent, was = False, node.is_silent
    return was


def deliver(world: World, broker: int) -> bool:
    node = world.cluster.brokers[broker]
    is_registered = node.id in world.cluster.image.live
    if not node.is_connected or (is_registered and node.view is world.cluster.image):
        return False
    if is_registered:
        world.cluster.deliver(node)
    else:
        register(world, node)
    return True


def go_on_loading(world: World, broker: int) -> bool:
    node = world.cluster.brokers[broker]
    for index, held in node.coordinating.items():
        if held.loading == "unaware":
            held.loading = "loading"
            return True
        if held.loading:
            world.cluster.load(node, index)
            return True
    return False


def shrink(world: World, topic: str, index: int) -> bool:
    """A follower falls out of the in-sync replicas, and stops fetching."""
    cluster = world.cluster
    partition = cluster.image.partition(topic, index)
    followers = [] if partition is None else [node_id for node_id in partition.in_sync if node_id != partition.leader]
    if partition is None or not followers or partition.leader == NO_LEADER:
        return False
    cluster.brokers[followers[-1]].logs[cluster.image.topics[topic].topic_id, index].keeps_up = False
    in_sync = tuple(node_id for node_id in partition.in_sync if node_id != followers[-1])
    cluster.decide(cluster.image.with_partition(topic, index, partition._replace(in_sync=in_sync)))
    return True


def lag(world: World, topic: str, index: int) -> bool:
    """A follower stops fetching, and is still counted as in sync."""
    cluster = world.cluster
    partition = cluster.image.partition(topic, index)
    followers = [] if partition is None else [node_id for node_id in partition.in_sync if node_id != partition.leader]
    if not followers:
        return False
    replica = cluster.brokers[followers[-1]].logs[cluster.image.topics[topic].topic_id, index]
    replica.keeps_up, before = False, replica.keeps_up
    return before


def catch_up(world: World, topic: str, index: int) -> bool:
    """It fetches again."""
    cluster = world.cluster
    leader, partition = cluster.leader_replica(topic, index), cluster.image.partition(topic, index)
    if leader is None or partition is None or not cluster.brokers[partition.leader].is_connected:
        return False
    topic_id = cluster.image.topics[topic].topic_id
    for follower in partition.in_sync:
        replica = cluster.brokers[follower].logs[topic_id, index]
        if not replica.keeps_up and cluster.brokers[follower].is_connected:
            replica.keeps_up = True
            if replica.is_apart_from(leader):
                replica.copy_of(leader)
            return True
    return False


def expand(world: World, topic: str, index: int) -> bool:
    cluster = world.cluster
    partition = cluster.image.partition(topic, index)
    if partition is None or set(partition.in_sync) == set(partition.replicas) or partition.leader == NO_LEADER:
        return False
    eligible = [
        node for node in partition.replicas if node in cluster.image.live and cluster.brokers[node].is_connected
    ]
    back = [node_id for node_id in eligible if node_id not in partition.in_sync]
    if not back or not cluster.leads(cluster.brokers[partition.leader], topic, index):
        return False
    topic_id = cluster.image.topics[topic].topic_id
    for node_id in back:
        replica = cluster.brokers[node_id].logs[topic_id, index]
        replica.keeps_up = True
        replica.copy_of(cluster.brokers[partition.leader].logs[topic_id, index])
    in_sync = tuple(node_id for node_id in partition.replicas if node_id in {*partition.in_sync, *back})
    cluster.decide(cluster.image.with_partition(topic, index, partition._replace(in_sync=in_sync)))
    return True


def lose_marker(world: World, topic: str, index: int, *, at_leader: bool) -> bool:
    """A log is restored from a copy without its last marker."""
    cluster = world.cluster
    partition = cluster.image.partition(topic, index)
    if partition is None or partition.leader == NO_LEADER:
        return False
    topic_id = cluster.image.topics[topic].topic_id
    followers = [node_id for node_id in partition.replicas if node_id != partition.leader]
    where = partition.leader if at_leader else followers[0] if followers else NO_LEADER
    if where == NO_LEADER:
        return False
    replica = cluster.brokers[where].logs[topic_id, index]
    if at_leader:
        world.lost_markers.add((topic, index))
    return any(lose_last_marker(replica, producer_id) for producer_id in sorted(replica.entries))


def expire_producers(world: World, broker: int) -> bool:
    """`producer.id.expiration.ms`: a broker forgets producers that have nothing open."""
    found = False
    for replica in world.cluster.brokers[broker].logs.values():
        for producer_id, entry in tuple(replica.entries.items()):
            if entry.start_offset < 0:
                del replica.entries[producer_id]
                found = True
    return found


def delete(world: World, topic: str) -> bool:
    cluster = world.cluster
    if topic not in cluster.image.topics:
        return False
    cluster.decide(cluster.image.with_topic(topic, None))
    return True


def create(world: World, topic: str) -> bool:
    """With two partitions on the brokers that are there."""
    cluster = world.cluster
    live = tuple(node_id for node_id in cluster.image.live if cluster.brokers[node_id].is_connected)
    if topic in cluster.image.topics or not live:
        return False
    cluster.decide(cluster.create_topic(topic, [live[:2], live[-2:]]))
    return True


def recreate(world: World, topic: str) -> bool:
    return delete(world, topic) and create(world, topic)


def create_new(world: World) -> bool:
    return create(world, "new")
