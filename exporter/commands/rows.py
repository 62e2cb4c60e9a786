"""Prints rows as a table, as CSV or as JSON, with the same data in each; a terminal shows tables in colour."""

from __future__ import annotations

import csv
import io
import json
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from exporter.commands.context import Context
from exporter.commands.lines import fit, fit_terminal, terminal_width
from exporter.evaluation.humanize import printable
from exporter.evaluation.verdicts import Verdict

CELL_MAX = 249
"""Maximum characters of a cell in a table, as in the longest topic name: one id of 32,000 would widen every line."""
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r")
Row = Mapping[str, Any]
Paint = Callable[[Row, str], str]
"""Colours a line of a table for the terminal, given its row."""
RED, YELLOW, RESET = "\x1b[31m", "\x1b[33m", "\x1b[0m"
_COLOURS = {
    verdict.label: RED if verdict.is_hanging else YELLOW
    for verdict in Verdict
    if verdict.is_hanging or verdict.is_suspect
}
"""Red for transactions proved to hang, yellow for other suspects."""


def plain(_: Row, line: str) -> str:
    """Returns the line without colour."""
    return line


def paint_for(context: Context) -> Paint:
    """Returns colours by verdict if standard output is a terminal with colour, otherwise none."""
    return by_verdict if context.may_colour and sys.stdout.isatty() else plain


def by_verdict(row: Row, line: str) -> str:
    """`line` in the colour of its row's verdict."""
    colour = _COLOURS.get(row["verdict"])
    return line if colour is None else f"{colour}{line}{RESET}"


def output_format(chosen: str | None) -> str:
    """The chosen format; without one, a table for people on a terminal, and Kafka's own columns elsewhere."""
    return chosen or ("table" if sys.stdout.isatty() else "tsv")


def in_format(
    chosen: str | None,
    headings: Mapping[str, str],
    rows: Sequence[Row],
    *,
    for_people: Callable[[], str],
    document: Row | None = None,
    for_tsv: Sequence[Row] | None = None,
) -> str:
    """`rows` in the format of `output_format`: a table comes from `for_people`, and JSON is `document` if there is one."""
    output = output_format(chosen)
    if output == "table":
        return for_people()
    if output == "json":
        return as_json(rows if document is None else document)
    if output == "csv":
        return as_csv(rows, list(headings))
    return as_table(headings, rows if for_tsv is None else for_tsv)


def for_people(headings: Mapping[str, str], rows: Sequence[Row], nothing: str) -> str:
    """A table with the headings of `find-hanging`'s, or the sentence that there is nothing."""
    return table_for_people(headings, rows) if rows else fit_terminal(nothing)


def table_for_people(headings: Mapping[str, str], rows: Sequence[Row], paint: Paint = plain) -> str:
    """A table that fits the terminal, if there is one.

    If it is too wide, headings take several lines; if that is not enough, the last columns stand below each row.
    """
    width = terminal_width()
    whole = as_table(headings, rows, between="  ").split("\n")
    if width is None or max(map(len, whole)) <= width:
        return as_table(headings, rows, paint, between="  ")
    cells = {key: [_shortened(_cell(row.get(key))) for row in rows] for key in headings}
    widths = {key: max(map(len, [*cells[key], *heading.split()])) for key, heading in headings.items()}
    columns = list(headings)
    while len(columns) > 1 and sum(widths[key] + 2 for key in columns) - 2 > width:
        columns.pop()

    def line_of(texts: Sequence[str]) -> str:
        return "  ".join(text.ljust(widths[key]) for key, text in zip(columns, texts, strict=True)).rstrip()

    stacks = [textwrap.wrap(headings[key], widths[key])[::-1] for key in columns]
    lines = [line_of(texts) for texts in zip_longest(*stacks, fillvalue="")][::-1]
    for number, row in enumerate(rows):
        below = [f"  {headings[key].lower()}: {_cell(row.get(key))}" for key in list(headings)[len(columns) :]]
        line = line_of([cells[key][number] for key in columns])
        lines.append(paint(row, fit("\n".join([line, *below]), width)))
    return "\n".join(lines)


def as_table(headings: Mapping[str, str], rows: Sequence[Row], paint: Paint = plain, *, between: str = "\t") -> str:
    """Columns in the order of `headings` (key -> heading), aligned; an unknown value is a dash.

    A tab between columns is the format of Kafka's own tools.
    """
    *padded, last = headings
    cells = [[*(_shortened(_cell(row.get(key))) for key in padded), _cell(row.get(last))] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings.values(), *cells, strict=True)]
    heading, *lines = [
        between.join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
        for line in [headings.values(), *cells]
    ]
    return "\n".join([heading, *(paint(row, line) for row, line in zip(rows, lines, strict=True))])


def _shortened(cell: str) -> str:
    """Shortens a cell to CELL_MAX characters: the beginning and the end."""
    if len(cell) <= CELL_MAX:
        return cell
    half = (CELL_MAX - 1) // 2
    return f"{cell[:half]}…{cell[-half:]}"


def as_csv(rows: Sequence[Row], keys: Sequence[str]) -> str:
    """RFC 4180 except for line ends, with a heading line of `keys`; unknown values are empty.

    Text that a terminal or a spreadsheet would execute is made harmless; JSON keeps every character.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(map(_csv_cell, cells) for cells in [keys, *([row.get(key) for key in keys] for row in rows)])
    return text.getvalue().removesuffix("\n")


def _csv_cell(value: Any) -> Any:
    if isinstance(value, list | dict):
        value = json.dumps(value)
    if not isinstance(value, str):
        return value
    # A spreadsheet treats a text with such a beginning as a formula (CWE-1236).
    return printable(f"'{value}" if value.startswith(_FORMULA_BEGINS) else value)


def as_json(document: Mapping[str, Any] | Sequence[Row]) -> str:
    """Indented JSON."""
    return json.dumps(document, indent=2)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value))
