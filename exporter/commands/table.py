"""Open transactions as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exporter.evaluation.verdicts import TransactionRow

HEADINGS = (
    "TOPIC",
    "PARTITION",
    "PRODUCER",
    "EPOCH",
    "START OFFSET",
    "OPEN FOR",
    "LATE",
    "TRANSACTIONAL ID",
    "VERDICT",
)


CELL_MAX = 249
"""Characters of a cell in a table, the longest topic's name: one id of 32,000 would pad every line."""


def render(rows: Iterable[TransactionRow]) -> str:
    """The table with its headings, and under each suspect the sentence that its verdict rests on."""
    shown = tuple(rows)
    cells = [_cells(row) for row in shown]
    widths = [max(len(line[column]) for line in [HEADINGS, *cells]) for column in range(len(HEADINGS))]
    lines = [_line(HEADINGS, widths)]
    for row, line in zip(shown, cells, strict=True):
        lines.append(_line(line, widths))
        if row.verdict.is_suspect:
            lines.append(f"  {printable(row.reason)}")
    return "\n".join(lines)


def _cells(row: TransactionRow) -> tuple[str, ...]:
    return (
        shortened(printable(row.topic)),
        str(row.partition),
        str(row.producer_id),
        str(row.producer_epoch),
        str(row.start_offset),
        duration(row.duration_ms),
        "yes" if row.is_late else "no",
        shortened(printable(row.transactional_id or "-")),
        row.verdict.label,
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def printable(text: str) -> str:
    """`text` without control characters: a transactional id may hold any, and a terminal obeys some."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def shortened(cell: str) -> str:
    """At most CELL_MAX characters, the beginning and the end of a longer one."""
    if len(cell) <= CELL_MAX:
        return cell
    half = (CELL_MAX - 1) // 2
    return f"{cell[:half]}…{cell[-half:]}"


def duration(milliseconds: int) -> str:
    """`412ms`, `37s`, `12m 5s`, `3h 4m`, `2d 7h`: two units at most."""
    parts: list[str] = []
    rest = milliseconds // 1000
    for unit, seconds in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, seconds)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or f"{milliseconds}ms"
