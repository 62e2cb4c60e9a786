"""Reports the result of a search: counts of everything reached, what was not reached, and each finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from exporter.evaluation.verdicts import InconclusiveReason, Verdict
from tests.verification.model import drive
from tests.verification.model.events import names
from tests.verification.model.explore import Reached, shrunk, story
from tests.verification.model.situations import BY_NAME
from tests.verification.model.world import API_NAMES


def figures(reached: Reached, seconds: float) -> str:
    """A few tables."""
    kinds = names()
    pairs = sum(1 for first, _ in reached.pairs if first != "begin")
    lines = [
        f"{reached.schedules} schedules in {seconds:.1f} s: {reached.schedules / max(seconds, 0.001):.0f} a second"
        + (f"; {reached.left_out} more are the same as one of these" if reached.left_out else ""),
        f"{sum(reached.requests.values())} requests, {sum(reached.events.values())} events",
        f"{reached.exempt} writes did harm in a window that cannot be closed",
        f"{pairs} of {len(kinds) ** 2} pairs of neighbouring events",
        _counts("verdicts", reached.verdicts, [verdict.label for verdict in Verdict]),
        _counts("reasons of inconclusive", reached.reasons, [reason.value for reason in InconclusiveReason]),
        _counts("events", reached.events, kinds),
        _counts(
            "requests", Counter({API_NAMES.get(key, str(key)): number for key, number in reached.requests.items()}), ()
        ),
        _counts("violations", Counter({" ".join(key): number for key, number in reached.violations.items()}), ()),
    ]
    return "\n".join(lines)


def document(parts: list[tuple[str, Reached, float]]) -> dict[str, Any]:
    """The same of several searches, for a file."""
    return {
        title: {
            "seconds": round(seconds, 1),
            "schedules": reached.schedules,
            "schedules_left_out": reached.left_out,
            "requests": sum(reached.requests.values()),
            "events": dict(reached.events.most_common()),
            "verdicts": dict(reached.verdicts.most_common()),
            "reasons": dict(reached.reasons.most_common()),
            "pairs_reached": sum(1 for first, _ in reached.pairs if first != "begin"),
            "pairs": len(names()) ** 2,
            "violations": {" ".join(kind): count for kind, count in reached.violations.items()},
            "exempt_windows": reached.exempt,
        }
        for title, reached, seconds in parts
    }


def _counts(title: str, counts: Counter[str], expected: tuple[str, ...] | list[str]) -> str:
    listed = ", ".join(f"{name} {count}" for name, count in counts.most_common()) or "none"
    missing = [name for name in expected if not counts[name]]
    return f"{title}: {listed}" + (f"; NEVER: {', '.join(missing)}" if missing else "")


def stories(reached: Reached, stories_max: int) -> Iterator[str]:
    """One of each kind of violation, shrunk."""
    shown: set[tuple[str, str]] = set()
    with drive.repeatable():
        for found in reached.found:
            kind = (found.violation.invariant, found.violation.kind)
            if kind in shown or len(shown) >= stories_max:
                continue
            shown.add(kind)
            yield f"seed {found.seed}\n{story(BY_NAME[found.situation], shrunk(found))}"
