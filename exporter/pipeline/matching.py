"""Matches transactions with the outcomes that the transaction log has.

By producer, epoch and exact start where it is known. Cycles do not describe short transactions, so most have no exact
start: then the first decision of the producer after the last sighting is the transaction's, if no other one can be. With
transaction.version 2 (KIP-890) each transaction has an epoch of its own, and no other one can be.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from exporter.pipeline import schemas
from exporter.pipeline.partition_transactions import EXACT_RANK, START_SOURCES
from exporter.pipeline.transaction_log import OUTCOMES

AHEAD_MS: Final = 1_000
"""A coordinator's clock may be this far behind the exporter's."""
CYCLE_MS: Final = 30_000
"""A cycle, dated at its beginning, may read a partition this much later."""
_PRODUCER: Final = ("cluster_id", "producer_id", "producer_epoch")
_JOINED: Final = ("outcome", "exact_duration_ms", "marker_ms")


def with_outcomes(transactions: DataFrame, outcomes: DataFrame) -> DataFrame:
    """`TRANSACTIONS` with `outcome`, `exact_duration_ms` and `marker_ms`, null where the log has none or two fit."""
    known = schemas.shaped(outcomes, OUTCOMES).select(
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
    exact = _exact(placed, known).select(*row, *_renamed("exact"))
    near = _near(placed, known).select(*row, *_renamed("near"))
    joined = placed.join(exact, on=row, how="left").join(near, on=row, how="left")
    chosen = {
        name: f.when(f.col("exact_outcome").isNotNull(), f.col(f"exact_{name}")).otherwise(f.col(f"near_{name}"))
        for name in _JOINED
    }
    return joined.withColumns(chosen).drop("row", *(f"{how}_{name}" for how in ("exact", "near") for name in _JOINED))


def _renamed(how: str) -> list[Column]:
    return [f.col(name).alias(f"{how}_{name}") for name in _JOINED]


def _exact(placed: DataFrame, known: DataFrame) -> DataFrame:
    by_start = known.drop("partitions", "decided_ms").dropDuplicates([*_PRODUCER, "start_ms"])
    begun = placed.where(_is_exact()).withColumn("start_ms", f.unix_millis("started_at"))
    return begun.join(by_start, on=[*_PRODUCER, "start_ms"])


def _is_exact() -> Column:
    return f.col("start_source").isin(*START_SOURCES[EXACT_RANK:])


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
    """It is of a transaction that had begun when this one was seen, was decided before it was gone, and has its partition.

    Null columns exclude nothing.
    """
    partitions = f.col(f"{decision}.partitions")
    conditions = (
        f.col(f"{decision}.decided_ms").isNotNull(),
        f.coalesce(f.col(f"{decision}.start_ms") <= f.col("seen.begun_by_ms"), f.lit(True)),
        f.coalesce(f.col(f"{decision}.decided_ms") <= f.col("seen.decided_by_ms"), f.lit(True)),
        (f.size(partitions) == 0) | f.array_contains(partitions, f.col("seen.partition")),
    )
    fits = conditions[0]
    for condition in conditions[1:]:
        fits &= condition
    return f.coalesce(fits, f.lit(False))
