"""Finds exporters of one cluster whose clocks contradict each other: one sees minutes later what the other has seen."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from exporter.pipeline import schemas

EDGES_MIN: Final = 5
"""Beginnings and ends that both have seen: fewer are no evidence."""
APART_MS: Final = 60_000
"""A smaller difference, or one of two cycles, may be chance."""
_KEY: Final = ("cluster_id", "topic", "topic_id", "partition", "producer_id", "start_offset")


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
        .groupBy(*_KEY, "writer")
        .agg(f.min("taken_at").alias("first"), f.max("taken_at").alias("last"))
        .join(f.broadcast(spans), on=["cluster_id", "writer"])
        .select(
            *_KEY,
            "writer",
            "interval_ms",
            f.when(f.col("first") > f.col("begin"), f.unix_millis("first")).alias("first"),
            f.when(f.col("last") < f.col("end"), f.unix_millis("last")).alias("last"),
        )
    )
    one, other = seen.alias("one"), seen.alias("other")
    both = [f.col(f"one.{name}") == f.col(f"other.{name}") for name in _KEY]
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
