"""The questions of docs/queries.md, with their queries and answers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final, NamedTuple

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "queries.md"
TEXT: Final = DOCUMENT.read_text(encoding="utf-8")
DUCKDB, SPARK = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
PLACE: Final = "/var/lib/kafka-transaction-exporter/tables/v1"


class Question(NamedTuple):
    """A section of the page."""

    name: str
    sql: str
    answer: str


QUESTIONS: Final = tuple(
    Question(section.partition("\n")[0], *re.findall(r"```sql\n(.*?)```\n\n((?:\|[^\n]*\n)+)", section, re.DOTALL)[0])
    for section in TEXT.split("\n## ")[1:]
)


def as_table(names: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """In Markdown, as the page has it."""
    columns = [str(name) for name in names]
    lines = [f"| {' | '.join(columns)} |", f"|{'|'.join('---' for _ in columns)}|"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "".join(f"{line}\n" for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    return str(value) if isinstance(value, (int, str)) else f"{float(value):g}"
