"""What the report shows: how long transactions take, what hung and when, and what nobody saw, in a few dozen rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from exporter.pipeline import schemas
from exporter.pipeline.incidents import HANGING

APPLICATIONS_MAX: Final = 25
INCIDENTS_MAX: Final = 200
COVERAGE_GAPS_MAX: Final = 100


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
    """Of those that did not hang; null where all did."""
    max_ms: float
    """Of all."""
    hanging: int
    """How many of them hung."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Suspects that belong together."""

    cluster_id: str
    started_at: datetime
    ended_at: datetime
    """The last cycle there is, where it is not over."""
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
    """All that the page shows."""

    made_at: datetime
    first: datetime | None
    """None where nothing was recorded."""
    last: datetime | None
    clusters: tuple[str, ...]
    durations: tuple[Durations, ...] = ()
    """Applications of which most hung, then the most frequent."""
    durations_cut: int = 0
    """How many more there are; likewise below."""
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
    made_at: datetime,
    left_out: tuple[tuple[str, str], ...] = (),
) -> ReportData:
    """`TRANSACTIONS`, `INCIDENTS` and `CYCLES` -> what the page shows."""
    covered = schemas.shaped(cycles, schemas.CYCLES)
    (span,) = covered.agg(f.min("taken_at"), f.max("taken_at"), f.sort_array(f.collect_set("cluster_id"))).collect()
    durations, durations_cut = _durations(schemas.shaped(transactions, schemas.TRANSACTIONS))
    joined, incidents_cut = _incidents(schemas.shaped(incidents, schemas.INCIDENTS), _utc(span[1]) or made_at)
    coverage_gaps, coverage_gaps_cut = _coverage_gaps(covered)
    return ReportData(
        made_at=made_at,
        first=_utc(span[0]),
        last=_utc(span[1]),
        clusters=tuple(span[2]),
        durations=durations,
        durations_cut=durations_cut,
        incidents=joined,
        incidents_cut=incidents_cut,
        coverage_gaps=coverage_gaps,
        coverage_gaps_cut=coverage_gaps_cut,
        left_out=left_out,
    )


def _first(ordered: DataFrame, most: int) -> tuple[list[Row], int]:
    """The first rows, and how many more there are."""
    rows = ordered.limit(most).collect()
    return rows, ordered.count() - most if len(rows) == most else 0


def _durations(transactions: DataFrame) -> tuple[tuple[Durations, ...], int]:
    hung = f.arrays_overlap("verdicts", f.array(*(f.lit(it) for it in HANGING)))
    usual = f.when(~hung, f.col("duration_ms"))
    found = (
        transactions.withColumn("application", f.coalesce("transactional_id", f.col("partitions")[0]["topic"]))
        .groupBy("cluster_id", "application")
        .agg(
            f.count("*").alias("transactions"),
            f.percentile_approx(usual, [0.5, 0.95, 0.99]).alias("percentiles"),
            f.max("duration_ms").alias("max_ms"),
            f.count_if(hung).alias("hanging"),
        )
    )
    rows, cut = _first(
        found.orderBy(f.desc("hanging"), f.desc("transactions"), "cluster_id", "application"), APPLICATIONS_MAX
    )
    durations = []
    for row in rows:
        p50_ms, p95_ms, p99_ms = row.percentiles or (None, None, None)
        durations.append(
            Durations(
                row.cluster_id, row.application, row.transactions, p50_ms, p95_ms, p99_ms, row.max_ms, row.hanging
            )
        )
    return tuple(durations), cut


def _incidents(incidents: DataFrame, last: datetime) -> tuple[tuple[Incident, ...], int]:
    rows, cut = _first(incidents.orderBy(f.desc("started_at"), "cluster_id", "incident"), INCIDENTS_MAX)
    found = (
        Incident(
            cluster_id=row.cluster_id,
            started_at=_known(row.started_at),
            ended_at=_utc(row.ended_at) or last,
            is_over=row.is_over,
            worst_verdict=row.worst_verdict,
            transactional_ids=tuple(row.transactional_ids),
            partitions=tuple(row.partitions),
            groups=tuple(row.groups),
            records_held_back=row.records_held_back,
        )
        for row in rows
    )
    return tuple(found), cut


def _coverage_gaps(cycles: DataFrame) -> tuple[tuple[CoverageGap, ...], int]:
    """Hours with an incomplete cycle, or with too few cycles for their interval; the first and last hour are partial."""
    hour = f.date_trunc("hour", "taken_at").alias("hour")
    hours = cycles.groupBy("cluster_id", hour).agg(
        f.count_distinct("taken_at").alias("cycles"),
        (f.lit(3_600_000) / f.max("interval_ms")).cast("long").alias("cycles_expected"),
        f.count_if(~f.col("is_complete")).alias("incomplete"),
        f.max("partitions_unread").alias("unread"),
    )
    span = hours.groupBy("cluster_id").agg(f.min("hour").alias("first"), f.max("hour").alias("last"))
    few = (f.col("cycles") < 0.9 * f.col("cycles_expected")) & ~f.col("hour").isin(f.col("first"), f.col("last"))
    found = hours.join(span, on="cluster_id").where((f.col("incomplete") > 0) | few)
    rows, cut = _first(found.orderBy(f.desc("hour"), "cluster_id"), COVERAGE_GAPS_MAX)
    coverage_gaps = (
        CoverageGap(it.cluster_id, _known(it.hour), it.cycles, it.cycles_expected, it.incomplete, it.unread)
        for it in rows
    )
    return tuple(coverage_gaps), cut


def _utc(instant: datetime | None) -> datetime | None:
    """Spark gives instants in the local time of this process."""
    return None if instant is None else instant.astimezone(timezone.utc)


def _known(instant: datetime) -> datetime:
    return instant.astimezone(timezone.utc)
