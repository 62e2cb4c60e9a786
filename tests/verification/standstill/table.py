"""Makes the table of README.md: the truth of each situation, and the result of the exporter and of `why`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hangbench.parties.scenes import GROUPS, VERSIONS
from hangbench.parties.words import Situation, Standstills
from hangbench.report import markdown_table
from tests.verification.standstill.play import LIMIT_S, Result

DOCUMENT: Final = Path(__file__).with_name("README.md")
BEGINNING: Final = "<!-- From here on made by `python -m tests.verification.standstill`. -->\n"
Results = Mapping[str, Mapping[str, Result]]
"""Version -> name of a situation -> its result."""


def document(before: str, results: Results, date: str) -> str:
    """Returns the README `before` with new tables."""
    by_hand, mark, _ = before.partition(BEGINNING)
    assert mark, f"{DOCUMENT} lacks the line {BEGINNING}"
    parts = [_summary(results, date)]
    for heading, collection in GROUPS:
        rows = [_row(situation, results) for situation in collection.situations]
        parts.append(f"## {heading}\n\n" + markdown_table(("situation", "who stands still", *VERSIONS), rows))
    parts.append("## Known differences\n\n" + _differences(results))
    return f"{by_hand}{mark}\n" + "\n".join(parts)


def _summary(results: Results, date: str) -> str:
    rows = []
    for version in VERSIONS:
        of_version = results[version].values()
        kinds = Counter("differs" if result.because else "right" for result in of_version)
        slowest_s = max(seconds for result in of_version for seconds in result.right_after_s)
        rows.append((version, str(len(of_version)), str(kinds["right"]), str(kinds["differs"]), f"{slowest_s:.0f} s"))
    heading = ("Kafka", "situations", "right", "known differences", "slowest")
    return (
        f"Run on {date}. *Slowest*: the time until the exporter named the truth, of {LIMIT_S:.0f} s.\n\n"
        + markdown_table(heading, rows)
    )


def _row(situation: Situation, results: Results) -> tuple[str, ...]:
    played = [results[version].get(situation.name) for version in VERSIONS]
    truth = next(result.truth for result in played if result is not None)
    return (
        f"**{situation.name}**: {situation.sentence}",
        ", then ".join(map(_truth_in_words, truth)),
        *(_cell(situation, result) for result in played),
    )


def _truth_in_words(truth: Standstills) -> str:
    """Counts the parties by cause, without names."""
    causes = Counter(standstill.cause.value for standstill in truth)
    words = [f"`{cause}`" if count == 1 else f"{count} × `{cause}`" for cause, count in sorted(causes.items())]  # noqa: RUF001
    return ", ".join(words) or "nobody"


def _cell(situation: Situation, result: Result | None) -> str:
    if result is None:
        return f"not on this version: {situation.not_offered}"
    return "differs, see below" if result.because else "right"


def _differences(results: Results) -> str:
    """Lists each reason once, with the situations and what is said instead."""
    by_reason: dict[str, dict[str, list[str]]] = {}
    for version in VERSIONS:
        for name, result in results[version].items():
            if result.because:
                by_reason.setdefault(result.because, {})[name] = result.differs
    lines = []
    for reason, situations in by_reason.items():
        lines.append(f"- {reason[0].upper()}{reason[1:]}.")
        lines += [f"    - **{name}**: {'; '.join(differs)}." for name, differs in situations.items()]
    return "\n".join(lines) + "\n"
