"""Collects the data of the report: durations, outcomes, incidents and coverage gaps, in a few dozen rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from exporter.incidents.incident import HANGING
from exporter.pipeline import schemas
from exporter.pipeline.suspects import texts

APPLICATIONS_MAX: Final = 25
INCIDENTS_MAX: Final = 200
COVERAGE_GAPS_MAX: Final = 100
HOUR_MS: Final = 3_600_000
NO_ID: Final = "(unknown transactional id)"


@dataclass(frozen=True, slots=True)
class SectionRows:
    """The first rows of a section, with the columns that the page names, and the number of the others."""

    rows: Sequence[Row] = ()
    cut: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """The content of the page."""

    made_at_ms: int
    first_ms: int | None
    """Time of the first cycle; None if nothing was recorded."""
    newest_ms: Mapping[str, int]
    """Newest cycle by cluster."""
    interval_ms: int | None
    """The longest interval of the recorded cycles."""
    durations: SectionRows
    """Applications with most hangs, then with most transactions."""
    outcomes: SectionRows | None
    """Applications with most time-outs and fences, then with most transactions; None if no transaction log was read."""
    incidents: SectionRows
    """The newest."""
    coverage_gaps: SectionRows
    """The newest."""
    left_out: Sequence[tuple[str, str]] = ()
    """(file of the history, why it is not in the tables)."""


def collect(
    transactions: DataFrame,
    incidents: DataFrame,
    cycles: DataFrame,
    *,
    has_outcomes: bool = False,
    made_at: datetime,
    left_out: Sequence[tuple[str, str]] = (),
) -> ReportData:
    """`TRANSACTIONS`, `INCIDENTS` and `CYCLES` -> the content of the page. `has_outcomes`: the transaction log was read."""
    covered = schemas.with_schema(cycles, schemas.CYCLES)
    spans = (
        covered.groupBy("cluster_id")
        .agg(
            f.unix_millis(f.min("taken_at")).alias("first_ms"),
            f.unix_millis(f.max("taken_at")).alias("last_ms"),
            f.max("interval_ms").alias("interval_ms"),
        )
        .orderBy("cluster_id")
        .collect()
    )
    newest_ms = {span.cluster_id: span.last_ms for span in spans}
    known = schemas.with_schema(transactions, schemas.TRANSACTIONS)
    made_at_ms = int(made_at.timestamp() * 1000)
    return ReportData(
        made_at_ms=made_at_ms,
        first_ms=min((span.first_ms for span in spans), default=None),
        newest_ms=newest_ms,
        interval_ms=max((span.interval_ms for span in spans), default=None),
        durations=_durations(known),
        outcomes=_outcomes(known) if has_outcomes else None,
        incidents=_incidents(schemas.with_schema(incidents, schemas.INCIDENTS), newest_ms, made_at_ms),
        coverage_gaps=_coverage_gaps(covered),
        left_out=left_out,
    )


def _first(ordered: DataFrame, most: int) -> SectionRows:
    rows = ordered.limit(most).collect()
    return SectionRows(rows, ordered.count() - most if len(rows) == most else 0)


def _durations(transactions: DataFrame) -> SectionRows:
    """Percentiles and longest of those that did not hang, in ms; null if no duration is known. Hangs are apart."""
    hung = f.arrays_overlap("verdicts", texts(HANGING))
    usual = f.when(~hung, f.col("duration_ms"))
    found = (
        transactions.withColumn("application", f.coalesce("transactional_id", f.col("partitions")[0]["topic"]))
        .groupBy("cluster_id", "application")
        .agg(
            f.count("*").alias("transactions"),
            f.percentile_approx(usual, [0.5, 0.95, 0.99]).alias("percentiles"),
            f.max(usual).alias("max_ms"),
            f.count_if(hung).alias("hanging"),
            f.max(f.when(hung, f.col("duration_ms"))).alias("hang_max_ms"),
            f.count_if(~hung & f.col("duration_ms").isNull()).alias("unknown"),
        )
    )
    percentiles = (
        f.col("percentiles")[number].alias(name) for number, name in enumerate(("p50_ms", "p95_ms", "p99_ms"))
    )
    return _first(
        found.select("*", *percentiles).orderBy(f.desc("hanging"), f.desc("transactions"), "cluster_id", "application"),
        APPLICATIONS_MAX,
    )


def _outcomes(transactions: DataFrame) -> SectionRows:
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
    return _first(found.orderBy(troubled, f.desc("transactions"), "cluster_id", "application"), APPLICATIONS_MAX)


def _incidents(incidents: DataFrame, newest_ms: Mapping[str, int], made_at_ms: int) -> SectionRows:
    """One that is not over lasts until the newest cycle of its cluster, or until now where the history has none."""
    newest = f.map_from_arrays(f.lit([*newest_ms, ""]), f.lit([*newest_ms.values(), 0]))
    found = incidents.select(
        "*",
        f.unix_millis("blocked_from").alias("blocked_from_ms"),
        f.unix_millis("started_at").alias("started_ms"),
        f.coalesce(f.unix_millis("ended_at"), newest[f.col("cluster_id")], f.lit(made_at_ms)).alias("ended_ms"),
    )
    return _first(found.orderBy(f.desc("started_at"), "cluster_id", "incident"), INCIDENTS_MAX)


def _coverage_gaps(cycles: DataFrame) -> SectionRows:
    """Hours with an incomplete cycle, or with too few cycles for their interval or none; the first and last are partial."""
    hour = f.unix_millis(f.date_trunc("hour", "taken_at")).alias("hour_ms")
    hours = cycles.groupBy("cluster_id", hour).agg(
        f.count_distinct("taken_at").alias("cycles"),
        (f.lit(HOUR_MS) / f.max("interval_ms")).cast("long").alias("cycles_expected"),
        f.count_distinct(f.when(~f.col("is_complete"), f.col("taken_at"))).alias("incomplete"),
        f.max("partitions_unread").alias("unread_partitions_max"),
    )
    first, last = f.min("hour_ms").alias("first"), f.max("hour_ms").alias("last")
    span = hours.groupBy("cluster_id").agg(first, last, f.min("cycles_expected").alias("usual"))
    each_hour = span.withColumn("hour_ms", f.explode(f.sequence("first", "last", f.lit(HOUR_MS))))
    every = each_hour.join(hours, on=["cluster_id", "hour_ms"], how="left")
    every = every.fillna(0, ["cycles", "incomplete", "unread_partitions_max"])
    every = every.withColumn("cycles_expected", f.coalesce("cycles_expected", "usual"))
    few = (f.col("cycles") < 0.9 * f.col("cycles_expected")) & ~f.col("hour_ms").isin(f.col("first"), f.col("last"))
    found = every.where((f.col("incomplete") > 0) | few).select(hours.columns)
    return _first(found.orderBy(f.desc("hour_ms"), "cluster_id"), COVERAGE_GAPS_MAX)
