"""Counts by hour for how long the last stable offset of a partition stood still with records behind it, and who waited.

The last stable offset never goes back. So if the same open transaction holds it in two cycles, it stood still between
them, whatever happened there.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from exporter.pipeline import schemas
from exporter.pipeline.partition_transactions import PARTITION
from exporter.pipeline.thresholds import DAY_MS

WATCHED_MS: Final = 900_000
"""Two cycles may be as far apart, whatever the interval between cycles is."""
_TRANSACTION: Final = ("producer_id", "start_offset")
_LONGEST: Final = (*_TRANSACTION, "cause")
"""Columns of the transaction that held the offset longest."""
_SHARED: Final = ("cluster_id", "hour", "topic", "partition", "verdict", "waiting_group")
"""Columns of a row, with the transactional id."""


def watched_ms() -> Column:
    """Returns how far apart `CYCLES` may be: the time between two that are further apart was not watched.

    That is two intervals, within bounds: a foreign file may hold any interval.
    """
    return f.least(f.greatest(f.lit(WATCHED_MS), 2 * f.col("interval_ms")), f.lit(DAY_MS))


def stalls_of(observations: DataFrame, cycles: DataFrame) -> DataFrame:
    """`OBSERVATIONS` -> `STALLS`, of the partition itself (`waiting_group` is null) and of each group behind it."""
    slow = cycles.where(watched_ms() > WATCHED_MS).groupBy("cluster_id", "taken_at")
    standing = _standing(
        schemas.with_schema(observations, schemas.OBSERVATIONS), slow.agg(f.max(watched_ms()).alias("watched_ms"))
    )
    by_transaction = (
        standing.withColumn("hour", f.explode(_hours("taken_at", "next_taken_at")))
        .withColumn("stalled_ms", _within_hour())
        .withColumn("records", _most_records())
        .withColumn("waiting_group", f.explode(f.concat(f.array(f.lit(None).cast("string")), "groups")))
        .groupBy(*_SHARED, *_TRANSACTION)
        .agg(
            f.max("transactional_id").alias("transactional_id"),
            f.sum("stalled_ms").alias("stalled_ms"),
            f.max("records").alias("records_max"),
            f.max("cause").alias("cause"),
        )
    )
    longest = f.max_by(f.struct(*_LONGEST), f.struct("stalled_ms", "start_offset", "producer_id"))
    whole = by_transaction.groupBy(*_SHARED, "transactional_id").agg(
        f.sum("stalled_ms").alias("stalled_ms"),
        f.max("records_max").alias("records_max"),
        f.count("*").alias("transactions"),
        longest.alias("longest"),
    )
    return schemas.with_schema(whole.select("*", "longest.*", f.to_date("hour").alias("date")), schemas.STALLS)


def _standing(observations: DataFrame, slow: DataFrame) -> DataFrame:
    """Returns the holder of the last stable offset in each cycle after which it stood still, with the next cycle.

    `slow` has the cycles whose next one may be further away than `WATCHED_MS`, which are few.
    """
    # Two exporters may have one instant: whichever row is taken, it is always the same one.
    one_of_several = ("verdict", f.desc("last_stable_offset_lag"), "groups", "transactional_id", "cause")
    in_order = Window.partitionBy(*PARTITION).orderBy("taken_at", "start_offset", "producer_id", *one_of_several)
    before = f.lag("taken_at").over(in_order)
    holders = observations.withColumn("before", before).where(
        f.col("before").isNull() | (f.col("before") < f.col("taken_at"))
    )
    next_names = (*_TRANSACTION, "taken_at", "last_stable_offset_lag")
    next_row = (f.lead(name).over(in_order).alias(f"next_{name}") for name in next_names)
    following = holders.select("*", *next_row)
    is_same = (f.col("next_start_offset") == f.col("start_offset")) & (
        f.col("next_producer_id") == f.col("producer_id")
    )
    apart_ms = f.unix_millis("next_taken_at") - f.unix_millis("taken_at")
    return (
        following.where(is_same & (f.col("last_stable_offset_lag") > 0))
        .join(f.broadcast(slow), on=["cluster_id", "taken_at"], how="left")
        .where(apart_ms <= f.coalesce("watched_ms", f.lit(WATCHED_MS)))
    )


def _hours(first: str, last: str) -> Column:
    """Returns the hours in which the time between two instants lies; `last` is not in it."""
    until = f.timestamp_micros(f.unix_micros(last) - 1)
    return f.sequence(f.date_trunc("hour", first), f.date_trunc("hour", until), f.expr("INTERVAL 1 HOUR"))


def _within_hour() -> Column:
    end = f.least(f.col("next_taken_at"), _end_of_hour())
    return f.unix_millis(end) - f.unix_millis(f.greatest("taken_at", "hour"))


def _most_records() -> Column:
    """Returns the most offsets behind it in either cycle; the second counts in its own hour only, since lags grow."""
    is_of_hour = f.col("next_taken_at") <= _end_of_hour()
    return f.greatest("last_stable_offset_lag", f.when(is_of_hour, f.col("next_last_stable_offset_lag")))


def _end_of_hour() -> Column:
    return f.col("hour") + f.expr("INTERVAL 1 HOUR")
