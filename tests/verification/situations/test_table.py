"""The document has every situation, and shows the known errors of Kafka's tool."""

from __future__ import annotations

from hangbench.situations.stages import STAGES, VERSIONS
from tests.verification.situations.table import (
    DOCUMENT,
    VERDICTS,
    Performances,
    names,
    recorded_rows,
    summary_of,
    with_summary,
)

ROWS = recorded_rows(DOCUMENT.read_text())
NAMES = [name for stage in STAGES for name in names(stage)]


def test_the_document_has_one_row_for_each_situation() -> None:
    """`python -m tests.verification.situations` writes the rows on real brokers: run it when a situation is new or gone."""
    assert sorted(ROWS) == sorted(NAMES)
    assert len(set(NAMES)) == len(NAMES)


def test_the_numbers_on_the_page_of_verdicts_are_those_of_the_document() -> None:
    """One line for each version of Kafka, written in the same run."""
    numbers = summary_of(VERDICTS.read_text())

    assert numbers == summary_of(DOCUMENT.read_text())
    assert [line.split(" | ")[0] for line in numbers] == [f"| {version}" for version in VERSIONS]


def test_a_run_replaces_the_numbers_alone() -> None:
    """What stands before and after them on the page of verdicts stays."""
    nothing: Performances = {(stage.name, version): {} for stage in STAGES for version in VERSIONS}
    before = VERDICTS.read_text()
    after = with_summary(before, nothing)

    assert summary_of(after) == [f"| {version} | 0 | 0 | 0 | 0 | 0 | 0 | 0 |" for version in VERSIONS]
    changed = set(after.splitlines()) ^ set(before.splitlines())
    assert changed == {*summary_of(before), *summary_of(after)}


def test_there_are_many_situations() -> None:
    """The promise of at least thirty is kept with room to spare."""
    assert len(NAMES) >= 50


def test_the_exporter_is_wrong_nowhere() -> None:
    """No cell of the exporter says so."""
    assert [name for name, (_, ours, _) in ROWS.items() if "WRONG" in ours] == []


def test_the_known_errors_of_kafka_s_tool_are_shown() -> None:
    """Live transactions called hanging, stuck ones and future timestamps missed, death on one unreadable topic."""
    java = {name: cell for name, (_, _, cell) in ROWS.items()}

    assert "FALSE HANGING" in java["no describe on ids"]
    assert "FALSE HANGING" in java["coordinator offline"]
    assert "FALSE HANGING" in java["committed in mid scan"]
    assert "missed stuck" in java["stuck commit"]
    assert "missed hanging" in java["from the future"]
    assert java["no read on one topic"].startswith("crashed: TopicAuthorizationException")
