"""Declares the faults of a soak: each is applied to a cluster with live producers, and removed before the next."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from exporter.snapshot import STATE_TOPIC
from hangbench.kafka.broker import Broker
from hangbench.kafka.link import Link, Weather
from hangbench.kafka.planting import plant_hang, plant_hang_without_id, write_marker
from hangbench.waiting import until
from tests.brokers.leaders import elect_preferred, reorder_replicas
from tests.verification.soak.clock import WallClock
from tests.verification.soak.cluster import SoakCluster
from tests.verification.soak.disk import Disk
from tests.verification.soak.watcher import Truth

HUNG: Final = "hung"
HUNG_PARTITIONS: Final = 6
GROWING: Final = "growing"
RECREATED: Final = "recreated"
LONG_PAUSE_S: Final = 30.0
HANGS_MAX: Final = 4
PARTITIONS_MAX: Final = 120
FIRST_PRODUCER_ID: Final = 8_000_000_000
DISK_FULL: Final = "broker's disk full, then freed"
DISK_NODE: Final = 3
CLOCK_STEPPED: Final = "exporter's clock an hour off"
HALTS_S: Final = 60.0
CLOCK_STEP_S: Final = 3600.0
AHEAD_S: Final = 1800
"""Brokers take no record that is an hour ahead."""


@dataclass
class Ground:
    """What faults are done to."""

    cluster: SoakCluster
    links: dict[int, Link]
    truth: Truth
    chance: random.Random
    reload: Callable[[], None]
    restart: Callable[[], None]
    """Kill one of the exporters and start it again."""
    clock: WallClock
    """Of one of the exporters."""
    disk: Disk | None
    """That of the broker DISK_NODE; None where it cannot have one of its own."""
    grown: int = 1
    planted: int = 0
    paused_long: bool = field(default=False)

    def any_broker(self) -> Broker:
        return self.chance.choice(self.cluster.brokers)

    def any_link(self) -> Link:
        return self.chance.choice(tuple(self.links.values()))


def kill_broker(ground: Ground) -> None:
    broker = ground.any_broker()
    broker.kill()
    time.sleep(ground.chance.uniform(0, 5))
    broker.start()


def restart_broker(ground: Ground) -> None:
    broker = ground.any_broker()
    broker.stop()
    broker.start()


def freeze_broker(ground: Ground) -> None:
    """Longer than its session once in a soak: then others lead its partitions."""
    broker = ground.any_broker()
    seconds = ground.chance.uniform(1, 4) if ground.paused_long else LONG_PAUSE_S
    ground.paused_long = True
    broker.pause()
    time.sleep(seconds)
    broker.resume()


def cut_off_broker(ground: Ground) -> None:
    """From its controller and its peers, for longer than its session in half of the cases; clients still reach it."""
    broker = ground.any_broker()
    ground.cluster.cut(broker.node_id)
    time.sleep(ground.chance.choice((1.5, 8.0)))
    ground.cluster.mend(broker.node_id)


def step_clock(ground: Ground) -> None:
    """The wall clock of an exporter is set an hour ahead or back, and right again some cycles later."""
    ground.clock.set(ground.chance.choice((-1, 1)) * CLOCK_STEP_S)
    time.sleep(4)
    ground.clock.set(0.0)


def fill_disk(ground: Ground) -> None:
    """A broker on one full disk halts, because it cannot write; then an operator frees space and starts it."""
    assert ground.disk is not None
    broker = ground.cluster.broker(DISK_NODE)
    ground.disk.fill()
    until(lambda: not broker.running, patience_s=HALTS_S, status=broker.log_tail)
    time.sleep(ground.chance.uniform(0, 5))
    ground.disk.free()
    broker.start()


def elect_leaders(ground: Ground) -> None:
    """The preferred leaders of all partitions lead again after a broker's death."""
    elect_preferred(ground.cluster.bootstrap)


def reassign(ground: Ground) -> None:
    """A partition of each kind changes the order of its replicas, and with an election its leader."""
    nodes = [broker.node_id for broker in ground.cluster.brokers]
    chosen = [("live", ground.chance.randrange(4)), (HUNG, ground.chance.randrange(HUNG_PARTITIONS))]
    chosen.append((STATE_TOPIC, ground.chance.randrange(5)))
    reorder_replicas(ground.cluster.bootstrap, chosen, nodes, ground.chance)


def grow_topic(ground: Ground) -> None:
    ground.grown += 1
    if ground.grown <= PARTITIONS_MAX:
        ground.cluster.topics.grow(GROWING, ground.grown)


def recreate_topic(ground: Ground) -> None:
    """Under the same name, at once, while a producer writes transactions to it."""
    topics = ground.cluster.topics
    topics.delete(RECREATED)
    topics.create(RECREATED, partitions=ground.chance.randint(1, 4))


def plant(ground: Ground) -> None:
    """One more hang; the oldest is closed first where there are enough."""
    truth = ground.truth
    if len(truth.hanging()) >= HANGS_MAX:
        heal(ground)
    used = {key[1] for key in truth.hanging()}
    partition = ground.chance.choice([number for number in range(HUNG_PARTITIONS) if number not in used])
    truth.places.add((HUNG, partition))
    ground.planted += 1
    bootstrap = ground.cluster.bootstrap
    # If the client's clock is ahead, only the exporter knows the start: from its state file after a restart.
    written_ms = int((time.time() + ground.chance.choice((0, AHEAD_S))) * 1000)
    if ground.chance.random() < 0.5:
        hang = plant_hang(bootstrap, HUNG, partition, f"hung-{ground.planted}", timestamp_ms=written_ms)
    else:
        producer_id = FIRST_PRODUCER_ID + ground.planted
        hang = plant_hang_without_id(bootstrap, HUNG, partition, producer_id=producer_id, timestamp_ms=written_ms)
    truth.planted[HUNG, partition, hang.producer_id] = time.monotonic()


def heal(ground: Ground) -> None:
    """The oldest hang is aborted, as an operator would do it."""
    hanging = ground.truth.hanging()
    if not hanging:
        plant(ground)
        return
    key = min(hanging, key=ground.truth.planted.__getitem__)
    ground.truth.healed[key] = time.monotonic()
    write_marker(ground.cluster.bootstrap, *key, 0)


def bad_link(weather: Weather) -> Callable[[Ground], None]:
    """Between the exporter and one broker, for a while."""

    def fault(ground: Ground) -> None:
        link = ground.any_link()
        link.weather = weather
        time.sleep(ground.chance.uniform(0.5, 3))
        link.weather = Weather.FAIR
        link.reset()

    return fault


def reset_links(ground: Ground) -> None:
    for link in ground.links.values():
        link.reset()


def all_dark(ground: Ground) -> None:
    """Nobody can be reached."""
    for link in ground.links.values():
        link.weather = Weather.HOLE
    time.sleep(2)
    for link in ground.links.values():
        link.weather = Weather.FAIR
        link.reset()


def reload_settings(ground: Ground) -> None:
    ground.reload()


def restart_exporter(ground: Ground) -> None:
    ground.restart()


FAULTS: Final[dict[str, tuple[Callable[[Ground], None], int]]] = {
    "broker killed (SIGKILL) and started": (kill_broker, 2),
    "broker stopped and started": (restart_broker, 1),
    "broker frozen (SIGSTOP)": (freeze_broker, 2),
    "broker cut off from controller and peers": (cut_off_broker, 3),
    CLOCK_STEPPED: (step_clock, 2),
    DISK_FULL: (fill_disk, 1),
    "leaders elected": (elect_leaders, 3),
    "replicas reassigned": (reassign, 3),
    "partitions added": (grow_topic, 3),
    "topic deleted and made again": (recreate_topic, 3),
    "hang planted": (plant, 4),
    "hang closed": (heal, 3),
    "link: black hole": (bad_link(Weather.HOLE), 3),
    "link: slow": (bad_link(Weather.SLOW), 3),
    "link: refused": (bad_link(Weather.REFUSED), 3),
    "link: cut in mid-frame": (bad_link(Weather.CUT), 3),
    "links: all connections reset": (reset_links, 3),
    "links: all dark": (all_dark, 2),
    "settings read again (SIGHUP)": (reload_settings, 2),
    "exporter killed (SIGKILL) and started": (restart_exporter, 2),
}
"""Name -> (fault, its relative frequency)."""
