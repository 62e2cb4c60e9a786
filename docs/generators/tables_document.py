"""Makes the tables of docs/tables.md and docs/audit.md from the schemas of the pipeline: each column with its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql.types import StructType

from exporter.audit.tables import AuditTables
from exporter.pipeline.tables import Tables

PARTITIONS: Final = "partitions"


def column_tables() -> Mapping[str, str]:
    """Returns Markdown by the name of a table; `partitions` has the fields of an element of that column."""
    columns = {table.folder.name: table.columns for table in Tables(Path("tables")).every}
    columns[PARTITIONS] = columns["transactions"][PARTITIONS].dataType.elementType
    return {name: _table(fields) for name, fields in columns.items()}


def audit_tables() -> Mapping[str, str]:
    """Returns Markdown by the name of a table of the audit."""
    tables = AuditTables(Tables(Path("tables")), "cluster")
    return {table.folder.name: _table(table.columns) for table in (tables.findings, tables.coverage)}


def _table(columns: Any) -> str:
    rows = [f"| `{column.name}` | {_type(column)} | {column.metadata['comment']} |\n" for column in columns]
    return "".join(["| column | type | meaning |\n|---|---|---|\n", *rows])


def _type(column: Any) -> str:
    element = getattr(column.dataType, "elementType", None)
    return "array<struct>" if isinstance(element, StructType) else str(column.dataType.simpleString())
