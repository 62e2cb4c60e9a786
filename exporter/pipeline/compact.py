"""Joins the history's small files to large ones with Arrow, the tables' hours to days, and removes what is too old.

History files are joined after their day is over and the tables have taken them. The state has the large file as taken
before it appears, and the small ones are removed after that: in between rows are duplicated, which no step minds. The
daemon writes only new names.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f

from exporter.history.schema import CYCLES, OBSERVATIONS, TEMPORARY, day_of, file_name
from exporter.pipeline.buckets import buckets_of, in_buckets
from exporter.pipeline.coverage import HOUR_MS
from exporter.pipeline.delta import Table, sql_text
from exporter.pipeline.files import HistoryFile, damaged_among, history_files, plausible
from exporter.pipeline.identities import identities_of_table, write_identities
from exporter.pipeline.ingest import last_ms_of
from exporter.pipeline.tables import Tables
from exporter.pipeline.thresholds import DAY_MS
from exporter.storage.places import Place, atomic_write, in_parallel, parquet_source

SETTLED_MS: Final = 2 * 86_400_000
"""Compact a day only once a cycle at least this much newer than its end exists: late files are taken by then."""
FORGOTTEN_AFTER: Final = 0.1
"""Share of the retention after which producers and partitions without a row are forgotten: it reads the whole table."""
ROW_GROUP_ROWS: Final = 1_000_000
WRITER: Final = "compacted"


def compact_history(spark: SparkSession, history: Place, tables: Tables, *, now_ms: int) -> int:
    """Returns the number of removed small files."""
    current = tables.current()
    counted = tables.counted().taken
    taken = {key for key in current.state.taken if key in counted or is_joined(key)}
    unique = secrets.token_hex(8)
    joined: dict[str, list[HistoryFile]] = {}
    for day in _settled_days(plausible(history_files(history), now_ms), taken):
        parts = {table: [file for file in day if file.table == table] for table in (OBSERVATIONS, CYCLES)}
        if max(map(len, parts.values())) < 2 or min(map(len, parts.values())) < 1:  # noqa: PLR2004 - nothing to join
            continue
        if damaged_among(day, (), to_its_end=True):
            continue  # keep them for the operator
        first_ms, last_ms = min(file.first_ms for file in day), max(file.last_ms for file in day)
        # One name for both tables, like the daemon's; its writer distinguishes it from the files that it replaces.
        name = file_name(first_ms, last_ms, f"{WRITER}{unique}")
        for table, small in parts.items():
            joined[f"{table}/{'/'.join(small[0].path.parts[-3:-1])}/{name}"] = small
    if joined:
        current = tables.begin(spark, current)
        nothing = spark.createDataFrame([], tables.transactions.columns)
        tables.commit(current, replace(current.state, taken=current.state.taken | joined.keys()), nothing)
    for key, small in joined.items():
        join([file.path for file in small], small[0].path.with_name(PurePosixPath(key).name))
    gone = [file for small in joined.values() for file in small]
    for file in sorted(gone, key=lambda file: file.table):  # a cycle never without its observations
        file.path.unlink(missing_ok=True)
    return len(gone)


def _settled_days(files: Iterable[HistoryFile], taken: Collection[str]) -> Iterable[list[HistoryFile]]:
    """Returns the settled files of each day and cluster, without observations whose cycles may still come."""
    files = tuple(files)
    cycles = {file.observations_key for file in files if file.table == CYCLES and file.key in taken}
    newest_ms = last_ms_of(files)
    days: dict[tuple[str, str], list[HistoryFile]] = defaultdict(list)
    for file in files:
        is_settled = file.day < day_of(newest_ms[file.cluster_id] - SETTLED_MS)
        is_whole = is_joined(file.key) or file.observations_key in cycles
        if is_settled and file.key in taken and is_whole:
            days[file.cluster_id, file.day].append(file)
    return days.values()


def is_joined(key: str) -> bool:
    """Returns whether the file with this key was made of small ones, which were counted by hour before."""
    return f"-{WRITER}" in PurePosixPath(key).name


def trusted_ms(spark: SparkSession, coverage: Table, *, until_ms: int) -> int:
    """The end of the newest hour that has another one of its cluster about a day before it; zero without one.

    Rows are too old as seen from there: a clock that is ahead for a moment would make all rows of all clusters too old.
    """
    if not coverage.exists:
        return 0
    hours = coverage.read(spark).select("cluster_id", f.unix_millis("hour").alias("ms")).where(f.col("ms") <= until_ms)
    a_day_before = Window.partitionBy("cluster_id").orderBy("ms").rangeBetween(-2 * DAY_MS, -DAY_MS + 4 * HOUR_MS)
    lasting = hours.withColumn("before", f.count("*").over(a_day_before)).where("before > 0")
    (row,) = lasting.agg(f.max("ms").alias("ms")).collect()
    return 0 if row.ms is None else int(row.ms) + HOUR_MS


def compact_tables(
    spark: SparkSession, tables: Tables, *, retention_ms: int, from_ms: Mapping[str, int] | None = None
) -> int:
    """Removes rows beyond the retention, joins the hours of past days, and returns the number of joined hours.

    The retention is counted from `from_ms` by cluster, by default from the newest cycles. The state forgets the clusters
    that are gone, and now and then producers and partitions of which no row is left.
    """
    newest_ms = tables.current().state.newest_ms
    from_ms = newest_ms if from_ms is None else from_ms
    too_old = obsolete(from_ms, retention_ms, "closed_at", "date IS NULL AND last_seen")
    _delete(spark, tables.transactions, too_old)
    current = tables.current()
    if not newest_ms:
        return 0
    current = tables.begin(spark, current)
    rows, settled_on = tables.transactions.read(spark, current.snapshot), day_of(max(newest_ms.values()) - SETTLED_MS)
    hours = buckets_of(rows.where(f"date < DATE'{settled_on}' AND closed_hour IS NOT NULL"))
    if not hours:
        return 0
    joined = hours | {(day, None) for day, _ in hours}
    whole = rows.where(in_buckets(joined)).withColumn("closed_hour", f.lit(None).cast("int"))
    places = tables.transactions.parts
    # One file of each place, in the order in which people ask: readers skip what is of other clusters and times.
    whole = whole.repartition(*places).sortWithinPartitions(*places, "cluster_id", "first_seen")
    gone = _gone(from_ms, retention_ms)
    state = replace(current.state, newest_ms={name: at for name, at in newest_ms.items() if name not in gone})
    if (now_ms := max(from_ms.values(), default=0)) - state.identities_from_ms >= FORGOTTEN_AFTER * retention_ms:
        identities = tables.new_identities()
        write_identities(identities_of_table(rows), identities)
        state = replace(state, identities=identities.name, identities_from_ms=now_ms)
    tables.commit(current, state, whole, replaced=in_buckets(joined))
    return len(hours)


def compact(spark: SparkSession, table: Table, obsolete: str) -> int:
    """Deletes the rows for which `obsolete` holds, in SQL, and joins small files; returns how many.

    The files of deleted rows stay for readers until VACUUM.
    """
    if not table.exists:
        return 0
    _delete(spark, table, obsolete)
    (done,) = spark.sql(f"OPTIMIZE {table.sql_name}").collect()
    return int(done["metrics"]["numFilesRemoved"])


def _delete(spark: SparkSession, table: Table, obsolete: str) -> None:
    if table.exists and obsolete:
        spark.sql(f"DELETE FROM {table.sql_name} WHERE {obsolete}")  # noqa: S608 - names of clusters are quoted


def _gone(newest_ms: Mapping[str, int], retention_ms: int) -> list[str]:
    """Returns the clusters that no exporter watches any more: another cluster is ahead by the retention."""
    gone_ms = max(newest_ms.values(), default=0) - retention_ms
    return [cluster_id for cluster_id, at_ms in newest_ms.items() if at_ms < gone_ms]


def obsolete(newest_ms: Mapping[str, int], retention_ms: int, *columns: str) -> str:
    """SQL that chooses whole days before the retention, and all of a cluster that is gone; empty without clusters.

    The retention is counted from the newest instant of each cluster.
    """
    clusters: dict[str, list[str]] = defaultdict(list)
    for cluster_id, at_ms in newest_ms.items():
        clusters[day_of(at_ms - retention_ms)].append(sql_text(cluster_id))
    chosen = [
        f"({column} < '{day}T00:00:00Z' AND cluster_id IN ({', '.join(names)}))"
        for column in columns
        for day, names in clusters.items()
    ]
    gone = ", ".join(map(sql_text, _gone(newest_ms, retention_ms)))
    return " OR ".join([*chosen, *([f"cluster_id IN ({gone})"] if gone else [])])


def join(parts: Sequence[Place], whole: Place) -> None:
    """Joins the rows of all parts in one file, in order."""
    # An older version of this program has written fewer columns.
    schemas = in_parallel(lambda part: pq.read_schema(parquet_source(part)).remove_metadata(), parts, whole)
    schema = pa.unify_schemas(list(schemas), promote_options="permissive")
    with (
        atomic_write(whole, beside=f"{TEMPORARY}{whole.name}") as file,
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        waiting = [schema.empty_table()]
        for part in parts:
            waiting.append(pq.ParquetFile(parquet_source(part)).read().replace_schema_metadata(None))
            if part is parts[-1] or sum(map(len, waiting)) >= ROW_GROUP_ROWS:
                rows = pa.concat_tables(waiting, promote_options="permissive").cast(schema)
                writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
                waiting = [schema.empty_table()]
