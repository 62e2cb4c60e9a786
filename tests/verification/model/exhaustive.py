"""Searches for lies in every placement of a few events, and with every subset of rights; or in so many of them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from tests.verification.model.directors import Played, Schedule
from tests.verification.model.events import Event
from tests.verification.model.explore import Reached, alphabet_of, note, run_with
from tests.verification.model.placements import Scout
from tests.verification.model.situations import SITUATIONS, WRITES, Situation
from tests.verification.model.subsets import every_subset

NO_LIMIT = 10**9
PLACEMENTS_OF_ONE = 13
"""At how many moments of a run one event makes a difference, on average."""


class Extent(NamedTuple):
    """Which placements of events are tried, and how many schedules."""

    depth: int
    """The number of events."""
    kinds: tuple[str, ...] | None = None
    """The only kinds of events, or the very events; None: all of the situation."""
    places: Collection[str] | None = None
    """The only requests or pauses before which they happen; None: all."""
    ending: str = ""
    schedules_max: int = NO_LIMIT
    """If there are more placements, fewer events are placed, and what is left is spread evenly over the run."""


def exhaustively(
    reached: Reached,
    extent: Extent,
    *,
    seconds: float = float("inf"),
    situations: Sequence[Situation] = SITUATIONS,
) -> None:
    """Every placement of up to `depth` events over the moments of each situation's run; see placements.py."""
    until = time.monotonic() + seconds
    left = extent.schedules_max
    for number, situation in enumerate(situations):
        restricted = situation if extent.kinds is None else situation._replace(kinds=extent.kinds)
        events = tuple(event for some in alphabet_of(restricted).values() for event in some)
        share = left // (len(situations) - number)
        every = max(round(len(events) * PLACEMENTS_OF_ONE / max(share, 1)), 1)
        events = events[len(situation.name) % every :: every]
        begun = reached.schedules
        for schedule in _placements(reached, situation, Schedule(ending=extent.ending), events, extent, share):
            if time.monotonic() > until:
                return
            assert schedule is not None
        left -= reached.schedules - begun


def _placements(
    reached: Reached,
    situation: Situation,
    schedule: Schedule,
    events: tuple[Event, ...],
    extent: Extent,
    schedules_max: int,
) -> Iterator[Schedule]:
    """Run `schedule`, then those that are longer by one event that comes last, and so on."""
    if schedules_max < 1:
        return
    depth = extent.depth - len(schedule.events) if schedules_max > 1 else 0
    scout = Scout(schedule, events if depth else (), extent.places, reduces=extent.depth == 1)
    note(reached, situation, run_with(situation, scout, schedule.ending), -1)
    reached.left_out += scout.left_out
    for (_, one), (_, other) in zip(schedule.events, schedule.events[1:], strict=False):
        reached.pairs[one.name, other.name] += 1
    yield schedule
    chosen = spread(scout.placements, schedules_max - 1)
    for placement in chosen:
        longer = schedule._replace(events=(*schedule.events, placement))
        yield from _placements(reached, situation, longer, events, extent, (schedules_max - 1) // len(chosen))


def spread(placements: Sequence[tuple[int, Event]], count: int) -> Sequence[tuple[int, Event]]:
    """At most `count` of them, evenly."""
    return placements if len(placements) <= count else placements[:: -(-len(placements) // count)]


def with_every_subset(
    reached: Reached,
    *,
    seconds: float = float("inf"),
    situations: Sequence[Situation] = SITUATIONS,
    schedules_max: int = NO_LIMIT,
) -> None:
    """Each command that writes, begun with each subset of rights, and no other event."""
    until = time.monotonic() + seconds
    schedules = [
        (situation, Schedule(events=tuple((1, event) for event in subset)))
        for situation in situations
        if situation.script in WRITES
        for subset in every_subset()
    ]
    for situation, schedule in schedules[:: -(-len(schedules) // schedules_max) or 1]:
        if time.monotonic() > until:
            return
        note(reached, situation, run_with(situation, Played(schedule), schedule.ending), -1)
