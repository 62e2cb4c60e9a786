"""Joins small files to large ones with Arrow, without Spark, and removes rows beyond the retention.

History files are joined after their day is over and the tables have taken them. The state has the large file as taken
before it appears, and the small ones are removed after that: in between rows are duplicated, which no step minds. The
daemon writes only new names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.history.schema import CYCLES, OBSERVATIONS, TEMPORARY, day_of, file_name
from exporter.pipeline.delta import DataFile, Table
from exporter.pipeline.files import HistoryFile, damaged_among, history_files, plausible
from exporter.pipeline.ingest import closed_to_ms, is_open, may_hold
from exporter.pipeline.tables import Tables, by_cluster
from exporter.pipeline.transaction_log import logs_read_to_ms
from exporter.storage.places import Place, atomic_write, in_parallel, parquet_source

SETTLED_MS: Final = 2 * 86_400_000
"""Compact a day only once a cycle at least this much newer than its end exists: late files are taken by then."""
ROW_GROUP_ROWS: Final = 1_000_000
WRITER: Final = "compacted"


def compact_history(history: Place, tables: Tables, *, now_ms: int) -> int:
    """Returns the number of removed small files."""
    current = tables.current()
    run = current.snapshot.new_run()
    joined: dict[str, list[HistoryFile]] = {}
    for day in _settled_days(plausible(history_files(history), now_ms), current.state.taken):
        parts = {table: [file for file in day if file.table == table] for table in (OBSERVATIONS, CYCLES)}
        if max(map(len, parts.values())) < 2 or min(map(len, parts.values())) < 1:  # noqa: PLR2004 - nothing to join
            continue
        if damaged_among(day, (), to_its_end=True):
            continue  # keep them for the operator
        first_ms, last_ms = min(file.first_ms for file in day), max(file.last_ms for file in day)
        # One name for both tables, like the daemon's; the run distinguishes it from the files that it replaces.
        name = file_name(first_ms, last_ms, f"{WRITER}{run}")
        for table, small in parts.items():
            joined[f"{table}/{'/'.join(small[0].path.parts[-3:-1])}/{name}"] = small
    if joined:
        tables.commit(current, replace(current.state, taken=current.state.taken | joined.keys()), run=run)
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
    newest_ms = by_cluster(max, ((file.cluster_id, file.last_ms) for file in files))
    days: dict[tuple[str, str], list[HistoryFile]] = defaultdict(list)
    for file in files:
        is_settled = file.day < day_of(newest_ms[file.cluster_id] - SETTLED_MS)
        is_whole = f"-{WRITER}" in file.path.name or file.observations_key in cycles
        if is_settled and file.key in taken and is_whole:
            days[file.cluster_id, file.day].append(file)
    return days.values()


def compact_tables(tables: Tables, *, retention_ms: int) -> int:
    """Joins the hours of past days, removes rows beyond the retention, and returns the number of joined files."""
    tables.transactions.delete(_obsolete("closed_at", tables.current().state.newest_ms, retention_ms))
    current = tables.current()
    settled = day_of(max(current.state.newest_ms.values(), default=0) - SETTLED_MS)
    days: dict[tuple[str, bool], list[DataFile]] = defaultdict(list)
    for file in current.files:
        if not is_open(file) and (day := day_of(closed_to_ms(file))) < settled:
            days[day, file.parts["was_suspect"]].append(file)
    run = current.snapshot.new_run()
    folder = tables.folder_of(tables.transactions, run)
    removed, added = [], []
    for (day, was_suspect), files in sorted(days.items()):
        if len(files) > 1:
            path = folder / f"was_suspect={str(was_suspect).lower()}" / f"closed_in={day}" / "all.parquet"
            path.parent.mkdir(parents=True)
            join([tables.transactions.place_of(file) for file in files], path)
            added.append(path)
            removed += files
    if removed:
        tables.commit(current, current.state, run=run, added=added, removed=removed)
    return len(removed)


def compact_log(table: Table, *, retention_ms: int) -> int:
    """Compacts the transaction log, whose files Delta joins by their size."""
    if not table.exists:
        return 0
    table.delete(_obsolete("written_at", logs_read_to_ms(table), retention_ms))
    return table.join_small_files()


def _obsolete(column: str, newest_ms: Mapping[str, int], retention_ms: int) -> str:
    """SQL that chooses whole days before the retention, counted from the newest instant of each cluster."""
    clusters: dict[str, list[str]] = defaultdict(list)
    for cluster_id, at_ms in newest_ms.items():
        clusters[day_of(at_ms - retention_ms)].append("'" + cluster_id.replace("'", "''") + "'")
    chosen = (
        f"({column} < '{day}T00:00:00Z' AND cluster_id IN ({', '.join(names)}))" for day, names in clusters.items()
    )
    return " OR ".join(chosen) or "false"


def files_since(files: Iterable[DataFile], newest_ms: Mapping[str, int], window_ms: int) -> tuple[DataFile, ...]:
    """Files of closed transactions of the last `window_ms` of each cluster, counted from its newest cycle."""
    return tuple(
        file
        for file in files
        if not is_open(file)
        and may_hold(file, [name for name, at_ms in newest_ms.items() if closed_to_ms(file) >= at_ms - window_ms])
    )


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
