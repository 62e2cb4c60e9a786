"""Chooses the next event: at random, preferring what was not reached yet, or from a schedule that is replayed.

A schedule is a list of (position, event): the position counts the moments at which things may happen, from 1 on.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from tests.verification.model.events import Event, happen
from tests.verification.model.world import World

QUIET, HEALED = "quiet", "healed"
_PLACES = {
    "DescribeProducers": 1.5,
    "DescribeTransactions": 1.5,
    "ListTransactions": 1.5,
    "WriteTxnMarkers": 3.0,
    "InitProducerId": 3.0,
    "question": 8.0,
    "lock": 8.0,
    "pause": 6.0,
    "Metadata": 1.0,
    "ListOffsets": 1.0,
}
_ELSEWHERE = 0.5
_NEXT_TOO = 0.4
"""How likely another event follows one at the same moment."""
_TRIES = 6


class Schedule(NamedTuple):
    """Everything that decides a run, except the situation."""

    events: tuple[tuple[int, Event], ...] = ()
    order: int = 0
    """Seed of the order in which coroutines go on, and of made-up ids; order 0: as they were begun."""
    ending: str = ""
    """What follows the events: nothing, QUIET cycles, or QUIET cycles after everything was HEALED."""

    def __str__(self) -> str:
        events = "; ".join(f"{position}: {event}" for position, event in self.events)
        return f"[{events or 'no events'}] order {self.order}, ending {self.ending or 'none'}"


class Played:
    """Plays a schedule, and is the base of chance."""

    def __init__(self, schedule: Schedule) -> None:
        self.order = schedule.order
        self.position = 0
        self.has_stopped = False
        self.applied: list[tuple[int, Event]] = []
        self.places: list[str] = []
        self._state = schedule.order
        self._by_position: dict[int, list[Event]] = {}
        for position, event in schedule.events:
            self._by_position.setdefault(position, []).append(event)

    def stop(self) -> None:
        """Nothing happens any more."""
        self.has_stopped = True

    def before(self, world: World, place: str) -> None:
        """A moment at which things may happen."""
        if self.has_stopped:
            return
        self.position += 1
        self.places.append(place)
        self.decide(world, place)

    def decide(self, world: World, place: str) -> None:  # noqa: ARG002 - others look at the place
        """Have happen what the schedule says."""
        for event in self._by_position.get(self.position, ()):
            self.happen(world, event)

    def happen(self, world: World, event: Event) -> bool:
        """True where it could; then it is part of the schedule."""
        if not happen(world, event):
            return False
        self.applied.append((self.position, event))
        if world.trace is not None:
            world.trace(f"* {event}")
        return True

    def choose(self, count: int) -> int:
        """The next coroutine."""
        if self.order == 0:
            return 0
        self._state = (self._state * 1103515245 + 12345) & 0x7FFFFFFF
        return (self._state >> 8) % count


class Chance(Played):
    """Draws events, more of them near the requests that matter, and rather pairs that were not seen yet."""

    def __init__(
        self,
        rng: random.Random,
        alphabet: Mapping[str, tuple[Event, ...]],
        weights: Mapping[str, float],
        pairs: Counter[tuple[str, str]],
        places: tuple[str, ...] | None = None,
        beginning: tuple[Event, ...] = (),
    ) -> None:
        super().__init__(Schedule(order=rng.choice((0, 0, rng.randrange(1, 1 << 20)))))
        self._beginning = beginning
        self._rng = rng
        self._alphabet = alphabet
        self._kinds = tuple(kind for kind, events in alphabet.items() if events and weights.get(kind, 1.0))
        self._weights = tuple(weights.get(kind, 1.0) for kind in self._kinds)
        self._intensity = rng.choice((0.02, 0.05, 0.1, 0.2))
        self._pairs = pairs
        self._allowed = places
        self._last = "begin"

    def decide(self, world: World, place: str) -> None:
        """Perhaps an event, and perhaps another."""
        rng = self._rng
        for event in self._beginning if self.position == 1 else ():
            self.happen(world, event)
        if self._allowed is not None and place not in self._allowed:
            return
        if rng.random() >= self._intensity * _PLACES.get(place, _ELSEWHERE):
            return
        while self._kinds and self._draw(world) and rng.random() < _NEXT_TOO:
            pass

    def _draw(self, world: World) -> bool:
        rng = self._rng
        for _ in range(_TRIES):
            kinds = rng.choices(self._kinds, self._weights, k=2)
            kind = min(kinds, key=lambda kind: self._pairs[self._last, kind])
            if self.happen(world, rng.choice(self._alphabet[kind])):
                self._pairs[self._last, kind] += 1
                self._last = kind
                return True
        return False
