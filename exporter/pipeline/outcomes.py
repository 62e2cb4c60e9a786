"""Joins transactions with their outcomes from the transaction log, file by file of their table.

A file is joined when it is new, and again when the log of one of its clusters, which another process reads, has passed the
closing of its transactions. A run reads the log from the start of the oldest transaction in these files.

A transaction and its outcome have the same producer, epoch and exact start where it is known. Cycles do not describe short
transactions, so most have no exact start: then the first decision of the producer after the last sighting is the
transaction's, if no other one can be. With transaction.version 2 (KIP-890) each transaction has an epoch of its own, and no
other one can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from exporter.pipeline import schemas
from exporter.pipeline.connectors import parquet_files
from exporter.pipeline.delta import DataFile, to_ms
from exporter.pipeline.ingest import BATCH_ROWS, closed_to_ms, is_open, may_hold, read_transactions, write_transactions
from exporter.pipeline.partition_transactions import EXACT_SOURCES
from exporter.pipeline.tables import Current, Tables
from exporter.pipeline.transaction_log import logs_read_to_ms, outcomes_of, read_records
from exporter.storage.places import Place, parquet_source

SETTLED_MS: Final = 300_000
"""The log covers a transaction when it was read to this long after its closing: all markers are written by then."""
BEFORE_MS: Final = 60_000
"""The log is read from this long before the oldest transaction, because two clocks may differ."""
AHEAD_MS: Final = 1_000
"""A coordinator's clock may be this far behind the exporter's."""
CYCLE_MS: Final = 30_000
"""A cycle, dated at its beginning, may read a partition this much later."""
_PRODUCER: Final = ("cluster_id", "producer_id", "producer_epoch")
_JOINED: Final = ("outcome", "exact_duration_ms", "marker_ms")


def is_due(tables: Tables, file: DataFile, logs_to_ms: Mapping[str, int]) -> bool:
    """True if the log of a cluster has more for it than when it was joined."""
    logs = {cluster_id: to_ms for cluster_id, to_ms in logs_to_ms.items() if may_hold(file, (cluster_id,))}
    if not logs:
        return False
    # Open transactions may always get more records.
    covered_ms = math.inf if is_open(file) else closed_to_ms(file) + SETTLED_MS
    joined_to = file.least.get("log_read_to")
    if joined_to is not None and file.nulls["log_read_to"] == 0 and to_ms(joined_to) >= covered_ms:
        return False
    return any(
        cluster_id in logs and (joined_ms is None or joined_ms < min(covered_ms, logs[cluster_id]))
        for cluster_id, joined_ms in _joined_to_ms(tables.transactions.place_of(file)).items()
    )


def _joined_to_ms(path: Place) -> dict[str, int | None]:
    """Returns how far each cluster's log was joined to a file of transactions; None if one of them was never joined."""
    parquet = pq.ParquetFile(parquet_source(path), read_dictionary=["cluster_id"])
    rows = parquet.read(columns=["cluster_id", "log_read_to"])
    least = ("log_read_to", "min", pc.ScalarAggregateOptions(skip_nulls=False))  # null if one of them never was
    found = rows.group_by("cluster_id").aggregate([least]).to_pydict()
    return {
        cluster_id: None if to is None else to_ms(to)
        for cluster_id, to in zip(found["cluster_id"], found["log_read_to_min"], strict=True)
    }


def join_outcomes(open_spark: Callable[[], SparkSession], tables: Tables, *, rows_max: int = BATCH_ROWS) -> int | None:
    """Returns the number of joined files; None without a log. Raises TableError if another run was first."""
    logs_to_ms = logs_read_to_ms(tables.transaction_log)
    if not logs_to_ms:
        return None
    joined = 0
    while due := _due(tables, current := tables.current(), logs_to_ms, rows_max):
        spark = open_spark()
        transactions = read_transactions(spark, tables, due).drop("log_read_to")
        # The log of each cluster, from its oldest transaction on.
        oldest = transactions.groupBy("cluster_id").agg(f.unix_millis(f.min("started_at"))).collect()
        since_ms = {cluster_id: started_ms - BEFORE_MS for cluster_id, started_ms in oldest}
        outcomes = outcomes_of(read_records(spark, tables.transaction_log, since_ms))
        read_to = spark.createDataFrame(list(logs_to_ms.items()), "cluster_id string, read_to_ms long")
        logs = f.broadcast(read_to.select("cluster_id", f.timestamp_millis("read_to_ms").alias("log_read_to")))
        rows = with_outcomes(transactions, outcomes).join(logs, on="cluster_id", how="left")
        run = current.snapshot.new_run()
        folder = tables.folder_of(tables.transactions, run)
        write_transactions(schemas.with_schema(rows, schemas.TRANSACTIONS), folder)
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


def with_outcomes(transactions: DataFrame, outcomes: DataFrame) -> DataFrame:
    """`TRANSACTIONS` with `outcome`, `exact_duration_ms` and `marker_ms`, null where the log has none or two fit."""
    known = schemas.with_schema(outcomes, schemas.OUTCOMES).select(
        *_PRODUCER,
        "start_ms",
        f.coalesce("decided_ms", "completed_ms").alias("decided_ms"),
        "partitions",
        "outcome",
        f.col("duration_ms").alias("exact_duration_ms"),
        "marker_ms",
    )
    # No column alone makes a row different from all others: two topics of one name have the same offsets.
    placed = transactions.drop(*_JOINED).withColumn("row", f.xxhash64("partitions"))
    row = [*_PRODUCER, "row"]
    exact = _exact(placed, known).select(*row, f.struct(*_JOINED).alias("exact"))
    near = _near(placed, known).select(*row, f.struct(*_JOINED).alias("near"))
    joined = placed.join(exact, on=row, how="left").join(near, on=row, how="left")
    chosen = joined.withColumn("chosen", f.coalesce("exact", "near"))
    return chosen.select("*", "chosen.*").drop("row", "exact", "near", "chosen")


def _exact(placed: DataFrame, known: DataFrame) -> DataFrame:
    by_start = known.drop("partitions", "decided_ms").dropDuplicates([*_PRODUCER, "start_ms"])
    begun = placed.where(_is_exact()).withColumn("start_ms", f.unix_millis("started_at"))
    return begun.join(by_start, on=[*_PRODUCER, "start_ms"])


def _is_exact() -> Column:
    return f.col("start_source").isin(*EXACT_SOURCES)


def _near(placed: DataFrame, known: DataFrame) -> DataFrame:
    """The first decision after the last sighting, if it fits and the one after it does not."""
    first = f.col("partitions")[0]
    decision = f.struct("start_ms", "decided_ms", "partitions", *_JOINED)
    newest_first = Window.partitionBy(*_PRODUCER).orderBy(f.desc("decided_ms"))
    decisions = known.select(
        *_PRODUCER,
        f.col("decided_ms").alias("at_ms"),
        f.struct(decision.alias("this"), f.lag(decision).over(newest_first).alias("next")).alias("decision"),
    )
    sightings = placed.where(~_is_exact()).select(
        *_PRODUCER,
        (f.unix_millis("last_seen") - AHEAD_MS).alias("at_ms"),
        f.struct(
            "row",
            f.concat_ws("-", first["topic"], first["partition"].cast("string")).alias("partition"),
            (f.unix_millis("first_seen") + CYCLE_MS).alias("begun_by_ms"),
            (f.unix_millis("closed_at") + CYCLE_MS).alias("decided_by_ms"),
        ).alias("seen"),
    )
    # A decision of the same instant counts as a later one.
    later = (
        Window.partitionBy(*_PRODUCER)
        .orderBy(f.desc("at_ms"), f.desc(f.col("decision").isNotNull()))
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    following = decisions.unionByName(sightings, allowMissingColumns=True).withColumn(
        "following", f.last("decision", ignorenulls=True).over(later)
    )
    of_sightings = following.where(f.col("seen").isNotNull() & _fits("following.this") & ~_fits("following.next"))
    return of_sightings.select(*_PRODUCER, "seen.*", *(f.col(f"following.this.{name}") for name in _JOINED))


def _fits(decision: str) -> Column:
    """True if the decision has the partition, and is of a transaction begun before the sighting and decided before it
    was gone.

    Null columns exclude nothing.
    """
    partitions = f.col(f"{decision}.partitions")
    return f.coalesce(
        f.col(f"{decision}.decided_ms").isNotNull()
        & f.coalesce(f.col(f"{decision}.start_ms") <= f.col("seen.begun_by_ms"), f.lit(True))
        & f.coalesce(f.col(f"{decision}.decided_ms") <= f.col("seen.decided_by_ms"), f.lit(True))
        & ((f.size(partitions) == 0) | f.array_contains(partitions, f.col("seen.partition"))),
        f.lit(False),
    )
