"""Declares the columns of the two history tables, for writer and readers.

`observations` has one row per open transaction and cycle, `cycles` one row per cycle with its unread partitions, so that a
missing transaction differs from an unread one. A change that an old reader would misread is a new version, with a folder
of its own:

    <directory>/v1/observations/cluster_id=<id>/date=<UTC day>/<first>-<last>-<writer>.parquet
    <directory>/v1/cycles/cluster_id=<id>/date=<UTC day>/<first>-<last>-<writer>.parquet

`cluster_id` (URL-encoded) and `date` are only in the path. The file of observations appears before that of their cycles.
"""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass
from datetime import datetime, timezone

from exporter.evaluation.field_types import ColumnType, Field, Greatest, Output
from exporter.evaluation.fields import fields_of

VERSION = "v1"
PARTITIONS_BY_ANSWER = {
    "unauthorized": "of those that could not be read: partitions that this principal may not read",
    "by_offsets": "of those that were read: partitions of which only the offsets were",
    "excluded": "partitions that the settings exclude",
}
"""Label of a `PartitionResult` -> meaning of the column that counts it."""
TEMPORARY = "_writing-"
"""Prefix of incomplete files: readers of Parquet folders ignore names that begin with an underscore."""
OBSERVATIONS = "observations"
CYCLES = "cycles"


def day_of(instant_ms: int) -> str:
    """Returns the day of an instant in UTC; not before 1970."""
    return datetime.fromtimestamp(max(instant_ms, 0) / 1000, timezone.utc).strftime("%Y-%m-%d")


def folder_of_cluster(cluster_id: str) -> str:
    """The name of a cluster's folder below a table."""
    return f"cluster_id={urllib.parse.quote(cluster_id, safe='')}"


def cluster_of_folder(name: str) -> str:
    """The cluster id of a folder's name."""
    return urllib.parse.unquote(name.removeprefix("cluster_id="))


def file_name(first_ms: int, last_ms: int, writer: str) -> str:
    """The name of a file whose first and last cycle were taken at these instants."""
    return f"{first_ms}-{last_ms}-{writer}.parquet"


def instants_of(name: str) -> tuple[int, int] | None:
    """The instants of the first and last cycle in a complete file's name; None for other names."""
    match = _NAME.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


_NAME = re.compile(r"(\d+)-(\d+)-.*\.parquet", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Column:
    """One column; a nullable one describes the meaning of null."""

    name: str
    kind: ColumnType
    meaning: str
    nullable: bool = False
    greatest: Greatest = Greatest.NOT_KEPT


def _column(field: Field) -> Column:
    nulls = [field.null] if field.null else []
    nulls += ["for others than suspects"] if field.of_suspects_only and field.kind is not ColumnType.TEXTS else []
    nulls += ["in files of 0.1.0"] if field.is_new_in_history else []
    meaning = f"{field.meaning}; null {', and '.join(nulls)}" if nulls else field.meaning
    return Column(field.name_in(Output.HISTORY), field.kind, meaning, bool(nulls), field.greatest)


OBSERVATION_COLUMNS = (
    Column("taken_at", ColumnType.INSTANT, "the cycle: when its reading began"),
    *map(_column, fields_of(Output.HISTORY)),
    Column(
        "cause",
        ColumnType.TEXT,
        "why it hangs, as its logs show it; null until `serve` has searched for it, and in files of 0.1.0",
        nullable=True,
    ),
)

CYCLE_COLUMNS = (
    Column("taken_at", ColumnType.INSTANT, "when its reading began"),
    Column("finished_at", ColumnType.INSTANT, "when it ended"),
    Column("interval_ms", ColumnType.LONG, "from one cycle to the next, as configured"),
    Column("writer", ColumnType.TEXT, "the process that wrote it"),
    Column("exporter_version", ColumnType.TEXT, "its version"),
    Column("open_transactions", ColumnType.LONG, "rows of this cycle in `observations`"),
    Column("partitions_read", ColumnType.LONG, "partitions whose leader responded"),
    Column("partitions_unread", ColumnType.LONG, "partitions that could not be read"),
    Column("unread", ColumnType.TEXTS, "those, as topic-partition"),
    Column("brokers_failed", ColumnType.LONG, "leaders that did not respond to every request"),
    Column("coordinators_failed", ColumnType.LONG, "coordinators that did not respond to every request"),
    Column(
        "is_complete",
        ColumnType.FLAG,
        "coverage is complete: all partitions were read, all needed responses came, all leaders used were confirmed",
    ),
    Column("max_timeout_ms", ColumnType.LONG, "the limit used for late, without padding"),
    Column(
        "cluster_name",
        ColumnType.TEXT,
        "its name in the settings; null without one, and in files of 0.1.0",
        nullable=True,
    ),
    Column(
        "clock_offset_ms",
        ColumnType.LONG,
        "how far the cluster's clock is ahead of the exporter's; null if no controller has shown it, and in files of 0.1.0",
        nullable=True,
    ),
    *(
        Column(f"partitions_{answer}", ColumnType.LONG, f"{meaning}; null in files of 0.1.0", nullable=True)
        for answer, meaning in PARTITIONS_BY_ANSWER.items()
    ),
)

TABLES = {OBSERVATIONS: OBSERVATION_COLUMNS, CYCLES: CYCLE_COLUMNS}
