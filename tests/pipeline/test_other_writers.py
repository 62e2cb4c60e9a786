"""Other tools change the table of transactions between two runs: RESTORE, DELETE, deletion vectors, properties, columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from exporter import __version__
from exporter.pipeline.connectors import spark_path
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.days import Rows, rows

HOURS = 3


def write_hour(history: Path, hour: int) -> None:
    """A transaction in each hour, of an application of its own; the one of the last hour hangs."""
    at = 3600 * hour
    row: dict[str, Any] = {"start_offset": hour, "started": at, "transactional_id": f"app{hour}", "producer_id": hour}
    if hour == HOURS - 1:
        row["verdict"] = "hanging_not_in_transaction"
    cases.write_file(history, "c", f"w{hour}", [{"at": at + 30, "open": [row]}, {"at": at + 60}])


def take(spark: SparkSession, folder: Path, hours: range) -> Tables:
    """A run for each hour."""
    tables = Tables(folder / "tables")
    jobs = Jobs(lambda: spark, folder / "history", tables, (), 10**12, lambda: cases.NOW_MS, lambda _: None)
    for hour in hours:
        write_hour(folder / "history", hour)
        jobs.transactions()
        jobs.incidents()
    return tables


def sql(spark: SparkSession, statement: str, tables: Tables) -> list[Any]:
    """Runs an operator's statement; `{}` is the table of transactions."""
    return spark.sql(statement.format(f"delta.`{spark_path(tables.transactions.folder)}`")).collect()


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows of one undisturbed run."""
    folder = tmp_path_factory.mktemp("undisturbed")
    for hour in range(HOURS - 1):
        write_hour(folder / "history", hour)
    return rows(spark, take(spark, folder, range(HOURS - 1, HOURS)))


def versions(spark: SparkSession, tables: Tables) -> list[Any]:
    """The newest first."""
    return sql(spark, "DESCRIBE HISTORY {}", tables)


@pytest.mark.parametrize("by", ["VERSION", pytest.param("TIMESTAMP", marks=pytest.mark.slow)])
def test_after_a_restore_the_lost_hours_are_taken_again(
    spark: SparkSession, tmp_path: Path, expected: Rows, by: str
) -> None:
    """An operator undoes a bad run: the next run takes its files again, and rows and incidents are those of one run.

    So does a RESTORE of a RESTORE.
    """
    tables = take(spark, tmp_path, range(HOURS))
    whole, undone = versions(spark, tables)[:2]
    for version in (undone, whole, undone):
        which = (
            f"VERSION AS OF {version['version']}" if by == "VERSION" else f"TIMESTAMP AS OF '{version['timestamp']}'"
        )
        sql(spark, f"RESTORE {{}} TO {which}", tables)
    assert len(rows(spark, tables)["c"]) == HOURS - 1
    take(spark, tmp_path, range(HOURS - 1, HOURS))

    assert rows(spark, tables) == expected
    assert tables.incidents.read(spark).count() == 1


def test_a_restore_of_the_first_version_begins_anew(spark: SparkSession, tmp_path: Path, expected: Rows) -> None:
    """And a RESTORE that takes nothing back changes nothing."""
    tables = take(spark, tmp_path, range(HOURS))
    sql(spark, f"RESTORE {{}} TO VERSION AS OF {versions(spark, tables)[0]['version']}", tables)
    assert len(tables.current().state.taken) == 2 * HOURS
    sql(spark, "RESTORE {} TO VERSION AS OF 0", tables)
    assert tables.current().state.taken == frozenset()
    take(spark, tmp_path, range(HOURS - 1, HOURS))

    assert rows(spark, tables) == expected


def test_deleted_rows_stay_deleted_with_deletion_vectors(spark: SparkSession, tmp_path: Path) -> None:
    """A request to erase: neither the next hour nor a late file brings a row back, or doubles another one."""
    both = [{"start_offset": each, "producer_id": each, "transactional_id": f"app{each}"} for each in (0, 1)]
    cases.write_file(tmp_path / "history", "c", "both", [{"at": 30, "open": both}, {"at": 60}])
    tables = take(spark, tmp_path, range(2, 3))
    sql(spark, "ALTER TABLE {} SET TBLPROPERTIES (delta.enableDeletionVectors = true)", tables)
    sql(spark, "DELETE FROM {} WHERE transactional_id = 'app0'", tables)
    assert versions(spark, tables)[0]["operationMetrics"]["numDeletionVectorsAdded"] == "1"
    late = {"start_offset": 500, "producer_id": 50, "transactional_id": "late"}
    cases.write_file(tmp_path / "history", "c", "late", [{"at": 45, "open": [late]}, {"at": 50}])
    take(spark, tmp_path, range(3, 4))

    found = tables.transactions.read(spark).orderBy("producer_id").select("transactional_id").collect()
    assert [row[0] for row in found] == ["app1", "app2", "app3", "late"]


def test_other_statements_change_no_row(spark: SparkSession, tmp_path: Path, expected: Rows) -> None:
    """All of them between two runs."""
    tables = take(spark, tmp_path, range(HOURS - 1))
    for statement in (
        "ALTER TABLE {} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)",
        "ALTER TABLE {} ADD COLUMNS (note STRING)",
        "ALTER TABLE {} SET TBLPROPERTIES (delta.columnMapping.mode = 'name')",
        "OPTIMIZE {}",
        "VACUUM {}",
    ):
        sql(spark, statement, tables)
    take(spark, tmp_path, range(HOURS - 1, HOURS))
    feed = spark.read.format("delta").options(
        readChangeFeed="true", startingVersion=versions(spark, tables)[0]["version"]
    )
    changes = feed.load(spark_path(tables.transactions.folder)).select("_change_type", "transactional_id").collect()

    assert rows(spark, tables) == expected
    assert [tuple(change) for change in changes] == [("insert", f"app{HOURS - 1}")]


def test_the_history_says_what_each_version_is_made_of(spark: SparkSession, tmp_path: Path) -> None:
    """Operation, metrics, and the note of the run; the retention is a property that everybody sees."""
    tables = take(spark, tmp_path, range(2))
    newest = versions(spark, tables)[0]
    (detail,) = sql(spark, "DESCRIBE DETAIL {}", tables)
    note = json.loads(newest["userMetadata"])

    assert (newest["operation"], newest["operationParameters"]["predicate"]) == (
        "WRITE",
        "date IS NULL",
    )
    assert newest["operationMetrics"]["numOutputRows"] == "1"
    assert {name: note[name] for name in ("run", "version", "files", "rows")} == {
        "run": 2,
        "version": __version__,
        "files": 2,
        "rows": 1,
    }
    assert detail["properties"]["delta.deletedFileRetentionDuration"] == "interval 7 days"
    described = {row["col_name"]: row["comment"] for row in sql(spark, "DESCRIBE TABLE {}", tables)}
    assert described["last_seen"] == "last cycle with it"
