"""Finds out from the cycles how each partition transaction ended: closed, still open, or lost from view.

The first later cycle of the cluster that read the partition closes it: the history has a row for every transaction that was
open there, so that a missing row means closed. While no later cycle could read the partition, nothing is known.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from exporter.pipeline import schemas
from exporter.pipeline.session import small


def with_closings(partition_transactions: DataFrame, cycles: DataFrame, sightings: DataFrame) -> DataFrame:
    """`PARTITION_TRANSACTIONS`, `CYCLES` and every (cluster_id, instant) of a sighting -> `PARTITION_TRANSACTIONS`.

    A known `closed_at` stays, unless one of these cycles shows an earlier one.
    """
    known = schemas.with_schema(partition_transactions, schemas.PARTITION_TRANSACTIONS)
    covered = schemas.with_schema(cycles, schemas.CYCLES)
    following = _following(sightings, covered)
    skipped = _skipped(covered)
    with_cycles = known.join(small(following), on=["cluster_id", "last_seen"], how="left").join(
        small(skipped), on=["cluster_id", "topic", "partition", "next_at"], how="left"
    )
    shown = f.when(f.col("is_skipped"), f.col("read_at")).otherwise(f.col("next_at"))
    return schemas.with_schema(
        with_cycles.withColumn("closed_at", f.least("closed_at", shown)).withColumn(  # passes over nulls
            "is_lost", f.col("closed_at").isNull() & (f.col("is_lost") | f.col("next_at").isNotNull())
        ),
        schemas.PARTITION_TRANSACTIONS,
    )


def _following(sightings: DataFrame, cycles: DataFrame) -> DataFrame:
    """(cluster_id, last_seen, next_at): the first cycle after each sighting."""
    later = Window.partitionBy("cluster_id").orderBy(f.col("instant").desc()).rowsBetween(Window.unboundedPreceding, -1)
    instants = cycles.groupBy("cluster_id", f.col("taken_at").alias("instant")).agg(f.max("taken_at").alias("cycle_at"))
    return (
        sightings.distinct()
        .join(instants, on=["cluster_id", "instant"], how="full")
        .select(
            "cluster_id",
            f.col("instant").alias("last_seen"),
            f.last("cycle_at", ignorenulls=True).over(later).alias("next_at"),
        )
    )


def _skipped(cycles: DataFrame) -> DataFrame:
    """(cluster_id, topic, partition, next_at, is_skipped, read_at): unread in a cycle, and the next cycle that read it."""
    instant = ["cluster_id", "taken_at"]
    numbered = Window.partitionBy("cluster_id").orderBy("taken_at").rowsBetween(Window.unboundedPreceding, 0)
    instants = (
        cycles.groupBy(*instant)
        .agg(f.count_distinct("writer").alias("writers"))
        .withColumn("number", f.row_number().over(numbered))
    )
    unread = (
        cycles.select(*instant, "writer", f.explode("unread").alias("name"))
        .groupBy(*instant, "name")
        .agg(f.count_distinct("writer").alias("writers"))
        .join(instants, on=[*instant, "writers"], how="inner")
    )
    in_a_row = Window.partitionBy("cluster_id", "name").orderBy("number").rowsBetween(Window.unboundedPreceding, 0)
    of_a_row = Window.partitionBy("cluster_id", "name", "row").rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    rows = unread.withColumn("row", f.col("number") - f.row_number().over(in_a_row)).withColumn(
        "number", f.max("number").over(of_a_row) + 1
    )
    after = instants.select("cluster_id", "number", f.col("taken_at").alias("read_at"))
    partition = f.substring_index("name", "-", -1)
    return rows.join(after, on=["cluster_id", "number"], how="left").select(
        "cluster_id",
        f.col("name").substr(f.lit(1), f.length("name") - f.length(partition) - 1).alias("topic"),
        partition.try_cast("int").alias("partition"),
        f.col("taken_at").alias("next_at"),
        f.lit(True).alias("is_skipped"),
        "read_at",
    )
