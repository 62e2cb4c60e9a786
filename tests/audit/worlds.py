"""Makes whole worlds of the audit."""

from __future__ import annotations

from tests.audit.runs import SETTLED_MS
from tests.audit.world import World


def played(seed: int, **options: float) -> World:
    """A world of 25 transactions of each producer, to which nothing is added any more."""
    world = World(seed, **options)  # type: ignore[arg-type]
    world.play(transactions=25)
    world.pass_time(10 * SETTLED_MS)
    for producer in world.producers:
        world.initialize(producer)  # records after all others: the log is read beyond them
    world.pass_time(10 * SETTLED_MS)
    return world
