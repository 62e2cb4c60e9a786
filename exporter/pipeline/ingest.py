"""Ingests one batch of new history files into the tables; only rows that the batch can change are read again.

Open transactions are carried from batch to batch. Closed ones are in buckets by the hour of their closing. A batch reads
the buckets of its own time again, and those with older transactions that its rows belong to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, unquote_plus

import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from exporter.history.schema import CYCLES, OBSERVATIONS, VERSION
from exporter.incidents.incident import SUSPECTS
from exporter.pipeline import schemas
from exporter.pipeline.closings import with_closings
from exporter.pipeline.files import HistoryFile, batch_of, damaged_among, history_files, plausible, waiting
from exporter.pipeline.identities import (
    Identities,
    folders_with,
    identities_of,
    merged,
    read_identities,
    wanted_of,
    write_identities,
)
from exporter.pipeline.manifest import Bucket, DamagedFile, Manifest, Tables
from exporter.pipeline.partition_transactions import exact_start, updated_partition_transactions
from exporter.pipeline.transactions import CLOSED, partition_transactions_of, transactions_of

BATCH_ROWS: Final = 5_000_000
"""Observations: a batch and its result fit into the memory of `session.MEMORY`, with any backlog."""
REOPENED_MS: Final = 300_000
"""Cycles of two exporters overlap: one often sees a transaction that the other's cycle has just closed."""


@dataclass(frozen=True, slots=True)
class IngestedBatch:
    """Numbers of one batch."""

    files: int
    files_waiting: int
    newest_ms: int
    """Zero if nothing was taken because a file cannot be read."""


def ingest_batch(
    spark: SparkSession, history: Path, tables: Tables, *, now_ms: int, batch_rows: int = BATCH_ROWS
) -> IngestedBatch | None:
    """Take one batch, oldest files first; None when no file waits. Call it with the tables locked."""
    manifest = tables.load()
    there = history_files(history)
    consumed = manifest.consumed & {file.key for file in there}
    sane = plausible(there, now_ms)
    damaged = damaged_among(
        (file for file in sane if file.key not in consumed or file.key in _keys(manifest.damaged)), manifest.damaged
    )
    if damaged != manifest.damaged:
        manifest = manifest.succeeded_by(now_ms, damaged=damaged)
        tables.commit(manifest)
    files = tuple(file for file in sane if file.key not in _keys(damaged))
    pending = waiting(files, consumed)
    batch = batch_of(pending, batch_rows)
    if not batch:
        return None
    cycles = _cycles_since(files, manifest, batch)
    run = manifest.new_run()
    try:
        new = [file for file in batch if file.table == OBSERVATIONS]
        observations = read_history(spark, history, OBSERVATIONS, new)
        covered = read_history(spark, history, CYCLES, cycles)
        touched, identities = _reach(spark, tables, manifest, batch, observations)
        # First: afterwards Spark has this small table in memory, and broadcasts it.
        write_identities(identities, tables.root / "identities" / run)
        carried = partition_transactions_of(read_transactions(spark, tables, _folders(touched, manifest)))
        transactions = _transactions(observations, carried, covered, identities.producers)
        _write(transactions, tables.root / "transactions" / run)
    except (PySparkException, Py4JError):
        found = damaged_among({*batch, *cycles}, (), to_its_end=True)
        if not found:
            raise
        tables.commit(manifest.succeeded_by(now_ms, damaged=(*damaged, *found)))
        return IngestedBatch(0, len(pending) - len(found), 0)
    finally:
        spark.catalog.clearCache()
    kept = tuple(bucket for bucket in manifest.buckets if bucket not in touched)
    tables.commit(
        manifest.succeeded_by(
            now_ms,
            consumed=consumed | {file.key for file in batch},
            buckets=(*kept, *_buckets(tables.root, run)),
            open=_open(tables.root, run),
            identities=f"identities/{run}",
        )
    )
    return IngestedBatch(len(batch), len(pending) - len(batch), max(file.last_ms for file in batch))


def _touches(batch: Collection[HistoryFile], bucket: Bucket) -> bool:
    files = [file for file in batch if file.cluster_id == bucket.cluster_id]
    return bool(files) and (
        bucket.closed_to_ms >= min(file.first_ms for file in files) - REOPENED_MS
        and bucket.first_seen_ms <= max(file.last_ms for file in files)
    )


def _reach(
    spark: SparkSession, tables: Tables, manifest: Manifest, batch: Collection[HistoryFile], observations: DataFrame
) -> tuple[tuple[Bucket, ...], Identities]:
    """The buckets that a batch can change, and all known producers and partitions."""
    touched = tuple(bucket for bucket in manifest.buckets if _touches(batch, bucket))
    observed = identities_of(observations, exact_start())
    if not manifest.buckets and manifest.open is None:
        return touched, observed
    before = (
        identities_of(partition_transactions_of(all_transactions(spark, tables, manifest)), f.col("exact_started_at"))
        if manifest.identities is None
        else read_identities(spark, tables.root / manifest.identities)
    )
    clusters = {file.cluster_id for file in batch if file.table == OBSERVATIONS}
    others = tuple(bucket for bucket in manifest.buckets if bucket not in touched and bucket.cluster_id in clusters)
    if others:
        at_hand = partition_transactions_of(read_transactions(spark, tables, _folders(touched, manifest)))
        wanted = wanted_of(observations, at_hand, before, observed)
        found = folders_with(read_transactions(spark, tables, (bucket.folder for bucket in others)), wanted)
        touched += tuple(bucket for bucket in others if bucket.folder.split("/", 1)[1] in found)
    return touched, merged(before, observed)


def _folders(buckets: Iterable[Bucket], manifest: Manifest) -> list[str]:
    return [*(bucket.folder for bucket in buckets), *([manifest.open] if manifest.open else [])]


def _transactions(observations: DataFrame, carried: DataFrame, cycles: DataFrame, producers: DataFrame) -> DataFrame:
    sightings = carried.select("cluster_id", f.col("last_seen").alias("instant")).unionByName(
        observations.select("cluster_id", f.col("taken_at").alias("instant"))
    )
    partition_transactions = updated_partition_transactions(observations, carried, producers=producers)
    return transactions_of(with_closings(partition_transactions, cycles, sightings))


def _cycles_since(
    files: Iterable[HistoryFile], manifest: Manifest, batch: Collection[HistoryFile]
) -> tuple[HistoryFile, ...]:
    """The cycles of the batch, and earlier ones that may close one of its transactions."""
    taken = manifest.consumed | {file.key for file in batch}
    first_ms = {
        cluster_id: min(file.first_ms for file in batch if file.cluster_id == cluster_id)
        for cluster_id in {file.cluster_id for file in batch}
    }
    return tuple(
        file
        for file in files
        if file.table == CYCLES
        and file.key in taken
        and file.last_ms >= first_ms.get(file.cluster_id, file.last_ms + 1)
    )


def _keys(damaged: Iterable[DamagedFile]) -> frozenset[str]:
    return frozenset(file.key for file in damaged)


def read_history(spark: SparkSession, history: Path, table: str, files: Iterable[HistoryFile]) -> DataFrame:
    """`OBSERVATIONS` or `CYCLES` of these files."""
    schema = {OBSERVATIONS: schemas.OBSERVATIONS, CYCLES: schemas.CYCLES}[table]
    paths = [str(file.path) for file in files]
    if not paths:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema).option("basePath", str(history / VERSION / table))
    rows = reader.parquet(*paths)
    # Spark decodes each escape of a folder's name as Latin-1; the bytes are UTF-8.
    return rows.withColumn("cluster_id", f.decode(f.encode("cluster_id", "ISO-8859-1"), "UTF-8"))


def read_transactions(spark: SparkSession, tables: Tables, folders: Iterable[str]) -> DataFrame:
    """`TRANSACTIONS` of these folders."""
    paths = [str(tables.root / folder) for folder in folders]
    if not paths:
        return spark.createDataFrame([], schemas.TRANSACTIONS)
    return spark.read.schema(schemas.TRANSACTIONS).parquet(*paths)


def all_transactions(spark: SparkSession, tables: Tables, manifest: Manifest) -> DataFrame:
    """`TRANSACTIONS`, closed or not."""
    return read_transactions(spark, tables, _folders(manifest.buckets, manifest))


def _write(transactions: DataFrame, folder: Path) -> None:
    """Write all buckets in one pass, each in its own folder."""
    is_closed = f.col("end") == CLOSED
    is_suspect = f.arrays_overlap("verdicts", f.array(*(f.lit(verdict) for verdict in SUSPECTS)))
    places = {
        "part": f.when(~is_closed, "open").when(is_suspect, "suspect").otherwise("ordinary"),
        "cluster": f.when(is_closed, f.url_encode("cluster_id")).otherwise("any"),
        "date": f.when(is_closed, f.date_format("closed_at", "yyyy-MM-dd")).otherwise("any"),
        "hour": f.when(is_closed, f.date_format("closed_at", "HH")).otherwise("any"),
    }
    placed = transactions.withColumns(places)
    placed.write.partitionBy(*places).option("maxRecordsPerFile", BATCH_ROWS).parquet(str(folder))


def _open(root: Path, run: str) -> str | None:
    folder = root / "transactions" / run / "part=open" / "cluster=any" / "date=any" / "hour=any"
    return str(folder.relative_to(root)) if folder.exists() else None


def _buckets(root: Path, run: str) -> tuple[Bucket, ...]:
    return tuple(
        bucket_of(root, folder)
        for part in ("ordinary", "suspect")
        for folder in sorted((root / "transactions" / run / f"part={part}").glob("cluster=*/date=*/hour=*"))
    )


def bucket_of(root: Path, folder: Path) -> Bucket:
    """The bucket in that folder, from the footers of its files."""
    footers = [pq.read_metadata(path) for path in sorted(folder.glob("*.parquet"))]
    part, cluster, day, _ = (element.split("=", 1)[1] for element in folder.parts[-4:])
    return Bucket(
        folder=str(folder.relative_to(root)),
        cluster_id=unquote_plus(unquote(cluster)),  # encoded by this file, and by Spark
        is_suspect=part == "suspect",
        day=day,
        first_seen_ms=min(_extremes(footers, "first_seen"))[0],
        closed_to_ms=max(_extremes(footers, "closed_at"), key=lambda extreme: extreme[1])[1],
        rows=sum(footer.num_rows for footer in footers),
    )


def _extremes(footers: Iterable[Any], column: str) -> list[tuple[int, int]]:
    found = []
    for footer in footers:
        number = footer.schema.names.index(column)
        for group in range(footer.num_row_groups):
            statistics = footer.row_group(group).column(number).statistics
            found.append((_ms(statistics.min), _ms(statistics.max)))
    return found


def _ms(instant: Any) -> int:
    return int(instant.timestamp() * 1000)
