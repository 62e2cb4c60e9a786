"""Lists the alphabet: everything that can happen between two requests. Each returns False if it cannot happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.verification.model import controller, coordinator, elsewhere, grants, operators, producers, retention
from tests.verification.model.cluster import Cluster
from tests.verification.model.image import STATE_TOPIC
from tests.verification.model.world import World

MINUTE_MS = 60_000


class Event(NamedTuple):
    """One letter of the alphabet."""

    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(str(argument) for argument in self.arguments)})"


def happen(world: World, event: Event) -> bool:
    """Have it happen, and note what is true then; False where it cannot."""
    if not _EVENTS[event.name][1](world, *event.arguments):
        return False
    world.note()
    return True


def happen_quietly(world: World, event: Event) -> bool:
    """Like `happen`, but no request sees it yet."""
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
        "id": [(transactional_id,) for transactional_id in ids],
        "id partition": [(transactional_id, *partition) for transactional_id in ids for partition in data],
        "partition": list(data),
        "any partition": list(every),
        "broker": [(node_id,) for node_id in cluster.brokers],
        "topic": topics,
        "topic right": [(name, level) for (name,) in (*topics, (STATE_TOPIC,)) for level in grants.TOPIC_LEVELS],
        "id right": [(grants.ALL,), (grants.NONE,), *((name,) for name in ids)],
        "cluster right": [(name, flag) for name in grants.CLUSTER_OPERATIONS for flag in (True, False)],
        "clusters": [(elsewhere.ANOTHER_ID,), (elsewhere.SAME_ID,)],
        "ticks": [(5_000,), (40_000,), (70_000,), (25 * MINUTE_MS,)],
        "steps": [(60 * MINUTE_MS,), (-60 * MINUTE_MS,)],
        "dates": [(0,), (-30 * 365 * 24 * 60 * MINUTE_MS,), (50 * MINUTE_MS,), (operators.NO_TIMESTAMPS,)],
    }
    return {name: tuple(Event(name, each) for each in subjects[subject]) for name, (subject, _) in _EVENTS.items()}


_EVENTS: dict[str, tuple[str, Callable[..., bool]]] = {
    "add_partition": ("id partition", producers.begin),
    "write": ("id partition", producers.write),
    "begin_and_write": ("id partition", producers.begin_and_write),
    "write_late": ("id partition", producers.write_late),
    "commit": ("id", producers.end("commit")),
    "abort": ("id", producers.end("abort")),
    "send_marker": ("id", lambda world, name: coordinator.send_marker(world.cluster, name)),
    "send_all_markers": ("id", lambda world, name: coordinator.send_every_marker(world.cluster, name)),
    "time_out": ("id", producers.time_out),
    "init": ("id", producers.init),
    "expire_id": ("id", producers.expire),
    "use_up_epochs": ("id", lambda world, name: coordinator.use_up_epochs(world.cluster, name)),
    "rotate_producer_id": ("id", lambda world, name: coordinator.rotate(world.cluster, name)),
    "move_leader": ("any partition", controller.move),
    "move_leader_untold": ("any partition", lambda world, t, i: controller.move(world, t, i, late=True)),
    "move_leader_slowly": ("any partition", lambda world, t, i: controller.move(world, t, i, slow=True)),
    "move_leader_to_last": ("any partition", lambda world, t, i: controller.move(world, t, i, to_last=True)),
    "move_leader_lagging": ("partition", controller.move_lagging),
    "high_watermark_catches_up": ("partition", controller.catch_up_high_watermark),
    "go_on_loading": ("broker", controller.go_on_loading),
    "deliver_metadata": ("broker", controller.deliver),
    "cut_off": ("broker", controller.cut_off),
    "reconnect": ("broker", controller.reconnect),
    "reconnect_untold": ("broker", lambda world, broker: controller.reconnect(world, broker, late=True)),
    "kill": ("broker", controller.kill),
    "start": ("broker", controller.start),
    "silence": ("broker", controller.silence),
    "speak": ("broker", controller.speak),
    "shrink_in_sync": ("any partition", controller.shrink),
    "expand_in_sync": ("any partition", controller.expand),
    "follower_lags": ("partition", controller.lag),
    "follower_catches_up": ("partition", controller.catch_up),
    "leader_loses_marker": ("partition", lambda world, t, i: controller.lose_marker(world, t, i, at_leader=True)),
    "follower_loses_marker": ("partition", lambda world, t, i: controller.lose_marker(world, t, i, at_leader=False)),
    "delete_records": ("partition", retention.delete_records),
    "delete_first_record": ("partition", retention.delete_first_record),
    "add_replica": ("partition", retention.add_replica),
    "rebuild_replica": ("partition", retention.rebuild_replica),
    "expire_producers": ("broker", controller.expire_producers),
    "delete_topic": ("topic", controller.delete),
    "delete_state_topic": ("", lambda world: controller.delete(world, STATE_TOPIC)),
    "recreate_topic": ("topic", controller.recreate),
    "create_topic": ("", controller.create_new),
    "another_operator_aborts": ("partition", operators.another_operator_aborts),
    "poison_entry": ("partition", operators.poison),
    "deny_id": ("id", operators.deny_id),
    "deny_topic": ("topic", operators.deny_topic),
    "deny_state_topic": ("", lambda world: operators.deny_topic(world, STATE_TOPIC)),
    "authorize": ("", grants.authorize),
    "give_everything": ("", grants.give_everything),
    "give_everything_to": ("broker", grants.give_everything_to),
    "set_topic_right": ("topic right", grants.set_topic_right),
    "set_id_right": ("id right", grants.set_id_right),
    "set_cluster_right": ("cluster right", grants.set_cluster_right),
    "pass_time": ("ticks", operators.tick),
    "step_clock": ("steps", operators.step_clock),
    "client_dates": ("dates", operators.client_dates),
    "lead_elsewhere": ("clusters", elsewhere.lead_elsewhere),
    "lead_back": ("", elsewhere.lead_back),
    "skew_broker": ("broker", operators.skew_broker),
    "restart_exporter": ("", operators.restart_exporter),
}
"""Kind -> (its object, its event)."""
