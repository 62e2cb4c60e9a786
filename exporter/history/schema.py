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
from enum import Enum

VERSION = "v1"
TEMPORARY = "_writing-"
"""Prefix of incomplete files: readers of Parquet folders ignore names that begin with an underscore."""
OBSERVATIONS = "observations"
CYCLES = "cycles"


def day_of(instant_ms: int) -> str:
    """In UTC; not before 1970."""
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


class Kind(Enum):
    """The type of a column. Instants are UTC, in milliseconds."""

    TEXT = "string"
    INTEGER = "int32"
    LONG = "int64"
    FLAG = "bool"
    INSTANT = "timestamp[ms]"
    TEXTS = "list<string>"


class Greatest(Enum):
    """The rows of the pipeline that keep the greatest observed value of a column."""

    NOT_KEPT = "not kept"
    OF_PARTITION = "of a transaction on one partition"
    OF_TRANSACTION = "of a transaction on one partition, and of the whole transaction"


@dataclass(frozen=True, slots=True)
class Column:
    """One column; a nullable one describes the meaning of null."""

    name: str
    kind: Kind
    meaning: str
    nullable: bool = False
    greatest: Greatest = Greatest.NOT_KEPT


OBSERVATION_COLUMNS = (
    Column("taken_at", Kind.INSTANT, "the cycle: when its reading began"),
    Column("topic", Kind.TEXT, "the partition's topic"),
    Column("partition", Kind.INTEGER, "the partition's number"),
    Column("producer_id", Kind.LONG, "who has it open"),
    Column("producer_epoch", Kind.INTEGER, "at which epoch"),
    Column("start_offset", Kind.LONG, "offset of its first record here"),
    Column("started_at", Kind.INSTANT, "its start as far as known in this cycle"),
    Column(
        "start_source",
        Kind.TEXT,
        "source of the start: coordinator, transaction_log, last_write, not_open_before or first_seen",
    ),
    Column("duration_ms", Kind.LONG, "since that start", greatest=Greatest.OF_TRANSACTION),
    Column("idle_ms", Kind.LONG, "since the last write here, by the client's clock", greatest=Greatest.OF_TRANSACTION),
    Column(
        "is_late",
        Kind.FLAG,
        "longer than transaction.max.timeout.ms and padding",
        greatest=Greatest.OF_TRANSACTION,
    ),
    Column("verdict", Kind.TEXT, "the exporter's verdict"),
    Column("inconclusive_reason", Kind.TEXT, "what was missing; null for other verdicts", nullable=True),
    Column("transactional_id", Kind.TEXT, "null where it is unknown", nullable=True),
    Column("coordinator_state", Kind.TEXT, "null where no coordinator lists the producer id", nullable=True),
    Column("timeout_ms", Kind.LONG, "its own time-out; null where it was not described", nullable=True),
    Column(
        "last_stable_offset_lag",
        Kind.LONG,
        "high watermark minus last stable offset: records and end markers held back here; null where not known",
        nullable=True,
        greatest=Greatest.OF_PARTITION,
    ),
    Column("groups", Kind.TEXTS, "consumer groups that wait behind it, of suspects only"),
    Column("outcome_evidence", Kind.TEXT, "of suspects: committed, aborted or none; null for others", nullable=True),
    Column("topic_id", Kind.TEXT, "the topic's id; null where brokers have none, and in 0.1.0", nullable=True),
)

CYCLE_COLUMNS = (
    Column("taken_at", Kind.INSTANT, "when its reading began"),
    Column("finished_at", Kind.INSTANT, "when it ended"),
    Column("interval_ms", Kind.LONG, "from one cycle to the next, as configured"),
    Column("writer", Kind.TEXT, "the process that wrote it"),
    Column("exporter_version", Kind.TEXT, "its version"),
    Column("open_transactions", Kind.LONG, "rows of this cycle in `observations`"),
    Column("partitions_read", Kind.LONG, "partitions whose leader answered"),
    Column("partitions_unread", Kind.LONG, "partitions that could not be read"),
    Column("unread", Kind.TEXTS, "those, as topic-partition"),
    Column("brokers_failed", Kind.LONG, "leaders that did not answer every request"),
    Column("coordinators_failed", Kind.LONG, "coordinators that did not answer every request"),
    Column(
        "is_complete",
        Kind.FLAG,
        "coverage is complete: all partitions were read, all needed responses came, all leaders used were confirmed",
    ),
    Column("max_timeout_ms", Kind.LONG, "the limit used for late, without padding"),
)

TABLES = {OBSERVATIONS: OBSERVATION_COLUMNS, CYCLES: CYCLE_COLUMNS}
