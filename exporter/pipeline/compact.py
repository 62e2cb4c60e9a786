"""Joins small files to large ones with Arrow, without Spark.

History files are joined after their day is over and the tables have taken them. The manifest has the large file as taken
before it appears, and the small ones are removed after that: in between rows are duplicated, which no step minds. The
daemon writes only new names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.files import atomic_write
from exporter.history.schema import CYCLES, OBSERVATIONS, TEMPORARY, file_name
from exporter.pipeline.files import AHEAD_MS, HistoryFile, damaged_among, history_files, plausible
from exporter.pipeline.ingest import bucket_of
from exporter.pipeline.manifest import Bucket, Manifest, Tables

SETTLED_MS: Final = 2 * 86_400_000
"""Compact a day only once a file at least this much newer than its end exists: late files are taken by then."""
ROW_GROUP_ROWS: Final = 1_000_000
WRITER: Final = "compacted"


def compact_history(history: Path, tables: Tables, *, now_ms: int) -> int:
    """Returns the number of removed small files."""
    files = plausible(history_files(history), now_ms)
    manifest = tables.load()
    newest_ms = _newest((file.cluster_id, file.last_ms) for file in files)
    days: dict[tuple[str, str], list[HistoryFile]] = defaultdict(list)
    for file in files:
        if file.day < _settled(newest_ms[file.cluster_id]) and file.key in manifest.consumed:
            days[file.cluster_id, file.day].append(file)
    gone = 0
    for day in days.values():
        parts = {table: [file for file in day if file.table == table] for table in (OBSERVATIONS, CYCLES)}
        if max(map(len, parts.values())) < 2 or min(map(len, parts.values())) < 1:  # noqa: PLR2004 - nothing to join
            continue
        if damaged_among(day, (), to_its_end=True):
            continue  # keep them for the operator
        first_ms, last_ms = min(file.first_ms for file in day), max(file.last_ms for file in day)
        # One name for both tables, like the daemon's; the generation distinguishes it from the files that it replaces.
        name = file_name(first_ms, last_ms, f"{WRITER}{manifest.generation + 1}")
        keys = {f"{table}/{'/'.join(of_table[0].path.parts[-3:-1])}/{name}" for table, of_table in parts.items()}
        manifest = replace(manifest, generation=manifest.generation + 1, consumed=manifest.consumed | keys)
        tables.commit(manifest)
        for of_table in parts.values():
            join([file.path for file in of_table], of_table[0].path.parent / name)
        for file in (*parts[CYCLES], *parts[OBSERVATIONS]):
            file.path.unlink(missing_ok=True)
            gone += 1
    return gone


def compact_tables(tables: Tables, *, now_ms: int, retention_ms: int) -> int:
    """Joins the hours of past days, removes buckets beyond the retention, and returns the number of removed buckets."""
    manifest = tables.load()
    newest_ms = newest_closings_ms(manifest, now_ms)
    kept = buckets_since(manifest, newest_ms, retention_ms)
    days: dict[tuple[str, str, bool], list[Bucket]] = defaultdict(list)
    for bucket in kept:
        if bucket.day < _settled(newest_ms.get(bucket.cluster_id, 0)):
            days[bucket.cluster_id, bucket.day, bucket.is_suspect].append(bucket)
    run = manifest.new_run()
    for day in (buckets for buckets in days.values() if len(buckets) > 1):
        # the path of an hour, with another hour
        inner = Path(*Path(day[0].folder).parts[2:-1], "hour=all")
        folder = tables.root / "transactions" / run / inner
        folder.mkdir(parents=True)
        hours = [part for old in day for part in sorted((tables.root / old.folder).glob("*.parquet"))]
        join(hours, folder / "all.parquet")
        kept = (*(bucket for bucket in kept if bucket not in day), bucket_of(tables.root, folder))
    if kept != manifest.buckets:
        tables.commit(manifest.succeeded_by(now_ms, buckets=kept))
    return len(set(manifest.buckets) - set(kept))


def newest_closings_ms(manifest: Manifest, now_ms: int) -> dict[str, int]:
    """By cluster, the newest closing in the tables. Closings in the future, which earlier versions took, do not count."""
    closings = ((bucket.cluster_id, bucket.closed_to_ms) for bucket in manifest.buckets)
    return _newest((cluster_id, closed_ms) for cluster_id, closed_ms in closings if closed_ms <= now_ms + AHEAD_MS)


def buckets_since(manifest: Manifest, newest_ms: Mapping[str, int], window_ms: int) -> tuple[Bucket, ...]:
    """The buckets of the last `window_ms` of each cluster, counted from its newest row."""
    return tuple(
        bucket
        for bucket in manifest.buckets
        if bucket.closed_to_ms >= newest_ms.get(bucket.cluster_id, bucket.closed_to_ms) - window_ms
    )


def _newest(instants: Iterable[tuple[str, int]]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for cluster_id, instant_ms in instants:
        newest[cluster_id] = max(instant_ms, newest.get(cluster_id, 0))
    return newest


def _settled(newest_ms: int) -> str:
    """The first day that is not over at this newest instant."""
    return datetime.fromtimestamp(max(newest_ms - SETTLED_MS, 0) / 1000, timezone.utc).strftime("%Y-%m-%d")


def join(parts: Sequence[Path], whole: Path) -> None:
    """Join the rows of all parts in one file, in order."""
    schema = pq.read_schema(parts[0]).remove_metadata()
    with (
        atomic_write(whole, beside=f"{TEMPORARY}{whole.name}") as file,
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        for table in _batches(parts, schema):
            writer.write_table(table, row_group_size=ROW_GROUP_ROWS)


def _batches(parts: Iterable[Path], schema: pa.Schema) -> Iterable[pa.Table]:
    """Tables of at least one row group."""
    waiting: list[pa.Table] = []
    for part in parts:
        waiting.append(pq.ParquetFile(part).read().replace_schema_metadata(None).cast(schema))
        if sum(len(table) for table in waiting) >= ROW_GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
