"""Ingests one batch of new history files into the tables; only rows that the batch can change are read again.

Open transactions are carried from batch to batch. A batch reads the buckets of its own time again, and those with older
transactions that its rows belong to, and replaces them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from exporter.history.schema import CYCLES, OBSERVATIONS
from exporter.pipeline.buckets import OPEN, Bucket, buckets_of, in_buckets, placed, without_places
from exporter.pipeline.closings import with_closings
from exporter.pipeline.files import (
    HistoryFile,
    SoundFiles,
    batch_of,
    damaged_among,
    history_files,
    plausible,
    waiting,
)
from exporter.pipeline.history import read_history
from exporter.pipeline.identities import (
    BY_OFFSET,
    Identities,
    Wanted,
    buckets_with,
    identities_of,
    identities_of_table,
    merge,
    read_identities,
    wanted_of,
    write_identities,
)
from exporter.pipeline.partition_transactions import KEY, shared_offsets, updated_partition_transactions
from exporter.pipeline.tables import Current, DamagedFile, Tables, by_cluster
from exporter.pipeline.transactions import partition_transactions_of, transactions_of
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
    sound: SoundFiles | None = None,
) -> IngestedBatch | None:
    """Takes one batch, oldest files first; None when no file waits. Raises TableError if another run was first.

    `sound` are files that batches before have examined; this one adds its own.
    """
    current = tables.current()
    there = history_files(history)
    taken = current.state.taken & {file.key for file in there}
    sane = plausible(there, now_ms)
    known = tables.damaged()
    unsure = (file for file in sane if file.key not in taken or file.key in _keys(known))
    damaged = damaged_among(unsure, known, sound=sound)
    if damaged != known:
        tables.remember_damaged(damaged)
    files = tuple(file for file in sane if file.key not in _keys(damaged))
    pending = waiting(files, taken)
    batch, rows = batch_of(pending, batch_rows)
    if not batch:
        return None
    held = taken | {file.key for file in batch}
    spark = open_spark()
    current, identities = tables.begin(spark, current), tables.new_identities()
    state = replace(
        current.state,
        taken=held,
        newest_ms=by_cluster(max, [*current.state.newest_ms.items(), *last_ms_of(batch).items()]),
        identities=identities.name,
    )
    work = _Work(spark, history, tables, current, batch, tuple(file for file in files if file.key in held))
    is_done = False
    try:
        made, buckets = work.result(identities)
        read = {"files": len(batch), "rows": rows}
        tables.commit(current, state, placed(made), replaced=in_buckets(buckets), read=read)
        is_done = True
    except (PySparkException, Py4JError, pa.ArrowException, OSError):
        found = damaged_among(work.read, (), to_its_end=True)
        if not found:
            raise
        tables.remember_damaged((*damaged, *found))
        return IngestedBatch(0, len(pending) - len(found))
    finally:
        spark.catalog.clearCache()
        if not is_done:
            with suppress(OSError):
                remove_folder(identities)
    return IngestedBatch(len(batch), len(pending) - len(batch))


def _first_ms(files: Iterable[HistoryFile]) -> dict[str, int]:
    return by_cluster(min, ((file.cluster_id, file.first_ms) for file in files))


def last_ms_of(files: Iterable[HistoryFile]) -> dict[str, int]:
    """The newest instant in the files of each cluster."""
    return by_cluster(max, ((file.cluster_id, file.last_ms) for file in files))


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

    def result(self, identities: Place) -> tuple[DataFrame, frozenset[Bucket]]:
        """Writes the identities; returns the transactions, and the buckets that they replace."""
        observations = self._observations(self.batch)
        buckets, known = self._reach(observations)
        # First: afterwards Spark has this small table in memory, and broadcasts it.
        write_identities(known, identities)
        carried = self._carried(buckets)
        shared = shared_offsets(observations, carried)
        if not shared.isEmpty():
            return self._apart(observations, buckets, known.producers)
        cycles = self._cycles(_first_ms(self.batch))
        return _transactions(observations, carried, cycles, known.producers), buckets

    def _reach(self, observations: DataFrame) -> tuple[frozenset[Bucket], Identities]:
        """The buckets of the table that the batch can change, and all known producers and partitions."""
        buckets = self._in_time()
        observed = identities_of(observations)
        if self.current.snapshot.run == 0:
            return buckets, observed
        before = self._identities()
        wanted = wanted_of(observations, self._carried(buckets), before, observed)
        return buckets | self._holding(buckets, wanted), merge(before, observed)

    def _in_time(self) -> frozenset[Bucket]:
        """Buckets with transactions that are open, or were closed in the time of the batch's files."""
        first_ms, last_ms = _first_ms(self.batch), last_ms_of(self.batch)
        spans = [(name, first_ms[name] - REOPENED_MS, last_ms[name]) for name in first_ms]
        of_cluster = self.spark.createDataFrame(spans, "cluster_id string, from_ms long, to_ms long")
        rows = self._rows_of_table().where(
            # For Delta, which skips files by it.
            (f.col("closed_at") >= f.timestamp_millis(f.lit(min(first for _, first, _ in spans))))
            & (f.col("first_seen") <= f.timestamp_millis(f.lit(max(last for _, _, last in spans))))
        )
        closed = rows.join(f.broadcast(of_cluster), on="cluster_id").where(
            (f.col("closed_at") >= f.timestamp_millis("from_ms")) & (f.col("first_seen") <= f.timestamp_millis("to_ms"))
        )
        return buckets_of(closed) | {OPEN}

    def _identities(self) -> Identities:
        """The producers and partitions of the runs before; made from the table if they are missing."""
        name = self.current.state.identities
        folder = None if name is None else self.tables.states / name
        if folder is not None and all((folder / part / "_SUCCESS").exists() for part in ("producers", "partitions")):
            return read_identities(self.spark, folder)
        return identities_of_table(self._rows_of_table())

    def _holding(self, buckets: Collection[Bucket], wanted: Wanted) -> frozenset[Bucket]:
        """Other buckets that hold a wanted transaction."""
        return buckets_with(self._rows_of_table().where(~f.expr(in_buckets(buckets))), wanted)

    def _apart(
        self, observations: DataFrame, buckets: frozenset[Bucket], producers: DataFrame
    ) -> tuple[DataFrame, frozenset[Bucket]]:
        """Makes transactions that began at one offset, with all their observations: most have no start of their own."""
        shared = shared_offsets(observations, self._carried(buckets))
        buckets |= self._holding(buckets, {BY_OFFSET: shared.select(*KEY)})
        carried = self._carried(buckets)
        shared = shared_offsets(observations, carried).persist()
        since = shared.groupBy("cluster_id").agg(f.unix_millis(f.min("first_seen")).alias("ms")).collect()
        since_ms = by_cluster(min, [*_first_ms(self.batch).items(), *since])
        clusters = {name for name, _ in since}
        again = self._observations(file for file in self.files if file.cluster_id in clusters)
        again = again.join(f.broadcast(shared.select(*KEY)), on=list(KEY), how="left_semi").persist()
        known_from = again.groupBy(*KEY).agg(f.min("taken_at").alias("known_from"))
        is_known = f.coalesce(f.col("known_from") <= f.col("first_seen"), f.lit(False))
        rest = carried.join(f.broadcast(known_from), on=list(KEY), how="left").where(~is_known).drop("known_from")
        observed = observations.unionByName(again)
        return _transactions(observed, rest, self._cycles(since_ms), producers, shared=shared), buckets

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

    def _rows_of_table(self) -> DataFrame:
        return self.tables.transactions.read(self.spark, self.current.snapshot)

    def _carried(self, buckets: Collection[Bucket]) -> DataFrame:
        return partition_transactions_of(without_places(self._rows_of_table().where(in_buckets(buckets))))


def _transactions(
    observations: DataFrame,
    carried: DataFrame,
    cycles: DataFrame,
    producers: DataFrame,
    *,
    shared: DataFrame | None = None,
) -> DataFrame:
    sightings = carried.select("cluster_id", f.col("last_seen").alias("instant")).unionByName(
        observations.select("cluster_id", f.col("taken_at").alias("instant"))
    )
    partition_transactions = updated_partition_transactions(observations, carried, producers=producers, shared=shared)
    return transactions_of(with_closings(partition_transactions, cycles, sightings))


def _keys(damaged: Iterable[DamagedFile]) -> frozenset[str]:
    return frozenset(file.key for file in damaged)
