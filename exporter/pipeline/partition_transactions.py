"""Joins observations to partition transactions: a transaction on one partition, from its first to its last sighting.

Every aggregate is a minimum, a maximum or a set, so that a row that is there twice changes nothing: not in a file that was
copied, nor by a second exporter. The aggregates of many rows are of numbers alone: with a text among them Spark sorts all
rows where it could hash them, which took five times as long.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from exporter.evaluation.verdicts import StartSource
from exporter.pipeline import schemas
from exporter.pipeline.session import small
from exporter.pipeline.suspects import KNOWN

PARTITION: Final = ("cluster_id", "topic", "topic_id", "partition")
"""A topic that is deleted and created again has another id; the id is empty where the history has none."""
KEY: Final = (*PARTITION, "producer_id", "start_offset")
PRODUCER: Final = ("cluster_id", "producer_id")
_OWNED: Final = (*KEY, "owner")
START_SOURCES: Final = (
    StartSource.FIRST_SEEN.label,
    StartSource.LAST_WRITE.label,
    StartSource.TRANSACTION_LOG.label,
    StartSource.COORDINATOR.label,
    StartSource.NOT_OPEN_BEFORE.label,
)
"""Sources from the least to the most trusted; the last corrects a client's clock. Tables have the index: only append."""
EXACT_SOURCES: Final = (StartSource.TRANSACTION_LOG.label, StartSource.COORDINATOR.label)
_COLUMN_OF_VERDICT: Final = {verdict: f"verdict_{number}" for number, verdict in enumerate(KNOWN)}


def updated_partition_transactions(
    observations: DataFrame, carried: DataFrame, *, producers: DataFrame, shared: DataFrame | None
) -> DataFrame:
    """`OBSERVATIONS`, `PARTITION_TRANSACTIONS` of before, and all `PRODUCERS` -> `PARTITION_TRANSACTIONS`, one row each.

    One that is observed after its `closed_at` loses it; `closings.with_closings` finds the new one. `shared` are keys of
    several transactions (`shared_offsets`).
    """
    seen = _seen(schemas.with_schema(observations, schemas.OBSERVATIONS))
    rows = _with_owners(seen.unionByName(_known(schemas.with_schema(carried, schemas.PARTITION_TRANSACTIONS))), shared)
    return schemas.with_schema(_aggregated(rows, producers), schemas.PARTITION_TRANSACTIONS)


def shared_offsets(observations: DataFrame, carried: DataFrame) -> DataFrame:
    """The `KEY` of each offset at which several transactions began, by their exact starts, and its `first_seen`.

    One producer writes twice at an offset after an unclean election has truncated the partition.
    """
    starts = observations.select(*KEY, exact_start().alias("exact"), f.col("taken_at").alias("first_seen")).unionByName(
        carried.select(*KEY, f.col("exact_started_at").alias("exact"), "first_seen")
    )
    spans = starts.groupBy(*KEY).agg(
        f.min("exact").alias("min"), f.max("exact").alias("max"), f.min("first_seen").alias("first_seen")
    )
    return spans.where(f.col("min") < f.col("max")).select(*KEY, "first_seen")


def _with_owners(rows: DataFrame, shared: DataFrame | None) -> DataFrame:
    """Rows with `owner`: at a shared offset the exact start of the transaction that they belong to, elsewhere 1970.

    A row without an exact start belongs to that of the next row which has one, because a coordinator is asked from the
    second cycle on; without a next one to that of the last row before it.
    """
    nobody = f.timestamp_seconds(f.lit(0))
    if shared is None:
        return rows.withColumn("owner", nobody)
    at_offset = Window.partitionBy(*KEY).orderBy("first_seen")
    later = at_offset.rangeBetween(Window.currentRow, Window.unboundedFollowing)
    earlier = at_offset.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    keys = f.broadcast(shared.select(*KEY))
    # Rows of one instant are in any order, and have one start.
    one_start = f.min("exact_started_at").over(Window.partitionBy(*KEY, "first_seen"))
    owned = (
        rows.join(keys, on=list(KEY), how="left_semi")
        .withColumn("owner", one_start)
        .withColumn(
            "owner",
            f.coalesce(
                f.col("exact_started_at"),
                f.first("owner", ignorenulls=True).over(later),
                f.last("owner", ignorenulls=True).over(earlier),
            ),
        )
    )
    return rows.join(keys, on=list(KEY), how="left_anti").withColumn("owner", nobody).unionByName(owned)


def _start_rank() -> Column:
    return f.coalesce(
        *(f.when(f.col("start_source") == name, f.lit(number)) for number, name in enumerate(START_SOURCES)), f.lit(0)
    )


def exact_start() -> Column:
    """Start of an observation; null if it is neither from the coordinator nor from the transaction log."""
    return f.when(f.col("start_source").isin(*EXACT_SOURCES), f.col("started_at"))


def _seen(observations: DataFrame) -> DataFrame:
    """Returns observations as partition transactions that were seen once."""
    return observations.select(
        *KEY,
        *("producer_epoch", "started_at", "groups"),
        *(name for name in schemas.GREATEST_OF_PARTITION if name != "duration_ms"),
        # The first cycle that saw it is all that is known of its start: its duration is unknown, and not zero.
        f.when((_start_rank() > 0) | (f.col("duration_ms") > 0), f.col("duration_ms")).alias("duration_ms"),
        f.col("taken_at").alias("first_seen"),
        f.col("taken_at").alias("last_seen"),
        exact_start().alias("exact_started_at"),
        _start_rank().alias("start_rank"),
        f.lit(None).cast("string").alias("transactional_id"),  # `_ids`
        f.lit(None).cast("timestamp").alias("closed_at"),
        f.lit(None).cast("timestamp").alias("lost_after"),
        # Null for nearly all rows, without a function that Spark interprets.
        f.when(
            ~f.col("verdict").isin(*KNOWN), f.array(f.struct(f.col("taken_at").alias("first_seen"), "verdict"))
        ).alias("unknown_verdicts"),
        *(
            f.expr(f"CASE WHEN verdict = '{verdict}' THEN taken_at END AS {column}")
            for verdict, column in _COLUMN_OF_VERDICT.items()
        ),
    )


def _known(carried: DataFrame) -> DataFrame:
    return carried.select(
        *(column for column in carried.columns if column not in {"verdicts", "is_lost"}),
        f.when(f.col("is_lost"), f.col("last_seen")).alias("lost_after"),
        f.filter("verdicts", lambda seen: ~seen["verdict"].isin(*KNOWN)).alias("unknown_verdicts"),
        *(
            f.expr(f"get(filter(verdicts, seen -> seen.verdict = '{verdict}'), 0).first_seen AS {column}")
            for verdict, column in _COLUMN_OF_VERDICT.items()
        ),
    )


def _aggregated(rows: DataFrame, producers: DataFrame) -> DataFrame:
    merged = rows.groupBy(*_OWNED).agg(
        *(f.expr(f"min({name}) AS {name}") for name in ("first_seen", "started_at", "exact_started_at", "closed_at")),
        *(
            f.expr(f"max({name}) AS {name}")
            for name in ("last_seen", "producer_epoch", "lost_after", *schemas.GREATEST_OF_PARTITION)
        ),
        # An exact start is the one that counts, and so is its source.
        f.coalesce(
            f.max(f.when(f.col("exact_started_at").isNotNull(), f.col("start_rank"))), f.max("start_rank")
        ).alias("start_rank"),
        *(f.expr(f"min({name}) AS {name}") for name in _COLUMN_OF_VERDICT.values()),
    )
    known = merged.select(
        *(
            column
            for column in merged.columns
            if column not in {*_COLUMN_OF_VERDICT.values(), "closed_at", "lost_after"}
        ),
        _verdicts().alias("verdicts"),
        f.when(f.col("closed_at") > f.col("last_seen"), f.col("closed_at")).alias("closed_at"),
        f.coalesce(f.col("lost_after") == f.col("last_seen"), f.lit(False)).alias("is_lost"),
    )
    return _with_names(known, rows).join(_ids(rows, producers), on=list(PRODUCER), how="left")


def _ids(rows: DataFrame, producers: DataFrame) -> DataFrame:
    """(cluster_id, producer_id, transactional_id): a row that another writer has added may be of a producer of no file."""
    known, others = (
        each.select(*PRODUCER, "transactional_id").where(f.col("transactional_id").isNotNull())
        for each in (producers, rows)
    )
    added = others.join(known, on=list(PRODUCER), how="left_anti").groupBy(*PRODUCER)
    return small(known.unionByName(added.agg(f.max("transactional_id").alias("transactional_id"))))


def _verdicts() -> Column:
    """Verdicts in order of first appearance. A single one, the usual case, needs no function that Spark interprets."""
    first_seen = {verdict: f.col(column) for verdict, column in _COLUMN_OF_VERDICT.items()}
    label = f.coalesce(*(f.when(column.isNotNull(), f.lit(verdict)) for verdict, column in first_seen.items()))
    only = f.struct(f.coalesce(*first_seen.values()).alias("first_seen"), label.alias("verdict"))
    seen = (
        f.struct(column.alias("first_seen"), f.lit(verdict).alias("verdict")) for verdict, column in first_seen.items()
    )
    several = f.array_sort(f.filter(f.array(*seen), lambda each: each["first_seen"].isNotNull()))
    count = reduce(Column.__add__, (column.isNotNull().cast("int") for column in first_seen.values()))
    return f.when(count == 1, f.array(only)).otherwise(several)


def _with_names(merged: DataFrame, rows: DataFrame) -> DataFrame:
    """Adds the groups, and verdicts that this version does not know: few rows have any."""
    nowhen = f.lit(None).cast("timestamp").alias("first_seen")
    groups = f.transform("groups", lambda group: f.struct(nowhen, group.alias("verdict")))
    named = (
        rows.where((f.size("groups") > 0) | (f.size("unknown_verdicts") > 0))
        .select(*_OWNED, f.inline(f.concat(f.coalesce("unknown_verdicts", f.array()), groups)))
        .groupBy(*_OWNED, "verdict", f.col("first_seen").isNull().alias("is_group"))
        .agg(f.min("first_seen").alias("first_seen"))
        .groupBy(*_OWNED)
        .agg(
            f.array_sort(f.collect_list(f.when(f.col("is_group"), f.col("verdict")))).alias("groups"),
            f.collect_list(f.when(~f.col("is_group"), f.struct("first_seen", "verdict"))).alias("unknown_verdicts"),
        )
    )
    return (
        merged.join(small(named), on=list(_OWNED), how="left")
        .withColumn("groups", f.coalesce("groups", f.array().cast("array<string>")))
        .withColumn(
            "verdicts",
            f.when(f.size("unknown_verdicts") > 0, f.array_sort(f.concat("verdicts", "unknown_verdicts"))).otherwise(
                f.col("verdicts")
            ),
        )
    )
