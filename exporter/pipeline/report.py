"""Collects the data of the report: durations, outcomes, incidents and coverage gaps, in a few dozen rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from exporter.incidents.incident import HANGING
from exporter.pipeline import schemas

APPLICATIONS_MAX: Final = 25
INCIDENTS_MAX: Final = 200
COVERAGE_GAPS_MAX: Final = 100
NO_ID: Final = "(unknown transactional id)"
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class Durations:
    """How long the transactions of one application took, in milliseconds."""

    cluster_id: str
    application: str
    """Transactional id, or the topic of a transaction whose id is unknown."""
    transactions: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    """These four are of transactions that did not hang and whose duration is known; null if there is none."""
    hanging: int
    """Number of transactions that hung."""
    hang_max_ms: float | None
    """The longest of them; null if none did, or its duration is unknown."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of one application's transactions, from the transaction log."""

    cluster_id: str
    application: str
    """Transactional id."""
    committed: int
    aborted: int
    timed_out: int
    fenced: int
    unknown: int
    """Transactions that the log does not have."""
    marker_p99_ms: float | None
    """From the decision to the last marker."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Suspects with a common begin."""

    cluster_id: str
    started_at: datetime
    ended_at: datetime
    """The last cycle, if the incident is not over."""
    is_over: bool
    worst_verdict: str
    transactional_ids: tuple[str, ...]
    partitions: tuple[str, ...]
    groups: tuple[str, ...]
    records_held_back: int | None


@dataclass(frozen=True, slots=True)
class CoverageGap:
    """An hour in which cycles of a cluster are missing or incomplete."""

    cluster_id: str
    hour: datetime
    cycles: int
    cycles_expected: int
    incomplete: int
    unread_partitions_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """The content of the page."""

    made_at: datetime
    first: datetime | None
    """None if nothing was recorded."""
    last: datetime | None
    clusters: tuple[str, ...]
    durations: tuple[Durations, ...] = ()
    """Applications with most hangs, then with most transactions."""
    durations_cut: int = 0
    """Number of applications that are not shown; likewise below."""
    interval_ms: int | None = None
    """The longest interval of the recorded cycles."""
    outcomes: tuple[Outcomes, ...] | None = None
    """Applications with most time-outs and fences, then with most transactions; null if no transaction log was read."""
    outcomes_cut: int = 0
    incidents: tuple[Incident, ...] = ()
    """The newest."""
    incidents_cut: int = 0
    coverage_gaps: tuple[CoverageGap, ...] = ()
    """The newest."""
    coverage_gaps_cut: int = 0
    left_out: tuple[tuple[str, str], ...] = ()
    """(file of the history, why it is not in the tables)."""


def collect(
    transactions: DataFrame,
    incidents: DataFrame,
    cycles: DataFrame,
    *,
    has_outcomes: bool = False,
    made_at: datetime,
    left_out: tuple[tuple[str, str], ...] = (),
) -> ReportData:
    """`TRANSACTIONS`, `INCIDENTS` and `CYCLES` -> the content of the page. `has_outcomes`: the transaction log was read."""
    covered = schemas.shaped(cycles, schemas.CYCLES)
    (span,) = covered.agg(
        f.min("taken_at"), f.max("taken_at"), f.sort_array(f.collect_set("cluster_id")), f.max("interval_ms")
    ).collect()
    known = schemas.shaped(transactions, schemas.TRANSACTIONS)
    ends, ends_cut = _outcomes(known) if has_outcomes else (None, 0)
    durations, durations_cut = _durations(known)
    joined, incidents_cut = _incidents(schemas.shaped(incidents, schemas.INCIDENTS), _utc(span[1]) or made_at)
    coverage_gaps, coverage_gaps_cut = _coverage_gaps(covered)
    return ReportData(
        made_at=made_at,
        first=_utc(span[0]),
        last=_utc(span[1]),
        clusters=tuple(span[2]),
        durations=durations,
        durations_cut=durations_cut,
        interval_ms=span[3],
        outcomes=ends,
        outcomes_cut=ends_cut,
        incidents=joined,
        incidents_cut=incidents_cut,
        coverage_gaps=coverage_gaps,
        coverage_gaps_cut=coverage_gaps_cut,
        left_out=left_out,
    )


def _first(ordered: DataFrame, most: int) -> tuple[list[Row], int]:
    """The first rows, and the number of the others."""
    rows = ordered.limit(most).collect()
    return rows, ordered.count() - most if len(rows) == most else 0


def _durations(transactions: DataFrame) -> tuple[tuple[Durations, ...], int]:
    hung = f.arrays_overlap("verdicts", f.array(*(f.lit(verdict) for verdict in HANGING)))
    # A transaction whose start is its first cycle, and that was not seen again, has 0: its duration is unknown.
    known = f.when(f.col("duration_ms") > 0, f.col("duration_ms"))
    usual = f.when(~hung, known)
    found = (
        transactions.withColumn("application", f.coalesce("transactional_id", f.col("partitions")[0]["topic"]))
        .groupBy("cluster_id", "application")
        .agg(
            f.count("*").alias("transactions"),
            f.percentile_approx(usual, [0.5, 0.95, 0.99]).alias("percentiles"),
            f.max(usual).alias("max_ms"),
            f.count_if(hung).alias("hanging"),
            f.max(f.when(hung, known)).alias("hang_max_ms"),
        )
    )
    percentiles = (
        f.col("percentiles")[number].alias(name) for number, name in enumerate(("p50_ms", "p95_ms", "p99_ms"))
    )
    rows, cut = _first(
        found.select("*", *percentiles).orderBy(f.desc("hanging"), f.desc("transactions"), "cluster_id", "application"),
        APPLICATIONS_MAX,
    )
    return tuple(_record(Durations, row) for row in rows), cut


def _outcomes(transactions: DataFrame) -> tuple[tuple[Outcomes, ...], int]:
    counted = {"committed": "commit", "aborted": "abort", "timed_out": "timeout", "fenced": "fenced"}
    found = (
        transactions.withColumn("application", f.coalesce("transactional_id", f.lit(NO_ID)))
        .groupBy("cluster_id", "application")
        .agg(
            *(f.count_if(f.col("outcome") == outcome).alias(name) for name, outcome in counted.items()),
            f.count_if(f.col("outcome").isNull()).alias("unknown"),
            f.percentile_approx("marker_ms", 0.99).alias("marker_p99_ms"),
            f.count("*").alias("transactions"),
        )
    )
    troubled = f.desc(f.col("timed_out") + f.col("fenced"))
    rows, cut = _first(found.orderBy(troubled, f.desc("transactions"), "cluster_id", "application"), APPLICATIONS_MAX)
    return tuple(_record(Outcomes, row) for row in rows), cut


def _incidents(incidents: DataFrame, last: datetime) -> tuple[tuple[Incident, ...], int]:
    rows, cut = _first(incidents.orderBy(f.desc("started_at"), "cluster_id", "incident"), INCIDENTS_MAX)
    return tuple(_record(Incident, row, ended_at=_utc(row.ended_at) or last) for row in rows), cut


def _coverage_gaps(cycles: DataFrame) -> tuple[tuple[CoverageGap, ...], int]:
    """Hours with an incomplete cycle, or with too few cycles for their interval; the first and last hour are partial."""
    hour = f.date_trunc("hour", "taken_at").alias("hour")
    hours = cycles.groupBy("cluster_id", hour).agg(
        f.count_distinct("taken_at").alias("cycles"),
        (f.lit(3_600_000) / f.max("interval_ms")).cast("long").alias("cycles_expected"),
        f.count_if(~f.col("is_complete")).alias("incomplete"),
        f.max("partitions_unread").alias("unread_partitions_max"),
    )
    span = hours.groupBy("cluster_id").agg(f.min("hour").alias("first"), f.max("hour").alias("last"))
    few = (f.col("cycles") < 0.9 * f.col("cycles_expected")) & ~f.col("hour").isin(f.col("first"), f.col("last"))
    found = hours.join(span, on="cluster_id").where((f.col("incomplete") > 0) | few)
    rows, cut = _first(found.orderBy(f.desc("hour"), "cluster_id"), COVERAGE_GAPS_MAX)
    return tuple(_record(CoverageGap, row) for row in rows), cut


def _record(kind: type[_Record], row: Row, **given: Any) -> _Record:
    """The fields of the record that are not given, from the columns of their names."""
    columns = {column.name: _plain(row[column.name]) for column in fields(kind) if column.name not in given}  # type: ignore[arg-type]
    return kind(**columns, **given)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return _utc(value) if isinstance(value, datetime) else value


def _utc(instant: datetime | None) -> datetime | None:
    """Spark gives instants in the local time of this process."""
    return None if instant is None else instant.astimezone(timezone.utc)
