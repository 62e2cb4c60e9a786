"""Lists where one more event can be placed, once for all neighbouring moments that are equivalent.

An event before request p and the same event before request p + 1 are one and the same schedule where, both ways, request
p has the same response, what the checks look at is the same, and the cluster that is left is the same. So it is placed
only before p + 1. Partial-order reduction: Godefroid, Partial-Order Methods for the Verification of Concurrent Systems.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Collection
from typing import Any, NamedTuple

from exporter.kafka.errors import BrokerFault
from exporter.kafka.messages.raw_request import RawResponse
from tests.verification.model.answers import Answers
from tests.verification.model.cluster import Cluster
from tests.verification.model.directors import Played, Schedule
from tests.verification.model.events import Event, happen
from tests.verification.model.world import FENCE, MARKERS, World

Placement = tuple[int, Event]


class _Nothing:
    """A director without events."""

    def before(self, world: World, place: str) -> None:
        """Nothing."""

    def choose(self, count: int) -> int:  # noqa: ARG002
        """The first."""
        return 0


class _Before(NamedTuple):
    """A request, and what each event before it leaves behind where it changes neither the response nor the checks."""

    cycles: int
    left: dict[Event, bytes]


class Scout(Played):
    """Plays a schedule, and on its way tries every event at each moment from that of the schedule's last event on.

    `places`: the only moments; None: all. `reduces`: leave out moments that a later one represents. Only the last event of
    a schedule may be left out: one that follows at the same moment need not give way with it.
    """

    def __init__(
        self, schedule: Schedule, events: tuple[Event, ...], places: Collection[str] | None, *, reduces: bool
    ) -> None:
        super().__init__(schedule)
        self._events = events
        self._places = places
        self._reduces = reduces
        self._first = schedule.events[-1][0] if schedule.events else 1
        self._before: _Before | None = None
        self._placements: dict[Placement, None] = {}
        self.left_out = 0

    @property
    def placements(self) -> tuple[Placement, ...]:
        """By position."""
        return tuple(self._placements)

    def decide(self, world: World, place: str) -> None:
        """What the schedule says, and then every event on a copy."""
        super().decide(world, place)
        before, self._before = self._before, None
        if self.position < self._first or (self._places is not None and place not in self._places):
            return
        tried = self._tried(world)
        for event, copied in tried.items():
            self._placements[self.position, event] = None
            if before is not None and before.cycles == world.cycles and world.next_request is not None:
                self._leave_out(before, event, copied)
        if self._reduces:
            self._before = _asked(world, tried)

    def _tried(self, world: World) -> dict[Event, World]:
        """The world after each event that can happen now."""
        state = pickle.dumps(world.cluster, -1)
        tried = {}
        for event in self._events:
            copied = _copy(world, pickle.loads(state))  # noqa: S301 - our own
            if happen(copied, event):
                tried[event] = copied
        return tried

    def _leave_out(self, before: _Before, event: Event, copied: World) -> None:
        if (
            before.left.get(event) == pickle.dumps(copied.cluster, -1)
            and (self.position - 1, event) in self._placements
        ):
            del self._placements[self.position - 1, event]
            self.left_out += 1


def _copy(world: World, cluster: Cluster) -> World:
    """For one event and one response; what was read before is left out, as both ways have it."""
    copied = copy.copy(world)
    copied.cluster = cluster
    copied.answers = Answers(cluster)
    copied.director = _Nothing()
    copied.trace = copied.on_write = None
    copied.moments = list(world.moments)
    copied.requests = list(world.requests)
    copied.reads, copied.stable_reads, copied.described = {}, {}, {}
    copied.metadata_at = -1
    return copied


def _asked(world: World, tried: dict[Event, World]) -> _Before | None:
    """What the next request makes of them; None where the next moment cannot represent this one.

    That is where the exporter pauses, so that it looks at its clock and the checks at the cluster, and where it writes.
    An event that moves a clock, or restarts the exporter, differs from the same event one request later.
    """
    if world.next_request is None or world.next_request[1].API_KEY in {MARKERS, FENCE}:
        return None
    plain = _copy(world, pickle.loads(pickle.dumps(world.cluster, -1)))  # noqa: S301 - our own
    expected = _response(plain)
    left = {}
    for event, copied in tried.items():
        if _response(copied) == expected:
            left[event] = pickle.dumps(copied.cluster, -1)
    return _Before(world.cycles, left)


def _response(world: World) -> tuple[Any, ...]:
    """The response to the next request, what the checks will know of it, and the clocks after it."""
    assert world.next_request is not None
    try:
        answer = world.answer(*world.next_request)
        response = bytes(answer.body) if isinstance(answer, RawResponse) else pickle.dumps(answer, -1)
    except BrokerFault as fault:
        response = str((fault.reason, fault)).encode()
    moments = world.moments
    return (
        response,
        {name: [moments[read.moment] for read in reads] for name, reads in world.reads.items()},
        {name: (moments[one.read.moment], one.offset, one.log_start) for name, one in world.stable_reads.items()},
        world.described,
        None if world.metadata_at < 0 else moments[world.metadata_at],
        world.asked_coordinators[-1],
        (world.cluster.now_ms, world.wall_skew_ms, world.running_s, world.is_restart_due),
    )
