"""`--format json` matches docs/schema/find-hanging.schema.json: no key more, no key less."""

from __future__ import annotations

import json
from typing import Any

from exporter.commands.clusters import ClusterResult
from exporter.commands.evaluations import printed_document, render_evaluations
from exporter.config.settings import ClusterSettings
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.snapshot import CoordinatorCoverage, PartitionResult
from tests.commands.json_schema import PATH, problems
from tests.commands.scenes import SETTINGS, every_kind
from tests.each import each
from tests.evaluation.builders import snapshot


def printed() -> Any:
    evaluation = every_kind()
    return json.loads(json.dumps(printed_document(evaluation, all_rows(evaluation), cluster_name="payments")))


def test_what_is_printed_is_what_the_schema_describes() -> None:
    """With open transactions of several verdicts, unread partitions and failures; and with nothing at all."""
    result = printed()

    assert len(result["transactions"]) >= 4
    assert result["coverage"]["unread_partitions"] != []
    assert problems(result) == []
    assert result["cluster_name"] == "payments"
    nothing = evaluate(snapshot(coordinators=(CoordinatorCoverage(broker=1, failure="down"),)), Memory(), Policy())
    assert problems(printed_document(nothing, ())) == []


def test_a_fleet_s_document_is_described_too() -> None:
    """One object for each cluster, and the failure of one that was not read."""
    fleet = tuple(
        ClusterResult(
            ClusterSettings(name=name, settings=SETTINGS), evaluation, "" if evaluation else "no broker responds"
        )
        for name, evaluation in (("north", every_kind()), ("west", None))
    )
    result = json.loads(render_evaluations(fleet, all_rows, "json"))

    assert [list(cluster)[-1] for cluster in result["clusters"]] == ["stuck_transactions", "failure"]
    assert problems(result) == []
    del result["clusters"][0]["coverage"]
    assert problems(result) == ["$.clusters[0]: 'coverage' is a required property"]


def test_every_key_is_required() -> None:
    """Every key is always printed: a reader need not check whether it exists."""
    schema = json.loads(PATH.read_text())

    assert schema["$defs"]["coverage"]["properties"]["partitions"]["required"] == [
        answer.label for answer in PartitionResult
    ]
    for name in ("fleet", "unread_cluster", "cluster", "transaction", "coverage"):
        part = schema["$defs"][name]
        assert part["required"] == list(part["properties"])


@each(
    [
        ({"taken_at_ms": "now"}, "$.taken_at_ms: 'now' is not of type 'integer'"),
        ({"taken_at_ms": -1}, "$.taken_at_ms: -1 is less than the minimum of 0"),
        ({"verdict": "fine"}, "$: Additional properties are not allowed ('verdict' was unexpected)"),
        ({"transactions": [{}]}, "$.transactions[0]: 'topic' is a required property"),
    ]
)
def test_the_checker_finds_what_is_wrong(wrong: tuple[dict[str, Any], str]) -> None:
    """A check that accepts everything would prove nothing."""
    change, problem = wrong
    assert problem in problems({**printed(), **change})
