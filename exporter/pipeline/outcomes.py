"""Joins transactions with their outcomes from the transaction log, file by file of their table.

A file is joined when it is new, and again when the log of one of its clusters, which another process reads, has passed the
closing of its transactions. A run reads the log from the start of the oldest transaction in these files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from exporter.pipeline import schemas
from exporter.pipeline.connectors import parquet_files
from exporter.pipeline.delta import DataFile
from exporter.pipeline.ingest import BATCH_ROWS, closed_to_ms, is_open, may_hold, read_transactions, write_transactions
from exporter.pipeline.matching import with_outcomes
from exporter.pipeline.tables import Current, Tables
from exporter.pipeline.transaction_log import outcomes_of, read_records
from exporter.storage.places import Place, parquet_source

SETTLED_MS: Final = 300_000
"""The log covers a transaction when it was read to this long after its closing: all markers are written by then."""
BEFORE_MS: Final = 60_000
"""The log is read from this long before the oldest transaction, because two clocks may differ."""


def logs_read_to_ms(tables: Tables) -> dict[str, int]:
    """By cluster, when new records of its log were last written to the table."""
    read_to_ms: dict[str, int] = {}
    for file in tables.transaction_log.snapshot().files if tables.transaction_log.exists else ():
        cluster_id = file.parts["cluster_id"]
        read_to_ms[cluster_id] = max(file.written_ms, read_to_ms.get(cluster_id, 0))
    return read_to_ms


def is_due(tables: Tables, file: DataFile, logs_to_ms: Mapping[str, int]) -> bool:
    """True if the log of a cluster has more for it than when it was joined."""
    logs = {cluster_id: to_ms for cluster_id, to_ms in logs_to_ms.items() if may_hold(file, (cluster_id,))}
    if not logs:
        return False
    joined_to = file.least.get("log_read_to")
    covered_ms = None if is_open(file) else closed_to_ms(file) + SETTLED_MS
    if joined_to is not None and file.nulls["log_read_to"] == 0 and _is_covered(_ms(joined_to), covered_ms):
        return False
    return any(
        cluster_id in logs and (to_ms is None or (not _is_covered(to_ms, covered_ms) and logs[cluster_id] > to_ms))
        for cluster_id, to_ms in _joined_to_ms(tables.transactions.place_of(file)).items()
    )


def _is_covered(joined_to_ms: int, covered_ms: int | None) -> bool:
    """Null for open transactions, of which more may come."""
    return covered_ms is not None and joined_to_ms >= covered_ms


def _joined_to_ms(path: Place) -> dict[str, int | None]:
    """By cluster in a file of transactions; null if it was never joined."""
    parquet = pq.ParquetFile(parquet_source(path), read_dictionary=["cluster_id"])
    rows = parquet.read(columns=["cluster_id", "log_read_to"])
    if "log_read_to" not in rows.column_names:  # of a version before this column
        return dict.fromkeys(rows["cluster_id"].unique().to_pylist())
    found = rows.group_by("cluster_id").aggregate([("log_read_to", "min")]).to_pydict()
    return {
        cluster_id: None if to is None else _ms(to)
        for cluster_id, to in zip(found["cluster_id"], found["log_read_to_min"], strict=True)
    }


def join_outcomes(open_spark: Callable[[], SparkSession], tables: Tables, *, rows_max: int = BATCH_ROWS) -> int | None:
    """Returns the number of joined files; None without a log. Raises TableError if another run was first."""
    logs_to_ms = logs_read_to_ms(tables)
    if not logs_to_ms:
        return None
    joined = 0
    while due := _due(tables, current := tables.current(), logs_to_ms, rows_max):
        spark = open_spark()
        transactions = read_transactions(spark, tables, due).drop("log_read_to")
        outcomes = outcomes_of(_records(spark, tables, transactions))
        read_to = spark.createDataFrame(list(logs_to_ms.items()), "cluster_id string, read_to_ms long")
        logs = f.broadcast(read_to.select("cluster_id", f.timestamp_millis("read_to_ms").alias("log_read_to")))
        rows = with_outcomes(transactions, outcomes).join(logs, on="cluster_id", how="left")
        run = current.snapshot.new_run()
        folder = tables.folder_of(tables.transactions, run)
        write_transactions(schemas.shaped(rows, schemas.TRANSACTIONS), folder)
        tables.commit(current, current.state, run=run, added=parquet_files(folder), removed=due)
        joined += len(due)
    return joined


def _due(tables: Tables, current: Current, logs_to_ms: Mapping[str, int], rows_max: int) -> tuple[DataFile, ...]:
    """Files to be joined in one go."""
    due: list[DataFile] = []
    for file in current.files:
        if sum(other.rows for other in due) >= rows_max:
            break
        if is_due(tables, file, logs_to_ms):
            due.append(file)
    return tuple(due)


def _records(spark: SparkSession, tables: Tables, transactions: DataFrame) -> DataFrame:
    """The log of each cluster, from its oldest transaction on."""
    oldest = transactions.groupBy("cluster_id").agg(f.unix_millis(f.min("started_at")).alias("since_ms")).collect()
    since_ms = {row["cluster_id"]: row["since_ms"] - BEFORE_MS for row in oldest}
    return read_records(spark, tables.transaction_log, since_ms)


def _ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)
