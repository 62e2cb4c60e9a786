"""Searches for lies at random from a seed, and shrinks what it finds."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.verification.model.checks import Violation
from tests.verification.model.directors import HEALED, QUIET, Chance, Played, Schedule
from tests.verification.model.drive import TOKENS
from tests.verification.model.events import Event, alphabet
from tests.verification.model.runs import Run, run
from tests.verification.model.situations import BY_NAME, SITUATIONS, WRITES, Situation, make
from tests.verification.model.subsets import some_subset
from tests.verification.model.world import World

ALONE_MAX = 6
ALONE_POSITIONS_MAX = 150
WITH_RIGHTS, WRITES_WITH_RIGHTS = 0.15, 0.4
"""Shares of schedules that begin with a subset of rights."""
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
    return run_with(situation, Played(schedule), schedule.ending)


def run_with(situation: Situation, director: Played, ending: str, trace: Callable[[str], None] | None = None) -> Run:
    """The run that a director makes of a situation; made-up names are those of its order."""
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
    shares = [situation.share for situation in situations]
    until = time.monotonic() + seconds
    for number in range(schedules):
        if time.monotonic() > until:
            return
        one = seed + number * step
        rng = random.Random(one)
        # Of one there is no choice by weight: a seed of `lies.py` stays the same schedule.
        situation = rng.choice(situations) if len(situations) == 1 else rng.choices(situations, shares)[0]
        ending = rng.choice(endings)
        director = Chance(
            rng,
            letters[situation.name],
            situation.weights,
            reached.pairs,
            situation.places,
            _beginning(rng, situation),
        )
        note(reached, situation, run_with(situation, director, ending), one)


def _beginning(rng: random.Random, situation: Situation) -> tuple[Event, ...]:
    """A subset of rights in some schedules, if the situation's own events may change rights."""
    share = WRITES_WITH_RIGHTS if situation.script in WRITES else WITH_RIGHTS
    may_begin = situation.kinds is None or "authorize" in situation.kinds
    return some_subset(rng) if may_begin and rng.random() < share else ()


def note(reached: Reached, situation: Situation, ran: Run, seed: int) -> None:
    """Count a run, and keep its lies: one of each kind in each situation."""
    reached.add(ran)
    for violation in ran.violations:
        kind = (violation.invariant, violation.kind)
        reached.violations[kind] += 1
        if all(
            (finding.situation, finding.violation.invariant, finding.violation.kind) != (situation.name, *kind)
            for finding in reached.found
        ):
            reached.found.append(Found(violation, situation.name, ran.schedule, seed, reached.schedules))


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

    ran = run_with(situation, Played(schedule), schedule.ending, trace)
    lines = chapters[0]
    for chapter in chapters[1:]:
        is_dull = not any(line.startswith(("* ", "LIE")) for line in chapter) and len(chapters) > 2
        lines += [line for line in chapter if not (is_dull and line.startswith("  "))]
    assert any("LIE" in line for line in lines) == bool(ran.violations)
    return "\n".join(lines)
