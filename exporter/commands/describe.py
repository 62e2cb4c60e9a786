"""`describe`: describes one transactional id by its coordinator's response."""

from __future__ import annotations

import argparse
import time

from exporter.commands.context import Context
from exporter.commands.lines import connection_of, fit_terminal, next_line
from exporter.commands.report import complain, with_collector
from exporter.commands.rows import Row, in_format
from exporter.commands.standstill import NOT_LISTED
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.evaluation.humanize import humanize_duration, humanize_names, printable
from exporter.kafka.collect.collector import Collector
from exporter.kafka.lookups import describe_id
from exporter.kafka.visibility.topics import may_hide_topics
from exporter.publication.page.humanize import humanize_instant
from exporter.snapshot import CoordinatorTransaction

HEADINGS = {
    "coordinator": "CoordinatorId",
    "transactional_id": "TransactionalId",
    "producer_id": "ProducerId",
    "producer_epoch": "ProducerEpoch",
    "state": "TransactionState",
    "timeout_ms": "TransactionTimeoutMs",
    "start_time_ms": "CurrentTransactionStartTimeMs",
    "duration_ms": "TransactionDurationMs",
    "partitions": "TopicPartitions",
}


def run(context: Context, settings: Settings) -> int:
    """Prints the description; returns the exit status."""
    options = context.options
    return with_collector(settings, lambda collector: _describe(options, collector))


def _describe(options: argparse.Namespace, collector: Collector) -> int:
    transaction = collector.query(lambda client: describe_id(client, options.transactional_id))
    row = described(transaction, int(time.time() * 1000))
    flat = {**row, "partitions": ",".join(row["partitions"])}
    words = [in_words(row, nothing="none that this login sees" if transaction.has_hidden_partitions else "none")]
    if not transaction.is_active:  # an older transaction of its producer may be open on a partition, and hang there
        why = ["why", "--transactional-id", options.transactional_id, *connection_of(options)]
        words.append(next_line(why))
    hides = transaction.is_active and collector.query(may_hide_topics)
    document = {**row, "may_hide_partitions": hides}
    print(
        in_format(
            options.format, HEADINGS, [flat], document=document, for_people=lambda: fit_terminal("\n".join(words))
        )
    )
    if hides:
        complain(f"{'incomplete: ' if transaction.has_hidden_partitions else ''}{NOT_LISTED}")
    return ExitStatus.INCOMPLETE if transaction.has_hidden_partitions else ExitStatus.ANSWERED


def described(transaction: CoordinatorTransaction, now_ms: int) -> Row:
    """The data on one id; start and duration only while a transaction is active."""
    start_ms = transaction.start_ms if transaction.is_active else None
    return {
        "coordinator": transaction.coordinator,
        "transactional_id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "state": transaction.state.value,
        "timeout_ms": transaction.timeout_ms,
        "start_time_ms": start_ms,
        "duration_ms": None if start_ms is None else max(now_ms - start_ms, 0),
        "partitions": [f"{topic}-{partition}" for topic, partition in sorted(transaction.partitions or ())],
    }


def in_words(row: Row, *, nothing: str = "none") -> str:
    """Formats each fact as a line; `nothing` is said where there are no partitions."""
    state = row["state"]
    if row["duration_ms"] is not None:
        state = f"{state}, began {humanize_instant(row['start_time_ms'])}, {humanize_duration(row['duration_ms'])} ago"
    partitions = row["partitions"]
    facts = {
        "Transactional id": row["transactional_id"],
        "Coordinator": f"broker {row['coordinator']}",
        "Producer": f"{row['producer_id']}, epoch {row['producer_epoch']}",
        "State": state,
        "Time-out": humanize_duration(row["timeout_ms"]),
        "Partitions": humanize_names(partitions, shown_max=len(partitions)) or nothing,
    }
    return "\n".join(f"{name + ':':<18}{printable(str(fact))}" for name, fact in facts.items())
