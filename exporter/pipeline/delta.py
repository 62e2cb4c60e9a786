"""Commits to a Delta table: which of its files are replaced by which new ones, in one transaction.

Spark writes the rows as Parquet files below the table's folder; here they become part of the table (Delta's protocol,
"Actions"). Two writers that began with the same version of a table never both commit: each commit carries the name
of its application, and Delta refuses the second (`txn` actions, conflict of application transactions).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path, PurePath
from threading import Barrier
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import ArrayType, StructType
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import types as t

from exporter.pipeline.connectors import delta_options, delta_uri, spark_path
from exporter.storage.faults import StoreError, reason_of
from exporter.storage.places import Place, in_parallel, parquet_source, remove_folder

APPLICATION: Final = "kafka-transaction-exporter"
KEPT_HOURS: Final = 24
"""Replaced files stay this long, for readers of an older version; so do files of a run that was killed."""
RUNS_BETWEEN: Final = 2**31
"""Two runs that begin with the same version choose different numbers."""
PROBE_WRITERS: Final = 4
PROBE_ROUNDS: Final = 5
_PROBE: Final = t.StructType([t.StructField("nothing", t.StringType())])
_ZSTD: Final = WriterProperties(compression="ZSTD")
_MILLISECOND: Final = timedelta(milliseconds=1)


class TableError(Exception):
    """The table cannot be used, or another writer was first; the message is the reason."""


class ConflictError(TableError):
    """Another writer was first."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of the table. Instants are in UTC; what the file's statistics do not say is missing."""

    path: str
    """Relative to the table."""
    rows: int
    written_ms: int
    parts: Mapping[str, Any]
    """Values of the columns by which the table is partitioned."""
    least: Mapping[str, Any]
    greatest: Mapping[str, Any]
    nulls: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version of a table. A commit to it fails if another writer was first."""

    table: DeltaTable
    application: str
    run: int
    """Run of the newest commit of this application; zero if there is none."""

    def new_run(self) -> int:
        """The number of a run that begins with this version: greater than that of the one before, and its own."""
        return self.run + 1 + secrets.randbelow(RUNS_BETWEEN)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Returns the files in the order of the table's log."""
        return tuple(map(_data_file, pa.table(self.table.get_add_actions(flatten=True)).to_pylist()))


@dataclass(frozen=True, slots=True)
class Table:
    """A Delta table in a folder."""

    folder: Place
    columns: Any
    """Spark's type of a row."""
    description: str
    parts: tuple[str, ...] = ()
    """Columns by which it is partitioned."""

    def snapshot(self, application: str = APPLICATION) -> TableVersion:
        """The newest version; the table is made if it is missing. Raises TableError."""
        with self._faults("is not a Delta table that can be read"):
            table = self._open()
            return TableVersion(table, application, table.transaction_version(application) or 0)

    def _open(self) -> DeltaTable:
        if not self.exists:
            DeltaTable.create(
                delta_uri(self.folder),
                Schema.from_json(self.columns.json()),
                mode="ignore",
                partition_by=list(self.parts),
                name=self.folder.name,
                description=self.description,
                raise_if_key_not_exists=False,
                storage_options=delta_options(self.folder),
            )
        table = self._delta_table()
        known = {field.name: field.type for field in table.schema().fields}
        wanted = Schema.from_json(self.columns.json()).fields
        newer = [field for field in wanted if field.name not in known or _lacks(known[field.name], field.type)]
        if newer:  # than the version of this program that wrote it: columns, or parts of a column
            table.alter.add_columns(newer)
        return table

    @property
    def exists(self) -> bool:
        """False before the first run."""
        with self._faults("cannot be read"):
            return DeltaTable.is_deltatable(delta_uri(self.folder), storage_options=delta_options(self.folder))

    def _delta_table(self) -> DeltaTable:
        return DeltaTable(delta_uri(self.folder), storage_options=delta_options(self.folder))

    @contextmanager
    def _faults(self, what: str) -> Iterator[None]:
        """Raises TableError in place of errors of Delta and of the store."""
        try:
            yield
        except StoreError as error:
            raise TableError(str(error)) from error
        except (DeltaError, OSError) as error:
            why = str(error) if isinstance(self.folder, Path) else reason_of(error)
            raise TableError(f"{self.folder}: {what}: {why}") from None

    def commit(
        self, snapshot: TableVersion, *, run: int, added: Iterable[Place] = (), removed: Iterable[str] = ()
    ) -> None:
        """Replaces the `removed` files of the table by the `added` ones. Raises TableError if another writer was first."""
        with self._faults("cannot be changed"):
            found = list(added)
            statistics = in_parallel(statistics_of, found, self.folder)
            actions: list[AddAction | RemoveAction] = [
                self._addition(path, each) for path, each in zip(found, statistics, strict=True) if each["numRecords"]
            ]
            now_ms = to_ms(datetime.now(timezone.utc))
            actions += [RemoveAction(path, True, now_ms) for path in removed]
            transaction = Transaction(snapshot.application, run, now_ms)
            try:
                snapshot.table.create_write_transaction(
                    actions,
                    mode="append",
                    schema=snapshot.table.schema(),
                    partition_by=list(self.parts),
                    commit_properties=CommitProperties(app_transactions=[transaction]),
                )
            except CommitFailedError as error:
                why = "another pipeline has changed the table since; this run changes nothing"
                raise ConflictError(f"{self.folder}: {why} ({error})") from error

    def _addition(self, path: Place, statistics: Mapping[str, Any]) -> AddAction:
        place = path.relative_to(self.folder)  # type: ignore[arg-type]  # both are of one kind
        status = path.stat()
        return AddAction(
            path=place.as_posix(),
            size=status.st_size,
            partition_values={name: _part(place, name) for name in self.parts},
            modification_time=int(status.st_mtime * 1000),
            data_change=True,
            stats=json.dumps(statistics),
        )

    def place_of(self, file: DataFile) -> Place:
        return self.folder / file.path

    def path_of(self, file: DataFile) -> str:
        """Returns the path of a file for Spark."""
        return spark_path(self.place_of(file))

    def delete(self, predicate: str) -> None:
        """Deletes the rows for which it holds, in SQL; their files stay for readers until `clean`."""
        with self._faults("cannot be cut"):
            self._delta_table().delete(predicate, writer_properties=_ZSTD)

    def join_small_files(self) -> int:
        """Replaces small files by large ones (Delta's OPTIMIZE); returns how many."""
        with self._faults("cannot be compacted"):
            done = self._delta_table().optimize.compact(writer_properties=_ZSTD)
            return int(done["numFilesRemoved"])

    def clean(self, kept_hours: int) -> None:
        """Removes files that no version of these hours has (Delta's VACUUM)."""
        with self._faults("cannot be cleaned"):
            table = self._delta_table()
            table.vacuum(kept_hours, dry_run=False, enforce_retention_duration=False, full=True)


def require_conditional_writes(folder: Place) -> None:
    """Raises TableError if a store lets two writers commit the same version, of which one would be lost.

    Some writers commit to a table of the probe's own at the same time, a few times: one alone may succeed each time, and
    the others must see that.
    """
    if isinstance(folder, Path):
        return
    probe = Table(folder / f"probe-{secrets.token_hex(8)}", _PROBE, "Shows whether the store has conditional writes")
    others: list[TableError] = []
    try:
        for _ in range(PROBE_ROUNDS):
            outcomes = _race(probe)
            failures = [outcome for outcome in outcomes if outcome is not None]
            if len(outcomes) - len(failures) > 1:
                raise TableError(
                    f"{folder}: this store ignores conditional writes (If-None-Match), so that two pipelines would "
                    f"overwrite each other's commits; keep the tables on a disk, or in a store that has them"
                )
            others += [failure for failure in failures if not isinstance(failure, ConflictError)]
            if len(failures) == len(outcomes):
                raise (*others, *failures)[0]
        # Raised last: where objects are overwritten, one that is being replaced may be missing for a moment.
        if others:
            raise others[0]
    finally:
        remove_folder(probe.folder)


def _race(probe: Table) -> list[TableError | None]:
    """Lets some writers commit the same version; returns why each could not, None if it could."""
    snapshots = [probe.snapshot() for _ in range(PROBE_WRITERS)]
    begin = Barrier(PROBE_WRITERS)

    def outcome(snapshot: TableVersion) -> TableError | None:
        run = snapshot.new_run()
        begin.wait()
        try:
            probe.commit(snapshot, run=run)
        except TableError as error:
            return error
        return None

    with ThreadPoolExecutor(PROBE_WRITERS) as executor:
        return list(executor.map(outcome, snapshots))


def statistics_of(path: Place) -> dict[str, Any]:
    """A file's statistics as Delta has them (protocol, "Per-file Statistics"), from its footer.

    Of instants, numbers and cluster ids, as far as every row group has them.
    """
    footer = pq.read_metadata(parquet_source(path))
    least, greatest, nulls = {}, {}, {}
    for index, name in enumerate(footer.schema.names):
        column = footer.schema.column(index)
        found = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        if column.path != name or not all(each is not None and each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        filled = [each for each in found if each.num_values or each.has_min_max]
        kind = filled[0].min if filled and all(each.has_min_max for each in filled) else None
        if isinstance(kind, (int, datetime, str)) and not isinstance(kind, bool):
            least[name] = _literal(min(each.min for each in filled))
            greatest[name] = _literal(max(each.max for each in filled), up=True)
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _literal(value: Any, *, up: bool = False) -> Any:
    """Instants have milliseconds there: the least are rounded down, the greatest up."""
    if not isinstance(value, datetime):
        return value
    value = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    if up and value.microsecond % 1000:
        value += _MILLISECOND
    return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"


def _data_file(action: Mapping[str, Any]) -> DataFile:
    def named(kind: str) -> dict[str, Any]:
        return {
            name.removeprefix(kind): value
            for name, value in action.items()
            if name.startswith(kind) and value is not None
        }

    return DataFile(
        path=unquote(action["path"]),
        rows=action["num_records"],
        written_ms=action["modification_time"],
        parts=named("partition."),
        least=named("min."),
        greatest=named("max."),
        nulls=named("null_count."),
    )


def _part(place: PurePath, name: str) -> str | None:
    """The value in the folder's name, as Spark writes it; null where it writes its word for null."""
    (text,) = (part.partition("=")[2] for part in place.parts if part.startswith(f"{name}="))
    return None if text == "__HIVE_DEFAULT_PARTITION__" else unquote(text)


def _lacks(known: Any, wanted: Any) -> bool:
    """Returns whether parts of a column are missing; parts that only `known` has are of a newer version of this program."""
    if isinstance(wanted, ArrayType):
        return _lacks(known.element_type, wanted.element_type)
    if not isinstance(wanted, StructType):
        return bool(known != wanted)
    parts = {part.name: part.type for part in known.fields}
    return any(part.name not in parts or _lacks(parts[part.name], part.type) for part in wanted.fields)


def to_ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)
