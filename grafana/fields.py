"""The appearance of values: colours, texts instead of numbers, overrides of single columns and lines.

Green means that everything was read and nothing is wrong. Only the state of an exporter can mean that, so no other state
is green. Purple means unknown. A missing value is purple with its reason; Grafana would give it the colour of the lowest
threshold. Lines of one graph are shades of one colour, with the meaning that it has for states: Grafana's palettes begin
with green, or contain it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, IntEnum
from typing import Any, Final

from exporter.evaluation.verdicts import Verdict

Json = dict[str, Any]

NEUTRAL: Final = "transparent"
# Backgrounds of states. Grafana writes white on them, or black on light ones: 4.5:1 or more (WCAG 2, level AA).
UNKNOWN: Final = "#8F3BB8"
WRONG: Final = "#C4162A"
DOUBTFUL: Final = "#FFB357"
FINE: Final = "#2C7A3F"


NOT_READ, PARTLY_READ = "nothing read", "partly read"
"""In the first column of a table, where unread parts may have rows."""


class State(IntEnum):
    """The state of a cluster by its exporter, as a number that a panel can colour."""

    FINE = 0
    NOT_RESPONDING = 1
    NOT_FRESH = 2
    CYCLE_FAILED = 3
    PARTLY_READ = 4
    OWNER_SILENT = 5
    SUSPECT = 6
    HANGING = 7


STATE_TEXTS: Final[Mapping[State, tuple[str, str]]] = {
    State.HANGING: ("hanging", WRONG),
    State.SUSPECT: ("suspect", DOUBTFUL),
    State.OWNER_SILENT: ("owner silent", DOUBTFUL),
    State.PARTLY_READ: ("partly read", UNKNOWN),
    State.CYCLE_FAILED: ("last cycle failed", UNKNOWN),
    State.NOT_FRESH: ("no fresh snapshot", UNKNOWN),
    State.NOT_RESPONDING: ("not responding", UNKNOWN),
    State.FINE: ("all read", FINE),
}


class Shade(Enum):
    """The colour of the lines of a graph, by what they count."""

    HANGING = "red"
    """Transactions that are proved to hang."""
    ATTENTION = "orange"
    """Suspects and their effects, failures, timeouts."""
    UNKNOWN = "purple"
    """Unread parts, and transactions without a verdict."""
    NEUTRAL = "blue"
    """All else."""


_NOT_HANGING: Final[Mapping[Verdict, tuple[str, str]]] = {
    Verdict.REPLICA_DIVERGED: ("#8B0F1E", "light-red"),
    Verdict.STUCK_COMPLETING: (DOUBTFUL, "orange"),
    Verdict.OVERDUE_AT_COORDINATOR: ("#FADE2A", "yellow"),
    Verdict.INCONCLUSIVE: (UNKNOWN, "purple"),
    Verdict.COMPLETING: ("#1F60C4", "light-blue"),
    Verdict.PREPARED_TWO_PHASE_COMMIT: ("#1F60C4", "semi-dark-blue"),
    Verdict.OPEN_WITHIN_TIMEOUT: ("#1F60C4", "blue"),
}
_COLOURS: Final = {
    verdict.label: (WRONG, "red") if verdict.is_hanging else _NOT_HANGING[verdict] for verdict in Verdict
}
"""(background of a cell, line) by verdict. A KeyError here: the new verdict needs a colour above."""
VERDICT_COLOURS: Final[Mapping[str, str]] = {label: background for label, (background, _) in _COLOURS.items()}


def thresholds(base: str, steps: Mapping[float, str]) -> Json:
    """The colour below every step, then from each step on."""
    return {
        "mode": "absolute",
        "steps": [{"color": base, "value": None}, *({"color": to, "value": at} for at, to in steps.items())],
    }


def missing(text: str) -> Json:
    """The text for a missing value: purple, with any thresholds."""
    return {"type": "special", "options": {"match": "null+nan", "result": {"text": text, "color": UNKNOWN, "index": 0}}}


def texts(known: Mapping[Any, tuple[str, str]]) -> Json:
    """A text and a colour instead of each of these values."""
    return {
        "type": "value",
        "options": {
            str(int(value) if isinstance(value, int) else value): {"text": text, "color": colour, "index": index}
            for index, (value, (text, colour)) in enumerate(known.items())
        },
    }


UNREAD: Final = texts({name: (name, UNKNOWN) for name in (NOT_READ, PARTLY_READ)})
"""Mappings of a column that says where nothing, or not everything, was read."""
COLOURED_CELL: Final[Json] = {"custom.cellOptions": {"type": "color-background", "mode": "basic"}}
"""Properties of a column whose values colour their cells."""


def column(name: str, title: str, properties: Mapping[str, Any] | None = None) -> Json:
    """The properties of one column of a table."""
    return override({"id": "byName", "options": name}, {"displayName": title, **(properties or {})})


def drawn(pattern: str, properties: Mapping[str, Any]) -> Json:
    """The properties of the lines of a graph whose legend matches."""
    return override({"id": "byRegexp", "options": pattern}, properties)


def override(matcher: Json, properties: Mapping[str, Any]) -> Json:
    """The properties of the fields that `matcher` finds."""
    return {"matcher": matcher, "properties": [{"id": name, "value": value} for name, value in properties.items()]}


def fixed(colour: str) -> Json:
    """Always this colour."""
    return {"mode": "fixed", "fixedColor": colour}


def shades(shade: Shade) -> Json:
    """Each line its own shade of this colour."""
    return {"mode": "shades", "fixedColor": shade.value}


def verdict_lines() -> Sequence[Json]:
    """A line for each verdict in its own colour."""
    return [drawn(f"^{label}$", {"color": fixed(line)}) for label, (_, line) in _COLOURS.items()]
