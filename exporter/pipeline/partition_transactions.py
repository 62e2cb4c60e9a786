"""Joins observations to partition transactions: a transaction on one partition, from its first to its last sighting.

Every aggregate is a minimum, a maximum or a set, so that a row that is there twice changes nothing: not in a file that was
copied, nor by a second exporter. The aggregates of many rows are of numbers alone: with a text among them Spark sorts all
rows where it could hash them, which took five times as long.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from exporter.evaluation.verdicts import StartSource, Verdict
from exporter.pipeline import schemas
from exporter.pipeline.session import small

KEY: Final = ("cluster_id", "topic", "partition", "producer_id", "start_offset")
START_SOURCES: Final = (
    StartSource.FIRST_SEEN.label,
    StartSource.LAST_WRITE.label,
    StartSource.TRANSACTION_LOG.label,
    StartSource.COORDINATOR.label,
)
"""From the least to the most trusted."""
EXACT_RANK: Final = START_SOURCES.index(StartSource.TRANSACTION_LOG.label)
VERDICTS: Final = tuple(verdict.label for verdict in Verdict)
_VERDICT_COLUMNS: Final = tuple(f"verdict_{number}" for number in range(len(VERDICTS)))


def updated_partition_transactions(observations: DataFrame, carried: DataFrame, *, producers: DataFrame) -> DataFrame:
    """`OBSERVATIONS`, `PARTITION_TRANSACTIONS` of before, and all `PRODUCERS` -> `PARTITION_TRANSACTIONS`, one row each.

    One that is observed after its `closed_at` loses it; `closings.with_closings` finds the new one.
    """
    seen = _seen(schemas.shaped(observations, schemas.OBSERVATIONS))
    rows = seen.unionByName(_known(schemas.shaped(carried, schemas.PARTITION_TRANSACTIONS)))
    return schemas.shaped(_aggregated(rows, producers), schemas.PARTITION_TRANSACTIONS)


def _start_rank() -> Column:
    return f.coalesce(
        *(f.when(f.col("start_source") == name, f.lit(number)) for number, name in enumerate(START_SOURCES)), f.lit(0)
    )


def exact_start() -> Column:
    """Of an observation; null where its start is neither from the coordinator nor from the transaction log."""
    return f.when(_start_rank() >= EXACT_RANK, f.col("started_at"))


def _seen(observations: DataFrame) -> DataFrame:
    """An observation is a partition transaction that was seen once."""
    return observations.select(
        *KEY,
        *("producer_epoch", "started_at", "groups"),
        *schemas.GREATEST_OF_PARTITION,
        f.col("taken_at").alias("first_seen"),
        f.col("taken_at").alias("last_seen"),
        exact_start().alias("exact_started_at"),
        _start_rank().alias("start_rank"),
        f.lit(None).cast("timestamp").alias("closed_at"),
        f.lit(None).cast("timestamp").alias("lost_after"),
        *(
            f.when(f.col("verdict") == verdict, f.col("taken_at")).alias(column)
            for verdict, column in zip(VERDICTS, _VERDICT_COLUMNS, strict=True)
        ),
    )


def _known(carried: DataFrame) -> DataFrame:
    return carried.select(
        *(column for column in carried.columns if column not in {"transactional_id", "verdicts", "is_lost"}),
        f.when(f.col("is_lost"), f.col("last_seen")).alias("lost_after"),
        *(
            f.expr(f"get(filter(verdicts, seen -> seen.verdict = '{verdict}'), 0).first_seen").alias(column)
            for verdict, column in zip(VERDICTS, _VERDICT_COLUMNS, strict=True)
        ),
    )


def _aggregated(rows: DataFrame, producers: DataFrame) -> DataFrame:
    merged = rows.groupBy(*KEY).agg(
        *(f.min(name).alias(name) for name in ("first_seen", "started_at", "exact_started_at", "closed_at")),
        *(
            f.max(name).alias(name)
            for name in ("last_seen", "producer_epoch", "start_rank", "lost_after", *schemas.GREATEST_OF_PARTITION)
        ),
        *(f.min(name).alias(name) for name in _VERDICT_COLUMNS),
    )
    known = merged.select(
        *KEY,
        *(column for column in merged.columns if column not in {*KEY, *_VERDICT_COLUMNS, "closed_at", "lost_after"}),
        _verdicts().alias("verdicts"),
        f.when(f.col("closed_at") > f.col("last_seen"), f.col("closed_at")).alias("closed_at"),
        f.coalesce(f.col("lost_after") == f.col("last_seen"), f.lit(False)).alias("is_lost"),
    )
    return _with_groups(known, rows).join(
        producers.select("cluster_id", "producer_id", "transactional_id"), on=["cluster_id", "producer_id"], how="left"
    )


def _verdicts() -> Column:
    """In order of first appearance. A single verdict, the usual case, goes without the functions that Spark interprets."""
    first_seen = [f.col(column) for column in _VERDICT_COLUMNS]
    only = f.struct(
        f.coalesce(*first_seen).alias("first_seen"),
        f.coalesce(
            *(f.when(column.isNotNull(), f.lit(verdict)) for column, verdict in zip(first_seen, VERDICTS, strict=True))
        ).alias("verdict"),
    )
    ranked = f.array(
        *(
            f.struct(column.alias("first_seen"), f.lit(rank).alias("rank"), f.lit(verdict).alias("verdict"))
            for rank, (verdict, column) in enumerate(zip(VERDICTS, first_seen, strict=True))
        )
    )
    in_order = f.array_sort(f.filter(ranked, lambda seen: seen["first_seen"].isNotNull()))
    several = f.transform(
        in_order, lambda seen: f.struct(seen["first_seen"].alias("first_seen"), seen["verdict"].alias("verdict"))
    )
    count = reduce(Column.__add__, (column.isNotNull().cast("int") for column in first_seen))
    return f.when(count == 1, f.array(only)).otherwise(several)


def _with_groups(merged: DataFrame, rows: DataFrame) -> DataFrame:
    """Only suspects have groups, and suspects are few."""
    groups = (
        rows.where(f.size("groups") > 0)
        .select(*KEY, f.explode("groups").alias("group"))
        .groupBy(*KEY)
        .agg(f.array_sort(f.collect_set("group")).alias("groups"))
    )
    none = f.array().cast("array<string>")
    return merged.join(small(groups), on=list(KEY), how="left").withColumn("groups", f.coalesce(f.col("groups"), none))
