"""Decides which verdicts of a history are those of a suspect.

A newer exporter may write verdicts that this version does not know: they keep their names, and are a suspect's.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f

from exporter.evaluation.verdicts import Verdict

KNOWN: Final = tuple(verdict.label for verdict in Verdict)
_ORDINARY: Final = tuple(verdict.label for verdict in Verdict if not verdict.is_suspect)


def is_suspect(verdict: Column) -> Column:
    return ~verdict.isin(*_ORDINARY)


def has_suspect(verdicts: str = "verdicts") -> Column:
    """Returns whether a column of names has one of a suspect."""
    return f.size(f.array_except(verdicts, texts(_ORDINARY))) > 0


def unknown_verdict(verdicts: str = "verdicts") -> Column:
    """Returns the first name that this version does not know; null without one."""
    return f.get(f.array_except(verdicts, texts(KNOWN)), f.lit(0))


def texts(values: tuple[str, ...]) -> Column:
    """Returns an array of constants."""
    return f.array(*(f.lit(value) for value in values))
