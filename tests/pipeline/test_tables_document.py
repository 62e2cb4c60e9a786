"""docs/tables.md has each column of the tables with its type, in their order, with a meaning."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql.types import StructType

from exporter.pipeline.tables import Tables

TEXT: Final = Path("docs/tables.md").read_text(encoding="utf-8")
TABLES: Final = Tables(Path("tables"))
DOCUMENTED: Final = {
    "`transactions`": TABLES.transactions.columns,
    "Fields of each element of `partitions`": TABLES.transactions.columns["partitions"].dataType.elementType,
    "`incidents`": TABLES.incidents.columns,
    "`transaction_log`": TABLES.transaction_log.columns,
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_each_column_is_documented_with_its_type(name: str) -> None:
    """A column that is added, removed or changed needs its row; types of elements are in words. Delta has the meaning."""
    after = re.split(rf"^(?:## )?{re.escape(name)}", TEXT, maxsplit=1, flags=re.MULTILINE)[1]
    table = after[after.index("|---") :].partition("\n\n")[0].splitlines()[1:]
    rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table]

    assert [(row[0].strip("`"), row[1]) for row in rows] == [(field.name, _type(field)) for field in DOCUMENTED[name]]
    assert [row[2:] for row in rows] == [[field.metadata["comment"]] for field in DOCUMENTED[name]]


def _type(field: Any) -> str:
    element = getattr(field.dataType, "elementType", None)
    return "array<struct>" if isinstance(element, StructType) else str(field.dataType.simpleString())
