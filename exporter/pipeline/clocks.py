"""Finds exporters of one cluster whose clocks contradict each other: one sees minutes later what the other has seen."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from exporter.pipeline import schemas
from exporter.pipeline.coverage import HOUR_MS
from exporter.pipeline.partition_transactions import KEY

EDGES_MIN: Final = 5
"""Beginnings and ends that both have seen: fewer are no evidence."""
APART_MS: Final = 60_000
"""A smaller difference, or one of two cycles, may be chance."""


def clock_differences(observations: DataFrame, cycles: DataFrame) -> DataFrame:
    """`OBSERVATIONS`, `CYCLES` -> (cluster_id, writer, clock_difference_ms) of each exporter that another one contradicts.

    An exporter that starts or ends sees many transactions begin or end in its first and last cycle: these do not count.
    Nor does what one of both saw while the other had no cycle, as after a restart, or what lies on a partition that a
    cycle could not read.
    """
    whole = schemas.with_schema(cycles, schemas.CYCLES)
    known = whole.select("cluster_id", "writer", "taken_at", "interval_ms")
    unread = whole.select("cluster_id", f.explode("unread").alias("name")).distinct()
    spans = known.groupBy("cluster_id", "writer").agg(
        f.min("taken_at").alias("begin"), f.max("taken_at").alias("end"), f.max("interval_ms").alias("interval_ms")
    )
    seen = (
        schemas.with_schema(observations, schemas.OBSERVATIONS)
        .withColumn("name", f.concat_ws("-", "topic", f.col("partition").cast("string")))
        .join(f.broadcast(unread), on=["cluster_id", "name"], how="anti")
        .join(known.drop("interval_ms").distinct(), on=["cluster_id", "taken_at"])
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
    by_pair = (
        _edges(seen, known.drop("interval_ms").join(f.broadcast(spans), on=["cluster_id", "writer"]))
        .groupBy("cluster_id", "writer", "other_writer")
        .agg(
            f.count("*").alias("edges"),
            f.median(f.col("at_ms") - f.col("other_at_ms")).alias("apart_ms"),
            f.max("interval_ms").alias("interval_ms"),
        )
    )
    limit = f.greatest(f.lit(APART_MS), 2 * f.col("interval_ms"))
    return (
        by_pair.where((f.col("edges") >= EDGES_MIN) & (f.abs("apart_ms") > limit))
        .groupBy("cluster_id", "writer")
        .agg(f.max(f.abs("apart_ms")).cast("long").alias("clock_difference_ms"))
    )


def _edges(seen: DataFrame, cycles: DataFrame) -> DataFrame:
    """Beginnings and ends that two exporters have seen, at each of whose instants both had a cycle."""
    one, other = seen.alias("one"), seen.alias("other")
    both = [f.col(f"one.{name}") == f.col(f"other.{name}") for name in KEY]
    instants = (
        f.struct(f.col(f"one.{edge}").alias("at_ms"), f.col(f"other.{edge}").alias("other_at_ms"))
        for edge in ("first", "last")
    )
    edges = (
        one.join(other, on=[*both, f.col("one.writer") != f.col("other.writer")])
        .select(
            "one.cluster_id",
            "one.writer",
            f.col("other.writer").alias("other_writer"),
            f.greatest("one.interval_ms", "other.interval_ms").alias("interval_ms"),
            f.col("one.interval_ms").alias("own_ms"),
            f.col("other.interval_ms").alias("other_ms"),
            f.inline(f.array(*instants)),
        )
        .where("at_ms IS NOT NULL AND other_at_ms IS NOT NULL")
        .withColumn("slot", _slot(f.col("other_at_ms"), f.col("own_ms")))
        .withColumn("other_slot", _slot(f.col("at_ms"), f.col("other_ms")))
    )
    slot = _slot(f.unix_millis("taken_at"), f.col("interval_ms")).alias("slot")
    slots = cycles.select("cluster_id", "writer", slot).distinct()
    of_other = slots.select("cluster_id", f.col("writer").alias("other_writer"), f.col("slot").alias("other_slot"))
    return edges.join(slots, on=slots.columns, how="semi").join(of_other, on=of_other.columns, how="semi")


def _slot(at_ms: Column, interval_ms: Column) -> Column:
    """Numbers spans of two intervals: an exporter has a cycle in each of them, also if one is late."""
    return f.floor(at_ms / f.greatest(2 * interval_ms, f.lit(1)))


def with_sure_durations(transactions: DataFrame, coverage: DataFrame) -> DataFrame:
    """Transactions; the duration is null of those in hours in which exporters had clocks that contradict each other."""
    hour_ms = f.unix_millis("hour")
    in_order = Window.partitionBy("cluster_id").orderBy("hour")
    contradicted = (
        coverage.where(f.col("clock_difference_ms").isNotNull())
        .select("cluster_id", "hour")
        .distinct()
        .withColumn("group", hour_ms - HOUR_MS * f.row_number().over(in_order))  # the same in hours without a gap
        .groupBy("cluster_id", "group")
        .agg(f.min(hour_ms).alias("from_ms"), (f.max(hour_ms) + HOUR_MS).alias("until_ms"))
        .groupBy("cluster_id")
        .agg(f.collect_list(f.struct("from_ms", "until_ms")).alias("contradicted"))
    )
    first_ms, last_ms = f.unix_millis("first_seen"), f.unix_millis("last_seen")
    is_unsure = f.exists("contradicted", lambda span: (first_ms < span["until_ms"]) & (last_ms >= span["from_ms"]))
    duration_ms = f.when(~f.coalesce(is_unsure, f.lit(False)), f.col("duration_ms"))
    return (
        transactions.join(f.broadcast(contradicted), on="cluster_id", how="left")
        .withColumn("duration_ms", duration_ms)
        .select(*transactions.columns)
    )
