"""Buckets of the table `transactions`: the parts of it that a run replaces as a whole.

A closed transaction is in the bucket of the hour of its closing, or in that of the day once compaction has joined its
hours; all that are not closed share one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import date
from typing import Final, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from exporter.pipeline.suspects import has_suspect
from exporter.pipeline.transactions import CLOSED

Bucket: TypeAlias = tuple[date | None, int | None]
"""Values of the columns `BUCKET`."""
BUCKET: Final = ("date", "closed_hour")
OPEN: Final[Bucket] = (None, None)
"""The bucket of transactions that are not closed."""


def buckets_of(rows: DataFrame) -> frozenset[Bucket]:
    return frozenset((row.date, row.closed_hour) for row in rows.select(*BUCKET).distinct().collect())


def in_buckets(buckets: Collection[Bucket]) -> str:
    """SQL that chooses the rows of these buckets, and is never null."""
    hours: dict[date, list[int]] = defaultdict(list)
    for day, hour in buckets:
        if day is not None:
            hours[day].append(_WHOLE_DAY if hour is None else hour)
    chosen = [
        f"date <=> DATE'{day}' AND coalesce(closed_hour, {_WHOLE_DAY}) IN ({', '.join(map(str, sorted(hours[day])))})"
        for day in sorted(hours)
    ]
    return " OR ".join([*(["date IS NULL"] if OPEN in buckets else []), *chosen]) or "false"


_WHOLE_DAY: Final = -1


def placed(transactions: DataFrame) -> DataFrame:
    """`TRANSACTIONS` with their places: suspects apart, and the bucket of each."""
    is_closed = f.col("end") == CLOSED
    return transactions.withColumns(
        {
            "was_suspect": has_suspect(),
            "date": f.when(is_closed, f.to_date("closed_at")),
            "closed_hour": f.when(is_closed, f.hour("closed_at")),
        }
    )


def without_places(rows: DataFrame) -> DataFrame:
    """Rows of the table -> `TRANSACTIONS`."""
    return rows.drop("was_suspect", *BUCKET)
