"""Delta tables: Spark writes and reads their rows with Delta's own library; `deltalake` reads their logs without Spark.

A commit has a number of its application (`txnAppId`, `txnVersion`), one greater than that of the version that its run has
begun with. So of two runs that have begun with the same version Delta commits one. A note in the commit (`userMetadata`)
says what the run has read, and so belongs to the rows: RESTORE takes both back.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import ArrayType, StructType
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from exporter.pipeline.connectors import delta_options, delta_uri, spark_path
from exporter.storage.faults import StoreError, reason_of
from exporter.storage.places import Place

APPLICATION: Final = "kafka-transaction-exporter"
PROPERTIES: Final = {
    "delta.deletedFileRetentionDuration": "interval 7 days",
    "delta.logRetentionDuration": "interval 30 days",
}
"""Delta's own defaults, so that readers and operators see them; the values of a table are its operator's."""
RECENT: Final = 50
"""Newest commits in which a run looks for its own."""
_NO_CHANGE: Final = ("VACUUM START", "VACUUM END", "OPTIMIZE", "SET TBLPROPERTIES")
_BEATEN: Final = re.compile(
    "DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|DELTA_TABLE_ALREADY_EXISTS|FileAlreadyExists"
)
"""Names of errors that Delta has when another writer was first."""


class TableError(Exception):
    """The table cannot be used, or another writer was first; the message is the reason."""


class ConflictError(TableError):
    """Another writer was first."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version of a table. A commit that begins with it fails if another one of its application was first."""

    number: int
    """Delta's; -1 if there is no table yet."""
    application: str
    run: int
    """Number of the application's newest commit; zero if there is none."""
    note: Mapping[str, Any] | None
    """Note of the newest commit whose rows are in this version; empty before the first one, None if it is not known."""
    changed: int = -1
    """Number of the newest version that has changed rows or their order."""


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
        """Returns the newest version, without Spark. Raises TableError."""
        with faults(self.folder, "is not a Delta table that can be read"):
            if not self.exists:
                return TableVersion(-1, application, 0, None)
            table = self._log()
            run = table.transaction_version(application) or 0
            recent = table.history(RECENT)
            changes = (commit["version"] for commit in recent if commit["operation"] not in _NO_CHANGE)
            note = self._note(table, recent, application) if run else None
            return TableVersion(table.version(), application, run, note, next(changes, table.version()))

    @property
    def exists(self) -> bool:
        """False before the first run."""
        with faults(self.folder, "cannot be read"):
            return DeltaTable.is_deltatable(delta_uri(self.folder), storage_options=delta_options(self.folder))

    def _log(self, version: int | None = None) -> DeltaTable:
        return DeltaTable(delta_uri(self.folder), version=version, storage_options=delta_options(self.folder))

    def _note(
        self, table: DeltaTable, recent: Sequence[Mapping[str, Any]], application: str
    ) -> Mapping[str, Any] | None:
        """Follows the commits back from the newest one; a RESTORE leads to the version that it has restored."""
        newest = below = table.version()
        for commit in chain(recent, _older(table, recent)):
            if commit["version"] > below:
                continue
            if (note := note_of(commit)).get("application") == application:
                return note
            if commit["operation"] == "RESTORE":
                below = self._restored(commit["version"])
        return None if below == newest else {}

    def _restored(self, restoring: int) -> int:
        """Returns the newest version before a RESTORE that has the same files: of equal ones any will do."""
        files = set(self._log(restoring).file_uris())
        return next(number for number in count(restoring - 1, -1) if set(self._log(number).file_uris()) == files)

    def files(self) -> list[dict[str, Any]]:
        """Returns the files with their partitions and statistics, without Spark; none if there is no table."""
        with faults(self.folder, "cannot be read"):
            if not self.exists:
                return []
            return list(pa.table(self._log().get_add_actions(flatten=True)).to_pylist())

    @property
    def sql_name(self) -> str:
        """The table's name in Spark's SQL."""
        return f"delta.`{spark_path(self.folder)}`"

    def read(self, spark: SparkSession, version: TableVersion | None = None) -> DataFrame:
        """Returns the rows of a version (see `begin`); by default of the newest version."""
        if version is None and not self.exists:
            return spark.createDataFrame([], self.columns)
        reader = spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version.number)
        rows = reader.load(spark_path(self.folder))
        # An older program has made the table, and no run has added this column yet.
        missing = [column for column in self.columns if column.name not in rows.columns]
        nulls = {column.name: f.lit(None).cast(column.dataType) for column in missing}
        return rows.withColumns(nulls).select(*self.columns.names)

    def begin(self, spark: SparkSession, basis: TableVersion) -> TableVersion:
        """Makes the table, or adds columns of a newer program; returns the version to read.

        Raises ConflictError, and TableError if the table has other partitions.
        """
        with faults(self.folder, "cannot be made"), _conflicts(self.folder):
            if not self.exists:
                spark.sql(self._statement())
            elif (parts := tuple(self._log().metadata().partition_columns)) != self.parts:
                by, not_by = (", ".join(each) or "nothing" for each in (parts, self.parts))
                raise TableError(
                    f"{self.folder}: is partitioned by {by}, and not by {not_by}: use another --tables, for which the "
                    "history is taken again"
                )
            elif self._lacks_columns():
                self._save(spark.createDataFrame([], self.columns), {"mergeSchema": "true"})
        newest = self.snapshot(basis.application)
        if newest.run != basis.run:
            raise _beaten(self.folder)
        return replace(basis, number=newest.number)

    def _statement(self) -> str:
        """SQL that makes the table, with the comments of its columns."""
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in PROPERTIES.items())
        parts = f" PARTITIONED BY ({', '.join(self.parts)})" if self.parts else ""
        return (
            f"CREATE TABLE IF NOT EXISTS {self.sql_name} ({self.columns.toDDL()}) USING delta{parts} "
            f"COMMENT '{self.description}' TBLPROPERTIES ({properties})"
        )

    def _lacks_columns(self) -> bool:
        known = {field.name: field.type for field in self._log().schema().fields}
        wanted = Schema.from_json(self.columns.json()).fields
        return any(field.name not in known or _lacks(known[field.name], field.type) for field in wanted)

    def _save(self, rows: DataFrame, options: Mapping[str, str], mode: str = "append") -> None:
        rows.write.format("delta").mode(mode).options(**options).save(spark_path(self.folder))

    def commit(
        self,
        rows: DataFrame,
        basis: TableVersion,
        *,
        note: Mapping[str, Any] | None = None,
        replaced: str | None = None,
    ) -> None:
        """Adds rows in place of those for which `replaced` holds, in SQL. Raises ConflictError if another run was first.

        An exception may come after the commit, as when a store loses its response; so the log decides what has happened.
        """
        attempt, run = secrets.token_hex(8), basis.run + 1
        options = {
            "txnAppId": basis.application,
            "txnVersion": str(run),
            "userMetadata": json.dumps(
                {"application": basis.application, "run": run, "attempt": attempt, **(note or {})}
            ),
        }
        if replaced is not None:
            options["replaceWhere"] = replaced
        error: Exception | None = None
        try:
            with _conflicts(self.folder):
                self._save(rows, options, "append" if replaced is None else "overwrite")
        except (PySparkException, Py4JError, ConflictError) as raised:
            error = raised
        with faults(self.folder, "cannot be read"):
            recent = self._log().history(RECENT) if error is None or self.exists else []
        if not any(note_of(commit).get("attempt") == attempt for commit in recent):
            # Delta leaves out what has a number that another run has committed, without an error.
            raise error or _beaten(self.folder)

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds a row without Spark, also while others do. Raises TableError."""
        with faults(self.folder, "cannot be written"):
            self._append(self._arrow([row]))

    def _arrow(self, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        schema = pa.schema(Schema.from_json(self.columns.json()))
        return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)

    def _append(self, rows: pa.Table) -> None:
        write_deltalake(
            delta_uri(self.folder),
            rows,
            mode="append",
            schema_mode="merge",
            description=self.description,
            configuration=PROPERTIES,
            storage_options=delta_options(self.folder),
        )

    def add_missing(self, rows: Sequence[Mapping[str, Any]], key: str) -> int:
        """Adds rows whose `key` the table does not have, without Spark; returns their number. Raises ConflictError."""
        with faults(self.folder, "cannot be written"):
            is_there = self.exists
            known = self._values_of(key) if is_there else frozenset[Any]()
            missing = {row[key]: row for row in rows if row[key] not in known}
            if not missing:
                return 0
            if not is_there:
                self._append(self._arrow([]))
            # A merge, since of two runs that add the same rows at once one must fail.
            merger = self._log().merge(
                self._arrow(missing.values()),
                f"old.{key} = new.{key}",
                source_alias="new",
                target_alias="old",
                merge_schema=True,
            )
            return int(merger.when_not_matched_insert_all().execute()["num_target_rows_inserted"])

    def _values_of(self, column: str) -> frozenset[Any]:
        rows = pa.table(self._log().scan(columns=[column]).read_all())
        return frozenset(rows[column].to_pylist())

    def vacuum(self, spark: SparkSession) -> None:
        """Removes files that no version within the table's own retention has."""
        spark.sql(f"VACUUM {self.sql_name}").collect()


@contextmanager
def faults(folder: Place, what: str) -> Iterator[None]:
    """Raises TableError in place of errors of Delta's log and of the store."""
    try:
        yield
    except StoreError as error:
        raise TableError(str(error)) from error
    except CommitFailedError as error:
        raise _beaten(folder) from error
    except (DeltaError, OSError) as error:
        why = str(error) if isinstance(folder, Path) else reason_of(error)
        raise TableError(f"{folder}: {what}: {why}") from None


def _older(table: DeltaTable, recent: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """The commits before the recent ones; the whole log is read for them."""
    if len(recent) == RECENT:
        yield from table.history()[RECENT:]


def note_of(commit: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the note of a commit; others may write anything there, which is none."""
    try:
        note = json.loads(commit.get("userMetadata") or "null")
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}


def _beaten(folder: Place) -> ConflictError:
    return ConflictError(f"{folder}: another pipeline has changed the table since; this run changes nothing")


@contextmanager
def _conflicts(folder: Place) -> Iterator[None]:
    """Raises ConflictError in place of the errors that Delta has for it."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if _BEATEN.search(str(error)) is None:
            raise
        raise _beaten(folder) from error


def _lacks(known: Any, wanted: Any) -> bool:
    """Returns whether parts of a column are missing; parts that only `known` has are of a newer version of this program."""
    if isinstance(wanted, ArrayType):
        return _lacks(known.element_type, wanted.element_type)
    if not isinstance(wanted, StructType):
        return bool(known != wanted)
    parts = {part.name: part.type for part in known.fields}
    return any(part.name not in parts or _lacks(parts[part.name], part.type) for part in wanted.fields)


def sql_text(text: str) -> str:
    """Returns a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def to_ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)
