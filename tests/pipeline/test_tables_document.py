"""docs/tables.md has each column of the tables with its type, in their order, with a meaning."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql.types import StructType

from exporter.pipeline import schemas

TEXT: Final = Path("docs/tables.md").read_text(encoding="utf-8")
DOCUMENTED: Final = {
    "`transactions`": schemas.TRANSACTIONS_TABLE,
    "Fields of each element of `partitions`": schemas.TRANSACTIONS["partitions"].dataType.elementType,
    "`incidents`": schemas.INCIDENTS,
    "`transaction_log`": schemas.RECORDS,
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_each_column_is_documented_with_its_type(name: str) -> None:
    """A column that is added, removed or changed needs its row; types of elements are in words."""
    after = re.split(rf"^(?:## )?{re.escape(name)}", TEXT, maxsplit=1, flags=re.MULTILINE)[1]
    table = after[after.index("|---") :].partition("\n\n")[0].splitlines()[1:]
    rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table]

    assert [(row[0].strip("`"), row[1]) for row in rows] == [(field.name, _type(field)) for field in DOCUMENTED[name]]
    assert all(len(row) == 3 and row[2] for row in rows)


def _type(field: Any) -> str:
    element = getattr(field.dataType, "elementType", None)
    return "array<struct>" if isinstance(element, StructType) else str(field.dataType.simpleString())
