"""Buckets of the table `transactions`: a run replaces those that it names, and nothing else."""

from __future__ import annotations

from datetime import date
from itertools import combinations
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from exporter.pipeline.buckets import OPEN, Bucket, buckets_of, in_buckets
from exporter.pipeline.compact import compact_tables
from exporter.pipeline.delta import TableError
from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.days import DAY_MS, DAY_S, taken

MONDAY, TUESDAY = date(2026, 11, 23), date(2026, 11, 24)
ALL: tuple[Bucket, ...] = (OPEN, (MONDAY, None), (MONDAY, 0), (MONDAY, 23), (TUESDAY, None), (TUESDAY, 0))


def test_the_rows_of_buckets_are_chosen_and_all_others_are_not(spark: SparkSession) -> None:
    """Each set of them, with the null of an open transaction and that of a whole day."""
    rows = spark.createDataFrame(list(ALL), "date date, closed_hour int").persist()

    assert buckets_of(rows) == set(ALL)
    for count in range(len(ALL) + 1):
        for chosen in combinations(ALL, count):
            assert buckets_of(rows.where(in_buckets(chosen))) == set(chosen)
            assert buckets_of(rows.where(~f.expr(in_buckets(chosen)))) == set(ALL) - set(chosen)
    rows.unpersist()


def test_a_day_is_written_in_the_order_of_cluster_and_time(spark: SparkSession, tmp_path: Path) -> None:
    """By compaction, of hours that had all clusters in any order."""
    history, tables = tmp_path / "history", Tables(tmp_path / "tables")
    for number in range(12):
        at = 3_600 * (23 - number)
        row = {"start_offset": number, "started": at}
        cases.write_file(history, f"c{number % 3}", f"w{number}", [{"at": at + 30, "open": [row]}, {"at": at + 60}])
    for name in ("c0", "c1", "c2"):
        cases.write_file(history, name, "later", [{"at": 5 * DAY_S}])
    taken(spark, history, tables)
    hours = buckets_of(tables.transactions.read(spark))
    compact_tables(spark, tables, retention_ms=365 * DAY_MS)

    ((day, hour),) = buckets_of(tables.transactions.read(spark))
    assert (len(hours), {each for each, _ in hours}, hour) == (12, {day}, None)
    (file,) = tables.transactions.files()
    rows = pq.read_table(f"{tables.transactions.folder}/{file['path']}", partitioning=None)
    found = list(zip(*rows.select(["cluster_id", "first_seen"]).to_pydict().values(), strict=True))
    assert len(found) == 12
    assert found == sorted(found)


def test_a_table_with_other_partitions_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """As a development version has made it: its rows would all be taken for open ones."""
    tables = Tables(tmp_path / "tables")
    rows = spark.createDataFrame([("c", False, "open")], "cluster_id string, was_suspect boolean, closed_in string")
    rows.write.format("delta").partitionBy("was_suspect", "closed_in").save(str(tables.transactions.folder))

    with pytest.raises(TableError, match="/transactions: is partitioned by was_suspect, closed_in, and not by was_sus"):
        tables.begin(spark, tables.current())
