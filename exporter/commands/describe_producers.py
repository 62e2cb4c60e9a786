"""`describe-producers`: lists every producer of one partition, at its leader or another replica."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from exporter.commands.context import Context
from exporter.commands.names import suggestion
from exporter.commands.report import visible_topics, with_collector
from exporter.commands.rows import Row, for_people, in_format
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.kafka.collect.collector import Collector
from exporter.kafka.lookups import KafkaRequestError, producers_of
from exporter.publication.page.humanize import humanize_instant
from exporter.snapshot import OneEntry

FOR_PEOPLE = {
    "producer_id": "PRODUCER",
    "producer_epoch": "EPOCH",
    "coordinator_epoch": "COORDINATOR EPOCH",
    "last_sequence": "LAST SEQUENCE",
    "last_write": "LAST WRITE (ITS CLIENT'S CLOCK) OR MARKER",
    "start_offset": "OPEN FROM OFFSET",
}
HEADINGS = {
    "producer_id": "ProducerId",
    "producer_epoch": "ProducerEpoch",
    "coordinator_epoch": "LatestCoordinatorEpoch",
    "last_sequence": "LastSequence",
    "last_timestamp_ms": "LastTimestamp",
    "start_offset": "CurrentTransactionStartOffset",
}


def run(context: Context, settings: Settings) -> int:
    """Prints the entries; returns the exit status."""
    options = context.options
    return with_collector(settings, lambda collector: _describe(options, collector))


def _describe(options: argparse.Namespace, collector: Collector) -> int:
    try:
        entries = collector.query(
            lambda client: producers_of(client, options.topic, options.partition, options.broker_id)
        )
    except KafkaRequestError as error:
        error.sentence += suggestion(options.topic, visible_topics(collector))
        raise
    print(output_rows(entries, options.format))
    return ExitStatus.ANSWERED


def rows_of(entries: Iterable[OneEntry]) -> list[Row]:
    """A row for each, in the order of their producer ids; no start offset if no transaction is open."""
    return [
        {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "last_sequence": entry.last_sequence,
            "last_timestamp_ms": entry.last_timestamp,
            "start_offset": entry.current_txn_start_offset if entry.current_txn_start_offset >= 0 else None,
        }
        for entry in sorted(entries, key=lambda entry: entry.producer_id)
    ]


def output_rows(entries: Iterable[OneEntry], chosen: str | None) -> str:
    """Kafka's own columns have None if no transaction is open."""
    rows = rows_of(entries)
    for_tsv = [{**row, "start_offset": str(row["start_offset"])} for row in rows]
    return in_format(chosen, HEADINGS, rows, for_tsv=for_tsv, for_people=lambda: _in_words(rows))


def _in_words(rows: list[Row]) -> str:
    dated = [{**row, "last_write": _instant(row["last_timestamp_ms"])} for row in rows]
    return for_people(FOR_PEOPLE, dated, "No producer has written to this partition lately.")


def _instant(timestamp_ms: int) -> str | None:
    return humanize_instant(timestamp_ms) if timestamp_ms >= 0 else None
