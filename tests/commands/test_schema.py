"""`--format json` is what docs/schema/find-hanging.schema.json says: no key more, no key less."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.commands.document import document
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import OutcomeEvidence, Policy, StartSource, Verdict
from exporter.snapshot import Answer, CoordinatorCoverage
from tests.commands.json_schema import PATH, problems
from tests.commands.scenes import every_kind
from tests.evaluation.builders import snapshot


def printed() -> Any:
    evaluation = every_kind()
    return json.loads(json.dumps(document(evaluation, all_rows(evaluation))))


def test_what_is_printed_is_what_the_schema_describes() -> None:
    """With open transactions of several verdicts, unread partitions and failures; and with nothing at all."""
    told = printed()

    assert len(told["transactions"]) >= 4
    assert told["coverage"]["unread_partitions"] != []
    assert problems(told) == []
    nothing = evaluate(snapshot(coordinators=(CoordinatorCoverage(broker=1, failure="down"),)), Memory(), Policy())
    assert problems(document(nothing, ())) == []


def test_every_value_that_the_program_can_name_is_in_the_schema() -> None:
    """Lists of names are the code's, in its order."""
    schema = json.loads(PATH.read_text())
    transaction = schema["$defs"]["transaction"]["properties"]
    coverage = schema["$defs"]["coverage"]["properties"]

    assert transaction["verdict"]["enum"] == [it.label for it in Verdict]
    assert transaction["start_source"]["enum"] == [it.label for it in StartSource]
    assert transaction["outcome_evidence"]["enum"] == [it.value for it in OutcomeEvidence]
    assert coverage["partitions"]["required"] == [it.label for it in Answer]
    for part in (schema, schema["$defs"]["transaction"], schema["$defs"]["coverage"]):
        assert part["required"] == list(part["properties"])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"taken_at_ms": "now"}, "$.taken_at_ms: 'now' is no integer"),
        ({"taken_at_ms": True}, "$.taken_at_ms: True is no integer"),
        ({"taken_at_ms": -1}, "$.taken_at_ms: -1 is less than 0"),
        ({"verdict": "fine"}, "$.verdict: is not described"),
        ({"transactions": [{}]}, "$.transactions[0].topic: is missing"),
    ],
)
def test_the_checker_finds_what_is_wrong(change: dict[str, Any], problem: str) -> None:
    """A check that accepts everything would prove nothing."""
    assert problem in problems({**printed(), **change})
