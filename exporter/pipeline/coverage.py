"""Counts by hour what each exporter has watched of its cluster: an hour without a row was watched by no exporter."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from exporter.history.schema import PARTITIONS_BY_ANSWER
from exporter.pipeline import schemas

HOUR_MS: Final = 3_600_000


def coverage_of(cycles: DataFrame, newest: DataFrame, clocks: DataFrame | None = None) -> DataFrame:
    """`CYCLES` and what `clock_differences` has found -> `COVERAGE`; a cycle that is there twice counts once.

    `newest` has the newest cycle of each cluster (`newest_ms`): the files of the time after it may come later.
    """
    known = schemas.with_schema(cycles, schemas.CYCLES)
    hours = known.groupBy("cluster_id", f.date_trunc("hour", "taken_at").alias("hour"), "writer").agg(
        f.max("cluster_name").alias("cluster_name"),
        f.max("exporter_version").alias("exporter_version"),
        f.count_distinct("taken_at").alias("cycles"),
        f.max("interval_ms").alias("interval_ms"),
        f.count_distinct(f.when(~f.col("is_complete"), f.col("taken_at"))).alias("cycles_incomplete"),
        f.max(f.col("partitions_read") + f.col("partitions_unread")).alias("partitions_asked"),
        f.min("partitions_read").alias("partitions_read_min"),
        f.max("partitions_unread").alias("partitions_unread_max"),
        *(f.max(f"partitions_{answer}").alias(f"partitions_{answer}_max") for answer in PARTITIONS_BY_ANSWER),
        f.max("brokers_failed").alias("brokers_failed_max"),
        f.max("coordinators_failed").alias("coordinators_failed_max"),
        f.median("clock_offset_ms").cast("long").alias("clock_offset_ms"),
    )
    hours = hours.join(_unwatched(known, newest), on=["cluster_id", "hour"])
    if clocks is None:
        hours = hours.withColumn("clock_difference_ms", f.lit(None).cast("long"))
    else:
        hours = hours.join(f.broadcast(clocks), on=["cluster_id", "writer"], how="left")
    return schemas.with_schema(hours.withColumn("date", f.to_date("hour")), schemas.COVERAGE)


def _unwatched(cycles: DataFrame, newest: DataFrame) -> DataFrame:
    """(cluster_id, hour, unwatched_ms): the time of each hour that no cycle covers, up to the newest cycle.

    A cycle of any exporter covers the interval after it, and so does the begin of the hour.
    """
    hour = f.date_trunc("hour", "taken_at").alias("hour")
    instants = (
        cycles.groupBy("cluster_id", hour, f.unix_millis("taken_at").alias("at_ms"))
        .agg(f.max("interval_ms").alias("interval_ms"))
        .withColumn("from_ms", f.unix_millis("hour"))
    )
    before = Window.partitionBy("cluster_id", "hour").orderBy("at_ms").rowsBetween(Window.unboundedPreceding, -1)
    watched_to = f.coalesce(
        f.max(f.col("at_ms") + f.col("interval_ms")).over(before), f.col("from_ms") + f.col("interval_ms")
    )
    gap_ms = f.greatest(f.col("at_ms") - watched_to, f.lit(0))
    watched_ms = f.max(f.col("at_ms") + f.col("interval_ms") - f.col("from_ms"))
    recorded_ms = f.least(f.lit(HOUR_MS), f.first("newest_ms") - f.first("from_ms"))
    return (
        instants.withColumn("gap_ms", gap_ms)
        .join(f.broadcast(newest), on="cluster_id", how="left")
        .groupBy("cluster_id", "hour")
        .agg((f.sum("gap_ms") + f.greatest(recorded_ms - watched_ms, f.lit(0))).alias("unwatched_ms"))
    )
