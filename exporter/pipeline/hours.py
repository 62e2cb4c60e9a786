"""Keeps the tables `coverage` and `stalls`: hours are made again from the history when it has more files of them.

An hour is replaced as a whole, so that a run that is killed and repeated changes nothing. The note of the commit of
`coverage` names the state of the tables (`tables`) whose files are in both. An hour whose files are partly gone keeps the
rows that more cycles have made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timezone
from itertools import chain
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from exporter import __version__
from exporter.history.schema import CYCLES, OBSERVATIONS, day_of
from exporter.pipeline.clocks import clock_differences
from exporter.pipeline.compact import is_joined
from exporter.pipeline.coverage import HOUR_MS, coverage_of
from exporter.pipeline.delta import Table, sql_text
from exporter.pipeline.files import TAKEN_AT, HistoryFile, history_files, rows_in
from exporter.pipeline.history import read_history
from exporter.pipeline.ingest import BATCH_ROWS, last_ms_of
from exporter.pipeline.stalls import WATCHED_MS, stalls_of, watched_ms
from exporter.pipeline.tables import STATE, Tables
from exporter.pipeline.thresholds import DAY_MS
from exporter.storage.places import Place, parquet_source

Hours: TypeAlias = frozenset[tuple[str, int]]
"""(cluster id, begin of the hour in ms)."""


def update_hours(
    open_spark: Callable[[], SparkSession], history: Place, tables: Tables, *, batch_rows: int = BATCH_ROWS
) -> int:
    """Makes again each hour of which the tables have taken new files.

    Returns the number of hours with cycles in these files. Raises TableError.
    """
    current, before = tables.current(), tables.counted()
    files = [file for file in history_files(history) if file.key in current.state.taken]
    new = {
        file
        for file in files
        if file.key not in before.taken and not (before.are_joined_counted and is_joined(file.key))
    }
    if not new:
        return 0
    spark, state = open_spark(), tables.name_of_state(current.snapshot)
    apart_ms = _watched_ms(spark, history, tables, new)
    hours_of_file = {file: _hours_of(file, within_ms=apart_ms.get(file.cluster_id, WATCHED_MS)) for file in files}
    hours = frozenset(chain.from_iterable(hours_of_file[file] for file in new))
    # Of these hours the time after the newest cycle was not known to be unwatched.
    clusters = {file.cluster_id for file in new}
    of_cycles = [file for file in files if file.table == CYCLES]
    last_ms = last_ms_of(file for file in of_cycles if file not in new and file.cluster_id in clusters)
    hours |= {(cluster_id, at_ms - at_ms % HOUR_MS) for cluster_id, at_ms in last_ms.items()}
    newest = spark.createDataFrame([*last_ms_of(of_cycles).items()], "cluster_id string, newest_ms long")
    batches = list(_batches(hours, hours_of_file, batch_rows))
    for number, (wanted, near) in enumerate(batches, 1):
        cycles, observations = (
            read_history(spark, history, table, [file for file in near if file.table == table])
            for table in (CYCLES, OBSERVATIONS)
        )
        clocks = clock_differences(observations, cycles) if _has_several_writers(cycles) else None
        coverage = coverage_of(cycles, newest, clocks).where(_chosen(wanted)).coalesce(1)
        stalls = stalls_of(observations, cycles).coalesce(1)
        _replace(spark, tables, coverage, stalls, wanted, state if number == len(batches) else before.name)
    return len(frozenset(chain.from_iterable(_hours_of(file, within_ms=0) for file in new)))


def _watched_ms(spark: SparkSession, history: Place, tables: Tables, new: Collection[HistoryFile]) -> Mapping[str, int]:
    """Returns by cluster how far apart two of its cycles may be, before and in the new files."""
    columns = ("cluster_id", "interval_ms")
    cycles = read_history(spark, history, CYCLES, [file for file in new if file.table == CYCLES])
    from_ms = min(file.first_ms for file in new) - DAY_MS - HOUR_MS  # no two are further apart than a day
    near = tables.coverage.read(spark).where(f.col("hour") >= f.timestamp_millis(f.lit(from_ms)))
    every = cycles.select(*columns).unionByName(near.select(*columns))
    rows = every.groupBy("cluster_id").agg(f.max(watched_ms()).alias("watched_ms")).collect()
    return {row["cluster_id"]: row["watched_ms"] for row in rows}


def _hours_of(file: HistoryFile, *, within_ms: int) -> Hours:
    """The hours of a file's cycles; with `within_ms` of what lies between them and cycles of other files, too."""
    if file.last_ms - file.first_ms > DAY_MS:  # not of an exporter: its name may say anything
        rows = pq.ParquetFile(parquet_source(file.path)).read(columns=[TAKEN_AT])
        instants = set(rows[TAKEN_AT].cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist())
    else:
        instants = {*range(file.first_ms, file.last_ms, HOUR_MS), file.last_ms}
    shifts = (*range(-within_ms, within_ms, HOUR_MS), within_ms)
    near = {instant + shift for instant in instants for shift in shifts}
    return frozenset((file.cluster_id, instant - instant % HOUR_MS) for instant in near)


def _batches(
    hours: Hours, files: Mapping[HistoryFile, Hours], rows_max: int
) -> Iterator[tuple[Hours, Collection[HistoryFile]]]:
    """Whole days with the files of their hours, together with about `rows_max` observations."""
    days: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for cluster_id, hour_ms in hours:
        days[day_of(hour_ms)].add((cluster_id, hour_ms))
    near: dict[str, set[HistoryFile]] = defaultdict(set)
    for file, own in files.items():
        for _, hour_ms in own & hours:
            near[day_of(hour_ms)].add(file)
    wanted, read, rows = set[tuple[str, int]](), set[HistoryFile](), 0
    for day in sorted(days):
        wanted |= days[day]
        read |= near[day]
        rows += sum(rows_in(file.path) for file in near[day] if file.table == OBSERVATIONS)
        if rows > rows_max:
            yield frozenset(wanted), read
            wanted, read, rows = set(), set(), 0
    if wanted:
        yield frozenset(wanted), read


def _replace(
    spark: SparkSession, tables: Tables, coverage: DataFrame, stalls: DataFrame, hours: Hours, state: str | None
) -> None:
    coverage = coverage.persist()
    complete = _fuller(tables.coverage, spark, coverage, hours)
    chosen = _chosen(complete)
    note = {"version": __version__, "hours": len(complete), STATE: state}
    # Last the table whose note says that both are done.
    for table, rows in ((tables.stalls, stalls), (tables.coverage, coverage)):
        table.commit(rows.where(chosen), table.begin(spark, table.snapshot()), note=note, replaced=chosen)
    coverage.unpersist()


def _has_several_writers(cycles: DataFrame) -> bool:
    return not cycles.groupBy("cluster_id").agg(f.count_distinct("writer").alias("n")).where("n > 1").isEmpty()


def _fuller(table: Table, spark: SparkSession, coverage: DataFrame, hours: Hours) -> Hours:
    """The hours without those of which the table has more cycles: files of these are gone."""
    if not table.exists:
        return hours
    before = _cycles(table.read(spark).where(_chosen(hours)))
    now = _cycles(coverage)
    return frozenset(hour for hour in hours if before.get(hour, 0) <= now.get(hour, 0))


def _cycles(coverage: DataFrame) -> Mapping[tuple[str, int], int]:
    rows = coverage.groupBy("cluster_id", f.unix_millis("hour").alias("hour_ms")).agg(f.sum("cycles").alias("cycles"))
    return {(row["cluster_id"], row["hour_ms"]): row["cycles"] for row in rows.collect()}


def _chosen(hours: Hours) -> str:
    """SQL that chooses these hours; their dates are there for Delta, whose files are by date."""
    of_cluster: dict[str, list[int]] = defaultdict(list)
    for cluster_id, hour_ms in sorted(hours):
        of_cluster[cluster_id].append(hour_ms)
    chosen = " OR ".join(
        f"cluster_id = {sql_text(cluster_id)} AND hour IN ({', '.join(map(_timestamp, instants))})"
        for cluster_id, instants in of_cluster.items()
    )
    dates = sorted({day_of(hour_ms) for _, hour_ms in hours})
    return f"date IN ({', '.join(f'''DATE'{day}' ''' for day in dates)}) AND ({chosen})" if hours else "false"


def _timestamp(instant_ms: int) -> str:
    return f"TIMESTAMP'{datetime.fromtimestamp(instant_ms / 1000, timezone.utc).isoformat()}'"
