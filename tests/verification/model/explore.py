"""Searches for lies: at random from a seed, or every placement of a few events; and shrinks what it finds."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.verification.model.checks import Violation
from tests.verification.model.directors import HEALED, QUIET, Chance, Played, Schedule
from tests.verification.model.drive import TOKENS
from tests.verification.model.events import Event, alphabet
from tests.verification.model.placements import Scout
from tests.verification.model.runs import Run, run
from tests.verification.model.situations import BY_NAME, SITUATIONS, Situation, make
from tests.verification.model.world import World

ALONE_MAX = 6
ALONE_POSITIONS_MAX = 150
ENDINGS = ("", "", "", "", QUIET, HEALED)
"""Quiet cycles cost twice what the schedule itself does, so that only every third schedule has them."""


class Found(NamedTuple):
    """A lie, and how to see it again."""

    violation: Violation
    situation: str
    schedule: Schedule
    seed: int
    after: int
    """How many schedules were tried before."""


@dataclass
class Reached:
    """What was seen on the way: an unreachable corner must not be taken for a safe one."""

    schedules: int = 0
    left_out: int = 0
    """Schedules that are the same as one of these."""
    exempt: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    requests: Counter[int] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)
    """One of each kind of violation in each situation."""
    violations: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, ran: Run) -> None:
        """Count one run; pairs are counted by chance itself."""
        self.schedules += 1
        self.exempt += ran.exempt
        self.verdicts += ran.verdicts
        self.reasons += ran.reasons
        self.requests += ran.requests
        for _, event in ran.schedule.events:
            self.events[event.name] += 1

    def merge(self, other: Reached) -> None:
        """Take in what another process has reached."""
        self.schedules += other.schedules
        self.left_out += other.left_out
        self.exempt += other.exempt
        for name in ("verdicts", "reasons", "requests", "events", "pairs", "violations"):
            getattr(self, name).update(getattr(other, name))
        known = {(finding.situation, finding.violation.invariant, finding.violation.kind) for finding in self.found}
        self.found += [
            each for each in other.found if (each.situation, each.violation.invariant, each.violation.kind) not in known
        ]


def replay(situation: Situation, schedule: Schedule) -> Run:
    """The run of a schedule."""
    return _run(situation, Played(schedule), schedule.ending)


def _run(situation: Situation, director: Played, ending: str, trace: Callable[[str], None] | None = None) -> Run:
    TOKENS.count = 1 + director.order
    return run(situation, director, ending, trace)


def alphabet_of(situation: Situation) -> dict[str, tuple[Event, ...]]:
    """Every event that could happen in it."""
    world = make(situation, lambda cluster: World(cluster, Played(Schedule())))
    letters = alphabet(world.cluster, situation.ids)
    if situation.kinds is None:
        return letters
    wanted = set(situation.kinds)
    return {
        kind: tuple(event for event in events if kind in wanted or str(event) in wanted)
        for kind, events in letters.items()
    }


def by_chance(
    reached: Reached,
    *,
    seed: int,
    schedules: int,
    seconds: float = float("inf"),
    situations: Sequence[Situation] = SITUATIONS,
    endings: Sequence[str] = ENDINGS,
    step: int = 1,
) -> None:
    """Schedules number `seed`, `seed + step`, ...: each is made from its number and from the pairs reached so far."""
    letters = {situation.name: alphabet_of(situation) for situation in situations}
    until = time.monotonic() + seconds
    for number in range(schedules):
        if time.monotonic() > until:
            return
        one = seed + number * step
        rng = random.Random(one)
        situation = rng.choice(situations)
        ending = rng.choice(endings)
        director = Chance(rng, letters[situation.name], situation.weights, reached.pairs, situation.places)
        _note(reached, situation, _run(situation, director, ending), one)


def _note(reached: Reached, situation: Situation, ran: Run, seed: int) -> None:
    reached.add(ran)
    for violation in ran.violations:
        kind = (violation.invariant, violation.kind)
        reached.violations[kind] += 1
        if all(
            (finding.situation, finding.violation.invariant, finding.violation.kind) != (situation.name, *kind)
            for finding in reached.found
        ):
            reached.found.append(Found(violation, situation.name, ran.schedule, seed, reached.schedules))


def exhaustively(
    reached: Reached,
    *,
    depth: int,
    seconds: float = float("inf"),
    situations: Sequence[Situation] = SITUATIONS,
    kinds: Iterable[str] | None = None,
    places: Collection[str] | None = None,
    ending: str = "",
) -> None:
    """Every placement of up to `depth` events over the moments of each situation's run; see placements.py.

    Only events of those `kinds`, which may name the very events, and only before those requests or pauses (`places`).
    """
    until = time.monotonic() + seconds
    for situation in situations:
        restricted = situation if kinds is None else situation._replace(kinds=tuple(kinds))
        events = tuple(event for some in alphabet_of(restricted).values() for event in some)
        for schedule in _placements(reached, situation, Schedule(ending=ending), events, places, depth):
            if time.monotonic() > until:
                return
            assert schedule is not None


def _placements(
    reached: Reached,
    situation: Situation,
    schedule: Schedule,
    events: tuple[Event, ...],
    places: Collection[str] | None,
    depth: int,
) -> Iterator[Schedule]:
    """Run `schedule`, then those that are longer by one event that comes last, and so on."""
    scout = Scout(schedule, events if depth else (), places, reduces=depth == 1)
    _note(reached, situation, _run(situation, scout, schedule.ending), -1)
    reached.left_out += scout.left_out
    for (_, one), (_, other) in zip(schedule.events, schedule.events[1:], strict=False):
        reached.pairs[one.name, other.name] += 1
    yield schedule
    for placement in scout.placements:
        longer = schedule._replace(events=(*schedule.events, placement))
        yield from _placements(reached, situation, longer, events, places, depth - 1)


def shrunk(found: Found) -> Schedule:
    """The shortest schedule, by leaving out, that still shows the same kind of lie."""
    situation = BY_NAME[found.situation]

    def lies(schedule: Schedule) -> bool:
        kind = (found.violation.invariant, found.violation.kind)
        return any((each.invariant, each.kind) == kind for each in replay(situation, schedule).violations)

    best = found.schedule
    for candidate in (best._replace(order=0), best._replace(order=0, ending=""), best._replace(ending="")):
        if lies(candidate):
            best = candidate
            break
    best = _alone(best, lies, len(replay(situation, best).places))
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for size in (len(best.events) // 2, 2, 1):
            for start in range(0, len(best.events) if size else 0, max(size, 1)):
                kept = (*best.events[:start], *best.events[start + size :])
                if len(kept) < len(best.events) and lies(best._replace(events=kept)):
                    best = best._replace(events=kept)
                    is_shorter = True
                    break
            if is_shorter:
                break
    return best


def _alone(schedule: Schedule, lies: Callable[[Schedule], bool], positions: int) -> Schedule:
    """No event, or one of its events at another moment, where that is enough."""
    bare = schedule._replace(events=())
    if lies(bare):
        return bare
    if not 2 <= len(schedule.events) <= ALONE_MAX:
        return schedule
    for event in dict.fromkeys(event for _, event in reversed(schedule.events)):
        for position in range(1, min(positions, ALONE_POSITIONS_MAX) + 1):
            if lies(bare._replace(events=((position, event),))):
                return bare._replace(events=((position, event),))
    return schedule


def story(situation: Situation, schedule: Schedule) -> str:
    """Events, requests, responses and outputs, in order. For cycles without an event or a lie, only the verdicts."""
    chapters: list[list[str]] = [[f"situation: {situation.name}", f"schedule: {schedule}"]]

    def trace(line: str) -> None:
        if line.startswith("cycle") or line.endswith("begins"):
            chapters.append([])
        chapters[-1].append(line)

    ran = _run(situation, Played(schedule), schedule.ending, trace)
    lines = chapters[0]
    for chapter in chapters[1:]:
        is_dull = not any(line.startswith(("* ", "LIE")) for line in chapter) and len(chapters) > 2
        lines += [line for line in chapter if not (is_dull and line.startswith("  "))]
    assert any("LIE" in line for line in lines) == bool(ran.violations)
    return "\n".join(lines)
