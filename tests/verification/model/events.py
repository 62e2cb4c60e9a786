"""The alphabet: everything that can happen to a cluster between two requests. Each returns False where it cannot happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.verification.model import coordinator, rights
from tests.verification.model.cluster import Broker, Cluster
from tests.verification.model.image import NO_LEADER, STATE_TOPIC, Image, PartitionImage
from tests.verification.model.logs import data_error, lose_last_marker, next_data
from tests.verification.model.rights import Acl
from tests.verification.model.world import World

MINUTE_MS = 60_000


class Event(NamedTuple):
    """One letter of the alphabet."""

    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(str(it) for it in self.arguments)})"


def happen(world: World, event: Event) -> bool:
    """Have it happen, and note what is true then; False where it cannot."""
    if not _EVENTS[event.name][1](world, *event.arguments):
        return False
    world.note()
    return True


def happen_quietly(world: World, event: Event) -> bool:
    """As `happen`, where nobody looks yet."""
    return _EVENTS[event.name][1](world, *event.arguments)


def names() -> tuple[str, ...]:
    """All kinds of events."""
    return tuple(_EVENTS)


def alphabet(cluster: Cluster, ids: tuple[str, ...]) -> dict[str, tuple[Event, ...]]:
    """Every event on this cluster, by kind."""
    data = [(name, index) for name, index, _ in cluster.image.each() if name != STATE_TOPIC]
    every = [(name, index) for name, index, _ in cluster.image.each()]
    topics = [(name,) for name in cluster.image.topics if name != STATE_TOPIC]
    subjects: dict[str, list[tuple[Any, ...]]] = {
        "": [()],
        "id": [(it,) for it in ids],
        "id partition": [(it, *partition) for it in ids for partition in data],
        "partition": list(data),
        "any partition": list(every),
        "broker": [(it,) for it in cluster.brokers],
        "topic": topics,
        "ticks": [(5_000,), (40_000,), (70_000,), (25 * MINUTE_MS,)],
        "steps": [(60 * MINUTE_MS,), (-60 * MINUTE_MS,)],
    }
    return {name: tuple(Event(name, it) for it in subjects[subject]) for name, (subject, _) in _EVENTS.items()}


# --- producers ---


def _begin(world: World, name: str, topic: str, index: int) -> bool:
    return world.cluster.image.partition(topic, index) is not None and coordinator.add_partition(
        world.cluster, name, (topic, index)
    )


def _append(world: World, topic: str, index: int, credentials: tuple[int, int, int]) -> bool:
    cluster = world.cluster
    replica = cluster.leader_replica(topic, index)
    if replica is None or not cluster.is_writable(topic, index):
        return False
    producer_id, epoch, serial = credentials
    if data_error(replica, producer_id, epoch):
        return False
    cluster.append(topic, index, next_data(replica, producer_id, epoch, cluster.now_ms, serial))
    return True


def _write(world: World, name: str, topic: str, index: int) -> bool:
    """A record of the ongoing transaction, on a partition that the coordinator knows of."""
    txn, client = coordinator.truth_of(world.cluster, name), world.cluster.clients.get(name)
    if txn is None or client is None or txn.state != "Ongoing" or (topic, index) not in txn.partitions:
        return False
    if (txn.producer_id, txn.epoch) != (client.producer_id, client.epoch):
        return False
    return _append(world, topic, index, (txn.producer_id, txn.epoch, txn.serial))


def _begin_and_write(world: World, name: str, topic: str, index: int) -> bool:
    return _begin(world, name, topic, index) and _write(world, name, topic, index)


def _write_late(world: World, name: str, topic: str, index: int) -> bool:
    """A request of the last transaction arrives after its end; with verification it would be refused."""
    cluster = world.cluster
    client, txn = cluster.clients.get(name), coordinator.truth_of(cluster, name)
    if cluster.kind.verifies or client is None or client.last[0] < 0:
        return False
    if txn is not None and txn.serial == client.last[2] and txn.state == "Ongoing":
        return False
    return _append(world, topic, index, client.last)


def _end(decision: str) -> Callable[[World, str], bool]:
    return lambda world, name: coordinator.end(world.cluster, name, decision)


def _send_all_markers(world: World, name: str) -> bool:
    sent = False
    while coordinator.send_marker(world.cluster, name):
        sent = True
        txn = coordinator.truth_of(world.cluster, name)
        if txn is None or not txn.is_preparing or txn.gave_up:
            break
    return sent


def _time_out(world: World, name: str) -> bool:
    txn = coordinator.truth_of(world.cluster, name)
    if txn is None or txn.state != "Ongoing" or txn.timeout_ms == 2**31 - 1:
        return False
    is_over = world.cluster.now_ms - txn.start_ms > txn.timeout_ms
    return is_over and coordinator.fence(world.cluster, name)


def _init(world: World, name: str) -> bool:
    before = coordinator.truth_of(world.cluster, name)
    coordinator.init(world.cluster, name)
    return coordinator.truth_of(world.cluster, name) != before


def _expire(world: World, name: str) -> bool:
    txn = coordinator.truth_of(world.cluster, name)
    if txn is None or txn.is_active or not coordinator.forget(world.cluster, name):
        return False
    return True


# --- the controller, brokers and replicas ---


def _elect(image: Image, topic: str, index: int, partition: PartitionImage, without: int = 0) -> Image:
    """The next in-sync replica leads; none where there is none."""
    candidates = [it for it in partition.in_sync if it != without and it in image.live]
    others = [it for it in candidates if it != partition.leader] or candidates
    leader = others[0] if others else NO_LEADER
    in_sync = tuple(it for it in partition.in_sync if it != without) or partition.in_sync
    return image.with_partition(topic, index, partition._replace(in_sync=in_sync).led_by(leader))


def _move(world: World, topic: str, index: int, *, late: bool = False, slow: bool = False) -> bool:
    cluster = world.cluster
    partition = cluster.image.partition(topic, index)
    if partition is None or len([it for it in partition.in_sync if cluster.brokers[it].is_connected]) < 2:
        return False
    image = _elect(cluster.image, topic, index, partition)
    new = image.topics[topic].partitions[index].leader
    if new in {partition.leader, NO_LEADER} or not cluster.brokers[new].is_connected:
        return False
    cluster.decide(image, late=tuple(it for it in cluster.brokers if it != new) if late else (), slow=slow)
    return True


def _without(world: World, broker: Broker) -> None:
    """The controller fences the broker: others lead what it led."""
    cluster = world.cluster
    image = cluster.image._replace(live=tuple(it for it in cluster.image.live if it != broker.id))
    for topic, index, partition in tuple(image.each()):
        if broker.id in partition.in_sync and partition.leader == broker.id:
            image = _elect(image, topic, index, partition, broker.id)
        elif broker.id in partition.in_sync and len(partition.in_sync) > 1:
            in_sync = tuple(it for it in partition.in_sync if it != broker.id)
            image = image.with_partition(topic, index, partition._replace(in_sync=in_sync))
    cluster.decide(image)


def _with(world: World, broker: Broker) -> None:
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
            in_sync = tuple(it for it in partition.replicas if it in {*partition.in_sync, broker.id})
            image = image.with_partition(topic, index, partition._replace(in_sync=in_sync))
    cluster.decide(image)


def _cut_off(world: World, broker: int) -> bool:
    it = world.cluster.brokers[broker]
    if not it.is_connected:
        return False
    it.is_cut_off = True
    _without(world, it)
    return True


def _reconnect(world: World, broker: int) -> bool:
    it = world.cluster.brokers[broker]
    if not it.is_cut_off or not it.is_up:
        return False
    it.is_cut_off = False
    _with(world, it)
    return True


def _kill(world: World, broker: int) -> bool:
    it = world.cluster.brokers[broker]
    if not it.is_connected:
        return False
    it.is_up = False
    it.coordinating.clear()
    _without(world, it)
    return True


def _start(world: World, broker: int) -> bool:
    it = world.cluster.brokers[broker]
    if it.is_up:
        return False
    it.is_up, it.is_cut_off = True, False
    it.coordinating.clear()
    _with(world, it)
    return True


def _silence(world: World, broker: int) -> bool:
    it = world.cluster.brokers[broker]
    it.is_silent, was = True, it.is_silent
    return it.is_up and not was


def _speak(world: World, broker: int) -> bool:
    it = world.cluster.brokers[broker]
    it.is_silent, was = False, it.is_silent
    return was


def _deliver(world: World, broker: int) -> bool:
    it = world.cluster.brokers[broker]
    if not it.is_connected or it.view is world.cluster.image:
        return False
    world.cluster.deliver(it)
    return True


def _go_on_loading(world: World, broker: int) -> bool:
    it = world.cluster.brokers[broker]
    for index, held in it.coordinating.items():
        if held.loading == "unaware":
            held.loading = "loading"
            return True
        if held.loading:
            world.cluster.load(it, index)
            return True
    return False


def _shrink(world: World, topic: str, index: int) -> bool:
    """A follower falls out of the in-sync replicas, and stops fetching."""
    cluster = world.cluster
    partition = cluster.image.partition(topic, index)
    followers = [] if partition is None else [it for it in partition.in_sync if it != partition.leader]
    if partition is None or not followers or partition.leader == NO_LEADER:
        return False
    cluster.brokers[followers[-1]].logs[cluster.image.topics[topic].topic_id, index].keeps_up = False
    in_sync = tuple(it for it in partition.in_sync if it != followers[-1])
    cluster.decide(cluster.image.with_partition(topic, index, partition._replace(in_sync=in_sync)))
    return True


def _expand(world: World, topic: str, index: int) -> bool:
    cluster = world.cluster
    partition = cluster.image.partition(topic, index)
    if partition is None or set(partition.in_sync) == set(partition.replicas) or partition.leader == NO_LEADER:
        return False
    back = [it for it in partition.replicas if it not in partition.in_sync and cluster.brokers[it].is_connected]
    if not back or not cluster.leads(cluster.brokers[partition.leader], topic, index):
        return False
    topic_id = cluster.image.topics[topic].topic_id
    for it in back:
        replica = cluster.brokers[it].logs[topic_id, index]
        replica.keeps_up = True
        replica.copy_of(cluster.brokers[partition.leader].logs[topic_id, index])
    in_sync = tuple(it for it in partition.replicas if it in {*partition.in_sync, *back})
    cluster.decide(cluster.image.with_partition(topic, index, partition._replace(in_sync=in_sync)))
    return True


def _lose_marker(world: World, topic: str, index: int, *, at_leader: bool) -> bool:
    """A log is restored from a copy without its last marker."""
    cluster = world.cluster
    partition = cluster.image.partition(topic, index)
    if partition is None or partition.leader == NO_LEADER:
        return False
    topic_id = cluster.image.topics[topic].topic_id
    followers = [it for it in partition.replicas if it != partition.leader]
    where = partition.leader if at_leader else followers[0] if followers else NO_LEADER
    if where == NO_LEADER:
        return False
    replica = cluster.brokers[where].logs[topic_id, index]
    return any(lose_last_marker(replica, producer_id) for producer_id in sorted(replica.entries))


def _expire_producers(world: World, broker: int) -> bool:
    """`producer.id.expiration.ms`: a broker forgets producers that have nothing open."""
    found = False
    for replica in world.cluster.brokers[broker].logs.values():
        for producer_id, entry in tuple(replica.entries.items()):
            if entry.start_offset < 0:
                del replica.entries[producer_id]
                found = True
    return found


def _delete(world: World, topic: str) -> bool:
    cluster = world.cluster
    if topic not in cluster.image.topics:
        return False
    cluster.decide(cluster.image.with_topic(topic, None))
    return True


def _create(world: World, topic: str) -> bool:
    """With two partitions on the brokers that are there."""
    cluster = world.cluster
    live = tuple(it for it in cluster.image.live if cluster.brokers[it].is_connected)
    if topic in cluster.image.topics or not live:
        return False
    cluster.decide(cluster.create_topic(topic, [live[:2], live[-2:]]))
    return True


def _recreate(world: World, topic: str) -> bool:
    return _delete(world, topic) and _create(world, topic)


def _create_new(world: World) -> bool:
    return _create(world, "new")


# --- operators, rights and clocks ---


def _another_operator_aborts(world: World, topic: str, index: int) -> bool:
    """Somebody else aborts what is open there, at its leader."""
    cluster = world.cluster
    replica, partition = cluster.leader_replica(topic, index), cluster.image.partition(topic, index)
    if replica is None or partition is None or not cluster.is_writable(topic, index):
        return False
    open_ = [(producer_id, it) for producer_id, it in replica.entries.items() if it.start_offset >= 0]
    if not open_:
        return False
    producer_id, entry = open_[0]
    marker = (producer_id, entry.epoch, max(entry.coordinator_epoch, 0), False)
    return not coordinator.operators_marker(cluster, cluster.brokers[partition.leader], topic, index, marker)


def _poison(world: World, topic: str, index: int) -> bool:
    """An operator's marker with a coordinator epoch that is too high: the entry remembers it."""
    cluster = world.cluster
    replica = cluster.leader_replica(topic, index)
    if replica is None or not cluster.is_writable(topic, index):
        return False
    for broker in cluster.brokers.values():
        mine = broker.logs.get((cluster.image.topics[topic].topic_id, index))
        for producer_id, entry in () if mine is None else tuple(mine.entries.items()):
            mine.entries[producer_id] = entry._replace(coordinator_epoch=1000)
    return bool(replica.entries)


def _rule(acl: Acl) -> Callable[[World], bool]:
    def add(world: World) -> bool:
        image = world.cluster.image
        if not image.rights.has_authorizer or acl in image.rights.acls:
            return False
        world.cluster.decide(image._replace(rights=image.rights._replace(acls=(*image.rights.acls, acl))))
        return True

    return add


def _deny_id(world: World, name: str) -> bool:
    return _rule(Acl(rights.TRANSACTIONAL_ID, name, rights.DESCRIBE, rights.DENY))(world)


def _deny_topic(world: World, topic: str) -> bool:
    return _rule(Acl(rights.TOPIC, topic, rights.ALL, rights.DENY))(world)


def _tick(world: World, milliseconds: int) -> bool:
    world.pass_time(milliseconds)
    return True


def _step_clock(world: World, milliseconds: int) -> bool:
    if abs(world.wall_skew_ms + milliseconds) > 61 * MINUTE_MS:
        return False
    world.wall_skew_ms += milliseconds
    return True


_EVENTS: dict[str, tuple[str, Callable[..., bool]]] = {
    "add_partition": ("id partition", _begin),
    "write": ("id partition", _write),
    "begin_and_write": ("id partition", _begin_and_write),
    "write_late": ("id partition", _write_late),
    "commit": ("id", _end("commit")),
    "abort": ("id", _end("abort")),
    "send_marker": ("id", lambda world, name: coordinator.send_marker(world.cluster, name)),
    "send_all_markers": ("id", _send_all_markers),
    "time_out": ("id", _time_out),
    "init": ("id", _init),
    "expire_id": ("id", _expire),
    "rotate_producer_id": ("id", lambda world, name: coordinator.rotate(world.cluster, name)),
    "move_leader": ("any partition", _move),
    "move_leader_untold": ("any partition", lambda world, t, i: _move(world, t, i, late=True)),
    "move_leader_slowly": ("any partition", lambda world, t, i: _move(world, t, i, slow=True)),
    "go_on_loading": ("broker", _go_on_loading),
    "deliver_metadata": ("broker", _deliver),
    "cut_off": ("broker", _cut_off),
    "reconnect": ("broker", _reconnect),
    "kill": ("broker", _kill),
    "start": ("broker", _start),
    "silence": ("broker", _silence),
    "speak": ("broker", _speak),
    "shrink_in_sync": ("any partition", _shrink),
    "expand_in_sync": ("any partition", _expand),
    "leader_loses_marker": ("partition", lambda world, t, i: _lose_marker(world, t, i, at_leader=True)),
    "follower_loses_marker": ("partition", lambda world, t, i: _lose_marker(world, t, i, at_leader=False)),
    "expire_producers": ("broker", _expire_producers),
    "delete_topic": ("topic", _delete),
    "recreate_topic": ("topic", _recreate),
    "create_topic": ("", _create_new),
    "another_operator_aborts": ("partition", _another_operator_aborts),
    "poison_entry": ("partition", _poison),
    "deny_id": ("id", _deny_id),
    "deny_topic": ("topic", _deny_topic),
    "deny_state_topic": ("", lambda world: _deny_topic(world, STATE_TOPIC)),
    "pass_time": ("ticks", _tick),
    "step_clock": ("steps", _step_clock),
}
"""Kind -> (what it is about, how it happens)."""
