"""Writes a history of some days, and takes it into tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession

from exporter.pipeline.buckets import without_places
from exporter.pipeline.ingest import ingest_batch
from exporter.pipeline.tables import Tables
from tests.pipeline import cases

DAY_S: Final = 86_400
DAY_MS: Final = DAY_S * 1000
DAYS: Final = 5
Rows = dict[str, list[Row]]


def write_days(history: Path, days: int = DAYS) -> None:
    """Two files a day, with a transaction each; one hangs."""
    for number in range(2 * days):
        at = DAY_S // 2 * number
        row: dict[str, Any] = {"start_offset": number, "started": at}
        if number == 1:
            row["verdict"] = "hanging_not_in_transaction"
        cases.write_file(history, "c", f"w{number}", [{"at": at + 30, "open": [row]}, {"at": at + 60}])


def taken(spark: SparkSession, history: Path, tables: Tables, now_ms: int = cases.NOW_MS) -> None:
    """All that waits."""
    while ingest_batch(lambda: spark, history, tables, now_ms=now_ms) is not None:
        pass


def transactions(spark: SparkSession, tables: Tables) -> DataFrame:
    """Without the columns by which the table is partitioned."""
    return without_places(tables.transactions.read(spark))


def rows(spark: SparkSession, tables: Tables) -> Rows:
    """By cluster."""
    found: Rows = {}
    order = ("cluster_id", "producer_id", "started_at", "partitions")
    for row in transactions(spark, tables).orderBy(*order).collect():
        found.setdefault(row["cluster_id"], []).append(row)
    return found
