"""Which files the history holds, and which of them a batch takes. No Spark here."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.history.schema import CYCLES, OBSERVATIONS, TABLES, VERSION, Column, instants_of
from exporter.pipeline.manifest import DamagedFile

PLACE_PARTS = 3
"""Of a file below its table: cluster, day and name."""


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
        cluster_id = urllib.parse.unquote(path.parent.parent.name.removeprefix("cluster_id="))
        day = path.parent.name.removeprefix("date=")
        yield HistoryFile(path, table, cluster_id, day, *instants)


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
        for group in range(parquet.num_row_groups if to_its_end else 0):
            parquet.read_row_group(group)
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # of a column's name
        return str(error).splitlines()[0]
    return None


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
    told = {it.key: it for it in known}
    found = []
    for file in files:
        with suppress(FileNotFoundError):
            status = file.path.stat()
            before = told.get(file.key)
            if before is not None and (before.size_bytes, before.changed_ns) == (status.st_size, status.st_mtime_ns):
                found.append(before)
            elif (why := damage_of(file, to_its_end=to_its_end)) is not None:
                found.append(DamagedFile(file.key, status.st_size, status.st_mtime_ns, why))
    return tuple(found)
