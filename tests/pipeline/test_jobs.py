"""The jobs on a folder: compaction changes nothing, a failure loses and doubles nothing, two runs exclude each other."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from exporter.cli import main
from exporter.commands.offline_options import JOBS_OF_FLAGS, JOBS_WITH_BROKERS, add_pipeline
from exporter.commands.options import SPARK_FLAGS, add_spark
from exporter.commands.pipeline import repeat
from exporter.history.schema import VERSION
from exporter.pipeline import column_comments
from exporter.pipeline import compact as compact_module
from exporter.pipeline import files as files_module
from exporter.pipeline import jobs as jobs_module
from exporter.pipeline.compact import compact, compact_history, compact_tables
from exporter.pipeline.delta import TableError, to_ms
from exporter.pipeline.hours import update_hours
from exporter.pipeline.ingest import IngestedBatch, ingest_batch
from exporter.pipeline.jobs import Jobs, RunFailedError
from exporter.pipeline.report import OBJECTIVE_PERCENT
from exporter.pipeline.runs import record
from exporter.pipeline.tables import Tables
from exporter.storage.last_run import FILE_NAME, JobFailure, LastRun, parse
from tests.pipeline import cases
from tests.pipeline.days import DAY_MS, DAY_S, DAYS, rows, taken, write_days

PIPELINE_PAGE: Final = Path(__file__).parents[2] / "docs" / "pipeline.md"
FILES_COMPACTED: Final = 4 * DAYS - 4
"""The first two days are complete: two files of each table become one."""


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of some days, and its tables."""
    folder = tmp_path_factory.mktemp("made")
    write_days(folder / "history")
    taken(spark, folder / "history", Tables(folder / "tables"))
    update_hours(lambda: spark, folder / "history", Tables(folder / "tables"))
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """To be changed."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


def history_files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "history" / VERSION).rglob("*.parquet"))


def compacted(spark: SparkSession, folder: Path) -> None:
    tables = Tables(folder / "tables")
    update_hours(lambda: spark, folder / "history", tables)
    compact_history(spark, folder / "history", tables, now_ms=cases.NOW_MS)
    compact_tables(spark, tables, retention_ms=365 * DAY_MS)


def test_compacting_changes_no_row(spark: SparkSession, made: Path, copy: Path) -> None:
    """Days that are over have one file and one bucket; they give the same transactions, also when made again."""
    expected = rows(spark, Tables(made / "tables"))
    tables = Tables(copy / "tables")
    compacted(spark, copy)

    assert len(history_files(made)) == 4 * DAYS
    assert len(history_files(copy)) == FILES_COMPACTED
    assert len(tables.transactions.files()) < len(Tables(made / "tables").transactions.files())
    assert rows(spark, tables) == expected
    anew = Tables(copy / "anew")
    taken(spark, copy / "history", anew)
    assert rows(spark, anew) == expected
    assert compact_history(spark, copy / "history", tables, now_ms=cases.NOW_MS) == 0


@pytest.mark.parametrize("steps", range(6))
def test_a_compaction_that_breaks_loses_nothing(
    spark: SparkSession, made: Path, copy: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """At every commit and every file that is joined: what is there gives the same rows, and the next one ends the work."""
    left = [steps]

    def breaking(work: Any) -> Any:
        def step(*arguments: Any, **options: Any) -> Any:
            if left[0] == 0:
                raise RuntimeError
            left[0] -= 1
            return work(*arguments, **options)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(Tables, "commit", breaking(Tables.commit))
        patch.setattr(compact_module, "join", breaking(compact_module.join))
        with pytest.raises(RuntimeError):
            compacted(spark, copy)
    expected = rows(spark, Tables(made / "tables"))

    assert rows(spark, Tables(copy / "tables")) == expected
    compacted(spark, copy)
    assert len(history_files(copy)) == FILES_COMPACTED
    assert rows(spark, Tables(copy / "tables")) == expected


def test_a_file_is_not_joined_before_its_hours_are_counted(spark: SparkSession, copy: Path) -> None:
    """Joined files are not counted again."""
    tables = Tables(copy / "tables")
    shutil.rmtree(str(tables.coverage.folder))
    assert compact_history(spark, copy / "history", tables, now_ms=cases.NOW_MS) == 0
    assert len(history_files(copy)) == 4 * DAYS


def test_observations_whose_cycles_come_later_are_not_compacted(spark: SparkSession, tmp_path: Path) -> None:
    """A copied history: without a file of the same name the cycles would wait for ever, and close nothing."""
    for number in range(3):
        at = 600 * number
        row = {"start_offset": number, "started": at}
        cases.write_file(tmp_path / "history", "c", f"w{number}", [{"at": at + 30, "open": [row]}, {"at": at + 60}])
    cases.write_file(tmp_path / "history", "c", "later", [{"at": 5 * DAY_MS // 1000}])
    late = sorted((tmp_path / "history" / VERSION / "cycles").rglob("*.parquet"))[2]
    late.rename(tmp_path / late.name)
    tables = Tables(tmp_path / "tables")
    taken(spark, tmp_path / "history", tables)
    compacted(spark, tmp_path)
    (tmp_path / late.name).rename(late)
    taken(spark, tmp_path / "history", tables)

    assert [row["closed_at"] for row in rows(spark, tables)["c"]] == [cases.instant(at) for at in (60, 660, 1_260)]


def test_old_rows_go(spark: SparkSession, copy: Path) -> None:
    """Whole days before the retention, counted from the newest cycle; their files stay as long as the table says."""
    tables = Tables(copy / "tables")
    before = paths(tables)
    compact_tables(spark, tables, retention_ms=DAY_MS)
    gone = before - paths(tables)
    expected = rows(spark, tables)

    assert min(row["closed_at"] for row in expected["c"]) >= cases.instant(DAY_S * (DAYS - 2))
    assert gone
    tables.clean(spark)
    assert all(path.exists() for path in gone)
    end_retention(spark, tables)
    tables.clean(spark)
    assert not any(path.exists() for path in gone)
    assert rows(spark, tables) == expected


def paths(tables: Tables) -> set[Path]:
    return {Path(str(tables.transactions.folder), file["path"]) for file in tables.transactions.files()}


def end_retention(spark: SparkSession, tables: Tables) -> None:
    """Sets the retention of an operator who wants no old version."""
    name = tables.transactions.sql_name
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES (delta.deletedFileRetentionDuration = 'interval 0 hours')")
    time.sleep(0.01)  # Delta keeps files of this millisecond


def test_a_cluster_that_no_exporter_watches_keeps_its_rows_for_the_retention(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its last day is in one file with another cluster's rows, which are too old: those alone go.

    When the other cluster is ahead by the retention, the stopped one is gone, also what was open there.
    """
    history, tables = tmp_path / "history", Tables(tmp_path / "tables")
    still = {"partition": 1, "start_offset": 8, "producer_id": 8}
    cases.write_file(history, "live", "w0", [{"at": 30, "open": [{}]}, {"at": 60}])
    cases.write_file(history, "it's", "w0", [{"at": 30, "open": [{}, still]}, {"at": 5 * DAY_S, "open": [still]}])
    for day in (9, 20):
        row = {"start_offset": day, "started": day * DAY_S}
        at = day * DAY_S
        cases.write_file(history, "live", f"w{day}", [{"at": at, "open": [row]}, {"at": at + 60}])
        taken(spark, history, tables)
        compact_tables(spark, tables, retention_ms=6 * DAY_MS)
        found = {
            name: [row["partitions"][0]["start_offset"] for row in rows_] for name, rows_ in rows(spark, tables).items()
        }
        assert found == ({"live": [9], "it's": [100, 8]} if day == 9 else {"live": [20]})
    assert compact_tables(spark, tables, retention_ms=6 * DAY_MS) == 0


def test_a_clock_that_is_ahead_for_a_moment_makes_no_row_too_old(spark: SparkSession, copy: Path) -> None:
    """Exporter and pipeline are on one machine; another cluster's rows are as old as before, too."""
    history, tables, now_ms = copy / "history", Tables(copy / "tables"), [cases.milliseconds(DAYS * DAY_S)]
    still = {"partition": 1, "start_offset": 8, "producer_id": 8}
    cases.write_file(history, "other", "w0", [{"at": 30, "open": [still]}, {"at": 60}])
    jobs = Jobs(lambda: spark, history, tables, (), 90 * DAY_MS, lambda: now_ms[0], lambda _: None)

    def everything() -> int:
        for job in (jobs.transactions, jobs.stalls, jobs.baselines, jobs.compact):
            job()
        return tables.transactions.read(spark).count()

    expected = everything()
    right_ms = now_ms[0]
    now_ms[0] += 200 * DAY_MS
    cases.write_file(history, "c", "ahead", [{"at": (DAYS + 200) * DAY_S}])
    assert everything() == expected
    now_ms[0] = right_ms
    assert everything() == expected
    thresholds = json.loads(tables.baselines.read_text(encoding="utf-8"))["thresholds"]
    assert thresholds["topics"][0]["samples"] == 2 * DAYS - 1


def test_rows_are_too_old_as_seen_from_an_hour_that_lasts(spark: SparkSession, copy: Path) -> None:
    """The last day but one stays: days are counted from the newest hour."""
    tables, now_ms = Tables(copy / "tables"), cases.milliseconds(DAYS * DAY_S)
    Jobs(lambda: spark, copy / "history", tables, (), DAY_MS, lambda: now_ms, lambda _: None).compact()
    assert min(row["closed_at"] for row in rows(spark, tables)["c"]) >= cases.instant(DAY_S * (DAYS - 2))


def test_a_daily_job_that_fails_makes_the_others_no_more_frequent(
    spark: SparkSession, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, now_ms = list[str](), [cases.NOW_MS]

    def broken(_: Jobs) -> None:
        raise OSError("no memory")

    monkeypatch.setattr(Jobs, "baselines", broken)
    jobs = Jobs(lambda: spark, copy / "history", Tables(copy / "tables"), (), 10**12, lambda: now_ms[0], lines.append)
    for hour in (0, 1, 2, 24):
        now_ms[0] = cases.NOW_MS + hour * 3_600_000
        with pytest.raises(RunFailedError, match=r"^baselines: no memory$"):
            jobs.run()
    assert [line.split(":")[0] for line in lines].count("compact") == 2


def test_the_states_of_earlier_runs_go(spark: SparkSession, tmp_path: Path) -> None:
    """Their folders, in which Spark has written several files, go with them, and what a killed run has left."""
    tables, states = Tables(tmp_path / "tables"), tmp_path / "tables" / VERSION / "state"
    for number in range(3):
        at = 600 * number
        row = {"start_offset": number, "started": at}
        cases.write_file(tmp_path / "history", "c", f"w{number}", [{"at": at + 30, "open": [row]}, {"at": at + 60}])
        taken(spark, tmp_path / "history", tables)
    (states / "9-half.json").write_text("half")
    note = tables.current().snapshot.note
    before = {path.name for path in states.iterdir()}
    tables.clean(spark)
    assert {path.name for path in states.iterdir()} == before
    tables.clean(spark, kept_s=0)

    assert len(before) == 7
    assert note is not None
    assert {path.name for path in states.iterdir()} == {note["state"], tables.current().state.identities}


def test_a_backlog_is_examined_once(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again by each batch; and of producers and partitions only the newest stay."""
    write_days(tmp_path / "history", 2)
    examined: list[str] = []
    damage_of = files_module.damage_of

    def counted(file: files_module.HistoryFile, *, to_its_end: bool) -> str | None:
        examined.append(file.key)
        return damage_of(file, to_its_end=to_its_end)

    monkeypatch.setattr(files_module, "damage_of", counted)
    monkeypatch.setattr(Tables.clean_identities, "__kwdefaults__", {"kept_s": -1})  # in the future: all are old
    lines, tables = list[str](), Tables(tmp_path / "tables")
    Jobs(
        lambda: spark, tmp_path / "history", tables, (), 10**12, lambda: cases.NOW_MS, lines.append, batch_rows=1
    ).transactions()

    assert len(lines) == 4, "a batch for each file of observations"
    assert sorted(examined) == sorted(set(examined))
    assert len(examined) == 8
    assert [path.name for path in tables.states.glob("identities-*")] == [tables.current().state.identities]


def test_a_state_that_is_lost_is_made_again(spark: SparkSession, made: Path, copy: Path) -> None:
    """The history is taken again, which changes no row; so are producers and partitions alone."""
    tables, expected = Tables(copy / "tables"), rows(spark, Tables(made / "tables"))
    shutil.rmtree(copy / "tables" / VERSION / "state")
    taken(spark, copy / "history", tables)
    assert rows(spark, tables) == expected
    (folder,) = (copy / "tables" / VERSION / "state").glob("identities-*")
    shutil.rmtree(folder)
    late = {"start_offset": 0, "started": 0, "transactional_id": "app-2"}  # the name of the oldest one's producer
    cases.write_file(copy / "history", "c", "late", [{"at": 45, "open": [late]}])
    taken(spark, copy / "history", tables)

    assert [row["transactional_id"] for row in rows(spark, tables)["c"]] == ["app-2"] * 2 * DAYS


@pytest.mark.parametrize("is_first", [pytest.param(True, marks=pytest.mark.slow), False])
def test_of_two_pipelines_that_begin_with_the_same_state_one_takes_the_files(
    spark: SparkSession, made: Path, copy: Path, monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    """The other is refused with that reason, and its next run has nothing to do: nothing is lost or there twice."""
    history, tables = copy / "history", Tables(copy / "tables")
    if is_first:
        shutil.rmtree(copy / "tables")
    at = DAY_S * DAYS
    cases.write_file(history, "c", "more", [{"at": at, "open": [{"start_offset": 99, "started": at}]}, {"at": at + 60}])
    commit = Tables.commit

    def late(itself: Tables, *arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(Tables, "commit", commit)
        assert ingest_batch(lambda: spark, history, Tables(copy / "tables"), now_ms=cases.NOW_MS) is not None
        commit(itself, *arguments, **options)

    monkeypatch.setattr(Tables, "commit", late)
    with pytest.raises(TableError, match="another pipeline has changed the table"):
        ingest_batch(lambda: spark, history, tables, now_ms=cases.NOW_MS)

    assert ingest_batch(lambda: spark, history, tables, now_ms=cases.NOW_MS) is None
    added = [row for row in rows(spark, tables)["c"] if row not in rows(spark, Tables(made / "tables"))["c"]]
    assert [partition["start_offset"] for row in added for partition in row["partitions"]] == [99]
    assert len(rows(spark, tables)["c"]) == 2 * DAYS + 1


def test_a_state_that_is_damaged_is_an_error_with_its_path(copy: Path) -> None:
    """Nothing is overwritten."""
    tables = Tables(copy / "tables")
    note = tables.current().snapshot.note
    assert note is not None
    path = tables.states / note["state"]
    path.write_text("{")

    with pytest.raises(TableError, match=str(path)):
        tables.current()


def test_what_is_done_once_a_day_is_done_again_after_a_failure(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that is full for an hour costs no day without compaction, and the failure stays until it is over."""
    write_days(tmp_path / "history", 1)
    now_ms, lines = [cases.NOW_MS], list[str]()
    tables = Tables(tmp_path / "tables")
    jobs = Jobs(lambda: spark, tmp_path / "history", tables, (), 90 * DAY_MS, lambda: now_ms[0], lines.append)

    def full(_: Jobs) -> None:
        raise OSError("no space is left")

    with monkeypatch.context() as patch:
        patch.setattr(Jobs, "compact", full)
        for _ in range(2):
            with pytest.raises(RunFailedError, match=r"^compact: no space is left$"):
                jobs.run()
            now_ms[0] += DAY_MS // 24
    jobs.run()
    jobs.run()

    assert [line.split(":")[0] for line in lines] == [
        *("transactions", "stalls", "incidents", "baselines", "report"),
        "incidents",
        *("incidents", "compact"),
        "incidents",
    ]


def test_the_audit_s_tables_have_the_retention_too(spark: SparkSession, tmp_path: Path) -> None:
    """They grow by a row for each partition and run."""
    tables = Tables(tmp_path / "tables")
    both = (tables.audit_transactions, tables.audit_coverage)
    for table in both:
        rows = [(cases.instant(at_s),) for at_s in (0, 10 * DAY_S)]
        spark.createDataFrame(rows, "audited_at timestamp").write.format("delta").save(str(table.folder))
    hours = [("c", cases.instant(day * DAY_S)) for day in (9, 10)]
    watched = spark.createDataFrame(hours, "cluster_id string, hour timestamp")
    watched.write.format("delta").save(str(tables.coverage.folder))
    now_ms = cases.milliseconds(10 * DAY_S)
    Jobs(lambda: spark, tmp_path / "history", tables, (), 6 * DAY_MS, lambda: now_ms, lambda _: None).compact()

    for table in both:
        kept = spark.read.format("delta").load(str(table.folder)).collect()
        assert [row.audited_at for row in kept] == [cases.instant(10 * DAY_S)]


def test_a_run_makes_everything_and_learns_once_a_day(spark: SparkSession, tmp_path: Path) -> None:
    """Transactions, incidents, baselines, in the folder that was asked for; baselines again after a day."""
    write_days(tmp_path / "history", 1)
    now_ms, lines = [cases.NOW_MS], list[str]()
    tables = Tables(tmp_path / "tables")
    started = list[str]()

    def open_spark() -> SparkSession:
        started.append(lines[-1] if lines else "")
        return spark

    jobs = Jobs(open_spark, tmp_path / "history", tables, (), 90 * DAY_MS, lambda: now_ms[0], lines.append)
    jobs.run()
    started.clear()
    jobs.run()
    assert started == [], "nothing is new: a run needs no Spark"
    now_ms[0] += DAY_MS
    jobs.run()
    far_ms, now_ms[0] = now_ms[0], now_ms[0] + 9 * DAY_MS
    jobs.baselines()
    now_ms[0] = far_ms
    jobs.run()  # a clock that was wrong must not end the baselines until its day has come

    assert [line.split(":")[0] for line in lines] == [
        *("transactions", "stalls", "incidents", "baselines", "report", "compact"),
        "incidents",
        *("incidents", "baselines", "report", "compact"),
        "baselines",
        *("incidents", "baselines", "report", "compact"),
    ]
    (incident,) = tables.incidents.read(spark).collect()
    assert incident["worst_verdict"] == "hanging_not_in_transaction"
    document = json.loads(tables.baselines.read_text())
    assert (document["made_at_ms"], document["thresholds"]["topics"][0]["samples"]) == (cases.NOW_MS + DAY_MS, 1)
    assert document["thresholds"]["topics"][0]["idle_p99_ms"] is None, "nothing says when its producer wrote last"
    runs = tables.runs.read(spark).orderBy("started_at", "files").collect()
    assert [(to_ms(run["started_at"]) - cases.NOW_MS, run["files"], run["failures"]) for run in runs] == [
        *((0, 0, []), (0, 4, [])),
        *((DAY_MS, 0, []), (DAY_MS, 0, [])),
    ]
    (comment,) = spark.sql(f"DESCRIBE TABLE {tables.runs.sql_name}").where("col_name = 'files'").collect()
    assert comment["comment"] == column_comments.RUNS["files"]


def test_runs_beyond_the_retention_go(spark: SparkSession, tmp_path: Path) -> None:
    """Their age is that of the clock, since a run belongs to no cluster. Those that stay are in one file."""
    tables = Tables(tmp_path)
    for day in range(5):
        record(tables, (day * DAY_MS, day * DAY_MS + 1), (), files=day)
    compact(spark, tables.runs, f"ended_at < timestamp_millis({2 * DAY_MS})")

    assert sorted(row["files"] for row in tables.runs.read(spark).collect()) == [2, 3, 4]
    assert len(tables.runs.files()) == 1
    record(tables, (9 * DAY_MS, 9 * DAY_MS), (), files=9)
    assert tables.runs.read(spark).count() == 4


def test_a_catalog_has_the_tables_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """By the documented statement."""
    record(Tables(tmp_path / "tables"), (0, 1), (), files=3)
    (statement,) = re.findall(r"```sql\n(.*?)```", PIPELINE_PAGE.read_text(encoding="utf-8"), re.DOTALL)
    spark.sql("CREATE SCHEMA kafka")
    spark.sql(statement.replace("s3a://kafka", str(tmp_path)).replace("stalls", "runs"))
    try:
        (row,) = spark.table("kafka.runs").collect()
        assert row["files"] == 3
    finally:
        spark.sql("DROP SCHEMA kafka CASCADE")


def test_a_new_incident_is_in_the_report_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """The report is made once a day, and when an incident has begun or ended."""
    write_days(tmp_path / "history", 1)
    lines, tables = list[str](), Tables(tmp_path / "tables")
    now_ms = cases.NOW_MS
    history = tmp_path / "history"
    jobs = Jobs(lambda: spark, history, tables, (), 90 * DAY_MS, lambda: now_ms, lines.append, objective_percent=99.95)
    jobs.run()
    lines.clear()
    hang: dict[str, Any] = {"verdict": "hanging_no_transactional_id", "partition": 9, "groups": ["payroll"]}
    hang["last_stable_offset_lag"] = 8
    cases.write_file(tmp_path / "history", "c", "new", [{"at": 90_000 + 30 * n, "open": [hang]} for n in range(3)])
    jobs.run()

    assert [line.split(":")[0] for line in lines] == ["transactions", "stalls", "incidents", "report"]
    page = tables.report.read_text(encoding="utf-8")
    assert "payroll" in page
    assert "of its budget by 99.95 %" in page


def test_a_job_that_fails_does_not_stop_compaction(
    spark: SparkSession, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run fails with the name of each job, and with its reason."""
    lines, now_ms = list[str](), [cases.NOW_MS]

    def broken(_: Jobs) -> None:
        raise OSError("no space")

    for name in ("incidents", "report"):
        monkeypatch.setattr(Jobs, name, broken)
    jobs = Jobs(lambda: spark, copy / "history", Tables(copy / "tables"), (), 10**12, lambda: now_ms[0], lines.append)
    with pytest.raises(RunFailedError, match=r"^incidents: no space; then report: no space$"):
        jobs.run()

    assert [line.split(":")[0] for line in lines] == ["baselines", "compact"]
    failures = tuple(JobFailure(job, "no space") for job in ("incidents", "report"))
    last = LastRun(
        started_at_ms=now_ms[0],
        ended_at_ms=now_ms[0],
        succeeded_at_ms=None,
        failures=failures,
        daily_at_ms=now_ms[0],
    )
    assert parse((jobs.tables.root / FILE_NAME).read_text()) == last
    monkeypatch.undo()
    jobs.run()
    now_ms[0] += 1000
    monkeypatch.setattr(Jobs, "incidents", broken)
    with pytest.raises(RunFailedError):
        jobs.run()
    last = LastRun(
        started_at_ms=now_ms[0],
        ended_at_ms=now_ms[0],
        succeeded_at_ms=now_ms[0] - 1000,
        failures=failures[:1],
        daily_at_ms=cases.NOW_MS,
    )
    assert parse((jobs.tables.root / FILE_NAME).read_text()) == last
    rows = jobs.tables.runs.read(spark).orderBy("started_at", f.size("failures")).collect()
    assert [[failure["job"] for failure in row["failures"]] for row in rows] == [
        [],
        ["incidents", "report"],
        ["incidents"],
    ]
    assert len(history_files(copy)) == FILES_COMPACTED


def test_incidents_are_made_again_when_their_suspects_change(
    spark: SparkSession, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by another version of the program; with the last suspect the last incident goes."""
    tables, lines = Tables(copy / "tables"), list[str]()
    jobs = Jobs(lambda: spark, copy / "history", tables, (), 10**12, lambda: cases.NOW_MS, lines.append)

    def version_after_incidents() -> int:
        jobs.incidents()
        return tables.incidents.snapshot().number

    first = version_after_incidents()
    assert version_after_incidents() == first
    monkeypatch.setattr(jobs_module, "__version__", "a newer one")
    newer = version_after_incidents()
    assert newer > first
    assert lines == ["incidents: 1"] * 3
    compact_tables(spark, tables, retention_ms=0)
    assert version_after_incidents() > newer
    assert lines[3] == "incidents: 0"


def test_a_clock_that_is_wrong_costs_its_own_files_only(spark: SparkSession, tmp_path: Path) -> None:
    """One cycle of 2099 in another cluster: named and counted; tables and baselines stay; once corrected it is taken."""
    write_days(tmp_path / "history", 1)
    lines, tables = list[str](), Tables(tmp_path / "tables")
    jobs = Jobs(lambda: spark, tmp_path / "history", tables, (), 90 * DAY_MS, lambda: cases.NOW_MS, lines.append)
    cycles: list[dict[str, Any]] = [{"at": 30, "open": [{}]}, {"at": 60}]
    jobs.transactions()
    before = rows(spark, tables)
    cases.write_file(
        tmp_path / "history", "other", "w", [{**each, "at": each["at"] + 2_277_417_600} for each in cycles]
    )
    jobs.run()
    assert rows(spark, tables) == before
    document = json.loads(tables.baselines.read_text())
    page = tables.report.read_text()
    for path in (tmp_path / "history").rglob("cluster_id=other/*/*.parquet"):
        path.unlink()
    cases.write_file(tmp_path / "history", "other", "w", cycles)
    jobs.run()
    named = [line for line in lines if "is left out: has a cycle of 2099-01-01T00:01:00Z" in line]

    assert document["cluster_ids"] == ["c"]
    assert [line.split("/")[0] for line in named] == ["transactions: cycles", "transactions: observations"]
    assert "transactions: left out: 2 files" in lines
    assert "has a cycle of 2099-01-01T00:01:00Z" in page
    after = rows(spark, tables)
    assert after["c"] == before["c"]
    assert [transaction["closed_at"] for transaction in after["other"]] == [cases.instant(60)]


def test_a_run_ends_also_if_files_come_faster_than_it_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes as many as wait at its beginning; the others are for the next run."""
    lines: list[str] = []
    monkeypatch.setattr(jobs_module, "ingest_batch", lambda *_, **__: IngestedBatch(2, 3))
    monkeypatch.setattr(Tables, "clean_identities", lambda _: None)
    jobs = Jobs(
        open_spark=lambda: None,  # type: ignore[arg-type,return-value]
        history=tmp_path,
        tables=Tables(tmp_path / "tables"),
        groups=(),
        retention_ms=DAY_MS,
        now_ms=lambda: cases.NOW_MS,
        say=lines.append,
    )

    assert jobs.transactions() == 6
    assert lines == ["transactions: 2 files read, 3 left for later"] * 3


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["--groups", "{"], 2, "--groups must be a list such as"),
        (["--history", __file__], 1, f"--history {__file__}: is not a directory"),
        (
            ["--history", "/nowhere"],
            1,
            "--history /nowhere: does not exist; an exporter makes it with its first file, ",
        ),
    ],
)
def test_wrong_arguments_are_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, sentence: str
) -> None:
    """Before Spark is started."""
    given = ["pipeline", "run", "--history", str(tmp_path), "--tables", str(tmp_path / "tables"), *arguments]

    assert main(given) == status
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job", "flag", "sentence"),
    [
        ("run", "--since=7d", "--since applies to `pipeline audit` only"),
        ("run", "--max-rate=20MB", "--max-rate applies to `pipeline audit` only"),
        ("compact", "--replicas", "--replicas applies to `pipeline audit` only"),
        ("report", "--audit-log=x", "--audit-log applies to `pipeline operators` and `pipeline run` only"),
        ("audit", "--retention=90d", "--retention applies to `pipeline operators` and `pipeline compact` and "),
        ("run", "--bootstrap-server=h:1", "--kafka.bootstrap.servers applies to `pipeline transaction-log` and `pipe"),
        ("run", "--config.file=x", "--config.file applies to `pipeline transaction-log` and `pipeline audit` only"),
        ("transaction-log", "--history=x", "--history does not apply to `pipeline transaction-log`, which reads from"),
    ],
)
def test_an_option_that_the_job_would_ignore_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], job: str, flag: str, sentence: str
) -> None:
    """Also with the value of its default: whoever gives it believes that it does something."""
    source = [] if flag.startswith("--history") else ["--history", str(tmp_path)]
    if job in JOBS_WITH_BROKERS:
        source = ["--bootstrap-server", "localhost:1"]

    assert main(["pipeline", job, *source, "--tables", str(tmp_path / "tables"), flag]) == 2
    assert sentence in capsys.readouterr().err


def test_flags_of_some_jobs_are_options_of_the_pipeline() -> None:
    parser = argparse.ArgumentParser()
    add_pipeline(parser)
    known = {flag: action for action in parser._actions for flag in action.option_strings}
    (jobs,) = (action.choices for action in parser._actions if action.dest == "job")

    assert JOBS_OF_FLAGS.keys() <= known.keys()
    assert {job for useful in JOBS_OF_FLAGS.values() for job in useful} <= set(jobs or ())


def test_the_document_names_every_job() -> None:
    """The jobs in `docs/commands.md` are those of the program."""
    page = PIPELINE_PAGE.with_name("commands.md").read_text(encoding="utf-8")
    section = page.partition("\n## `pipeline`\n")[2].partition("\n## ")[0]
    parser = argparse.ArgumentParser()
    add_pipeline(parser)
    (jobs,) = (action.choices for action in parser._actions if action.dest == "job")

    assert [job for job in jobs or () if not re.search(rf"`(pipeline )?{job}`", section)] == []


@pytest.mark.parametrize("objective", ["100", "0", "nan", "high"])
def test_an_objective_that_leaves_no_budget_or_nothing_else_is_refused(
    capsys: pytest.CaptureFixture[str], objective: str
) -> None:
    with pytest.raises(SystemExit):
        main(["pipeline", "report", "--tables", "/nowhere", "--objective", objective])
    assert "--objective: must be a percentage above 0 and below 100, such as 99.95" in capsys.readouterr().err


def test_a_missing_directory_for_temporary_files_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing"

    with pytest.raises(SystemExit):
        main(["pipeline", "report", "--tables", str(tmp_path), f"--temporary={missing}"])

    assert f"--temporary: {missing} is not a directory: make it first, or name another one" in capsys.readouterr().err


def test_a_place_for_temporary_files_is_asked_for_by_what_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing may write to /tmp below a read-only root: `serve` starts there, and a job of Spark says what it lacks."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    (tmp_path / VERSION).mkdir()
    parser = argparse.ArgumentParser(add_help=False)
    add_spark(parser)

    assert [action.option_strings for action in parser._actions] == [[flag] for flag in SPARK_FLAGS]
    assert str(parser.parse_args([]).temporary) == "/tmp"
    assert main(["pipeline", "report", "--tables", str(tmp_path / "tables"), "--history", str(tmp_path)]) == 1
    assert "--temporary: /tmp cannot be written to: name another directory" in capsys.readouterr().err


def test_the_objective_of_the_command_line_is_that_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[float]()

    class Recorded:
        def __init__(self, *, objective_percent: float, **_: Any) -> None:
            given.append(objective_percent)

        def report(self) -> None:
            """The job."""

    monkeypatch.setattr(jobs_module, "Jobs", Recorded)
    (tmp_path / VERSION).mkdir()
    command = ["pipeline", "report", "--history", str(tmp_path), "--tables", str(tmp_path / "tables")]
    assert main(command) == main([*command, "--objective", "99.5"]) == 0
    assert given == [OBJECTIVE_PERCENT, 99.5]


def test_tables_in_an_older_layout_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run beside them would begin with the history that is left, and lose what only they have."""
    tables = tmp_path / "tables"
    manifest = tables / "v1" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{}")
    (tmp_path / VERSION).mkdir()

    assert main(["pipeline", "run", "--history", str(tmp_path), "--tables", str(tmp_path / "tables")]) == 1
    assert "no Delta tables: use another --tables" in capsys.readouterr().err
    assert [path.name for path in tables.rglob("*")] == ["v1", "manifest.json"]


def test_without_spark_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra by its name, and status 1."""
    for name in [module for module in sys.modules if module.startswith(("pyspark", "exporter.pipeline"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    (tmp_path / VERSION).mkdir()

    assert main(["pipeline", "run", "--history", str(tmp_path), "--tables", str(tmp_path / "tables")]) == 1
    assert "pip install 'kafka-transaction-exporter[spark]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [PySparkException("no file\nat 1"), OSError("no file"), pa.ArrowInvalid("no file")],
    ids=["of Spark", "of a disk", "of Arrow"],
)
def test_what_fails_is_a_sentence_and_is_tried_again(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    """With --every until it is interrupted; without, the status says so."""
    calls: list[int] = []

    class Failing:
        def run(self) -> None:
            calls.append(len(calls))
            if len(calls) == 3:
                raise KeyboardInterrupt
            raise error

    assert repeat(Failing(), argparse.Namespace(job="run", every=1)) == 1
    assert capsys.readouterr().err == "kafka-transaction-exporter: run failed: no file\n" * 2
    calls.clear()
    assert repeat(Failing(), argparse.Namespace(job="run", every=None)) == 1
