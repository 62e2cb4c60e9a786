"""Keeps the producers and partitions of the table, to find closed transactions that a batch of new rows belongs to.

A producer id has one transactional id for ever, and offsets and starts grow. So two small tables, one row per producer and
per partition, show that nearly all rows of a batch belong to no older transaction. For the others the keys of closed
transactions are read: a file that comes late, a partition that was unread for long, a name that came late. Compaction
makes both again from the rows that are left, now and then, so that they grow with the retention and not for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from exporter.pipeline import schemas
from exporter.pipeline.buckets import BUCKET, Bucket, buckets_of
from exporter.pipeline.connectors import spark_path
from exporter.pipeline.partition_transactions import KEY, PARTITION, PRODUCER, exact_start
from exporter.pipeline.transactions import with_topic_id
from exporter.storage.places import Place

_TRANSACTION = (*PRODUCER, "exact_started_at")


@dataclass(frozen=True, slots=True)
class Identities:
    """`PRODUCERS` and `PARTITIONS`."""

    producers: DataFrame
    partitions: DataFrame


def identities_of(observations: DataFrame) -> Identities:
    # The batch is read once: a producer writes to few partitions.
    seen = observations.groupBy(*PARTITION, "producer_id", "transactional_id").agg(
        f.max("start_offset").alias("newest_offset"), f.max(exact_start()).alias("newest_start")
    )
    seen.persist()
    return _greatest(seen, seen)


def identities_of_table(transactions: DataFrame) -> Identities:
    """Makes them from `TRANSACTIONS_TABLE`: producers and partitions without a row there need not be known."""
    shared = (*PRODUCER, "transactional_id")
    split = with_topic_id(transactions.select(*shared, f.explode("partitions").alias("one")).select(*shared, "one.*"))
    return _greatest(
        split.withColumn("newest_start", f.col("exact_started_at")),
        split.withColumn("newest_offset", f.col("start_offset")),
    )


def merge(one: Identities, other: Identities) -> Identities:
    return _greatest(one.producers.unionByName(other.producers), one.partitions.unionByName(other.partitions))


def _greatest(of_producers: DataFrame, of_partitions: DataFrame) -> Identities:
    """Takes the greater one of two names, so that the order does not matter."""
    named = of_producers.groupBy(*PRODUCER).agg(
        *(f.max(column).alias(column) for column in ("transactional_id", "newest_start"))
    )
    newest = of_partitions.groupBy(*PARTITION).agg(f.max("newest_offset").alias("newest_offset"))
    return Identities(
        schemas.with_schema(named, schemas.PRODUCERS).persist(), schemas.with_schema(newest, schemas.PARTITIONS)
    )


def read_identities(spark: SparkSession, folder: Place) -> Identities:
    return Identities(
        spark.read.schema(schemas.PRODUCERS).parquet(spark_path(folder / "producers")),
        with_topic_id(spark.read.schema(schemas.PARTITIONS).parquet(spark_path(folder / "partitions"))),
    )


def write_identities(identities: Identities, folder: Place) -> None:
    identities.producers.coalesce(1).write.parquet(spark_path(folder / "producers"))
    identities.partitions.coalesce(1).write.parquet(spark_path(folder / "partitions"))


Wanted: TypeAlias = Mapping[str, DataFrame]
"""Keys by their kind: a closed transaction that has one of them belongs to the batch."""
BY_OFFSET: Final = "offset"
"""`KEY`: a partition transaction."""
BY_START: Final = "start"
"""(cluster_id, producer_id, exact_started_at): a transaction."""
BY_NAME: Final = "name"
"""(cluster_id, producer_id, name): the batch has the name of a producer that was known without it."""


def wanted_of(observations: DataFrame, known: DataFrame, before: Identities, observed: Identities) -> Wanted:
    """Keys that a batch of `OBSERVATIONS` may share with closed transactions.

    `known` are the `PARTITION_TRANSACTIONS` that are read anyway.
    """
    partition_transactions = (
        observations.select(*KEY, "taken_at")
        .join(before.partitions, on=list(PARTITION))
        .where(f.col("start_offset") <= f.col("newest_offset"))
        .groupBy(*KEY)
        .agg(f.min("taken_at").alias("since"))
        # A row before the known one may be of another transaction at the same offset.
        .join(known.select(*KEY, "first_seen"), on=list(KEY), how="left")
        .where(f.col("first_seen").isNull() | (f.col("since") < f.col("first_seen")))
        .select(*KEY)
        .distinct()
    )
    transactions = (
        observations.select(*PRODUCER, exact_start().alias("exact_started_at"))
        .join(before.producers, on=list(PRODUCER))
        .where(f.col("exact_started_at") <= f.col("newest_start"))
        .select(*_TRANSACTION)
        .distinct()
        .join(known, on=list(_TRANSACTION), how="left_anti")
    )
    names = observed.producers.select(*PRODUCER, f.col("transactional_id").alias("name")).join(
        before.producers, on=list(PRODUCER)
    )
    is_new = f.col("transactional_id").isNull() | (f.col("transactional_id") < f.col("name"))
    names = names.where(is_new & f.col("name").isNotNull())
    return {BY_OFFSET: partition_transactions, BY_START: transactions, BY_NAME: names}


def buckets_with(transactions: DataFrame, wanted: Wanted) -> frozenset[Bucket]:
    """The buckets of `TRANSACTIONS_TABLE` that hold a wanted transaction."""
    split = with_topic_id(
        transactions.select(*BUCKET, *PRODUCER, f.explode("partitions").alias("one")).select(
            *BUCKET, *PRODUCER, *(f"one.{name}" for name in (*KEY, "exact_started_at") if name not in PRODUCER)
        )
    )

    def found(kind: str) -> DataFrame:
        if kind == BY_NAME:
            renamed = transactions.join(wanted[kind].select(*PRODUCER, "name"), on=list(PRODUCER))
            return renamed.where(~f.col("transactional_id").eqNullSafe(f.col("name")))
        return split.join(wanted[kind], on=list(KEY if kind == BY_OFFSET else _TRANSACTION), how="left_semi")

    kinds = reduce(DataFrame.unionByName, (keys.select(f.lit(kind).alias("kind")) for kind, keys in wanted.items()))
    present = [row["kind"] for row in kinds.distinct().collect()]
    if not present:
        return frozenset()
    return buckets_of(reduce(DataFrame.unionByName, (found(kind).select(*BUCKET) for kind in present)))
