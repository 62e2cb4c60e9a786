"""Joins transactions with their outcomes from the transaction log, bucket by bucket.

A bucket is joined when it is new, and again if the log, which another process reads, had not passed the bucket's end by
then. A run reads the log from the start of the oldest transaction in these buckets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from exporter.history.schema import cluster_of_folder
from exporter.pipeline import schemas
from exporter.pipeline.ingest import read_transactions
from exporter.pipeline.manifest import Joined, Manifest, Tables
from exporter.pipeline.transaction_log import RECORDS, outcomes_of, read_records, with_outcomes

SETTLED_MS: Final = 300_000
"""The log covers a bucket when it was read to this long after the bucket's end: all markers are written by then."""
BEFORE_MS: Final = 60_000
"""The log is read from this long before the oldest transaction, because two clocks may differ."""

JOINED: Final = t.StructType(
    [column for column in schemas.TRANSACTIONS if column.name != "partitions"]
    + [
        t.StructField("outcome", t.StringType()),  # commit, abort, timeout or fenced; null where the log has none
        t.StructField("exact_duration_ms", t.LongType()),
        t.StructField("marker_ms", t.LongType()),  # from the decision to the last marker
    ]
)
"""A row for each transaction."""


@dataclass(frozen=True, slots=True)
class Part:
    """A folder of transactions to be joined."""

    folder: str
    closed_to_ms: int | None
    """Null for open transactions."""
    log_to_ms: int
    """When the log of its cluster was last read; zero if never. For open transactions, the newest of all clusters."""


def logs_read_to_ms(tables: Tables) -> dict[str, int]:
    """By cluster, when new records of its log were last written to the table."""
    return {
        cluster_of_folder(folder.name): max(int(file.stat().st_mtime * 1000) for file in files)
        for folder in (tables.root / "transaction_log").glob("cluster_id=*")
        if (files := tuple(folder.glob("*.parquet")))
    }


def parts_to_join(manifest: Manifest, logs_to_ms: Mapping[str, int]) -> tuple[Part, ...]:
    """Parts that were never joined, or joined before the log of their cluster covered them."""
    parts = [
        Part(bucket.folder, bucket.closed_to_ms, logs_to_ms.get(bucket.cluster_id, 0)) for bucket in manifest.buckets
    ]
    parts += [Part(manifest.open, None, max(logs_to_ms.values(), default=0))] if manifest.open else []
    joined_to_ms = {outcome.source: outcome.log_to_ms for outcome in manifest.outcomes}
    return tuple(part for part in parts if _is_due(part, joined_to_ms.get(part.folder)))


def _is_due(part: Part, joined_to_ms: int | None) -> bool:
    if joined_to_ms is None:
        return True
    was_covered = part.closed_to_ms is not None and joined_to_ms >= part.closed_to_ms + SETTLED_MS
    return not was_covered and part.log_to_ms != joined_to_ms


def join_outcomes(spark: SparkSession, tables: Tables, *, now_ms: int) -> int | None:
    """Returns the number of joined parts; None without a log. Call it with the tables locked."""
    logs_to_ms = logs_read_to_ms(tables)
    if not logs_to_ms:
        return None
    manifest = tables.load()
    parts = parts_to_join(manifest, logs_to_ms)
    named = {bucket.folder for bucket in manifest.buckets} | {manifest.open}
    kept = tuple(outcome for outcome in manifest.outcomes if outcome.source in named - {part.folder for part in parts})
    if parts:
        folder = f"outcomes/{manifest.new_run()}"
        transactions = read_transactions(spark, tables, (part.folder for part in parts))
        outcomes = outcomes_of(_records(spark, tables, transactions))
        _write(joined(transactions, outcomes), tables.root / folder)
        kept += tuple(Joined(part.folder, _place(folder, part.folder), part.log_to_ms) for part in parts)
    if kept != manifest.outcomes:
        tables.commit(manifest.succeeded_by(now_ms, outcomes=kept))
    return len(parts)


def joined(transactions: DataFrame, outcomes: DataFrame) -> DataFrame:
    """`TRANSACTIONS` and `OUTCOMES` -> `JOINED`, and the columns of each row's folder."""
    with_path = with_outcomes(transactions.withColumn("path", f.split("_metadata.file_path", "/")), outcomes)
    place = [f.element_at("path", number) for number in range(-6, -1)]
    run, part, cluster, day, hour = (f.element_at(f.split(element, "="), -1) for element in place)
    source = f.concat_ws(".", run, part, day, hour)
    return with_path.select(
        *JOINED.names,
        source.alias("source"),
        f.when(cluster == "any", cluster).otherwise(f.url_encode("cluster_id")).alias("cluster"),
    )


def _records(spark: SparkSession, tables: Tables, transactions: DataFrame) -> DataFrame:
    """The log of each cluster, from its oldest transaction on."""
    oldest = transactions.groupBy("cluster_id").agg(f.unix_millis(f.min("started_at")).alias("since_ms")).collect()
    frames = [
        read_records(spark, folder, row["cluster_id"], since_ms=row["since_ms"] - BEFORE_MS)
        for row in oldest
        if (folder := tables.log_records(row["cluster_id"])).exists()
    ]
    return reduce(DataFrame.unionByName, frames) if frames else spark.createDataFrame([], RECORDS)


def _write(rows: DataFrame, folder: Path) -> None:
    rows.write.partitionBy("source", "cluster").parquet(str(folder))


def _place(folder: str, source: str) -> str:
    """The folder with the joined rows of that folder of transactions."""
    run, part, cluster, day, hour = Path(source).parts[-5:]
    name = ".".join(element.split("=", 1)[-1] for element in (run, part, day, hour))
    return f"{folder}/source={name}/{cluster}"
