"""Lists the lies found by hand in commit 0105d82 (issue 17, section 1); the checker must find each again.

Item 12 is about waiting, which the model does not cover.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.verification.model.directors import HEALED, QUIET
from tests.verification.model.explore import Found, Reached, by_chance, shrunk
from tests.verification.model.situations import BY_NAME

SCHEDULES_MAX = 3_000


class Lie(NamedTuple):
    """One way to make the exporter lie, and where to look for it."""

    item: str
    title: str
    situation: str
    kinds: tuple[str, ...]
    """The kinds of events, or the very events, that may happen."""
    expected: tuple[tuple[str, str], ...]
    """(invariant, kind) of the violation."""
    needs: tuple[str, ...] = ()
    """Events that are still in the shrunk schedule: without them it is another lie."""
    endings: tuple[str, ...] = ("",)
    places: tuple[str, ...] | None = None
    """The only moments at which events happen."""

    @property
    def found_after(self) -> int:
        """How many schedules it took in the old code: the last one's seed."""
        return FOUND_AFTER[self.item]


OWNED = (("I1", "live"), ("I1", "completing"), ("I1", "stuck"))
LIES: tuple[Lie, ...] = (
    Lie(
        "1",
        "a broker cut off from its controller is believed as coordinator",
        "leaders move",
        ("cut_off", "begin_and_write"),
        OWNED,
        ("cut_off",),
    ),
    Lie(
        "1b",
        "a broker cut off makes a hang open within its time-out",
        "cut-off coordinator that had it open",
        ("pass_time",),
        (("I5", "hanging"), ("I5", "ended")),
        endings=(QUIET,),
    ),
    Lie(
        "1c",
        "a broker cut off hides a topic created meanwhile",
        "leaders move",
        ("cut_off", "create_topic"),
        (("I4", "topic"),),
        ("cut_off", "create_topic"),
        (QUIET,),
    ),
    Lie(
        "1d",
        "a closed transaction is called diverged at a leader that was cut off",
        "cut-off leader",
        ("abort", "commit", "send_all_markers"),
        (("I1", "closed"), ("I1", "ended")),
        endings=(QUIET,),
    ),
    Lie(
        "2",
        "the producer goes on in mid-proof",
        "late write",
        ("begin_and_write", "add_partition", "write"),
        OWNED,
    ),
    Lie(
        "3",
        "the topic is deleted and created again in mid-proof",
        "late write at the beginning of a topic",
        ("recreate_topic(t)", "begin_and_write(a, t, 0)"),
        (("I1", "made again"),),
    ),
    Lie("4", "a fence that cannot be written", "a fence may fail", ("init", "time_out", "pass_time"), OWNED),
    Lie("5", "watching replaces proof, of a two-phase transaction", "two-phase commit denied", ("pass_time",), OWNED),
    Lie("5b", "watching replaces proof, by the fallback limit", "limit unread and id denied", ("pass_time",), OWNED),
    Lie("6", "ids visible by prefix only", "visible by prefix", ("begin_and_write",), OWNED),
    Lie(
        "7",
        "an in-sync follower that does not answer counts as agreement",
        "lost marker",
        ("silence", "speak"),
        (("I1", "replica"),),
        ("silence",),
    ),
    Lie("8", "a principal without any grant", "nothing granted", (), (("I7", "nothing shown"),)),
    Lie("8b", "a hidden transaction log", "transaction log hidden", (), (("I7", "state topic hidden"),)),
    Lie("8c", "fewer topics are visible than before", "rights are taken", ("deny_topic",), (("I7", "fewer topics"),)),
    Lie(
        "9",
        "coverage is complete though a second read failed",
        "late write",
        ("silence", "kill"),
        (("I4", "inconclusive"),),
    ),
    Lie(
        "10",
        "one failed state partition anywhere makes every hang inconclusive",
        "another coordinator is gone",
        (),
        (("I6", "hanging"),),
        endings=(QUIET,),
    ),
    Lie(
        "11",
        "a coordinator that completes at an older epoch is not called stuck",
        "restored transaction log",
        (),
        (("I6", "stuck"),),
        endings=(QUIET, HEALED),
    ),
    Lie("13", "the exporter's clock is an hour ahead", "clocks", ("step_clock",), (("I5", "young"),)),
    Lie(
        "13b",
        "the exporter's clock is an hour behind",
        "clocks",
        ("step_clock", "pass_time"),
        (("I5", "overdue"),),
        ("step_clock",),
        (QUIET,),
    ),
    Lie(
        "14",
        "aborted, with the next transaction of the producer open where the COMMIT marker is",
        "logs are searched",
        ("begin_and_write",),
        (("I2", "aborted"),),
        ("begin_and_write",),
    ),
    Lie(
        "14b",
        "aborted, with the only COMMIT marker on the hang's own partition",
        "committed here",
        (),
        (("I2", "aborted"),),
    ),
    Lie(
        "14c",
        "aborted, as the coordinator says of the next transaction, and no log is read",
        "the next one aborted",
        (),
        (("I2", "aborted"),),
        endings=(QUIET,),
    ),
    Lie("14d", "aborted, with the COMMIT marker more than 4 MB on", "the marker is far on", (), (("I2", "aborted"),)),
    Lie(
        "14e",
        "aborted, with the COMMIT marker where nobody answers",
        "logs are searched",
        ("expire_id(a)", "silence(3)"),
        (("I2", "aborted"),),
    ),
    Lie(
        "15",
        "abort judges before it waits for the audit log",
        "abort",
        ("begin_and_write", "write"),
        (("I3", "live"),),
        ("begin_and_write",),
        places=("lock",),
    ),
    Lie(
        "15b",
        "abort of a topic that was made again while it waited",
        "abort at the beginning of a topic",
        ("recreate_topic(t)", "begin_and_write(a, t, 0)"),
        (("I3", "made again"),),
        places=("lock",),
    ),
    Lie("16", "abort through a cut-off broker", "abort through a cut-off broker", (), (("I3", "live"),)),
    Lie("16b", "abort of what was committed elsewhere", "abort of what was aborted", (), (("I3", "committed"),)),
    Lie(
        "17",
        "force-terminate does not look again after the question",
        "force-terminate",
        ("commit(a)", "send_all_markers(a)", "begin_and_write(a, t, 1)"),
        (("I3", "fenced"),),
        places=("question",),
    ),
    Lie(
        "18",
        "the last stable offset that was read before the marker is not used",
        "abort",
        ("another_operator_aborts(t, 0)", "begin_and_write(a, t, 0)"),
        (("I3", "last stable offset"),),
        places=("ListOffsets",),
    ),
)


FOUND_AFTER: Mapping[str, int] = {
    **dict.fromkeys(("1b", "1c", "1d", "2", "6", "8", "8b", "10", "11", "14b", "14c", "14d", "15b", "16", "16b"), 1),
    "1": 19,
    "3": 87,
    "4": 9,
    "5": 14,
    "5b": 14,
    "7": 10,
    "8c": 34,
    "9": 42,
    "13": 4,
    "13b": 6,
    "14": 2,
    "14e": 1,
    "15": 4,
    "17": 6,
    "18": 666,
}
"""Item -> the seed at which it was found in commit 0105d82, counted from 1."""


class Result(NamedTuple):
    """Whether a lie was found, after how many schedules, and its shortest schedule."""

    lie: Lie
    schedules: int
    found: Found | None


def search(lie: Lie, *, seed: int = 1, schedules_max: int = SCHEDULES_MAX, shrink: bool = True) -> Result:
    """Search for one lie at random, with its own events only. Without `shrink` its requirements are not checked."""
    situation = BY_NAME[lie.situation]
    situation = situation._replace(kinds=lie.kinds, places=lie.places)
    tried = 0
    for number in range(schedules_max):
        reached = Reached()  # so that a seed alone determines its schedule
        by_chance(reached, seed=seed + number, schedules=1, situations=(situation,), endings=lie.endings)
        tried += 1
        for found in reached.found:
            if (found.violation.invariant, found.violation.kind) not in lie.expected:
                continue
            if not all(any(str(event).startswith(need) for _, event in found.schedule.events) for need in lie.needs):
                continue
            if not shrink:
                return Result(lie, tried, found)
            short = shrunk(found)
            if all(any(str(event).startswith(need) for _, event in short.events) for need in lie.needs):
                return Result(lie, tried, found._replace(schedule=short, after=tried))
    return Result(lie, tried, None)


def table(results: Sequence[Result]) -> str:
    """Item, title, and after how many schedules it was found."""
    rows = [
        f"{result.lie.item:4} {result.lie.title:90} "
        + (
            f"found after {result.schedules} (seed {result.found.seed})"
            if result.found
            else f"NOT FOUND in {result.schedules}"
        )
        for result in results
    ]
    return "\n".join(rows)
