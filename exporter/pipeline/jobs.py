"""The jobs, one after the other, on one history and one folder of tables."""

from __future__ import annotations

from collections.abc import Callable
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
from exporter.pipeline.outcomes import join_outcomes
from exporter.pipeline.report import collect

WINDOW_MS: Final = 28 * 86_400_000
"""What baselines are learned from."""
BASELINES_EVERY_MS: Final = 86_400_000
"""`run` learns once a day: a month that is read every hour would cost more than all the rest."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Jobs:
    """What the jobs work on. Each is to be called with the tables locked, and may be killed at any instant."""

    spark: SparkSession
    history: Path
    tables: Tables
    groups: GroupRules
    retention_ms: int
    now_ms: Callable[[], int]
    say: Say
    batch_rows: int = BATCH_ROWS

    def transactions(self) -> None:
        """All that waits, batch by batch."""
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
        """Anew, of the suspects alone, which are few."""
        manifest = self.tables.load()
        folders = [it.folder for it in manifest.buckets if it.is_suspect]
        folders += [manifest.open] if manifest.open else []
        folder = f"incidents/{manifest.new_run()}"
        incidents = incidents_of_transactions(read_transactions(self.spark, self.tables, folders))
        incidents.coalesce(1).write.parquet(str(self.tables.root / folder))
        self.tables.commit(manifest.succeeded_by(self.now_ms(), incidents=folder))
        self.say(f"incidents: {self.spark.read.parquet(str(self.tables.root / folder)).count()}")

    def outcomes(self) -> None:
        """Of the transactions, where the coordinators' log is read."""
        parts = join_outcomes(self.spark, self.tables, now_ms=self.now_ms())
        if parts is not None:
            self.say(f"outcomes: {parts} parts joined with the coordinators' log")

    def baselines(self) -> None:
        """Of the last four weeks."""
        manifest, made_at_ms = self.tables.load(), self.now_ms()
        newest_ms = newest_closings_ms(manifest, made_at_ms)
        folders = [it.folder for it in buckets_since(manifest, newest_ms, WINDOW_MS)]
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
        """A page of the last four weeks."""
        from exporter.pipeline.report_page import render  # noqa: PLC0415 - loads matplotlib

        manifest, made_at_ms = self.tables.load(), self.now_ms()
        newest_ms = newest_closings_ms(manifest, made_at_ms)
        folders = [it.folder for it in buckets_since(manifest, newest_ms, WINDOW_MS)]
        folders += [manifest.open] if manifest.open else []
        left = self.left_out()
        cycles = [
            it
            for it in history_files(self.history)
            if it.table == CYCLES
            and it.last_ms >= newest_ms.get(it.cluster_id, 0) - WINDOW_MS
            and it.key not in dict(left)
        ]
        data = collect(
            read_transactions(self.spark, self.tables, folders),
            read_incidents(self.spark, self.tables, manifest),
            read_history(self.spark, self.history, CYCLES, cycles),
            made_at=datetime.fromtimestamp(made_at_ms / 1000, timezone.utc),
            left_out=left,
        )
        write_whole(self.tables.report, render(data))
        self.say(f"report: {self.tables.report}")

    def compact(self) -> None:
        """Small files into large ones, and away with what is too old."""
        files = compact_history(self.history, self.tables, now_ms=self.now_ms())
        buckets = compact_tables(self.tables, now_ms=self.now_ms(), retention_ms=self.retention_ms)
        self.say(f"compact: {files} files of the history, {buckets} buckets of the tables")

    def run(self) -> None:
        """All of them; baselines and the report when those are a day old."""
        self.transactions()
        self.incidents()
        self.outcomes()
        made_at_ms = self.tables.load().baselines_made_at_ms
        if made_at_ms is None or self.now_ms() - made_at_ms >= BASELINES_EVERY_MS:
            self.baselines()
            self.report()
        self.compact()


def read_incidents(spark: SparkSession, tables: Tables, manifest: Manifest) -> DataFrame:
    """`INCIDENTS`, none before they were made."""
    if manifest.incidents is None:
        return spark.createDataFrame([], schemas.INCIDENTS)
    return spark.read.schema(schemas.INCIDENTS).parquet(str(tables.root / manifest.incidents))
