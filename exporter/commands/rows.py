"""Rows printed as a table, as CSV or as JSON: the same facts in each."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from exporter.commands.table import printable

Row = Mapping[str, Any]


def as_table(headings: Mapping[str, str], rows: Sequence[Row]) -> str:
    """Columns in the order of `headings` (key -> heading), lined up; what is not known is a dash."""
    cells = [[_cell(row.get(key)) for key in headings] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings.values(), *cells, strict=True)]
    lines = [headings.values(), *cells]
    return "\n".join("\t".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def as_csv(rows: Sequence[Row], keys: Sequence[str]) -> str:
    """RFC 4180, with a heading line of `keys`; what is not known is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=keys, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def as_json(document: Mapping[str, Any] | Sequence[Row]) -> str:
    """Indented JSON."""
    return json.dumps(document, indent=2)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value))
