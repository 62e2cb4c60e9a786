"""What the report shows: how long transactions take, what hung and when, and what nobody saw, in a few dozen rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from exporter.pipeline import schemas
from exporter.pipeline.incidents import HANGING

APPLICATIONS_MAX: Final = 25
INCIDENTS_MAX: Final = 200
HOLES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Durations:
    """How long the transactions of one application took, in milliseconds."""

    cluster_id: str
    application: str
    """Transactional id, or the topic where nobody told one."""
    transactions: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    hanging: int
    """How many of them hung; those are not in the percentiles."""


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
class Hole:
    """An hour of a cluster of which something is missing."""

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
    """The most frequent applications."""
    incidents: tuple[Incident, ...] = ()
    """The newest."""
    holes: tuple[Hole, ...] = ()
    """The newest."""
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
    return ReportData(
        made_at=made_at,
        first=_utc(span[0]),
        last=_utc(span[1]),
        clusters=tuple(span[2]),
        durations=tuple(_durations(schemas.shaped(transactions, schemas.TRANSACTIONS))),
        incidents=tuple(_incidents(schemas.shaped(incidents, schemas.INCIDENTS), _utc(span[1]) or made_at)),
        holes=tuple(_holes(covered)),
        left_out=left_out,
    )


def _durations(transactions: DataFrame) -> Iterable[Durations]:
    hung = f.arrays_overlap("verdicts", f.array(*(f.lit(it) for it in HANGING)))
    usual = f.when(~hung, f.col("duration_ms"))
    rows = (
        transactions.withColumn("application", f.coalesce("transactional_id", f.col("partitions")[0]["topic"]))
        .groupBy("cluster_id", "application")
        .agg(
            f.count("*").alias("transactions"),
            f.percentile_approx(usual, [0.5, 0.95, 0.99]).alias("percentiles"),
            f.max(usual).alias("max_ms"),
            f.count_if(hung).alias("hanging"),
        )
        .orderBy(f.desc("transactions"), "cluster_id", "application")
        .limit(APPLICATIONS_MAX)
    )
    for row in rows.collect():
        p50_ms, p95_ms, p99_ms = row.percentiles or (0, 0, 0)
        yield Durations(
            cluster_id=row.cluster_id,
            application=row.application,
            transactions=row.transactions,
            p50_ms=p50_ms,
            p95_ms=p95_ms,
            p99_ms=p99_ms,
            max_ms=row.max_ms or 0,
            hanging=row.hanging,
        )


def _incidents(incidents: DataFrame, last: datetime) -> Iterable[Incident]:
    for row in incidents.orderBy(f.desc("started_at"), "cluster_id", "incident").limit(INCIDENTS_MAX).collect():
        yield Incident(
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


def _holes(cycles: DataFrame) -> Iterable[Hole]:
    """Hours with an incomplete cycle, or with too few cycles for their interval; the first and last hour are partial."""
    hour = f.date_trunc("hour", "taken_at").alias("hour")
    hours = cycles.groupBy("cluster_id", hour).agg(
        f.count_distinct("taken_at").alias("cycles"),
        (f.lit(3_600_000) / f.max("interval_ms")).cast("long").alias("cycles_expected"),
        f.count_if(~f.col("is_complete")).alias("incomplete"),
        f.max("partitions_unread").alias("unread"),
    )
    ends = hours.groupBy("cluster_id").agg(f.min("hour").alias("first"), f.max("hour").alias("last"))
    few = (f.col("cycles") < 0.9 * f.col("cycles_expected")) & ~f.col("hour").isin(f.col("first"), f.col("last"))
    rows = hours.join(ends, on="cluster_id").where((f.col("incomplete") > 0) | few)
    for row in rows.orderBy(f.desc("hour"), "cluster_id").limit(HOLES_MAX).collect():
        yield Hole(row.cluster_id, _known(row.hour), row.cycles, row.cycles_expected, row.incomplete, row.unread)


def _utc(instant: datetime | None) -> datetime | None:
    """Spark gives instants in the local time of this process."""
    return None if instant is None else instant.astimezone(timezone.utc)


def _known(instant: datetime) -> datetime:
    return instant.astimezone(timezone.utc)
