"""Facts of the model that schedules depend on: the hash, third replicas, deleted records, rebuilt replicas, other clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.verification.model import drive
from tests.verification.model.beginnings import SHOP
from tests.verification.model.cluster import home_of, java_hash
from tests.verification.model.directors import Played, Schedule
from tests.verification.model.events import Event, happen
from tests.verification.model.situations import BY_NAME, make
from tests.verification.model.world import World


@pytest.fixture(autouse=True)
def repeatable() -> Iterator[None]:
    """Without chance."""
    with drive.repeatable():
        yield


def world_of(situation: str) -> World:
    """The world of a situation, where nothing happens by itself."""
    return make(BY_NAME[situation], lambda cluster: World(cluster, Played(Schedule())))


def do(world: World, *steps: tuple[object, ...]) -> None:
    """Have events happen that must be possible."""
    for name, *arguments in steps:
        assert happen(world, Event(str(name), tuple(arguments))), f"{name}{tuple(arguments)} cannot happen"


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), (SHOP, -903152870)],
)
def test_the_hash_is_javas(text: str, code: int) -> None:
    assert java_hash(text) == code


def test_the_smallest_hash_belongs_to_the_first_partition() -> None:
    assert [home_of("polygenelubricants", count) for count in (3, 5, 50)] == [0, 0, 0]
    assert [home_of(SHOP, count) for count in (2, 3, 5, 50)] == [0, 2, 0, 20]


def test_the_third_replica_can_lead() -> None:
    world = world_of("late write, three replicas")
    do(world, ("move_leader_to_last", "t", 0))
    partition = world.cluster.image.partition("t", 0)
    assert partition is not None
    assert (partition.leader, partition.in_sync) == (3, (1, 2, 3))
