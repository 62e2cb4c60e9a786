"""Finds the name that was probably meant: of an option, a command, an incident, a topic."""

from __future__ import annotations

import difflib
from collections.abc import Collection


def suggestion(given: str, known: Collection[str]) -> str:
    """`: did you mean orders?`; nothing if no name is near, or `given` is one of them."""
    close = [] if given in known else difflib.get_close_matches(given, known, n=1)
    return f": did you mean {close[0]}?" if close else ""
