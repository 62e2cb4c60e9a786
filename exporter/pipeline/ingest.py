"""Ingests one batch of new history files into the tables; only rows that the batch can change are read again.

Open transactions are carried from batch to batch. Closed ones are in buckets by the hour of their closing. A batch reads
the buckets of its own time again, and those with older transactions that its rows belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from exporter.history.schema import CYCLES, OBSERVATIONS
from exporter.incidents.incident import SUSPECTS
from exporter.pipeline import schemas
from exporter.pipeline.closings import with_closings
from exporter.pipeline.connectors import parquet_files, spark_path
from exporter.pipeline.delta import DataFile, to_ms
from exporter.pipeline.files import HistoryFile, batch_of, damaged_among, history_files, plausible, waiting
from exporter.pipeline.history import read_history
from exporter.pipeline.identities import (
    BY_OFFSET,
    Identities,
    Wanted,
    files_with,
    identities_of,
    merge,
    read_identities,
    wanted_of,
    write_identities,
)
from exporter.pipeline.partition_transactions import KEY, shared_offsets, updated_partition_transactions
from exporter.pipeline.tables import Current, DamagedFile, Tables, TablesState, by_cluster
from exporter.pipeline.transactions import CLOSED, partition_transactions_of, transactions_of
from exporter.storage.places import Place, remove_folder

BATCH_ROWS: Final = 5_000_000
"""Observations: a batch and its result fit into the memory of `session.MEMORY`, with any backlog."""
REOPENED_MS: Final = 300_000
"""Cycles of two exporters overlap: one often sees a transaction that the other's cycle has just closed."""


@dataclass(frozen=True, slots=True)
class IngestedBatch:
    files: int
    """Zero if nothing was taken because a file cannot be read."""
    files_waiting: int


def ingest_batch(
    open_spark: Callable[[], SparkSession],
    history: Place,
    tables: Tables,
    *,
    now_ms: int,
    batch_rows: int = BATCH_ROWS,
) -> IngestedBatch | None:
    """Takes one batch, oldest files first; None when no file waits. Raises TableError if another run was first."""
    current = tables.current()
    there = history_files(history)
    taken = current.state.taken & {file.key for file in there}
    sane = plausible(there, now_ms)
    known = tables.damaged()
    damaged = damaged_among((file for file in sane if file.key not in taken or file.key in _keys(known)), known)
    if damaged != known:
        tables.remember_damaged(damaged)
    files = tuple(file for file in sane if file.key not in _keys(damaged))
    pending = waiting(files, taken)
    batch = batch_of(pending, batch_rows)
    if not batch:
        return None
    run = current.snapshot.new_run()
    written = tables.folder_of(tables.transactions, run)
    held = taken | {file.key for file in batch}
    spark = open_spark()
    work = _Work(spark, history, tables, current, batch, tuple(file for file in files if file.key in held))
    try:
        touched = work.write(written, tables.identities_of(run))
    except (PySparkException, Py4JError, pa.ArrowException, OSError):
        found = damaged_among(work.read, (), to_its_end=True)
        if not found:
            raise
        tables.remember_damaged((*damaged, *found))
        return IngestedBatch(0, len(pending) - len(found))
    finally:
        spark.catalog.clearCache()
    state = TablesState(
        taken=held,
        newest_ms=by_cluster(
            max, [*current.state.newest_ms.items(), *((file.cluster_id, file.last_ms) for file in batch)]
        ),
        identities=tables.identities_of(run).name,
    )
    tables.commit(current, state, run=run, added=parquet_files(written), removed=touched)
    return IngestedBatch(len(batch), len(pending) - len(batch))


def is_open(file: DataFile) -> bool:
    """True if the file holds transactions that are not closed: a file has these, or closed ones of one hour or day."""
    return "closed_at" not in file.greatest


def closed_to_ms(file: DataFile) -> int:
    """The latest closing in a file of closed transactions."""
    return to_ms(file.greatest["closed_at"])


def may_hold(file: DataFile, clusters: Collection[str]) -> bool:
    """False if the file certainly has no row of these clusters."""
    least, greatest = file.least.get("cluster_id"), file.greatest.get("cluster_id")
    return least is None or greatest is None or any(least <= cluster_id <= greatest for cluster_id in clusters)


def _touches(batch: Collection[HistoryFile], file: DataFile) -> bool:
    if is_open(file):
        return True
    files = [each for each in batch if may_hold(file, (each.cluster_id,))]
    return bool(files) and (
        closed_to_ms(file) >= min(each.first_ms for each in files) - REOPENED_MS
        and to_ms(file.least["first_seen"]) <= max(each.last_ms for each in files)
    )


def _first_ms(files: Iterable[HistoryFile]) -> dict[str, int]:
    return by_cluster(min, ((file.cluster_id, file.first_ms) for file in files))


@dataclass(frozen=True, slots=True)
class _Work:
    """One batch, and `files`: those of the history that the tables hold after it."""

    spark: SparkSession
    history: Place
    tables: Tables
    current: Current
    batch: Collection[HistoryFile]
    files: Collection[HistoryFile]
    read: set[HistoryFile] = field(default_factory=set)
    """Files that were opened: one of them may be damaged."""

    def write(self, transactions: Place, identities: Place) -> tuple[DataFile, ...]:
        """Writes the transactions and identities; returns the files of the table that they replace."""
        observations = self._observations(self.batch)
        touched, known = self._reach(observations)
        # First: afterwards Spark has this small table in memory, and broadcasts it.
        write_identities(known, identities)
        carried = self._carried(touched)
        cycles = self._cycles(_first_ms(self.batch))
        counts = Observation()
        made = _transactions(observations, carried, cycles, known.producers, counts)
        write_transactions(made, transactions)
        if not counts.get["shared"]:
            return touched
        remove_folder(transactions)
        return self._write_apart(transactions, touched, known.producers)

    def _reach(self, observations: DataFrame) -> tuple[tuple[DataFile, ...], Identities]:
        """The files of the table that the batch can change, and all known producers and partitions."""
        touched = tuple(file for file in self.current.files if _touches(self.batch, file))
        observed = identities_of(observations)
        if self.current.state.identities is None:
            return touched, observed
        before = read_identities(self.spark, self.tables.states / self.current.state.identities)
        clusters = {file.cluster_id for file in self.batch if file.table == OBSERVATIONS}
        others = [file for file in self.current.files if file not in touched and may_hold(file, clusters)]
        wanted = wanted_of(observations, self._carried(touched), before, observed)
        return touched + self._holding(others, wanted), merge(before, observed)

    def _holding(self, files: Collection[DataFile], wanted: Wanted) -> tuple[DataFile, ...]:
        """Files that hold a wanted transaction."""
        found = files_with(read_transactions(self.spark, self.tables, files), wanted) if files else frozenset()
        return tuple(file for file in files if any(path.endswith(f"/{file.path}") for path in found))

    def _write_apart(
        self, transactions: Place, touched: tuple[DataFile, ...], producers: DataFrame
    ) -> tuple[DataFile, ...]:
        """Writes transactions that began at one offset, with all their observations: most have no start of their own."""
        observations = self._observations(self.batch)
        shared = shared_offsets(observations, self._carried(touched))
        others = [file for file in self.current.files if file not in touched]
        touched += self._holding(others, {BY_OFFSET: shared.select(*KEY)})
        carried = self._carried(touched)
        shared = shared_offsets(observations, carried).persist()
        since = shared.groupBy("cluster_id").agg(f.unix_millis(f.min("first_seen")).alias("ms")).collect()
        since_ms = by_cluster(min, [*_first_ms(self.batch).items(), *since])
        clusters = {name for name, _ in since}
        again = self._observations(file for file in self.files if file.cluster_id in clusters)
        again = again.join(f.broadcast(shared.select(*KEY)), on=list(KEY), how="left_semi").persist()
        known_from = again.groupBy(*KEY).agg(f.min("taken_at").alias("known_from"))
        is_known = f.coalesce(f.col("known_from") <= f.col("first_seen"), f.lit(False))
        rest = carried.join(f.broadcast(known_from), on=list(KEY), how="left").where(~is_known).drop("known_from")
        made = _transactions(
            observations.unionByName(again), rest, self._cycles(since_ms), producers, Observation(), shared=shared
        )
        write_transactions(made, transactions)
        return touched

    def _observations(self, files: Iterable[HistoryFile]) -> DataFrame:
        return self._rows(OBSERVATIONS, [each for each in files if each.table == OBSERVATIONS])

    def _cycles(self, since_ms: Mapping[str, int]) -> DataFrame:
        """The cycles of the batch, and earlier ones that may close one of its transactions."""
        return self._rows(
            CYCLES,
            [
                file
                for file in self.files
                if file.table == CYCLES and file.last_ms >= since_ms.get(file.cluster_id, file.last_ms + 1)
            ],
        )

    def _rows(self, table: str, files: Collection[HistoryFile]) -> DataFrame:
        self.read.update(files)
        return read_history(self.spark, self.history, table, files)

    def _carried(self, touched: tuple[DataFile, ...]) -> DataFrame:
        return partition_transactions_of(read_transactions(self.spark, self.tables, touched))


def _transactions(
    observations: DataFrame,
    carried: DataFrame,
    cycles: DataFrame,
    producers: DataFrame,
    counts: Observation,
    *,
    shared: DataFrame | None = None,
) -> DataFrame:
    sightings = carried.select("cluster_id", f.col("last_seen").alias("instant")).unionByName(
        observations.select("cluster_id", f.col("taken_at").alias("instant"))
    )
    partition_transactions = updated_partition_transactions(
        observations, carried, producers=producers, shared=shared, counts=counts
    )
    return transactions_of(with_closings(partition_transactions, cycles, sightings))


def _keys(damaged: Iterable[DamagedFile]) -> frozenset[str]:
    return frozenset(file.key for file in damaged)


def read_transactions(spark: SparkSession, tables: Tables, files: Iterable[DataFile]) -> DataFrame:
    paths = [tables.transactions.path_of(file) for file in files]
    if not paths:
        return spark.createDataFrame([], schemas.TRANSACTIONS)
    return spark.read.schema(schemas.TRANSACTIONS).parquet(*paths)


def write_transactions(transactions: DataFrame, folder: Place) -> None:
    """Writes `TRANSACTIONS` in one pass: suspects apart, open ones apart, closed ones by the hour of their closing."""
    places = {
        "was_suspect": f.arrays_overlap("verdicts", f.array(*(f.lit(verdict) for verdict in SUSPECTS))),
        "closed_in": f.when(f.col("end") == CLOSED, f.date_format("closed_at", "yyyy-MM-dd'T'HH")).otherwise("open"),
    }
    placed = transactions.withColumns(places)
    placed.write.partitionBy(*places).option("maxRecordsPerFile", BATCH_ROWS).parquet(spark_path(folder))
