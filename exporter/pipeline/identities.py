"""What the tables know of each producer and partition, and which closed transactions a batch belongs to, of whatever age.

A producer id has one transactional id for ever, and offsets and starts grow. So two small tables, a row for each producer
and for each partition ever seen, show that nothing older belongs to nearly every row of a batch. For the others the keys
of closed transactions are read: a file that comes late, a partition that was unread for long, a name that was told late.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from exporter.pipeline import schemas
from exporter.pipeline.legs import KEY, exact_start

_PRODUCER = ("cluster_id", "producer_id")
_PARTITION = ("cluster_id", "topic", "partition")
_TRANSACTION = (*_PRODUCER, "exact_started_at")


@dataclass(frozen=True, slots=True)
class Identities:
    """`PRODUCERS` and `PARTITIONS`."""

    producers: DataFrame
    partitions: DataFrame


def identities_of(rows: DataFrame, start: Column) -> Identities:
    """Of observations or of legs, whose exact start is `start`."""
    names = (
        rows.where(f.col("transactional_id").isNotNull())
        .select(*_PRODUCER, "transactional_id")
        .distinct()
        .groupBy(*_PRODUCER)
        .agg(f.max("transactional_id").alias("transactional_id"))
    )
    producers = rows.groupBy(*_PRODUCER).agg(f.max(start).alias("newest_start"))
    partitions = rows.groupBy(*_PARTITION).agg(f.max("start_offset").alias("newest_offset"))
    named = producers.join(names, on=list(_PRODUCER), how="left")
    known = schemas.shaped(named, schemas.PRODUCERS).persist()
    return Identities(known, schemas.shaped(partitions, schemas.PARTITIONS))


def merged(one: Identities, other: Identities) -> Identities:
    """What both know. The greatest name is taken, so that the order does not matter where there are two."""
    producers = one.producers.unionByName(other.producers).groupBy(*_PRODUCER)
    partitions = one.partitions.unionByName(other.partitions).groupBy(*_PARTITION)
    whole = producers.agg(*(f.max(it).alias(it) for it in ("transactional_id", "newest_start")))
    return Identities(
        schemas.shaped(whole, schemas.PRODUCERS).persist(),
        schemas.shaped(partitions.agg(f.max("newest_offset").alias("newest_offset")), schemas.PARTITIONS),
    )


def read_identities(spark: SparkSession, folder: Path) -> Identities:
    """As `write_identities` left them."""
    return Identities(
        spark.read.schema(schemas.PRODUCERS).parquet(str(folder / "producers")),
        spark.read.schema(schemas.PARTITIONS).parquet(str(folder / "partitions")),
    )


def write_identities(identities: Identities, folder: Path) -> None:
    """One file each."""
    identities.producers.coalesce(1).write.parquet(str(folder / "producers"))
    identities.partitions.coalesce(1).write.parquet(str(folder / "partitions"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Keys that closed transactions may have: each of them belongs to the batch."""

    legs: DataFrame
    transactions: DataFrame
    names: DataFrame
    """(cluster_id, producer_id, name), told by the batch for a producer that was known without it."""


def wanted_of(observations: DataFrame, known: DataFrame, before: Identities, told: Identities) -> Wanted:
    """What a batch of `OBSERVATIONS` may share with closed transactions that are not among the `LEGS` at hand."""
    legs = (
        observations.select(*KEY)
        .join(before.partitions, on=list(_PARTITION))
        .where(f.col("start_offset") <= f.col("newest_offset"))
        .select(*KEY)
        .distinct()
        .join(known, on=list(KEY), how="left_anti")
    )
    transactions = (
        observations.select(*_PRODUCER, exact_start().alias("exact_started_at"))
        .join(before.producers, on=list(_PRODUCER))
        .where(f.col("exact_started_at") <= f.col("newest_start"))
        .select(*_TRANSACTION)
        .distinct()
        .join(known, on=list(_TRANSACTION), how="left_anti")
    )
    names = told.producers.select(*_PRODUCER, f.col("transactional_id").alias("name")).join(
        before.producers, on=list(_PRODUCER)
    )
    is_new = f.col("transactional_id").isNull() | (f.col("transactional_id") < f.col("name"))
    return Wanted(legs, transactions, names.where(is_new & f.col("name").isNotNull()))


def folders_with(transactions: DataFrame, wanted: Wanted) -> frozenset[str]:
    """Of `TRANSACTIONS`, the ends of the folders (run, part, cluster, day, hour) that hold a wanted one."""
    rows = transactions.withColumn("path", f.col("_metadata.file_path"))
    legs = rows.select("path", *_PRODUCER, f.explode("partitions").alias("leg")).select(
        "path", *_PRODUCER, *(f"leg.{it}" for it in ("topic", "partition", "start_offset", "exact_started_at"))
    )
    renamed = rows.join(wanted.names.select(*_PRODUCER, "name"), on=list(_PRODUCER)).where(
        ~f.col("transactional_id").eqNullSafe(f.col("name"))
    )
    found = {
        "legs": legs.join(wanted.legs, on=list(KEY), how="left_semi"),
        "transactions": legs.join(wanted.transactions, on=list(_TRANSACTION), how="left_semi"),
        "names": renamed,
    }
    kinds = [getattr(wanted, it).select(f.lit(it).alias("kind")) for it in found]
    present = [it["kind"] for it in reduce(DataFrame.unionByName, kinds).distinct().collect()]
    if not present:
        return frozenset()
    paths = reduce(DataFrame.unionByName, (found[it].select("path") for it in present)).distinct().collect()
    return frozenset("/".join(unquote(row["path"]).split("/")[-6:-1]) for row in paths)
