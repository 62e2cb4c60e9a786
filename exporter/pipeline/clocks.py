"""Finds exporters of one cluster whose clocks contradict each other: one sees minutes later what the other has seen."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from exporter.pipeline import schemas
from exporter.pipeline.partition_transactions import KEY

EDGES_MIN: Final = 5
"""Beginnings and ends that both have seen: fewer are no evidence."""
APART_MS: Final = 60_000
"""A smaller difference, or one of two cycles, may be chance."""


def clock_differences(observations: DataFrame, cycles: DataFrame) -> DataFrame:
    """`OBSERVATIONS`, `CYCLES` -> (cluster_id, writer, clock_difference_ms) of each exporter that another one contradicts.

    An exporter that starts or ends sees many transactions begin or end in its first and last cycle: these do not count.
    """
    known = schemas.with_schema(cycles, schemas.CYCLES).select("cluster_id", "writer", "taken_at", "interval_ms")
    spans = known.groupBy("cluster_id", "writer").agg(
        f.min("taken_at").alias("begin"), f.max("taken_at").alias("end"), f.max("interval_ms").alias("interval_ms")
    )
    seen = (
        schemas.with_schema(observations, schemas.OBSERVATIONS)
        .join(known.distinct(), on=["cluster_id", "taken_at"])
        .groupBy(*KEY, "writer")
        .agg(f.min("taken_at").alias("first"), f.max("taken_at").alias("last"))
        .join(f.broadcast(spans), on=["cluster_id", "writer"])
        .select(
            *KEY,
            "writer",
            "interval_ms",
            f.when(f.col("first") > f.col("begin"), f.unix_millis("first")).alias("first"),
            f.when(f.col("last") < f.col("end"), f.unix_millis("last")).alias("last"),
        )
    )
    one, other = seen.alias("one"), seen.alias("other")
    both = [f.col(f"one.{name}") == f.col(f"other.{name}") for name in KEY]
    pairs = one.join(other, on=[*both, f.col("one.writer") != f.col("other.writer")])
    edges = pairs.select(
        "one.cluster_id",
        "one.writer",
        f.col("other.writer").alias("other_writer"),
        f.greatest("one.interval_ms", "other.interval_ms").alias("interval_ms"),
        f.explode(f.array_compact(f.array(_apart("first"), _apart("last")))).alias("apart_ms"),
    )
    by_pair = edges.groupBy("cluster_id", "writer", "other_writer").agg(
        f.count("*").alias("edges"), f.median("apart_ms").alias("apart_ms"), f.max("interval_ms").alias("interval_ms")
    )
    limit = f.greatest(f.lit(APART_MS), 2 * f.col("interval_ms"))
    return (
        by_pair.where((f.col("edges") >= EDGES_MIN) & (f.abs("apart_ms") > limit))
        .groupBy("cluster_id", "writer")
        .agg(f.max(f.abs("apart_ms")).cast("long").alias("clock_difference_ms"))
    )


def _apart(edge: str) -> Column:
    return f.col(f"one.{edge}") - f.col(f"other.{edge}")


def with_sure_durations(transactions: DataFrame, coverage: DataFrame) -> DataFrame:
    """Transactions whose duration is null where exporters of the cluster had clocks that contradict each other."""
    contradicted = (
        coverage.where(f.col("clock_difference_ms").isNotNull())
        .groupBy("cluster_id")
        .agg(f.min("hour").alias("from_hour"), f.max("hour").alias("to_hour"))
    )
    until = f.col("to_hour") + f.expr("INTERVAL 1 HOUR")
    is_unsure = (f.col("first_seen") < until) & (f.col("last_seen") >= f.col("from_hour"))
    duration_ms = f.when(~f.coalesce(is_unsure, f.lit(False)), f.col("duration_ms"))
    return (
        transactions.join(f.broadcast(contradicted), on="cluster_id", how="left")
        .withColumn("duration_ms", duration_ms)
        .select(*transactions.columns)
    )
