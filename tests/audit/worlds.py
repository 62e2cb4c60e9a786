"""Makes whole worlds of the audit."""

from __future__ import annotations

from typing import Any

from tests.audit.runs import SETTLED_MS
from tests.audit.world import World


def played(seed: int, *, transactions: int = 25, **options: Any) -> World:
    """A world of so many transactions of each producer, to which nothing is added any more."""
    world = World(seed, **options)
    world.play(transactions)
    world.pass_time(10 * SETTLED_MS)
    for producer in world.producers:
        world.initialize(producer)  # records after all others: the log is read beyond them
    world.pass_time(10 * SETTLED_MS)
    return world
