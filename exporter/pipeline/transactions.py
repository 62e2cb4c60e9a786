"""Joins partition transactions to transactions, and splits transactions again.

Partition transactions of one producer at one epoch that began at the same exact instant are one transaction. Exact are the
instants from the coordinator or the transaction log. A partition transaction without one is a transaction by itself.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from exporter.pipeline import schemas
from exporter.pipeline.partition_transactions import EXACT_SOURCES, START_SOURCES

CLOSED: Final = "closed"
STILL_OPEN: Final = "still_open"
LOST_FROM_VIEW: Final = "lost_from_view"
_TRANSACTION: Final = ("exact_started_at", "producer_id", "producer_epoch", "cluster_id", "alone")
"""Columns that the partition transactions of one transaction share; the column that differs most is compared first."""
_PARTITION_COLUMNS: Final = schemas.TRANSACTIONS["partitions"].dataType.elementType.names


def transactions_of(partition_transactions: DataFrame) -> DataFrame:
    """`PARTITION_TRANSACTIONS` -> `TRANSACTIONS`."""
    known = schemas.with_schema(partition_transactions, schemas.PARTITION_TRANSACTIONS)
    alone = f.when(f.col("exact_started_at").isNull(), f.struct("topic", "topic_id", "partition", "start_offset"))
    topic_id = f.nullif("topic_id", f.lit("")).alias("topic_id")
    by_transaction = (
        known.withColumn("alone", alone)
        .repartition("exact_started_at", "producer_id")
        .sortWithinPartitions(*_TRANSACTION)
    )
    grouped = by_transaction.groupBy(*_TRANSACTION).agg(
        f.max("transactional_id").alias("transactional_id"),
        f.min("started_at").alias("earliest"),
        f.max("start_rank").alias("start_rank"),
        f.min("first_seen").alias("first_seen"),
        f.max("last_seen").alias("last_seen"),
        *(f.max(name).alias(name) for name in schemas.GREATEST_OF_TRANSACTION),
        f.max("closed_at").alias("last_closed_at"),
        f.max(f.col("closed_at").isNull() & ~f.col("is_lost")).alias("is_open"),
        f.max(f.col("closed_at").isNull()).alias("is_not_closed"),
        f.sort_array(f.collect_list(f.struct(*_PARTITION_COLUMNS[:-1], topic_id))).alias("partitions"),
    )
    end = f.when(f.col("is_open"), STILL_OPEN).when(f.col("is_not_closed"), LOST_FROM_VIEW).otherwise(CLOSED)
    # Each verdict begins with its `first_seen`, so that they are in order of first appearance.
    verdicts_in_order = f.sort_array(f.flatten(f.col("partitions")["verdicts"]))
    # Rows of an older version have the rank of any start, although they have an exact one.
    best_exact = f.lit(max(map(START_SOURCES.index, EXACT_SOURCES)))
    rank = f.when(f.col("exact_started_at").isNull(), f.col("start_rank")).otherwise(f.least("start_rank", best_exact))
    source = f.element_at(f.array(*(f.lit(label) for label in START_SOURCES)), rank + 1)
    return schemas.with_schema(
        grouped.select(
            *(column for column in grouped.columns if column in schemas.TRANSACTIONS.names),
            f.coalesce("exact_started_at", "earliest").alias("started_at"),
            source.alias("start_source"),
            f.array_distinct(verdicts_in_order["verdict"]).alias("verdicts"),
            end.alias("end"),
            f.when(~f.col("is_not_closed"), f.col("last_closed_at")).alias("closed_at"),
            *(f.lit(None).cast(kind).alias(name) for name, kind in schemas.OUTCOME.items()),  # `outcomes` joins them
        ),
        schemas.TRANSACTIONS,
    )


def partition_transactions_of(transactions: DataFrame) -> DataFrame:
    """`TRANSACTIONS` -> `PARTITION_TRANSACTIONS`, exactly those that they were made of."""
    known = schemas.with_schema(transactions, schemas.TRANSACTIONS)
    shared = ("cluster_id", "producer_id", "producer_epoch", "transactional_id")
    split = known.select(*shared, f.explode("partitions").alias("one")).select(*shared, "one.*")
    return schemas.with_schema(with_topic_id(split), schemas.PARTITION_TRANSACTIONS)


def with_topic_id(rows: DataFrame) -> DataFrame:
    """An unknown topic id is empty and not null, so that rows with it can be joined."""
    return rows.withColumn("topic_id", f.coalesce("topic_id", f.lit("")))
