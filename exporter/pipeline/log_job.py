"""Runs the job that reads the transaction log: its first offsets, and the stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from exporter.config.kafka_section import KafkaSettings
from exporter.kafka.state_log import LogUnreadableError, StateLog
from exporter.pipeline.java_client import JavaClientError, java_client_options
from exporter.pipeline.tables import Tables
from exporter.pipeline.transaction_log import kafka_stream, records_of, write_records

LOOK_SECONDS = 1.0


class LogJobError(Exception):
    """The log cannot be read; the message is the reason."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """The transaction log of one cluster."""

    cluster_id: str
    offsets: Mapping[int, int]
    """The first offset of a first run, by partition."""
    options: Mapping[str, str] = field(repr=False)
    """Options of Spark's Kafka source, passwords among them."""


def source_of(kafka: KafkaSettings, *, since_ms: int) -> LogSource:
    """The log of these brokers, from the first record written at `since_ms` or later. Raises LogJobError."""
    try:
        options = java_client_options(kafka)
        log = StateLog(kafka, since_ms=since_ms, positions={})
    except (JavaClientError, LogUnreadableError) as error:
        raise LogJobError(str(error)) from error
    try:
        if log.failures:
            partition, why = min(log.failures.items())
            raise LogJobError(f"partition {partition} of the log: {why}")
        return LogSource(log.cluster_id, dict(log.positions), options)
    finally:
        log.close()


def read_log(spark: SparkSession, source: LogSource, tables: Tables, *, every_ms: int | None) -> None:
    """Reads to the present end of the log, or with `every_ms` until interrupted. Raises LogJobError when Spark fails."""
    rows = records_of(kafka_stream(spark, source.options, source.offsets), source.cluster_id)
    checkpoint = tables.checkpoint_of(source.cluster_id)
    every = None if every_ms is None else f"{every_ms} milliseconds"
    query = write_records(rows, tables.transaction_log, source.cluster_id, checkpoint, every=every)
    try:
        while not query.awaitTermination(LOOK_SECONDS):
            pass
    except StreamingQueryException as error:
        raise LogJobError(f"Spark cannot read the log: {str(error).splitlines()[0]}") from error
    finally:
        query.stop()
