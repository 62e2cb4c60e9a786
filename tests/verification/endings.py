"""Decides whether a program that plays situations may write its document: only where all of them are right."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def status_without_writing(wrong: Sequence[str], *, is_part: bool) -> int | None:
    """Prints why nothing is written and returns the exit status; None where the document is to be written."""
    if wrong:
        print("\n".join(["nothing is written:", *wrong]), file=sys.stderr)
        return 1
    if is_part:
        print("nothing is written: only a part was played")
        return 0
    return None
