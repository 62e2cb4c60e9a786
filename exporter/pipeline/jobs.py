"""Runs the jobs of the pipeline on one history and one folder of tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from exporter.groups import GroupRules
from exporter.history.schema import CYCLES
from exporter.pipeline import schemas
from exporter.pipeline.baselines import baselines_document
from exporter.pipeline.compact import buckets_since, compact_history, compact_tables, newest_closings_ms
from exporter.pipeline.files import history_files, left_out
from exporter.pipeline.incidents import incidents_of_transactions
from exporter.pipeline.ingest import BATCH_ROWS, ingest_batch, read_history, read_transactions
from exporter.pipeline.manifest import Manifest, Tables, write_whole
from exporter.pipeline.outcomes import JOINED, join_outcomes
from exporter.pipeline.report import collect
from exporter.pipeline.report_page import render

WINDOW_MS: Final = 28 * 86_400_000
"""The span of history for baselines and the report."""
BASELINES_EVERY_MS: Final = 86_400_000
"""`run` makes baselines once a day: reading a month every hour would cost more than all other jobs."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs and their input. Call each with the tables locked; a job may be killed at any instant."""

    spark: SparkSession
    history: Path
    tables: Tables
    groups: GroupRules
    retention_ms: int
    now_ms: Callable[[], int]
    say: Say
    batch_rows: int = BATCH_ROWS

    def transactions(self) -> None:
        """Takes all waiting files, batch by batch."""
        while True:
            done = ingest_batch(self.spark, self.history, self.tables, now_ms=self.now_ms(), batch_rows=self.batch_rows)
            if done is None:
                break
            self.say(f"transactions: {done.files} files read, {done.files_waiting} wait")
        files = self.left_out()
        for key, why in files:
            self.say(f"transactions: {key} is left out: {why}")
        if files:
            self.say(f"transactions: {len(files)} files are left out")

    def left_out(self) -> tuple[tuple[str, str], ...]:
        """(file of the history, why it is not in the tables)."""
        return left_out(history_files(self.history), self.tables.load().damaged, self.now_ms())

    def incidents(self) -> None:
        """Makes all incidents again, from the suspects, which are few."""
        manifest = self.tables.load()
        folders = [bucket.folder for bucket in manifest.buckets if bucket.is_suspect]
        folders += [manifest.open] if manifest.open else []
        folder = f"incidents/{manifest.new_run()}"
        incidents = incidents_of_transactions(read_transactions(self.spark, self.tables, folders))
        incidents.coalesce(1).write.parquet(str(self.tables.root / folder))
        self.tables.commit(manifest.succeeded_by(self.now_ms(), incidents=folder))
        self.say(f"incidents: {self.spark.read.parquet(str(self.tables.root / folder)).count()}")

    def outcomes(self) -> None:
        """Joins transactions with their outcomes, if the transaction log is read."""
        parts = join_outcomes(self.spark, self.tables, now_ms=self.now_ms())
        if parts is not None:
            self.say(f"outcomes: {parts} parts joined with the transaction log")

    def baselines(self) -> None:
        """Makes baselines from the last four weeks."""
        manifest, made_at_ms = self.tables.load(), self.now_ms()
        newest_ms = newest_closings_ms(manifest, made_at_ms)
        folders = [bucket.folder for bucket in buckets_since(manifest, newest_ms, WINDOW_MS)]
        froms = [(cluster_id, end_ms - WINDOW_MS) for cluster_id, end_ms in newest_ms.items()]
        since = self.spark.createDataFrame(froms, "cluster_id string, from_ms long")
        closed = (
            read_transactions(self.spark, self.tables, folders)
            .join(f.broadcast(since), on="cluster_id")
            .where(f.unix_millis("closed_at") >= f.col("from_ms"))
        )
        document = baselines_document(self.spark, closed, self.groups, made_at_ms=made_at_ms, window_ms=WINDOW_MS)
        write_whole(self.tables.baselines, document)
        self.tables.commit(manifest.succeeded_by(made_at_ms, baselines_made_at_ms=made_at_ms))
        self.say(f"baselines: {self.tables.baselines}")

    def report(self) -> None:
        """Makes the report of the last four weeks."""
        manifest, made_at_ms = self.tables.load(), self.now_ms()
        newest_ms = newest_closings_ms(manifest, made_at_ms)
        folders = [bucket.folder for bucket in buckets_since(manifest, newest_ms, WINDOW_MS)]
        folders += [manifest.open] if manifest.open else []
        left = self.left_out()
        cycles = [
            file
            for file in history_files(self.history)
            if file.table == CYCLES
            and file.last_ms >= newest_ms.get(file.cluster_id, 0) - WINDOW_MS
            and file.key not in dict(left)
        ]
        data = collect(
            read_transactions(self.spark, self.tables, folders),
            read_incidents(self.spark, self.tables, manifest),
            read_history(self.spark, self.history, CYCLES, cycles),
            outcomes=read_outcomes(self.spark, self.tables, manifest, folders),
            made_at=datetime.fromtimestamp(made_at_ms / 1000, timezone.utc),
            left_out=left,
        )
        write_whole(self.tables.report, render(data))
        self.say(f"report: {self.tables.report}")

    def compact(self) -> None:
        """Joins small files to large ones, and removes old rows."""
        files = compact_history(self.history, self.tables, now_ms=self.now_ms())
        buckets = compact_tables(self.tables, now_ms=self.now_ms(), retention_ms=self.retention_ms)
        self.say(f"compact: {files} files of the history, {buckets} buckets of the tables")

    def run(self) -> None:
        """Runs all jobs; baselines and the report only when they are a day old."""
        self.transactions()
        self.incidents()
        self.outcomes()
        made_at_ms = self.tables.load().baselines_made_at_ms
        if made_at_ms is None or self.now_ms() - made_at_ms >= BASELINES_EVERY_MS:
            self.baselines()
            self.report()
        self.compact()


def read_incidents(spark: SparkSession, tables: Tables, manifest: Manifest) -> DataFrame:
    """`INCIDENTS`; empty before the first run."""
    if manifest.incidents is None:
        return spark.createDataFrame([], schemas.INCIDENTS)
    return spark.read.schema(schemas.INCIDENTS).parquet(str(tables.root / manifest.incidents))


def read_outcomes(spark: SparkSession, tables: Tables, manifest: Manifest, folders: Sequence[str]) -> DataFrame | None:
    """`JOINED` of the transactions in these folders; None if no transaction log was read."""
    if not manifest.outcomes:
        return None
    joined = [tables.root / outcome.folder for outcome in manifest.outcomes if outcome.source in folders]
    written = [str(folder) for folder in joined if folder.exists()]  # a part without rows has no folder
    return spark.read.schema(JOINED).parquet(*written) if written else spark.createDataFrame([], JOINED)
