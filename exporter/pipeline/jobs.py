"""Runs the jobs of the pipeline on one history and one folder of tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from exporter import __version__
from exporter.evaluation.humanize import humanize_count
from exporter.patterns import GroupRules
from exporter.pipeline.baselines import baselines_document
from exporter.pipeline.buckets import without_places
from exporter.pipeline.clocks import with_sure_durations
from exporter.pipeline.compact import compact, compact_history, compact_tables, obsolete, trusted_ms
from exporter.pipeline.delta import TableError
from exporter.pipeline.files import AHEAD_MS, SoundFiles, history_files, left_out
from exporter.pipeline.hours import update_hours
from exporter.pipeline.incidents import incidents_of_transactions
from exporter.pipeline.ingest import BATCH_ROWS, ingest_batch
from exporter.pipeline.operator_steps import steps_in
from exporter.pipeline.outcomes import join_outcomes
from exporter.pipeline.report import OBJECTIVE_PERCENT, collect
from exporter.pipeline.report_audits import audits_of_week
from exporter.pipeline.report_page import render
from exporter.pipeline.report_weeks import weeks_as_csv
from exporter.pipeline.runs import record
from exporter.pipeline.spark_output import failure_of
from exporter.pipeline.tables import Tables, read_whole, write_whole
from exporter.pipeline.thresholds import DAY_MS, RARE_WINDOW_MS, WINDOW_MS
from exporter.pipeline.transaction_log import logs_read_to_ms
from exporter.storage.faults import StoreError
from exporter.storage.last_run import FILE_NAME, JobFailure, parse
from exporter.storage.places import Place

FAULTS: Final = (PySparkException, Py4JError, pa.ArrowException, TableError, StoreError, OSError)
"""Exceptions of a job that a later run may not have."""
DAILY: Final = ("baselines", "report", "compact")
"""Jobs of `run` once a day: reading a month every hour would cost more than all others."""
DAILY_EVERY_MS: Final = DAY_MS


class RunFailedError(TableError):
    """Jobs of a run have failed; the message names each with its reason."""


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
    objective_percent: float = OBJECTIVE_PERCENT
    audit_logs: tuple[Place, ...] = ()
    """Files with the steps of operators' commands."""

    def transactions(self) -> int:
        """Takes as many files as wait at the beginning, batch by batch, oldest first; returns their number.

        Files that appear meanwhile may replace the newest of these. Without the bound, a run that takes longer than its
        exporters need for the next file would never come to the other jobs.
        """
        sound: SoundFiles = set()
        taken, waiting = 0, None
        while waiting is None or taken < waiting:
            done = ingest_batch(
                self.open_spark,
                self.history,
                self.tables,
                now_ms=self.now_ms(),
                batch_rows=self.batch_rows,
                sound=sound,
            )
            if done is None:
                break
            self.say(f"transactions: {humanize_count(done.files, 'file')} read, {done.files_waiting:,} left for later")
            taken += done.files
            waiting = done.files + done.files_waiting if waiting is None else waiting
        if taken:
            self.tables.clean_identities()
        files = self.left_out()
        for key, why in files:
            self.say(f"transactions: {key} is left out: {why}")
        if files:
            self.say(f"transactions: left out: {humanize_count(len(files), 'file')}")
        return taken

    def left_out(self) -> tuple[tuple[str, str], ...]:
        """(file of the history, why it is not in the tables)."""
        return left_out(history_files(self.history), self.tables.damaged(), self.now_ms())

    def incidents(self) -> bool:
        """Makes all incidents again from the suspects, which are few, unless nothing has changed: returns False."""
        table, stalls, steps = self.tables.incidents, self.tables.stalls, self.tables.operator_steps
        before, current = table.snapshot(), self.tables.current()
        made_from = {
            "version": __version__,
            "transactions": current.snapshot.changed,
            "stalls": stalls.snapshot().changed,
            "operator_steps": steps.snapshot().changed,
        }
        note = before.note or {}
        has_changed = {name: note.get(name) for name in made_from} != made_from
        if has_changed:
            spark = self.open_spark()
            before = table.begin(spark, before)
            suspects = without_places(self.tables.transactions.read(spark).where("was_suspect"))
            found = incidents_of_transactions(suspects, stalls.read(spark), steps.read(spark)).coalesce(1).persist()
            note = {**made_from, "incidents": found.count()}
            table.commit(found, before, note=note, replaced="true")
        self.say(f"incidents: {note['incidents']}")
        return has_changed

    def stalls(self) -> None:
        """Counts by hour what was watched, and for how long offsets stood still."""
        hours = update_hours(self.open_spark, self.history, self.tables, batch_rows=self.batch_rows)
        if hours:
            self.say(f"stalls: {humanize_count(hours, 'hour')} counted")

    def operators(self) -> None:
        """Adds what is new in the audit logs; a file that does not exist yet has nothing.

        One that cannot be read does not stop the others. Raises what the first of them raises.
        """
        now_ms, unread = self.now_ms(), list[OSError]()
        since_ms, until_ms = now_ms - self.retention_ms, now_ms + DAY_MS  # an operator's clock may differ
        for log in self.audit_logs:
            try:
                lines = log.read_bytes().decode("utf-8", "replace").splitlines()
            except FileNotFoundError:
                self.say(
                    f"operators: {log} does not exist: no command has written to it yet, or its name is another one"
                )
                continue
            except OSError as error:
                unread.append(error)
                continue
            steps = list(steps_in(lines, since_ms=since_ms, until_ms=until_ms))
            added = self.tables.operator_steps.add_missing(steps, "step_id")
            self.say(f"operators: {humanize_count(added, 'new step')} in {log}")
        if unread:
            raise unread[0]

    def outcomes(self) -> None:
        """Joins transactions with their outcomes, if the transaction log is read."""
        buckets = join_outcomes(self.open_spark, self.tables, rows_max=self.batch_rows)
        if buckets is not None:
            joined = humanize_count(buckets, "hour or day", "hours and days")
            self.say(f"outcomes: {joined} joined with the transaction log")

    def baselines(self) -> None:
        """Makes baselines from the last weeks, without suspects."""
        spark, newest_ms, made_at_ms = self.open_spark(), self._newest_ms(), self.now_ms()
        usual = self._transactions(spark, newest_ms, RARE_WINDOW_MS).where("NOT was_suspect")
        sure = with_sure_durations(without_places(usual), self.tables.coverage.read(spark))
        document = baselines_document(spark, sure, self.groups, newest_ms=newest_ms, made_at_ms=made_at_ms)
        write_whole(self.tables.baselines, document)
        self.say(f"baselines: {self.tables.baselines}")

    def _transactions(self, spark: SparkSession, newest_ms: Mapping[str, int], window_ms: int) -> DataFrame:
        """Transactions that are open, or were closed within the window before the newest cycle of their cluster."""
        newest = spark.createDataFrame(list(newest_ms.items()), "cluster_id string, newest_ms long")
        since_ms = min(newest_ms.values(), default=0) - window_ms  # for Delta, which skips files by it
        rows = self.tables.transactions.read(spark).where(
            f.col("closed_at").isNull() | (f.col("closed_at") >= f.timestamp_millis(f.lit(since_ms)))
        )
        is_recent = f.unix_millis("closed_at") >= f.col("newest_ms") - window_ms
        return rows.join(f.broadcast(newest), on="cluster_id").where(f.col("closed_at").isNull() | is_recent)

    def _newest_ms(self) -> Mapping[str, int]:
        """The newest cycle by cluster; one that was recorded by a clock far ahead is not later than now."""
        latest_ms = self.now_ms() + AHEAD_MS
        return {name: min(at_ms, latest_ms) for name, at_ms in self.tables.current().state.newest_ms.items()}

    def report(self) -> None:
        """Makes the report of the last four weeks."""
        spark, newest_ms, made_at_ms = self.open_spark(), self._newest_ms(), self.now_ms()
        data = collect(
            without_places(self._transactions(spark, newest_ms, WINDOW_MS)),
            self.tables.incidents.read(spark),
            self.tables.coverage.read(spark),
            self.tables.stalls.read(spark),
            newest_ms=newest_ms,
            objective_percent=self.objective_percent,
            has_outcomes=bool(logs_read_to_ms(self.tables.transaction_log)),
            made_at=datetime.fromtimestamp(made_at_ms / 1000, timezone.utc),
            left_out=self.left_out(),
        )
        write_whole(self.tables.weeks, weeks_as_csv(data.weeks))
        audits = audits_of_week(spark, self.tables, made_at_ms=made_at_ms)
        write_whole(self.tables.report, render(data, audits))
        self.say(f"report: {self.tables.report}")

    def compact(self) -> None:
        """Joins small files to large ones, and removes old rows and replaced files."""
        spark, tables, retention_ms = self.open_spark(), self.tables, self.retention_ms
        files = compact_history(spark, self.history, tables, now_ms=self.now_ms())
        latest_ms = trusted_ms(spark, tables.coverage, until_ms=self.now_ms() + AHEAD_MS)
        newest_ms = tables.current().state.newest_ms if latest_ms else {}
        from_ms = {name: min(at_ms, latest_ms) for name, at_ms in newest_ms.items()}
        for table in (tables.coverage, tables.stalls):
            compact(spark, table, obsolete(from_ms, retention_ms, "hour"))
        # It forgets clusters, and so comes after the two tables.
        hours = compact_tables(spark, tables, retention_ms=retention_ms, from_ms=from_ms)
        # How far a log was read is known by its newest record, which stays.
        records = obsolete(logs_read_to_ms(tables.transaction_log), retention_ms, "written_at")
        small = compact(spark, tables.transaction_log, records)
        # Without a cluster: this machine's clock may be ahead as well.
        since = f"timestamp_millis({min(self.now_ms(), latest_ms) - retention_ms})"
        compact(spark, tables.runs, f"ended_at < {since}")
        compact(spark, tables.operator_steps, f"written_at < {since}")
        for table in (tables.audit_transactions, tables.audit_coverage):
            compact(spark, table, f"audited_at < {since}")
        tables.clean(spark)
        of_history, of_log = humanize_count(files, "file"), humanize_count(small, "file")
        of_tables = humanize_count(hours, "hour")
        self.say(f"compact: {of_history} of the history, {of_tables} of the tables, {of_log} of the log")

    def run(self) -> None:
        """Runs all jobs; baselines and compaction once a day, and the report then and when an incident has changed.

        What is done once a day and has failed is done again in the next run. The run is recorded, also one with failures.
        Raises RunFailedError after the last job.
        """
        started_ms, results, failures = self.now_ms(), dict[str, int | None](), list[JobFailure]()
        self._try(("transactions", "stalls", "operators", "incidents", "outcomes"), results, failures)
        last = read_whole(self.tables.root / FILE_NAME, parse)
        made_at_ms = self._baselines_made_at_ms()
        daily_at_ms = made_at_ms if last is None or last.daily_at_ms is None else last.daily_at_ms
        # Where baselines are of the future the clock was wrong, and the others may be of it, too.
        is_due = self._is_a_day_ago(daily_at_ms) or made_at_ms > self.now_ms()
        wanted = {failure.job for failure in (() if last is None else last.failures)}
        if self._is_a_day_ago(made_at_ms):
            wanted.add("baselines")
        if results.get("incidents"):
            wanted.add("report")
        self._try((job for job in DAILY if is_due or job in wanted), results, failures)
        try:
            span_ms, files = (started_ms, self.now_ms()), results.get("transactions") or 0
            record(self.tables, span_ms, failures, files=files, daily_at_ms=started_ms if is_due else daily_at_ms)
        except FAULTS as failure:
            failures.append(JobFailure("record", failure_of(failure)))
        if failures:
            raise RunFailedError("; then ".join(f"{failure.job}: {failure.reason}" for failure in failures))

    def _try(self, jobs: Iterable[str], results: dict[str, int | None], failures: list[JobFailure]) -> None:
        """Runs each job, also after one that fails: compaction and retention go on."""
        for job in jobs:
            try:
                results[job] = getattr(self, job)()
            except FAULTS as failure:
                failures.append(JobFailure(job, failure_of(failure)))

    def _is_a_day_ago(self, instant_ms: int) -> bool:
        """True also for an instant in the future: the clock was wrong."""
        return not 0 <= self.now_ms() - instant_ms < DAILY_EVERY_MS

    def _baselines_made_at_ms(self) -> int:
        """Zero if there are none that can be read."""
        return read_whole(self.tables.baselines, lambda text: int(json.loads(text)["made_at_ms"])) or 0
