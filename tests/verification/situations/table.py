"""Makes the tables of situations: truth, the exporter's verdict, and the result of Kafka's own tool.

README.md has every situation, `docs/verdicts.md` the numbers alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from hangbench.judge import Judgement
from hangbench.play import Performance
from hangbench.report import markdown_table
from hangbench.run import judged
from hangbench.situations.scene import Scene
from hangbench.situations.stages import STAGES, VERSIONS, Stage
from tests.verification.situations.scoring import score_exporter

TOOL = "kafka-transactions"
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
The situations and their truth are those of [HangBench](../../../hangbench/README.md), planted on real brokers. \
*Our verdict* is the verdict of the last cycle for each transaction; *`find-hanging`* is what HangBench says of \
`kafka-transactions.sh find-hanging --max-transaction-timeout 0` of the same version on the same brokers in the same run.

*FALSE HANGING*: the tool reports a transaction as hanging that does not hang; an operator who aborts it harms a live \
transaction, or writes a marker without need. *missed*: the tool does not report a transaction that needs attention. \
*weak*: it does not say that something is hidden from it. *crashed*: the tool ends with this error only. \
*right* of the tool includes correct guesses from incomplete evidence.
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
        PREAMBLE,
        PLAYED.format(date=date, versions=" and ".join(VERSIONS)),
        _summary(performances),
    ]
    for stage in STAGES:
        parts.append(f"## {stage.title}\n\n{stage.sentence}\n")
        parts.append(markdown_table(HEADING, [_row(stage, name, performances) for name in names(stage)]))
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
        ours = Counter("right" if score_exporter(scene).is_right else "wrong" for scene in scenes)
        tool = Counter(tool_judged(scene)[0] for scene in scenes)
        figures = (str(tool[judgement.value]) for judgement in Judgement)
        rows.append((version, str(len(scenes)), str(ours["right"]), *figures))
    columns = (
        "Kafka",
        "situations",
        "exporter right",
        "find-hanging right",
        *(judgement.value for judgement in list(Judgement)[1:]),
    )
    return markdown_table(columns, rows)


def tool_judged(scene: Scene) -> tuple[str, str]:
    """(judgement, words) of Kafka's own tool."""
    return judged(scene.of(TOOL), TOOL)


def _row(stage: Stage, name: str, performances: Performances) -> tuple[str, ...]:
    (situation,) = [situation for situation in stage.situations if situation.name == name]
    scenes = {
        version: scene for version in VERSIONS if (scene := performances[stage.name, version].get(name)) is not None
    }
    return (
        f"**{name}**: {situation.sentence}",
        _cell({version: scene.truth for version, scene in scenes.items()}),
        _cell({version: _our_figures(scene) for version, scene in scenes.items()}),
        IN_THIS_RUN * situation.is_racy + _cell({version: tool_judged(scene)[1] for version, scene in scenes.items()}),
    )


def _our_figures(scene: Scene) -> str:
    assert scene.failure is None, f"{scene.situation.name}: {scene.failure}"
    score = score_exporter(scene)
    return score.words if score.is_right else f"WRONG: {score.words}"


def _cell(by_version: Mapping[str, str]) -> str:
    values = set(by_version.values())
    if len(values) == 1 and len(by_version) == len(VERSIONS):
        return values.pop()
    return "<br>".join(f"{version}: {by_version.get(version, NOT_THERE)}" for version in VERSIONS)
