"""Runs the jobs of the pipeline on one history and one folder of tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

from pyspark.sql import SparkSession

from exporter import __version__
from exporter.history.schema import CYCLES
from exporter.patterns import GroupRules
from exporter.pipeline import schemas
from exporter.pipeline.baselines import baselines_document
from exporter.pipeline.compact import compact_history, compact_log, compact_tables, files_since
from exporter.pipeline.connectors import parquet_files, spark_path
from exporter.pipeline.delta import DataFile
from exporter.pipeline.files import history_files, left_out
from exporter.pipeline.history import read_history
from exporter.pipeline.incidents import incidents_of_transactions
from exporter.pipeline.ingest import BATCH_ROWS, ingest_batch, is_open, read_transactions
from exporter.pipeline.outcomes import join_outcomes
from exporter.pipeline.report import collect
from exporter.pipeline.report_page import render
from exporter.pipeline.tables import Tables, write_whole
from exporter.pipeline.thresholds import RARE_WINDOW_MS, WINDOW_MS
from exporter.pipeline.transaction_log import logs_read_to_ms
from exporter.storage.faults import StoreError
from exporter.storage.places import Place

BASELINES_EVERY_MS: Final = 86_400_000
"""`run` makes baselines once a day: reading a month every hour would cost more than all other jobs."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs and their input. A job may be killed at any instant."""

    open_spark: Callable[[], SparkSession]
    """Starts it when a job first needs it: many runs find nothing new."""
    history: Place
    tables: Tables
    groups: GroupRules
    retention_ms: int
    now_ms: Callable[[], int]
    say: Callable[[str], None]
    batch_rows: int = BATCH_ROWS

    def transactions(self) -> None:
        """Takes all waiting files, batch by batch."""
        while True:
            done = ingest_batch(
                self.open_spark, self.history, self.tables, now_ms=self.now_ms(), batch_rows=self.batch_rows
            )
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
        return left_out(history_files(self.history), self.tables.damaged(), self.now_ms())

    def incidents(self) -> None:
        """Makes all incidents again, from the suspects, which are few; not if these are in the same files as before."""
        table, current = self.tables.incidents, self.tables.current()
        before = table.snapshot()
        suspects = [file for file in current.files if file.parts["was_suspect"]]
        made_from = _fingerprint(suspects)
        if before.run != made_from:
            incidents = incidents_of_transactions(read_transactions(self.open_spark(), self.tables, suspects))
            folder = self.tables.folder_of(table, before.new_run())
            incidents.coalesce(1).write.parquet(spark_path(folder))
            replaced = (file.path for file in before.files)
            table.commit(before, run=made_from, added=parquet_files(folder), removed=replaced)
        self.say(f"incidents: {sum(file.rows for file in table.snapshot().files)}")

    def outcomes(self) -> None:
        """Joins transactions with their outcomes, if the transaction log is read."""
        files = join_outcomes(self.open_spark, self.tables, rows_max=self.batch_rows)
        if files is not None:
            self.say(f"outcomes: {files} files joined with the transaction log")

    def baselines(self) -> None:
        """Makes baselines from the last weeks, without suspects."""
        spark, current, made_at_ms = self.open_spark(), self.tables.current(), self.now_ms()
        newest_ms = current.state.newest_ms
        files = files_since(current.files, newest_ms, RARE_WINDOW_MS)
        usual = read_transactions(spark, self.tables, [file for file in files if not file.parts["was_suspect"]])
        document = baselines_document(spark, usual, self.groups, newest_ms=newest_ms, made_at_ms=made_at_ms)
        write_whole(self.tables.baselines, document)
        self.say(f"baselines: {self.tables.baselines}")

    def report(self) -> None:
        """Makes the report of the last four weeks."""
        spark, current, made_at_ms = self.open_spark(), self.tables.current(), self.now_ms()
        newest_ms = current.state.newest_ms
        files = [*files_since(current.files, newest_ms, WINDOW_MS), *filter(is_open, current.files)]
        left = self.left_out()
        cycles = [
            file
            for file in history_files(self.history)
            if file.table == CYCLES
            and file.last_ms >= newest_ms.get(file.cluster_id, 0) - WINDOW_MS
            and file.key not in dict(left)
        ]
        incidents = self.tables.incidents
        paths = [incidents.path_of(file) for file in incidents.snapshot().files]
        read = spark.read.schema(schemas.INCIDENTS)
        data = collect(
            read_transactions(spark, self.tables, files),
            read.parquet(*paths) if paths else spark.createDataFrame([], schemas.INCIDENTS),
            read_history(spark, self.history, CYCLES, cycles),
            has_outcomes=bool(logs_read_to_ms(self.tables.transaction_log)),
            made_at=datetime.fromtimestamp(made_at_ms / 1000, timezone.utc),
            left_out=left,
        )
        write_whole(self.tables.report, render(data))
        self.say(f"report: {self.tables.report}")

    def compact(self) -> None:
        """Joins small files to large ones, and removes old rows and replaced files."""
        files = compact_history(self.history, self.tables, now_ms=self.now_ms())
        replaced = compact_tables(self.tables, retention_ms=self.retention_ms)
        replaced += compact_log(self.tables.transaction_log, retention_ms=self.retention_ms)
        self.tables.clean()
        self.say(f"compact: {files} files of the history, {replaced} of the tables")

    def run(self) -> None:
        """Runs all jobs; baselines and the report only when they are a day old."""
        self.transactions()
        self.incidents()
        self.outcomes()
        age_ms = self.now_ms() - self._baselines_made_at_ms()
        if not 0 <= age_ms < BASELINES_EVERY_MS:  # those of the future were made by a clock that was wrong
            self.baselines()
            self.report()
        self.compact()

    def _baselines_made_at_ms(self) -> int:
        """Zero if there are none that can be read."""
        try:
            return int(json.loads(self.tables.baselines.read_text(encoding="utf-8"))["made_at_ms"])
        except StoreError:
            raise
        except (OSError, ValueError, KeyError, TypeError):
            return 0


def _fingerprint(suspects: Sequence[DataFile]) -> int:
    """Hashes these files and this version of the program; never zero. No two files of a table ever have the same path."""
    text = json.dumps([__version__, *sorted(file.path for file in suspects)])
    return 1 + int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
