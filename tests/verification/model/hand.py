"""Has events happen in a world by hand, for tests of the model."""

from __future__ import annotations

from typing import Any

from tests.verification.model.directors import Played, Schedule
from tests.verification.model.events import Event, happen
from tests.verification.model.situations import BY_NAME, make
from tests.verification.model.truth import Fate, standings
from tests.verification.model.world import World


def world_of(situation: str) -> World:
    """The world of a situation, where nothing happens by itself."""
    return make(BY_NAME[situation], lambda cluster: World(cluster, Played(Schedule())))


def do(world: World, *steps: tuple[Any, ...]) -> None:
    """Have events happen that must be possible."""
    for name, *arguments in steps:
        assert happen(world, Event(name, tuple(arguments))), f"{name}{tuple(arguments)} cannot happen"


def fates(world: World) -> dict[str, Fate]:
    """`topic-partition from start` -> what will become of it."""
    return {
        f"{key.topic}-{key.partition} from {key.start_offset}": one.fate
        for key, one in standings(world.cluster).items()
    }
