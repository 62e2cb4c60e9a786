"""Lists the files of the history, checks them, and chooses those of a batch. No Spark here."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import accumulate
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exporter.history.schema import CYCLES, OBSERVATIONS, TABLES, VERSION, Column, cluster_of_folder, instants_of
from exporter.pipeline.tables import DamagedFile
from exporter.storage.faults import StoreError
from exporter.storage.places import Place, in_parallel, parquet_source

PLACE_PARTS = 3
"""Parts of a path below its table: cluster, day and name."""
AHEAD_MS: Final = 3_600_000
"""Limit for an exporter's clock ahead of the pipeline's."""
BEGINNING_MS: Final = 1_498_608_000_000
"""2017-06-28: Kafka 0.11, the first version with transactions."""
TAKEN_AT: Final = "taken_at"
_PER_MS: Final = {"us": 1_000, "ns": 1_000_000}


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """One complete history file. Instants are those of its first and last cycle."""

    path: Place
    table: str
    cluster_id: str
    day: str
    first_ms: int
    last_ms: int

    @property
    def key(self) -> str:
        """Name of the file in the state of the tables."""
        return f"{self.table}/{self._place}"

    @property
    def observations_key(self) -> str:
        """The key of the observations of the same cycles."""
        return f"{OBSERVATIONS}/{self._place}"

    @property
    def _place(self) -> str:
        return "/".join(self.path.parts[-PLACE_PARTS:])


def history_files(history: Place) -> tuple[HistoryFile, ...]:
    """Files with the daemon's names. Cycles are listed first, so that the observations of every listed cycle exist."""
    files: list[HistoryFile] = []
    for table in (CYCLES, OBSERVATIONS):
        paths: Iterable[Place] = (history / VERSION / table).glob("cluster_id=*/date=*/*.parquet")
        for path in sorted(paths, key=str):
            if (instants := instants_of(path.name)) is not None:
                cluster_id = cluster_of_folder(path.parent.parent.name)
                files.append(HistoryFile(path, table, cluster_id, path.parent.name.removeprefix("date="), *instants))
    return tuple(files)


def implausible_name(file: HistoryFile, now_ms: int) -> str | None:
    """Returns why a file's name, or the times in it, are implausible; None if they are plausible."""
    if file.key != _printable(file.key):
        return "has a name that is not UTF-8"
    first_ms, last_ms = sorted((file.first_ms, file.last_ms))
    if last_ms > now_ms + AHEAD_MS:
        return f"has a cycle of {_instant(last_ms)}, which is later than this run by more than {AHEAD_MS // 60_000} minutes"
    if first_ms < BEGINNING_MS:
        return f"has a cycle of {_instant(first_ms)}, which is before Kafka had transactions"
    return None


def _printable(text: str) -> str:
    """Returns a name with escapes for bytes that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _instant(instant_ms: int) -> str:
    try:
        return datetime.fromtimestamp(instant_ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{instant_ms} ms"


def plausible(files: Iterable[HistoryFile], now_ms: int) -> tuple[HistoryFile, ...]:
    return tuple(file for file in files if implausible_name(file, now_ms) is None)


def left_out(files: Iterable[HistoryFile], damaged: Iterable[DamagedFile], now_ms: int) -> tuple[tuple[str, str], ...]:
    """(key, reason) of each file that is left out of the tables."""
    found = {file.key: file.why for file in damaged}
    found |= {_printable(file.key): why for file in files if (why := implausible_name(file, now_ms)) is not None}
    return tuple(sorted(found.items()))


def waiting(files: Collection[HistoryFile], consumed: Collection[str]) -> tuple[HistoryFile, ...]:
    """Files that no run has taken, oldest first. Cycles without their observations wait, because they prove nothing."""
    present = {file.key for file in files} | set(consumed)
    return tuple(
        sorted(
            (file for file in files if file.key not in consumed and file.observations_key in present),
            key=lambda file: (file.first_ms, file.key),
        )
    )


def batch_of(files: Iterable[HistoryFile], rows_max: int) -> tuple[tuple[HistoryFile, ...], int]:
    """The oldest of `files` with at most `rows_max` observations, but at least one file, and their cycles; and how many.

    A rest of a tenth is taken too: a batch of its own would cost as much as a million rows.
    """
    in_order = sorted(files, key=lambda file: (file.first_ms, file.observations_key, file.table == CYCLES))
    observations = [file for file in in_order if file.table == OBSERVATIONS]
    rows = [rows_in(file.path) for file in observations]
    has_small_rest = sum(rows) <= rows_max * 1.1
    chosen = len(rows) if has_small_rest else max(bisect_right(tuple(accumulate(rows)), rows_max), 1)
    refused = {file.key for file in observations[chosen:]}
    return tuple(file for file in in_order if file.observations_key not in refused), sum(rows[:chosen])


def rows_in(path: Place) -> int:
    """Returns the number of rows by the footer; zero for a missing file."""
    with suppress(FileNotFoundError):
        return int(pq.read_metadata(parquet_source(path)).num_rows)
    return 0


def damage_of(file: HistoryFile, *, to_its_end: bool) -> str | None:
    """Returns why the file cannot be read; None if it can, or is missing. `to_its_end` reads rows, not only the footer.

    A store that cannot be used now is no damage: it raises StoreError.
    """
    try:
        parquet = pq.ParquetFile(parquet_source(file.path))
        fields = tuple(parquet.schema_arrow)
        for column in TABLES[file.table]:
            why = _unlike(column, [str(field.type) for field in fields if field.name == column.name])
            if why is not None:
                return why
        for first_ms, last_ms in _spans_ms(parquet):
            if first_ms < file.first_ms or last_ms > file.last_ms:
                return f"has cycles from {_instant(first_ms)} to {_instant(last_ms)}, which its name does not say"
        for group in range(parquet.num_row_groups if to_its_end else 0):
            parquet.read_row_group(group)
    except FileNotFoundError:
        return None
    except StoreError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # a column's name may not be UTF-8
        return str(error).splitlines()[0]
    return None


def _spans_ms(parquet: pq.ParquetFile) -> Iterable[tuple[int, int]]:
    """The first and the last cycle of each row group, from the footer, or from the rows if the footer has none."""
    per_ms = _PER_MS.get(parquet.schema_arrow.field(TAKEN_AT).type.unit, 1)
    for number in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(number)
        columns = (group.column(index) for index in range(group.num_columns))
        statistics = next((column.statistics for column in columns if column.path_in_schema == TAKEN_AT), None)
        if statistics is not None and statistics.has_min_max:
            first, last = statistics.min_raw, statistics.max_raw
        else:
            instants = pc.min_max(parquet.read_row_group(number, columns=[TAKEN_AT])[TAKEN_AT].cast(pa.int64()))
            first, last = instants["min"].as_py(), instants["max"].as_py()
        if first is not None:
            yield first // per_ms, last // per_ms


def _unlike(column: Column, found: Sequence[str]) -> str | None:
    """Returns why columns of these types are not the expected `column`."""
    if len(found) > 1:
        return f"has column {column.name} {len(found)} times"
    if not found:
        return None if column.nullable else f"has no column {column.name}"
    return None if _kind(found[0]) == _kind(column.kind.value) else f"column {column.name} holds {found[0]}"


def _kind(name: str) -> str:
    """A type without time zone, unit and name of list elements, which Spark converts."""
    return re.split(r"[\[<]", name)[0]


SoundFiles: TypeAlias = set[tuple[str, int, int]]
"""(key, size in bytes, time of change in ns) of files that were examined, and can be read."""


def damaged_among(
    files: Iterable[HistoryFile],
    known: Iterable[DamagedFile],
    *,
    to_its_end: bool = False,
    sound: SoundFiles | None = None,
) -> tuple[DamagedFile, ...]:
    """Files that cannot be read; known ones, and those in `sound`, are not tried again until they change."""
    files = tuple(files)
    sound = set() if sound is None else sound
    damaged_before = {file.key: file for file in known}

    def examined(file: HistoryFile) -> DamagedFile | None:
        with suppress(FileNotFoundError):
            status = file.path.stat()
            identity = file.key, status.st_size, status.st_mtime_ns
            before = damaged_before.get(file.key)
            if before is not None and (before.size_bytes, before.changed_ns) == (status.st_size, status.st_mtime_ns):
                return before
            if identity in sound:
                return None
            if (why := damage_of(file, to_its_end=to_its_end)) is not None:
                return DamagedFile(*identity, why)
            sound.add(identity)
        if isinstance(file.path, Path) and file.path.is_symlink() and not file.path.exists():
            return DamagedFile(file.key, 0, 0, "is a link that leads nowhere")
        return None

    found = in_parallel(examined, files, files[0].path) if files else ()
    return tuple(file for file in found if file is not None)
