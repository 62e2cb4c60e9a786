"""Colours terminal output, unless it is turned off: red for transactions proved to hang, yellow for other suspects."""

from __future__ import annotations

import sys

from exporter.commands.context import Context
from exporter.commands.rows import Paint, Row, plain
from exporter.evaluation.verdicts import Verdict

RED, YELLOW, RESET = "\x1b[31m", "\x1b[33m", "\x1b[0m"
_COLOURS = {
    verdict.label: RED if verdict.is_hanging else YELLOW
    for verdict in Verdict
    if verdict.is_hanging or verdict.is_suspect
}


def paint_for(context: Context) -> Paint:
    """By verdict if standard output is a terminal with colour, otherwise none."""
    return by_verdict if context.may_colour and sys.stdout.isatty() else plain


def by_verdict(row: Row, line: str) -> str:
    """`line` in the colour of its row's verdict."""
    colour = _COLOURS.get(row["verdict"])
    return line if colour is None else f"{colour}{line}{RESET}"
