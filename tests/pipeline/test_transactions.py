"""Observations into transactions, case by case, in one run and in several: both give the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from exporter.pipeline import ingest, schemas
from exporter.pipeline.ingest import ingest_batch
from exporter.pipeline.partition_transactions import updated_partition_transactions
from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.days import Rows, rows, taken

INSTANTS = {"first_seen", "last_seen", "closed_at", "started_at"}
BEYOND_ASCII = "b\u00fccher +%/\u4e2d"


@pytest.fixture(scope="module")
def at_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Every case, all files there from the beginning."""
    folder = tmp_path_factory.mktemp("at-once")
    for name in cases.names():
        cases.write_case(name, folder / "history")
        cases.write_case(name, folder / "history", late=True)
    tables = Tables(folder / "tables")
    taken(spark, folder / "history", tables)
    return rows(spark, tables)


@pytest.fixture(scope="module")
def in_steps(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Every case, late files after a first run; and a cluster whose id is not ASCII, in both."""
    folder = tmp_path_factory.mktemp("in-steps")
    tables = Tables(folder / "tables")
    for late in (False, True):
        for name in cases.names():
            cases.write_case(name, folder / "history", late=late)
        began = 70 * late
        cases.write_file(
            folder / "history", BEYOND_ASCII, f"w{began}", [{"at": began + 10, "open": [{}]}, {"at": began + 30}]
        )
        taken(spark, folder / "history", tables)
    assert tables.transactions.snapshot().run == 2
    assert all(file["path"].isascii() for file in tables.transactions.files())
    assert BEYOND_ASCII in {file["min.cluster_id"] for file in tables.transactions.files()}
    return rows(spark, tables)


def chosen(row: Row, columns: Any) -> dict[str, Any]:
    """As the cases write it."""
    values = {name: row[name] for name in columns}
    for name in INSTANTS & values.keys():
        values[name] = cases.seconds(values[name])
    if "partitions" in values:
        values["partitions"] = [f"{partition['topic']}-{partition['partition']}" for partition in values["partitions"]]
    return values


@pytest.mark.parametrize("name", cases.names())
def test_each_case_gives_its_transactions(at_once: Rows, name: str) -> None:
    """As `expected.yaml` has them, in the columns that it names."""
    expected = cases.case(name)["expected"]

    assert [chosen(row, wanted) for row, wanted in zip(at_once[name], expected, strict=True)] == expected


@pytest.mark.parametrize("name", cases.names())
def test_what_comes_late_changes_nothing(at_once: Rows, in_steps: Rows, name: str) -> None:
    """Whole rows with their partition transactions, whether a file came in time or after its transaction was closed."""
    assert in_steps[name] == at_once[name]


def test_nothing_is_taken_twice(spark: SparkSession, tmp_path: Path) -> None:
    """A second run has nothing to do, and says so without asking Spark."""
    cases.write_case("gap", tmp_path / "history")
    tables = Tables(tmp_path / "tables")
    taken(spark, tmp_path / "history", tables)
    before = tables.current()

    assert ingest_batch(lambda: spark, tmp_path / "history", tables, now_ms=cases.NOW_MS) is None
    assert tables.current().state == before.state
    assert len(before.state.taken) == 4


def test_an_increment_reads_what_it_touches_only(spark: SparkSession, tmp_path: Path) -> None:
    """Of ten hours' buckets, those of the last one are taken up again."""
    tables = Tables(tmp_path / "tables")
    for hour in range(10):
        at = 3600 * hour
        row = {"start_offset": hour, "started": at}
        cases.write_file(tmp_path / "history", "c", f"w{hour}", [{"at": at + 30, "open": [row]}, {"at": at + 60}])
    taken(spark, tmp_path / "history", tables)
    before = {file["path"] for file in tables.transactions.files()}
    row = {"start_offset": 99, "started": 36_000}
    cases.write_file(tmp_path / "history", "c", "w10", [{"at": 36_000, "open": [row]}, {"at": 36_030}])
    taken(spark, tmp_path / "history", tables)

    assert len(before) == 10
    assert before <= {file["path"] for file in tables.transactions.files()}
    assert len(rows(spark, tables)["c"]) == 11
    assert ingest.REOPENED_MS < 3_600_000


def test_a_cluster_id_beyond_ascii_stays_as_it_is(in_steps: Rows) -> None:
    """After two runs its transaction is there once, under its own name."""
    assert [row["closed_at"] for row in in_steps[BEYOND_ASCII]] == [cases.instant(100)]


def test_millions_of_observations_are_hashed_and_not_sorted(spark: SparkSession) -> None:
    """A text in the aggregate of all rows would sort them twice: it took a fifth of a run's processor time."""
    observations, carried, producers = (
        spark.createDataFrame([], schema)
        for schema in (schemas.OBSERVATIONS, schemas.PARTITION_TRANSACTIONS, schemas.PRODUCERS)
    )
    # Spark would leave out the aggregate of nothing.
    observations = observations.repartition(2)
    frame = updated_partition_transactions(observations, carried, producers=producers, shared=None)
    plan = frame._jdf.queryExecution().sparkPlan().toString()
    aggregates = [line for line in plan.splitlines() if "Aggregate(" in line and "min(started_at" in line]

    assert len(aggregates) == 2
    assert all("HashAggregate(" in line for line in aggregates), aggregates
