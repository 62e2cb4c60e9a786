"""`once` and `find-hanging` over the clusters of a fleet: one result, in which every row names its cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from exporter.commands.clusters import Result, named, status_of
from exporter.commands.document import TRANSACTION_KEYS, document, transaction
from exporter.commands.report import complain_of_gaps
from exporter.commands.rows import Paint, as_csv, as_json, as_table
from exporter.commands.status import ExitStatus
from exporter.commands.transactions_table import render_fleet
from exporter.evaluation.gaps import gaps
from exporter.evaluation.verdicts import Evaluation, TransactionRow

Results = Sequence[Result[Evaluation]]
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
"""The first eight are those of kafka-transactions.sh, in its order, so that scripts that cut columns still work."""


def printed_everywhere(results: Results, rows_of: RowsOf, output: str, paint: Paint) -> str:
    """The rows of all clusters, as `table`, `tsv`, `csv` or `json`; JSON also has the clusters without a result."""
    if output == "json":
        return as_json({"clusters": [_document(result, rows_of) for result in results]})
    found = [
        (str(result.cluster.name), result.value, rows_of(result.value))
        for result in results
        if result.value is not None
    ]
    if output == "table":
        return render_fleet(found, paint)
    rows = [
        {**transaction(row), "cluster": name, "duration_minutes": row.duration_ms // MINUTE_MS}
        for name, _, rows in found
        for row in rows
    ]
    if output == "csv":
        return as_csv(rows, ("cluster", *TRANSACTION_KEYS))
    return as_table({**HEADINGS, "cluster": "Cluster"}, rows, paint)


def _document(result: Result[Evaluation], rows_of: RowsOf) -> dict[str, Any]:
    name = result.cluster.name
    if result.value is None:
        return {"cluster_name": name, "failure": result.failure}
    return document(result.value, rows_of(result.value), cluster_name=name)


def status_everywhere(results: Results) -> ExitStatus:
    """Prints what is missing, a line each with the name of the cluster."""
    missing = [
        f"{named(result.cluster)}{gap}"
        for result in results
        if result.value is not None
        for gap in gaps(result.value.snapshot)
    ]
    return status_of(results, is_incomplete=complain_of_gaps(missing))
