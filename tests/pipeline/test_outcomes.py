"""The table of outcomes: transactions joined with the log as far as it was read, each part of them when it is due."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from exporter.pipeline.compact import compact, obsolete
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.outcomes import SETTLED_MS, due, join_outcomes
from exporter.pipeline.tables import Tables
from exporter.pipeline.transaction_log import logs_read_to_ms, read_records
from tests.pipeline import cases
from tests.pipeline.days import taken
from tests.pipeline.log_records import ONGOING, PREPARE_ABORT, commit, joined_rows, write_hour, write_log
from tests.transaction_log.builders import value

DAY_MS: Final = 86_400_000


@pytest.mark.slow
def test_a_part_is_joined_when_the_log_covers_it_and_never_again(spark: SparkSession, tmp_path: Path) -> None:
    """Two hours, of which the log has one; then the other, and a third hour; then nothing is left to do."""
    tables = Tables(tmp_path / "tables")
    write_hour(tmp_path, 0)
    write_hour(tmp_path, 1)
    taken(spark, tmp_path, tables)
    assert join_outcomes(lambda: spark, tables) is None
    write_log(spark, tables, commit(0), read_to_s=3600)
    assert join_outcomes(lambda: spark, tables) == 2
    assert joined_rows(spark, tables) == [(0, "closed", "commit", 40_000), (3600, "closed", None, None)]

    before = {file["path"] for file in tables.transactions.files()}
    assert join_outcomes(lambda: spark, tables) == 0
    write_hour(tmp_path, 2)
    taken(spark, tmp_path, tables)
    write_log(spark, tables, [*commit(1), *commit(2)], read_to_s=3 * 3600)
    assert join_outcomes(lambda: spark, tables) == 2
    assert joined_rows(spark, tables) == [(3600 * hour, "closed", "commit", 40_000) for hour in range(3)]
    assert len(before & {file["path"] for file in tables.transactions.files()}) == 1
    assert join_outcomes(lambda: spark, tables) == 0
    assert len(joined_rows(spark, tables)) == 3


def test_the_report_has_the_outcomes_of_its_transactions(spark: SparkSession, tmp_path: Path) -> None:
    """Committed as the log says; without a log they are unknown."""
    tables, lines = Tables(tmp_path / "tables"), list[str]()
    jobs = Jobs(lambda: spark, tmp_path, tables, (), 10**12, lambda: cases.NOW_MS, lines.append)
    write_hour(tmp_path, 0)
    taken(spark, tmp_path, tables)
    jobs.report()
    before = tables.report.read_text()
    write_log(spark, tables, commit(0), read_to_s=3600)
    jobs.outcomes()
    jobs.report()
    cells = re.findall(r"<span>(.*?)</span>", tables.report.read_text().partition("Outcomes by application")[2])

    assert "Unknown: the transaction log was not read" in before
    assert cells[:7] == ["app", "1", "0", "0", "0", "0", "0.010"]


def test_each_cluster_is_joined_as_far_as_its_own_log_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """The log of one is read past the end of both, that of the other later; its id is not ASCII."""
    tables, other = Tables(tmp_path / "tables"), "b\u00fccher/\u4e2d"
    for cluster_id in ("c", other):
        write_hour(tmp_path, 0, cluster_id=cluster_id)
    taken(spark, tmp_path, tables)
    write_log(spark, tables, commit(0), read_to_s=3600)
    assert join_outcomes(lambda: spark, tables) == 1
    assert {row[2] for row in joined_rows(spark, tables)} == {"commit", None}
    write_log(spark, tables, commit(0), read_to_s=3700, cluster_id=other)
    assert join_outcomes(lambda: spark, tables) == 1
    assert joined_rows(spark, tables) == [(0, "closed", "commit", 40_000)] * 2


def test_the_log_is_joined_to_large_files_and_cut(spark: SparkSession, tmp_path: Path) -> None:
    """Days beyond the retention go, of each cluster by itself; how far a log was read stays: nothing is joined again."""
    tables, other = Tables(tmp_path / "tables"), "o'b\u00fccher/\u4e2d"
    table = tables.transaction_log
    assert compact(spark, table, "true") == 0
    assert not table.exists
    for hour in (0, 40, 71, 73):
        write_log(spark, tables, commit(hour), read_to_s=3600 * hour + 50)
    for hour in (30, 31):
        write_log(spark, tables, commit(hour), read_to_s=3600 * hour + 50, cluster_id=other)
    write_hour(tmp_path, 71)
    taken(spark, tmp_path, tables)
    assert join_outcomes(lambda: spark, tables) == 1
    read_to_ms, before = logs_read_to_ms(table), log_rows(spark, tables)

    assert compact(spark, table, obsolete(read_to_ms, 2 * DAY_MS, "written_at")) == 5
    assert sorted(file["partition.cluster_id"] for file in table.files()) == ["c", other]
    assert log_rows(spark, tables) == [row for row in before if row[0] == other or row[1] >= cases.instant(40 * 3600)]
    assert len(before) - len(log_rows(spark, tables)) == len(commit(0)) + 1
    assert (
        logs_read_to_ms(table)
        == read_to_ms
        == {"c": cases.milliseconds(73 * 3600 + 50), other: cases.milliseconds(31 * 3600 + 50)}
    )
    assert join_outcomes(lambda: spark, tables) == 0
    assert compact(spark, table, obsolete(read_to_ms, 2 * DAY_MS, "written_at")) == 0


def log_rows(spark: SparkSession, tables: Tables) -> list[tuple[Any, ...]]:
    everything = dict.fromkeys(logs_read_to_ms(tables.transaction_log), 0)
    rows = read_records(spark, tables.transaction_log, everything).orderBy("cluster_id", "offset").collect()
    return [(row.cluster_id, row.written_at, *row) for row in rows]


def test_a_log_is_not_read_further_than_its_file_was_written(spark: SparkSession, tmp_path: Path) -> None:
    """A broker's clock is a year ahead: transactions of that year still wait for their outcomes."""
    tables = Tables(tmp_path)
    begun_ms = time.time() * 1000 - 1
    write_log(spark, tables, [("late", None, 20 * 365 * 86_400)], read_to_s=60)

    assert begun_ms <= logs_read_to_ms(tables.transaction_log)["c"] <= time.time() * 1000


def test_what_is_open_is_joined_whenever_the_log_has_more(spark: SparkSession, tmp_path: Path) -> None:
    """A hang whose coordinator has decided: its outcome is known before the transaction is closed."""
    tables = Tables(tmp_path / "tables")
    write_hour(tmp_path, 0, is_open=True)
    taken(spark, tmp_path, tables)
    start_ms = cases.milliseconds(0)
    write_log(spark, tables, [("app", value(ONGOING, start_ms), 0)], read_to_s=20)
    join_outcomes(lambda: spark, tables)
    assert joined_rows(spark, tables) == [(0, "still_open", None, None)]
    decided = value(PREPARE_ABORT, start_ms, updated_ms=start_ms + 50_000)
    write_log(spark, tables, [("app", decided, 50)], read_to_s=60)
    join_outcomes(lambda: spark, tables)
    assert joined_rows(spark, tables) == [(0, "still_open", "abort", 50_000)]


@pytest.mark.parametrize(
    ("joined_to_ms", "log_to_ms", "expected"),
    [
        (None, 1, True),
        (100, 100, False),
        (100, 101, True),
        (1_000 + SETTLED_MS - 1, 1_000 + SETTLED_MS, True),
        (1_000 + SETTLED_MS, 9 * SETTLED_MS, False),
    ],
)
def test_a_transaction_is_due_until_the_log_was_read_past_its_end(
    spark: SparkSession, joined_to_ms: int | None, log_to_ms: int, *, expected: bool
) -> None:
    """And never while the log has nothing new, or for the log of a cluster that it does not have."""
    columns = "cluster_id string, closed_ms long, joined_ms long"
    rows = spark.createDataFrame([("c", 1_000, joined_to_ms)], columns).select(
        "cluster_id",
        f.timestamp_millis("closed_ms").alias("closed_at"),
        f.timestamp_millis("joined_ms").alias("log_read_to"),
    )

    assert bool(due(rows, {"c": log_to_ms, "other": 10**15}).count()) is expected
    assert due(rows, {"other": 10**15}).count() == 0
