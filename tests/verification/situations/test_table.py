"""The document has every situation, and shows the known errors of Kafka's tool."""

from __future__ import annotations

from tests.verification.situations.stages import STAGES
from tests.verification.situations.table import DOCUMENT, names, recorded_rows

ROWS = recorded_rows(DOCUMENT.read_text())
NAMES = [name for stage in STAGES for name in names(stage)]


def test_the_document_has_one_row_for_each_situation() -> None:
    """`python -m tests.verification.situations` writes the rows on real brokers: run it when a situation is new or gone."""
    assert sorted(ROWS) == sorted(NAMES)
    assert len(set(NAMES)) == len(NAMES)


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
    assert java["no read on one topic"].startswith("died: TopicAuthorizationException")
