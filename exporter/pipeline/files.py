"""Which files the history holds, and which of them a batch takes. No Spark here."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exporter.history.schema import CYCLES, OBSERVATIONS, TABLES, VERSION, Column, cluster_of_folder, instants_of
from exporter.pipeline.manifest import DamagedFile

PLACE_PARTS = 3
"""Of a file below its table: cluster, day and name."""
AHEAD_MS: Final = 3_600_000
"""An exporter's clock may be ahead of the pipeline's by this much."""
BEGINNING_MS: Final = 1_498_608_000_000
"""2017-06-28: Kafka 0.11, the first version with transactions."""
TAKEN_AT: Final = "taken_at"
_PER_MS: Final = {"us": 1_000, "ns": 1_000_000}


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """One whole file of the daemon. Instants are those of its first and last cycle."""

    path: Path
    table: str
    cluster_id: str
    day: str
    first_ms: int
    last_ms: int

    @property
    def key(self) -> str:
        """What the manifest calls it."""
        return f"{self.table}/{self._place}"

    @property
    def observations_key(self) -> str:
        """That of the observations of the same cycles."""
        return f"{OBSERVATIONS}/{self._place}"

    @property
    def _place(self) -> str:
        return "/".join(self.path.parts[-PLACE_PARTS:])


def history_files(history: Path) -> tuple[HistoryFile, ...]:
    """Those with names of ours. Cycles are listed first: the observations of a cycle that is there are there as well."""
    return tuple(
        file
        for table in (CYCLES, OBSERVATIONS)
        for path in sorted((history / VERSION / table).glob("cluster_id=*/date=*/*.parquet"))
        for file in _of_name(table, path)
    )


def _of_name(table: str, path: Path) -> Iterable[HistoryFile]:
    instants = instants_of(path.name)
    if instants is not None:
        cluster_id = cluster_of_folder(path.parent.parent.name)
        day = path.parent.name.removeprefix("date=")
        yield HistoryFile(path, table, cluster_id, day, *instants)


def implausible_time(file: HistoryFile, now_ms: int) -> str | None:
    """Why no right clock gave its cycles their times, as its name has them; None for plausible ones."""
    first_ms, last_ms = sorted((file.first_ms, file.last_ms))
    if last_ms > now_ms + AHEAD_MS:
        return f"has a cycle of {_instant(last_ms)}, which is later than this run by more than {AHEAD_MS // 60_000} minutes"
    if first_ms < BEGINNING_MS:
        return f"has a cycle of {_instant(first_ms)}, which is before Kafka had transactions"
    return None


def _instant(instant_ms: int) -> str:
    try:
        return datetime.fromtimestamp(instant_ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{instant_ms} ms"


def plausible(files: Iterable[HistoryFile], now_ms: int) -> tuple[HistoryFile, ...]:
    """Those whose times a right clock can have given."""
    return tuple(it for it in files if implausible_time(it, now_ms) is None)


def left_out(files: Iterable[HistoryFile], damaged: Iterable[DamagedFile], now_ms: int) -> tuple[tuple[str, str], ...]:
    """(key, why) of each file that is not taken into the tables."""
    found = {it.key: it.why for it in damaged}
    found |= {it.key: why for it in files if (why := implausible_time(it, now_ms)) is not None}
    return tuple(sorted(found.items()))


def waiting(files: Collection[HistoryFile], consumed: Collection[str]) -> tuple[HistoryFile, ...]:
    """What no run has taken, the oldest first. Cycles whose observations are not there prove nothing: they wait."""
    present = {file.key for file in files} | set(consumed)
    return tuple(
        sorted(
            (it for it in files if it.key not in consumed and it.observations_key in present),
            key=lambda it: (it.first_ms, it.key),
        )
    )


def batch_of(files: Iterable[HistoryFile], rows_max: int) -> tuple[HistoryFile, ...]:
    """The oldest of `files` with at most `rows_max` observations, one file of them at least, and with their cycles."""
    rows = 0
    taken: list[HistoryFile] = []
    refused: set[str] = set()
    for file in sorted(files, key=lambda it: (it.first_ms, it.observations_key, it.table == CYCLES)):
        if file.table == OBSERVATIONS:
            rows += _rows(file.path)
            if refused or (rows > rows_max and any(it.table == OBSERVATIONS for it in taken)):
                refused.add(file.key)
                continue
        elif file.observations_key in refused:
            continue
        taken.append(file)
    return tuple(taken)


def _rows(path: Path) -> int:
    """Zero for a file that is gone."""
    with suppress(OSError):
        return int(pq.read_metadata(path).num_rows)
    return 0


def damage_of(file: HistoryFile, *, to_its_end: bool) -> str | None:
    """Why it cannot be read; None for one that can, or that is gone. `to_its_end` reads its rows as well as its footer."""
    try:
        parquet = pq.ParquetFile(file.path)
        for column in TABLES[file.table]:
            why = _unlike(column, [str(it.type) for it in parquet.schema_arrow if it.name == column.name])
            if why is not None:
                return why
        for first_ms, last_ms in _spans_ms(parquet):
            if first_ms < file.first_ms or last_ms > file.last_ms:
                return f"has cycles from {_instant(first_ms)} to {_instant(last_ms)}, which its name does not say"
        for group in range(parquet.num_row_groups if to_its_end else 0):
            parquet.read_row_group(group)
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # of a column's name
        return str(error).splitlines()[0]
    return None


def _spans_ms(parquet: pq.ParquetFile) -> Iterable[tuple[int, int]]:
    """The first and the last cycle of each row group: of the footer, or of the rows where it does not say."""
    per_ms = _PER_MS.get(parquet.schema_arrow.field(TAKEN_AT).type.unit, 1)
    for number in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(number)
        columns = (group.column(it) for it in range(group.num_columns))
        statistics = next(it.statistics for it in columns if it.path_in_schema == TAKEN_AT)
        if statistics is not None and statistics.has_min_max:
            first, last = statistics.min_raw, statistics.max_raw
        else:
            instants = pc.min_max(parquet.read_row_group(number, columns=[TAKEN_AT])[TAKEN_AT].cast(pa.int64()))
            first, last = instants["min"].as_py(), instants["max"].as_py()
        if first is not None:
            yield first // per_ms, last // per_ms


def _unlike(column: Column, found: Sequence[str]) -> str | None:
    """Why a file with columns of these types under its name does not hold `column`."""
    if len(found) > 1:
        return f"has column {column.name} {len(found)} times"
    if not found:
        return None if column.nullable else f"has no column {column.name}"
    return None if _kind(found[0]) == _kind(column.kind.value) else f"column {column.name} holds {found[0]}"


def _kind(name: str) -> str:
    """Of a type: its time zone, its unit and the name of a list's elements are Spark's to bear."""
    return re.split(r"[\[<]", name)[0]


def damaged_among(
    files: Iterable[HistoryFile], known: Iterable[DamagedFile], *, to_its_end: bool = False
) -> tuple[DamagedFile, ...]:
    """Those that cannot be read; what is known to be so is not tried again while it stays as it is."""
    damaged_before = {it.key: it for it in known}
    found = []
    for file in files:
        with suppress(FileNotFoundError):
            status = file.path.stat()
            before = damaged_before.get(file.key)
            if before is not None and (before.size_bytes, before.changed_ns) == (status.st_size, status.st_mtime_ns):
                found.append(before)
            elif (why := damage_of(file, to_its_end=to_its_end)) is not None:
                found.append(DamagedFile(file.key, status.st_size, status.st_mtime_ns, why))
    return tuple(found)
