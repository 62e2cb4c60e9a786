"""Unreadable files of the history are left out and reported, without other effects, and read once repaired."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from exporter.history.schema import CYCLES, OBSERVATIONS, VERSION
from exporter.pipeline import history
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.days import rows

DAY_MS = 86_400_000


def write_hours(history: Path) -> None:
    """A transaction in each of three files."""
    for hour in range(3):
        at = 3600 * hour
        row: dict[str, Any] = {"start_offset": hour, "started": at, "transactional_id": f"app-{hour}"}
        cases.write_file(history, "c", f"w{hour}", [{"at": at + 30, "open": [row]}, {"at": at + 60}])


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def no_parquet(path: Path) -> None:
    path.write_text("not a table")


def of_others(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def broken_inside(path: Path) -> None:
    """With a footer as it should be."""
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 3] = bytes(len(content) // 3 - 4)
    path.write_bytes(content)


def broken_in_a_column(path: Path) -> None:
    """That no check reads before the rows are read."""
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    (column,) = (column for column in columns if column.path_in_schema == "verdict")
    content = bytearray(path.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    content[begin : begin + 8] = bytes(8)
    path.write_bytes(content)


SLOW = pytest.mark.slow
FOOTER = "Parquet magic bytes not found in footer"


@pytest.mark.parametrize(
    ("table", "damage", "why"),
    [
        pytest.param(OBSERVATIONS, truncated, FOOTER, marks=SLOW),
        pytest.param(OBSERVATIONS, no_parquet, FOOTER, marks=SLOW),
        pytest.param(OBSERVATIONS, of_others, "has no column", marks=SLOW),
        pytest.param(OBSERVATIONS, broken_inside, "", marks=SLOW),
        pytest.param(CYCLES, truncated, FOOTER, marks=SLOW),
        pytest.param(CYCLES, of_others, "has no column", marks=SLOW),
        pytest.param(CYCLES, broken_inside, "", marks=SLOW),
    ],
)
def test_a_damaged_file_costs_itself_only(
    spark: SparkSession, tmp_path: Path, damage: Callable[[Path], None], why: str, table: str
) -> None:
    """Said by each run with its reason; the others are taken; the file as it should be is taken when it is there."""
    write_hours(tmp_path)
    tables, lines = Tables(tmp_path / "tables"), list[str]()
    jobs = Jobs(lambda: spark, tmp_path, tables, (), 90 * DAY_MS, lambda: cases.NOW_MS, lines.append)
    (path,) = (tmp_path / VERSION / table).rglob("*-w1.parquet")
    whole = path.read_bytes()
    damage(path)
    jobs.transactions()
    jobs.transactions()
    sentences = [line for line in lines if "is left out" in line]
    left = rows(spark, tables)["c"]
    path.write_bytes(whole)
    jobs.transactions()

    assert len(sentences) == 2
    assert sentences[0].startswith(f"transactions: {table}/cluster_id=c/date=2026-11-01/{path.name} is left out: ")
    assert why in sentences[0]
    # Without its cycles the second transaction is seen, and no later cycle but the third file's ends it.
    assert [row["transactional_id"] for row in left if row["end"] == "closed"][-1] == "app-2"
    assert len(left) == (2 if table == OBSERVATIONS else 3)
    assert [row["closed_at"] for row in rows(spark, tables)["c"]] == [
        cases.instant(3600 * hour + 60) for hour in range(3)
    ]
    assert tables.damaged() == ()


def test_odd_values_cost_nobody_else_his_rows(spark: SparkSession, tmp_path: Path) -> None:
    """A partition's name without a number, and lags whose sum is beyond a long, which is null."""
    hang = {"verdict": "hanging_not_in_transaction", "last_stable_offset_lag": 2**62}
    both = [{**hang, "partition": number, "producer_id": number} for number in (1, 2)]
    cases.write_file(tmp_path, "odd", "w", [{"at": 30, "open": both, "unread": ["x", "t-99999999999"]}, {"at": 60}])
    cases.write_file(tmp_path, "c", "w", [{"at": 30, "open": [{}]}, {"at": 60}])
    tables = Tables(tmp_path / "tables")
    jobs = Jobs(lambda: spark, tmp_path, tables, (), 90 * DAY_MS, lambda: cases.NOW_MS, lambda _: None)
    jobs.transactions()
    jobs.incidents()

    assert [row["closed_at"] for row in rows(spark, tables)["c"]] == [cases.instant(60)]
    assert [row["records_held_back"] for row in tables.incidents.read(spark).collect()] == [None]


def test_a_damaged_file_among_many_costs_itself_only(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same where Arrow reads the files, and finds the damage in the rows."""
    monkeypatch.setattr(history, "MANY_FILES", 1)
    test_a_damaged_file_costs_itself_only(spark, tmp_path, broken_in_a_column, "", OBSERVATIONS)


def test_a_file_that_was_damaged_after_it_was_taken_stops_no_run(spark: SparkSession, tmp_path: Path) -> None:
    """It is read again where two transactions began at one offset; what the tables have of it stays."""
    tables, lines = Tables(tmp_path / "tables"), list[str]()
    jobs = Jobs(lambda: spark, tmp_path, tables, (), 90 * DAY_MS, lambda: cases.NOW_MS, lines.append)
    cases.write_file(tmp_path, "c", "w0", [{"at": 30, "open": [{"started": 20}]}, {"at": 60}])
    jobs.transactions()
    (path,) = (tmp_path / VERSION / OBSERVATIONS).rglob("*-w0.parquet")
    broken_in_a_column(path)
    cases.write_file(tmp_path, "c", "w1", [{"at": 90, "open": [{"started": 80}]}, {"at": 120}])
    jobs.transactions()

    assert [row["started_at"] for row in rows(spark, tables)["c"]] == [cases.instant(20), cases.instant(80)]
    assert sum(path.name in line for line in lines) == 1
