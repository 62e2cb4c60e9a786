"""Runs the audit on real brokers as a user would: the transaction log first, then the logs of all partitions."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from exporter.audit.job import AuditJob, AuditResult
from exporter.config.kafka_section import KafkaSettings
from exporter.kafka.collect.topic_filter import NO_FILTER, TopicFilter
from exporter.pipeline.log_job import java_client_options
from exporter.pipeline.tables import Tables
from exporter.pipeline.transaction_log import kafka_stream, records_of, write_records
from tests.pipeline.log_records import PATIENCE_S, positions, settings_of


class Auditor:
    """The tables of one cluster, and their audit."""

    def __init__(
        self,
        spark: SparkSession,
        bootstrap: str,
        folder: Path,
        *,
        replicas: bool = False,
        kafka: KafkaSettings | None = None,
    ) -> None:
        """`kafka` has the login of an audit that may not do everything; the transaction log is read without it."""
        self._spark = spark
        self._folder = folder
        self.tables = Tables(folder / "tables")
        self._bootstrap = bootstrap
        self._replicas = replicas
        self._kafka = settings_of(bootstrap)
        self._kafka_of_audit = kafka or self._kafka
        self.said: list[str] = []

    def read_log(self, *, without: Collection[int] = ()) -> None:
        """Does what `pipeline transaction-log` does, but for some partitions of the log."""
        cluster_id, offsets = positions(self._bootstrap)
        offsets = {number: offset for number, offset in offsets.items() if number not in without}
        rows = records_of(kafka_stream(self._spark, java_client_options(self._kafka), offsets), cluster_id)
        table = self.tables.transaction_log
        query = write_records(rows, table, cluster_id, self._folder / "checkpoint", every=None)
        assert query.awaitTermination(PATIENCE_S)

    def audit(self, topics: TopicFilter = NO_FILTER, *, without: Collection[int] = ()) -> AuditResult:
        """Reads the log first. All that is decided counts as settled."""
        self.read_log(without=without)
        job = AuditJob(
            open_spark=lambda: self._spark,
            kafka=self._kafka_of_audit,
            topics=topics,
            tables=self.tables,
            say=self.said.append,
            settled_ms=0,
            replicas=self._replicas,
        )
        return job.run()

    def found(self) -> list[Any]:
        return self._rows("audit_transactions")

    def coverage(self) -> list[Any]:
        return self._rows("audit_coverage")

    def _rows(self, table: str) -> list[Any]:
        return self._spark.read.format("delta").load(str(self.tables.root / table)).collect()
