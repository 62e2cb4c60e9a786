"""Makes the tables of situations: truth, the exporter's verdict, and the result of Kafka's own tool.

README.md has every situation, `docs/verdicts.md` the numbers alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.verification.situations.java_tool import PATIENCE_S
from tests.verification.situations.play import Performance
from tests.verification.situations.scene import Scene, score_java, score_ours
from tests.verification.situations.stages import STAGES, VERSIONS, Stage

DOCUMENT = Path(__file__).with_name("README.md")
VERDICTS = Path(__file__).parents[3] / "docs" / "verdicts.md"
SUMMARY = "<!-- situations: made by `python -m tests.verification.situations` -->\n"
END_OF_SUMMARY = "<!-- end of situations -->\n"
BEGINNING = "<!-- From here on made by `python -m tests.verification.situations`. -->\n"
IN_THIS_RUN = "in this run: "
NOT_THERE = "–"  # noqa: RUF001 - the dash of an empty cell
HEADING = ("situation", "what is true", "our verdict", "`find-hanging`")

Performances = Mapping[tuple[str, str], Performance]
"""By stage and version."""

PREAMBLE = """\
Every situation below was planted on real brokers. Its truth was read from them with raw DescribeProducers, \
DescribeTransactions and ListTransactions before and after the scans, if the situation allows both. \
*Our verdict* is the verdict of the last cycle for each transaction; *`find-hanging`* is the result of \
`kafka-transactions.sh find-hanging --max-transaction-timeout 0` of the same version on the same brokers in the same run, \
run once for each broker unless the situation says otherwise. \
Its client times out after {patience_s} seconds here, by default after a minute.

*FALSE HANGING*: the tool reports a transaction as hanging that does not hang; an operator who aborts it harms a live \
transaction, or writes a marker without need. *missed*: the tool does not report a transaction that needs attention. \
*died*: the tool ends with this error only. *right* of the tool includes correct guesses from incomplete evidence.
"""


PLAYED = """\
Run on {date} on Apache Kafka {versions}. If the versions differ, both results are given. Made by \
`python -m tests.verification.situations`; the tests run it again and compare the results with these tables.
"""


def document(before: str, performances: Performances, date: str) -> str:
    """The README `before`, with new situations."""
    by_hand, mark, _ = before.partition(BEGINNING)
    assert mark, f"{DOCUMENT} lacks the line {BEGINNING}"
    return f"{by_hand}{mark}\n{_situations(performances, date)}"


def with_summary(before: str, performances: Performances) -> str:
    """The page of verdicts `before`, with new numbers."""
    by_hand, begun, rest = before.partition(SUMMARY)
    _, ended, after = rest.partition(END_OF_SUMMARY)
    assert begun, f"{VERDICTS} lacks the line {SUMMARY}"
    assert ended, f"{VERDICTS} lacks the line {END_OF_SUMMARY}"
    return f"{by_hand}{begun}{_summary(performances)}{ended}{after}"


def summary_of(text: str) -> list[str]:
    """The lines with the numbers of each version of Kafka."""
    return [line for line in text.splitlines() if re.match(r"\| \d+\.\d+\.\d+ \| \d+ \|", line)]


def _situations(performances: Performances, date: str) -> str:
    parts = [
        PREAMBLE.format(patience_s=PATIENCE_S),
        PLAYED.format(date=date, versions=" and ".join(VERSIONS)),
        _summary(performances),
    ]
    for stage in STAGES:
        parts.append(f"## {stage.title}\n\n{stage.sentence}\n")
        parts.append(_table(HEADING, [_row(stage, name, performances) for name in names(stage)]))
    return "\n".join(parts)


def names(stage: Stage) -> list[str]:
    return [situation.name for situation in stage.situations]


def recorded_rows(text: str) -> dict[str, tuple[str, ...]]:
    """Name of a situation -> the other cells of its row."""
    rows = re.findall(r"^\| \*\*([^*|]+)\*\*: [^|]* \|(.*)\|$", text, re.MULTILINE)
    return {name: tuple(cell.strip() for cell in cells.split("|")) for name, cells in rows}


def _summary(performances: Performances) -> str:
    rows = []
    for version in VERSIONS:
        scenes = [scene for stage in STAGES for scene in performances[stage.name, version].values()]
        ours = Counter("right" if score_ours(scene).is_right else "wrong" for scene in scenes)
        java = Counter(_kind(score_java(scene).words) for scene in scenes)
        figures = (str(java[kind]) for kind in ("right", "FALSE HANGING", "missed", "died"))
        rows.append((version, str(len(scenes)), str(ours["right"]), *figures))
    columns = (
        "Kafka",
        "situations",
        "exporter right",
        "find-hanging right",
        "false hanging",
        "missed",
        "died",
    )
    return _table(columns, rows)


def _kind(words: str) -> str:
    """The worst that a score says, in one word."""
    return next((kind for kind in ("FALSE HANGING", "died", "missed") if kind in words), "right")


def _row(stage: Stage, name: str, performances: Performances) -> tuple[str, ...]:
    (situation,) = [situation for situation in stage.situations if situation.name == name]
    scenes = {
        version: scene for version in VERSIONS if (scene := performances[stage.name, version].get(name)) is not None
    }
    return (
        f"**{name}**: {situation.sentence}",
        _cell({version: scene.truth for version, scene in scenes.items()}),
        _cell({version: _our_figures(scene) for version, scene in scenes.items()}),
        IN_THIS_RUN * situation.is_racy
        + _cell({version: score_java(scene).words for version, scene in scenes.items()}),
    )


def _our_figures(scene: Scene) -> str:
    assert scene.failure is None, f"{scene.situation.name}: {scene.failure}"
    score = score_ours(scene)
    return score.words if score.is_right else f"WRONG: {score.words}"


def _cell(by_version: Mapping[str, str]) -> str:
    values = set(by_version.values())
    if len(values) == 1 and len(by_version) == len(VERSIONS):
        return values.pop()
    return "<br>".join(f"{version}: {by_version.get(version, NOT_THERE)}" for version in VERSIONS)


def _table(heading: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heading, ("---",) * len(heading), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
