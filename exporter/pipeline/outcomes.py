"""Joins transactions with their outcomes from the transaction log, bucket by bucket of their table.

A transaction is joined when it is new, and again when the log of its cluster, which another process reads, has passed its
closing; the others of its bucket with it. A run reads the log from the start of the oldest transaction in these buckets.

A transaction and its outcome have the same producer, epoch and exact start where it is known. Cycles do not describe short
transactions, so most have no exact start: then the first decision of the producer after the last sighting is the
transaction's, if no other one can be. With transaction.version 2 (KIP-890) each transaction has an epoch of its own, and no
other one can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from exporter.pipeline import schemas
from exporter.pipeline.buckets import BUCKET, Bucket, buckets_of, in_buckets, placed, without_places
from exporter.pipeline.ingest import BATCH_ROWS
from exporter.pipeline.partition_transactions import EXACT_SOURCES
from exporter.pipeline.tables import Current, Tables
from exporter.pipeline.transaction_log import logs_read_to_ms, outcomes_of, read_records

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


def due(transactions: DataFrame, logs_to_ms: Mapping[str, int]) -> DataFrame:
    """Rows of the table for which the log of their cluster has more than when they were joined, with `log_to`."""
    spark = transactions.sparkSession
    logs = spark.createDataFrame(list(logs_to_ms.items()), "cluster_id string, log_to_ms long")
    joined_ms, log_to_ms = f.unix_millis("log_read_to"), f.col("log_to_ms")
    # Open transactions may always get more records: the minimum passes over their null.
    needed_ms = f.least(f.unix_millis("closed_at") + SETTLED_MS, log_to_ms)
    rows = transactions.join(f.broadcast(logs), on="cluster_id")
    return rows.where(joined_ms.isNull() | (joined_ms < needed_ms))


def join_outcomes(open_spark: Callable[[], SparkSession], tables: Tables, *, rows_max: int = BATCH_ROWS) -> int | None:
    """Returns the number of joined buckets; None without a log. Raises TableError if another run was first."""
    logs_to_ms = logs_read_to_ms(tables.transaction_log)
    if not logs_to_ms:
        return None
    joined = 0
    spark = open_spark()
    while buckets := _due_buckets(spark, tables, current := tables.current(), logs_to_ms, rows_max):
        current = tables.begin(spark, current)
        rows = tables.transactions.read(spark, current.snapshot).where(in_buckets(buckets))
        transactions = without_places(rows).drop("log_read_to")
        # The log of each cluster, from its oldest transaction on.
        oldest = transactions.groupBy("cluster_id").agg(f.unix_millis(f.min("started_at"))).collect()
        since_ms = {cluster_id: started_ms - BEFORE_MS for cluster_id, started_ms in oldest}
        outcomes = outcomes_of(read_records(spark, tables.transaction_log, since_ms))
        read_to = spark.createDataFrame(list(logs_to_ms.items()), "cluster_id string, read_to_ms long")
        logs = f.broadcast(read_to.select("cluster_id", f.timestamp_millis("read_to_ms").alias("log_read_to")))
        found = with_outcomes(transactions, outcomes).join(logs, on="cluster_id", how="left")
        tables.commit(
            current,
            current.state,
            placed(schemas.with_schema(found, schemas.TRANSACTIONS)),
            replaced=in_buckets(buckets),
        )
        joined += len(buckets)
    return joined


def _due_buckets(
    spark: SparkSession, tables: Tables, current: Current, logs_to_ms: Mapping[str, int], rows_max: int
) -> list[Bucket]:
    """Buckets to be joined in one go."""
    if current.snapshot.number < 0:
        return []
    rows = tables.transactions.read(spark)
    chosen = in_buckets(buckets_of(due(rows, logs_to_ms)))
    oldest_first = [f.asc_nulls_last(name) for name in BUCKET]
    buckets: list[Bucket] = []
    left = rows_max
    for date, closed_hour, size in rows.where(chosen).groupBy(*BUCKET).count().orderBy(*oldest_first).collect():
        if left > 0:
            buckets.append((date, closed_hour))
            left -= size
    return buckets


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
