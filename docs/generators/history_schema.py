"""Makes a JSON schema of the history's rows; `make generate` writes it to `docs/schema/history.schema.json`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from exporter.evaluation.field_types import ColumnType
from exporter.history.schema import TABLES, Column

_TYPES: Final[dict[ColumnType, dict[str, Any]]] = {
    ColumnType.TEXT: {"type": "string"},
    ColumnType.INTEGER: {"type": "integer"},
    ColumnType.LONG: {"type": "integer"},
    ColumnType.FLAG: {"type": "boolean"},
    ColumnType.INSTANT: {"type": "string", "format": "date-time"},
    ColumnType.TEXTS: {"type": "array", "items": {"type": "string"}},
}


def history_schema() -> dict[str, Any]:
    """Returns the schema; its `$defs` have a row of each of the two tables."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rows of the Parquet files of history.directory",
        "description": "v1/observations has a row for each open transaction and cycle, v1/cycles a row for each cycle. "
        "Parquet has instants as timestamps in UTC, integers of 32 or 64 bits.",
        "$defs": {name: _row(columns) for name, columns in TABLES.items()},
    }


def _row(columns: Iterable[Column]) -> dict[str, Any]:
    return {"type": "object", "properties": {column.name: _property(column) for column in columns}}


def _property(column: Column) -> dict[str, Any]:
    made = {**_TYPES[column.kind], "description": column.meaning}
    return {**made, "type": [made["type"], "null"]} if column.nullable else made
