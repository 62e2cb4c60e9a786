"""Prints the evaluations of `once` and `find-hanging`: of one cluster, or of a fleet, in which rows name it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Final

from exporter.commands.clusters import ClusterResult, cluster_prefix, status_of
from exporter.commands.report import complain, complain_of_gaps
from exporter.commands.rows import Paint, as_csv, as_json, as_table, plain
from exporter.commands.status import ExitStatus
from exporter.commands.transactions_table import render_tables
from exporter.evaluation.document import TRANSACTION_KEYS, document, transaction
from exporter.evaluation.gaps import NOT_EVERY_GROUP, gaps
from exporter.evaluation.humanize import printable
from exporter.evaluation.stuck import stuck_in_words
from exporter.evaluation.verdicts import Evaluation, TransactionRow, Verdict

Results = Sequence[ClusterResult[Evaluation]]
RowsOf = Callable[[Evaluation], Sequence[TransactionRow]]
MINUTE_MS: Final = 60_000
HEADINGS: Final = {
    "topic": "Topic",
    "partition": "Partition",
    "producer_id": "ProducerId",
    "producer_epoch": "ProducerEpoch",
    "coordinator_epoch": "CoordinatorEpoch",
    "start_offset": "StartOffset",
    "last_timestamp_ms": "LastTimestamp",
    "duration_minutes": "Duration(min)",
    "transactional_id": "TransactionalId",
    "verdict": "Verdict",
    "reason": "Reason",
}
"""Headings; the first eight are those of kafka-transactions.sh, in its order, so that scripts that cut columns still
work.
"""


def render_evaluations(results: Results, rows_of: RowsOf, output: str, paint: Paint = plain) -> str:
    """The rows for people, as Kafka's tab-separated columns, as CSV, or as JSON, which has failed clusters, too."""
    is_fleet = results[0].cluster.name is not None
    if output == "json":
        documents = [_document(result, rows_of) for result in results]
        return as_json({"clusters": documents} if is_fleet else documents[0])
    found = [
        (result.cluster.name, result.value, rows_of(result.value)) for result in results if result.value is not None
    ]
    if output == "table":
        return render_tables(found, paint, is_fleet=is_fleet)
    rows = [
        {
            "cluster": name,
            **transaction(row),
            "duration_minutes": (row.age_by_last_write_ms or row.duration_ms) // MINUTE_MS,
        }
        for name, _, rows in found
        for row in rows
    ]
    if output == "csv":
        return as_csv(rows, ("cluster", *TRANSACTION_KEYS) if is_fleet else TRANSACTION_KEYS)
    return as_table({**HEADINGS, "cluster": "Cluster"} if is_fleet else HEADINGS, rows, paint)


def _document(result: ClusterResult[Evaluation], rows_of: RowsOf) -> dict[str, Any]:
    name = result.cluster.name
    if result.value is None:
        return {"cluster_name": name, "failure": result.failure}
    return printed_document(
        result.value, rows_of(result.value), cluster_name=name or result.cluster.settings.cluster_name
    )


def printed_document(
    evaluation: Evaluation, rows: Sequence[TransactionRow], *, cluster_name: str | None = None
) -> dict[str, Any]:
    """docs/schema/find-hanging.schema.json: a cycle's document, and what only a command asks."""
    found = document(evaluation, rows, cluster_name=cluster_name)
    found["coverage"]["may_hide_topics"] = evaluation.snapshot.visibility.may_hide or None
    return found


def has_output(results: Results, output: str) -> bool:
    """False where no cluster was read: an empty table would look like a result; JSON and metrics of a fleet say why."""
    is_fleet = results[0].cluster.name is not None
    return any(result.value is not None for result in results) or (is_fleet and output in {"json", "prometheus"})


def status_of_evaluations(results: Results, output: str) -> ExitStatus:
    """Prints what is missing or hidden, a line each with the name of the cluster; and what is stuck, if `output` cannot."""
    found = [(cluster_prefix(result.cluster), result.value) for result in results if result.value is not None]
    if output in {"tsv", "csv"}:
        for of, evaluation in found:
            for stuck in evaluation.stuck:
                complain(printable(f"{of}stuck at its coordinator: {stuck_in_words(stuck)}"))
    for of, evaluation in found:
        if evaluation.snapshot.visibility.may_hide:
            complain(f"{of}{evaluation.snapshot.visibility.may_hide}; what is open there is not shown")
        if (impact := evaluation.snapshot.impact) is not None:
            for failure in impact.failures:
                if failure not in impact.unread:  # those are gaps
                    complain(f"{of}{NOT_EVERY_GROUP}: {failure}")
    _complain_of_namesakes(results)
    missing = [f"{of}{gap}" for of, evaluation in found for gap in gaps(evaluation.snapshot)]
    is_unproved = any(
        verdict is Verdict.INCONCLUSIVE for _, evaluation in found for _, verdict in evaluation.examined_verdicts()
    )
    return status_of(results, is_incomplete=complain_of_gaps(missing) or is_unproved)


def _complain_of_namesakes(results: Results) -> None:
    found = [(result.cluster.name, result.value.snapshot) for result in results if result.value is not None]
    for (name, snapshot), (later, another) in combinations(found, 2):
        if another.shares_topics_with(snapshot):
            complain(f"{later}: it is the same cluster as {name}: what is open there is printed twice")
