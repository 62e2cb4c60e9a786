"""Runs the job that reads the transaction log: the settings of Java's client, the first offsets, and the stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from exporter.config.kafka_section import KafkaSettings, SaslSettings, TlsSettings
from exporter.config.sasl import MECHANISMS
from exporter.config.table import given_in
from exporter.kafka.state_log import LogUnreadableError, StateLog
from exporter.pipeline.spark_output import failure_of
from exporter.pipeline.tables import Tables
from exporter.pipeline.transaction_log import kafka_stream, records_of, write_records
from exporter.snapshot import STATE_TOPIC

LOOK_SECONDS = 1.0


class LogJobError(Exception):
    """The log cannot be read, or not with these settings; the message is the reason."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """The transaction log of one cluster."""

    cluster_id: str
    topic_id: str
    """Empty if the brokers have none."""
    offsets: Mapping[int, int]
    """First offset of a first run, by partition."""
    options: Mapping[str, str] = field(repr=False)
    """Options of Spark's Kafka source, passwords among them."""


def source_of(kafka: KafkaSettings, *, since_ms: int) -> LogSource:
    """The log of these brokers, from the first record written at `since_ms` or later. Raises LogJobError."""
    options = java_client_options(kafka)
    try:
        log = StateLog(kafka, since_ms=since_ms, positions={})
    except LogUnreadableError as error:
        raise LogJobError(str(error)) from error
    try:
        if log.failures:
            partition, why = min(log.failures.items())
            raise LogJobError(f"partition {partition} of the log: {why}")
        return LogSource(log.cluster_id, log.topic_id, dict(log.positions), options)
    finally:
        log.close()


def read_log(spark: SparkSession, source: LogSource, tables: Tables, *, every_ms: int | None) -> None:
    """Reads to the present end of the log, or with `every_ms` until interrupted.

    Raises LogJobError when Spark fails, and where the topic was made again: its offsets begin anew, and the checkpoint's
    may never come again.
    """
    if not tables.is_same_log(source.cluster_id, source.topic_id):
        raise LogJobError(
            f"{STATE_TOPIC} was made again since it was read into {tables.transaction_log.folder}: use another --tables"
        )
    rows = records_of(kafka_stream(spark, source.options, source.offsets), source.cluster_id)
    checkpoint = tables.checkpoint_of(source.cluster_id)
    every = None if every_ms is None else f"{every_ms} milliseconds"
    query = write_records(rows, tables.transaction_log, source.cluster_id, checkpoint, every=every)
    try:
        while not query.awaitTermination(LOOK_SECONDS):
            pass
    except StreamingQueryException as error:
        raise LogJobError(f"Spark cannot read the log: {failure_of(error)}") from error
    finally:
        query.stop()


def java_client_options(kafka: KafkaSettings) -> dict[str, str]:
    """Options for `spark.read.format("kafka")`, passwords among them. Raises LogJobError."""
    options = {
        "bootstrap.servers": kafka.bootstrap,
        "client.id": kafka.client_id,
        "request.timeout.ms": str(kafka.request_timeout_ms),
        "default.api.timeout.ms": str(kafka.request_timeout_ms),
        "security.protocol": kafka.security_protocol,
        **({} if kafka.sasl is None else _sasl(kafka.sasl)),
        **({} if kafka.tls is None else _tls(kafka.tls)),
    }
    return {f"kafka.{name}": value for name, value in options.items()}


def _sasl(sasl: SaslSettings) -> Mapping[str, str]:
    mechanism = MECHANISMS[sasl.mechanism]
    if not mechanism.is_for_spark:
        known = ", ".join(mechanism.name for mechanism in MECHANISMS.values() if mechanism.is_for_spark)
        raise LogJobError(
            f"kafka.sasl.mechanism {mechanism.name} is not supported with Spark's Kafka source: use {known}"
        )
    given = given_in(sasl)
    options = (f"{name}={_quoted(given[ours])}" for name, ours in mechanism.login_options.items() if ours in given)
    return {
        "sasl.mechanism": mechanism.name,
        "sasl.jaas.config": f"{mechanism.login_module} required {' '.join(options)};",
    }


def _tls(tls: TlsSettings) -> Mapping[str, str]:
    if tls.certificate_location is not None:
        raise LogJobError(
            "kafka.ssl.certificate.location is not supported with Spark's Kafka source: put key and certificate into a "
            "PKCS12 file and set kafka.ssl.keystore.location"
        )
    if tls.crl_location is not None:
        raise LogJobError("kafka.ssl.crl.location is not supported with Spark's Kafka source")
    given = {
        "ssl.truststore.type": "PEM" if tls.ca_location is not None else "PKCS12" if tls.truststore_location else None,
        "ssl.truststore.location": tls.ca_location or tls.truststore_location,
        "ssl.truststore.password": tls.truststore_password,
        "ssl.keystore.type": "PKCS12" if tls.keystore_location is not None else None,
        "ssl.keystore.location": tls.keystore_location,
        "ssl.keystore.password": tls.keystore_password,
        "ssl.endpoint.identification.algorithm": "https" if tls.check_hostname else "",
    }
    return {name: value for name, value in given.items() if value is not None}


def _quoted(value: str) -> str:
    """Quotes a string in the syntax of JAAS."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
