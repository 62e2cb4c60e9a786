"""Counts by hour what each exporter has watched of its cluster: an hour without a row was watched by no exporter."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from exporter.history.schema import PARTITIONS_BY_ANSWER
from exporter.pipeline import schemas

HOUR_MS: Final = 3_600_000


def coverage_of(cycles: DataFrame, clocks: DataFrame | None = None) -> DataFrame:
    """`CYCLES` and what `clock_differences` has found -> `COVERAGE`; a cycle that is there twice counts once."""
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
    if clocks is None:
        hours = hours.withColumn("clock_difference_ms", f.lit(None).cast("long"))
    else:
        hours = hours.join(f.broadcast(clocks), on=["cluster_id", "writer"], how="left")
    return schemas.with_schema(hours.withColumn("date", f.to_date("hour")), schemas.COVERAGE)
