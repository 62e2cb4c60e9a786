"""Parts of the report's page: tables, instants and names as HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from html import escape
from typing import Any, Final

from exporter.evaluation.humanize import humanize_names
from exporter.pipeline.report import SectionRows

Columns = Mapping[str, Callable[[Any], str]]
"""Head -> cell of a row as HTML; a head that begins with # is of a column of numbers."""
DASH: Final = "\N{EN DASH}"


def as_section(shown: SectionRows, nothing: str, columns: Columns, several: bool) -> str:  # noqa: FBT001
    """A table; the cluster is named in each row only where there are `several`."""
    return as_table(with_cluster(columns, several), shown.rows) or f'<p class="nothing">{nothing}</p>'


def with_cluster(columns: Columns, several: bool) -> Columns:  # noqa: FBT001
    return {"cluster": lambda row: escape(row.cluster_id), **columns} if several else columns


def as_table(columns: Columns, rows: Iterable[Any]) -> str:
    """Empty without rows."""
    heads = [(head.removeprefix("#"), ' class="number"' if head.startswith("#") else "") for head in columns]
    head = "".join(f"<th{kind}>{name}</th>" for name, kind in heads)
    cells = list(zip(heads, columns.values(), strict=True))
    lines = [
        "".join(f'<td{kind} data-head="{name}"><span>{cell(row)}</span></td>' for (name, kind), cell in cells)
        for row in rows
    ]
    table = f"<table><tr>{head}</tr>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
    return table if lines else ""


def not_shown(count: int, what: str) -> str:
    return f'<p class="nothing">Not shown: {count:,} more {what}.</p>' if count else ""


def some_names(names: Sequence[str], shown_max: int = 3) -> str:
    return escape(humanize_names(names, shown_max=shown_max))


def on_one_line(text: str) -> str:
    """Text of the exporter itself, which stays on one line."""
    return f'<span class="word">{escape(text)}</span>'


def minute_of(instant_ms: int) -> str:
    return datetime.fromtimestamp(instant_ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M")
