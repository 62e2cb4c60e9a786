"""`find-hanging`: suspects with their evidence, over the whole cluster unless a topic or broker is named."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from exporter.commands.document import document
from exporter.commands.document import gaps as gaps_of
from exporter.commands.examine import examine
from exporter.commands.report import complain, complain_of_gaps, with_collector
from exporter.commands.rows import Row, as_csv, as_json, as_table
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.evaluation.evaluate import all_rows
from exporter.evaluation.verdicts import Evaluation, TransactionRow
from exporter.kafka.collect import Collector
from exporter.kafka.scope import Scope

HEADINGS = {
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
"""The first eight are kafka-transactions.sh's own, in its order: scripts that cut columns go on working."""

MINUTE_MS = 60_000


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print what wants a person; the exit status."""
    if options.partition is not None and options.topic is None:
        complain("--partition needs --topic")
        return ExitStatus.WRONG_USAGE
    return with_collector(settings, lambda collector: _find(options, settings, collector))


def _find(options: argparse.Namespace, settings: Settings, collector: Collector) -> int:
    scope = Scope(topic=options.topic, partition=options.partition, broker=options.broker_id)
    evaluation = examine(
        settings,
        collector,
        scope,
        stuck_after_ms=options.stuck_after,
        overdue_slack_ms=options.overdue_slack,
    )
    if len(evaluation.snapshot.partitions) == 0 and scope != Scope():
        complain("no partition is in that scope: the topic, partition or broker does not exist, or is hidden from us")
        return ExitStatus.COULD_NOT_RUN
    rows = selected(evaluation, show_all=options.all, at_least_ms=options.max_transaction_timeout * MINUTE_MS)
    print(printed(evaluation, rows, options.format))
    if complain_of_gaps(gaps_of(evaluation.snapshot)):
        return ExitStatus.INCOMPLETE
    is_hanging = any(row.verdict.is_hanging for row in rows)
    return ExitStatus.HANGING if options.exit_code and is_hanging else ExitStatus.ANSWERED


def selected(evaluation: Evaluation, *, show_all: bool, at_least_ms: int) -> tuple[TransactionRow, ...]:
    """Suspects at least that old and every proved hang, or everything that is open; worst first."""
    if show_all:
        return tuple(sorted(all_rows(evaluation), key=lambda row: (row.verdict, -row.duration_ms)))
    return tuple(row for row in evaluation.suspects if row.verdict.is_hanging or row.duration_ms >= at_least_ms)


def printed(evaluation: Evaluation, rows: Sequence[TransactionRow], output: str) -> str:
    """The rows as table, CSV or the promised JSON object."""
    told = document(evaluation, rows)
    if output == "json":
        return as_json(told)
    transactions: list[Row] = told["transactions"]
    if output == "csv":
        return as_csv(transactions, list(transactions[0]) if transactions else list(HEADINGS))
    return as_table(HEADINGS, [{**row, "duration_minutes": row["duration_ms"] // MINUTE_MS} for row in transactions])
