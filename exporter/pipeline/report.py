"""Collects the data of the report: who waited, incidents, durations, outcomes and coverage gaps, in a few dozen rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as f

from exporter.incidents.incident import HANGING
from exporter.pipeline import schemas
from exporter.pipeline.clocks import with_sure_durations
from exporter.pipeline.coverage import HOUR_MS
from exporter.pipeline.delta import to_ms
from exporter.pipeline.suspects import texts
from exporter.pipeline.thresholds import DAY_MS, WINDOW_MS

APPLICATIONS_MAX: Final = 25
INCIDENTS_MAX: Final = 200
COVERAGE_GAPS_MAX: Final = 100
UNWATCHED_SHARE: Final = 0.1
"""An hour of which more was not watched is a gap: a cycle may come late."""
WEEK_MS: Final = 7 * DAY_MS
OBJECTIVE_PERCENT: Final = 99.9
"""Share of a week in which no transaction blocks a group, by default: the objective that the page compares with."""
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
    """Begin of the first hour with a cycle; None if nothing was recorded."""
    newest_ms: Mapping[str, int]
    """Newest cycle by cluster."""
    interval_ms: int | None
    """The longest interval of the recorded cycles."""
    objective_percent: float = OBJECTIVE_PERCENT
    waited_ms: tuple[int, int] = (0, 0)
    """Time of all groups in this week, and in the last, added up."""
    weeks: Sequence[Row] = ()
    """Every application that held back a group in the last two weeks: longest in this week first."""
    days: Sequence[DayOfReport] = ()
    """The last four weeks, oldest first."""
    durations: SectionRows
    """Applications with most hangs, then with most transactions."""
    outcomes: SectionRows | None
    """Applications with most time-outs and fences, then with most transactions; None if no transaction log was read."""
    incidents: SectionRows
    """The newest."""
    coverage_gaps: SectionRows
    """The newest."""
    uncounted: Mapping[str, int | None] = field(default_factory=dict)
    """End of the newest counted hour by cluster, where newer cycles are not counted; None if no hour was counted."""
    clocks: Sequence[Row] = ()
    """(cluster_id, clock_difference_ms) of clusters whose exporters have clocks that contradict each other."""
    excluded: int = 0
    """Partitions that settings excluded, the most in a cycle of a cluster."""
    left_out: Sequence[tuple[str, str]] = ()
    """(file of the history, why it is not in the tables)."""


@dataclass(frozen=True, slots=True)
class DayOfReport:
    """Time that groups waited on one UTC day, added up, in ms."""

    day_ms: int
    hung_ms: int = 0
    """Behind hangs."""
    other_ms: int = 0
    hours_watched: int = 0


def collect(
    transactions: DataFrame,
    incidents: DataFrame,
    coverage: DataFrame,
    stalls: DataFrame,
    *,
    newest_ms: Mapping[str, int],
    has_outcomes: bool = False,
    objective_percent: float = OBJECTIVE_PERCENT,
    made_at: datetime,
    left_out: Sequence[tuple[str, str]] = (),
) -> ReportData:
    """`TRANSACTIONS`, `INCIDENTS`, `COVERAGE` and `STALLS` -> the content of the page.

    `newest_ms` is the newest cycle by cluster. `has_outcomes`: the transaction log was read.
    """
    covered = _of_four_weeks(schemas.with_schema(coverage, schemas.COVERAGE), newest_ms).persist()
    stood = _of_four_weeks(
        schemas.with_schema(stalls, schemas.STALLS).where(f.col("waiting_group").isNotNull()), newest_ms
    )
    by_group = _by_hour(stood, "waiting_group")
    known = schemas.with_schema(transactions, schemas.TRANSACTIONS)
    made_at_ms = int(made_at.timestamp() * 1000)
    (span,) = covered.agg(
        f.min("hour").alias("first"),
        f.max("interval_ms").alias("interval_ms"),
        f.max("partitions_excluded_max").alias("excluded"),
    ).collect()
    clocks = covered.where(f.col("clock_difference_ms").isNotNull()).groupBy("cluster_id")
    data = ReportData(
        made_at_ms=made_at_ms,
        first_ms=min(newest_ms.values(), default=None) if span.first is None else to_ms(span.first),
        newest_ms=dict(sorted(newest_ms.items())),
        interval_ms=span.interval_ms,
        objective_percent=objective_percent,
        waited_ms=_waited(by_group),
        weeks=_weeks(stood),
        days=_days(by_group, covered, max(newest_ms.values(), default=0)),
        durations=_durations(with_sure_durations(known, coverage)),
        outcomes=_outcomes(known) if has_outcomes else None,
        incidents=_incidents(schemas.with_schema(incidents, schemas.INCIDENTS), newest_ms, made_at_ms),
        coverage_gaps=_coverage_gaps(covered),
        uncounted=_uncounted(covered, newest_ms),
        clocks=clocks.agg(f.max("clock_difference_ms").alias("clock_difference_ms")).orderBy("cluster_id").collect(),
        excluded=span.excluded or 0,
        left_out=left_out,
    )
    covered.unpersist()
    return data


def _of_four_weeks(rows: DataFrame, newest_ms: Mapping[str, int]) -> DataFrame:
    """Rows of the last four weeks of each cluster, with `age_ms` from the begin of their hour to the newest cycle."""
    aged = rows.withColumn("age_ms", of_cluster(newest_ms) - f.unix_millis("hour"))
    return aged.where(f.col("age_ms") < WINDOW_MS)


def of_cluster(instants_ms: Mapping[str, int]) -> Column:
    """Returns the instant of a row's cluster; null if there is none."""
    return f.map_from_arrays(f.lit([*instants_ms, ""]), f.lit([*instants_ms.values(), 0]))[f.col("cluster_id")]


def _by_hour(stood: DataFrame, *columns: str) -> DataFrame:
    """Rows (`columns`, hour, age_ms, stalled_ms, hung_ms, records_max): the time on the partition with most of it.

    A group, or an application, may wait on several partitions at the same time: their times overlap. On one partition
    they do not. So the most of one partition is a lower bound, which the sum is not.
    """
    hung_ms = f.when(f.col("verdict").isin(*HANGING), f.col("stalled_ms")).otherwise(0)
    names = ("stalled_ms", "hung_ms", "records_max")
    keys = ("cluster_id", *columns, "hour", "age_ms")
    by_partition = stood.groupBy(*dict.fromkeys([*keys, "waiting_group", "topic", "partition"])).agg(
        f.sum("stalled_ms").alias("stalled_ms"),
        f.sum(hung_ms).alias("hung_ms"),
        f.max("records_max").alias("records_max"),
    )
    return by_partition.groupBy(*keys).agg(*(f.max(name).alias(name) for name in names))


def _week(number: int) -> Column:
    """Returns the time of an hour in this week (0) or the last (1), in ms."""
    age_ms = f.col("age_ms")
    is_of_week = (age_ms >= number * WEEK_MS) & (age_ms < (number + 1) * WEEK_MS)
    return f.sum(f.when(is_of_week, f.col("stalled_ms")).otherwise(0))


def _waited(by_group: DataFrame) -> tuple[int, int]:
    (total,) = by_group.agg(_week(0).alias("this_ms"), _week(1).alias("last_ms")).collect()
    return total.this_ms or 0, total.last_ms or 0


def _weeks(stood: DataFrame) -> Sequence[Row]:
    """Rows of each application: how long a group waited in this week and the last, and the group that waited longest."""
    recent = stood.where(f.col("age_ms") < 2 * WEEK_MS).withColumn(
        "application", f.coalesce("transactional_id", "topic")
    )
    by_group = (
        _by_hour(recent, "application", "waiting_group")
        .groupBy("cluster_id", "application", "waiting_group")
        .agg(_week(0).alias("group_ms"))
        .groupBy("cluster_id", "application")
        .agg(f.max("group_ms").alias("group_ms"), f.max_by("waiting_group", "group_ms").alias("group"))
    )
    return (
        _by_hour(recent, "application")
        .groupBy("cluster_id", "application")
        .agg(_week(0).alias("this_ms"), _week(1).alias("last_ms"), f.max("records_max").alias("records_max"))
        .join(by_group, on=["cluster_id", "application"])
        .orderBy(f.desc("this_ms"), f.desc("last_ms"), "cluster_id", "application")
        .collect()
    )


def _days(by_group: DataFrame, covered: DataFrame, newest_ms: int) -> Sequence[DayOfReport]:
    waited = by_group.groupBy(f.unix_millis(f.date_trunc("day", "hour")).alias("day_ms")).agg(
        f.sum("hung_ms").alias("hung_ms"), f.sum(f.col("stalled_ms") - f.col("hung_ms")).alias("other_ms")
    )
    watched = covered.groupBy(f.unix_millis(f.date_trunc("day", "hour")).alias("day_ms")).agg(
        f.count_distinct("hour").alias("hours_watched")
    )
    days = {
        row.day_ms: DayOfReport(row.day_ms, row.hung_ms or 0, row.other_ms or 0, row.hours_watched or 0)
        for row in watched.join(waited, on="day_ms", how="full").collect()
    }
    last_ms = newest_ms - newest_ms % DAY_MS
    four_weeks = range(last_ms - WINDOW_MS + DAY_MS, last_ms + 1, DAY_MS)
    return tuple(days.get(day_ms, DayOfReport(day_ms)) for day_ms in four_weeks) if days else ()


def first_rows(ordered: DataFrame, most: int) -> SectionRows:
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
    return first_rows(
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
    return first_rows(found.orderBy(troubled, f.desc("transactions"), "cluster_id", "application"), APPLICATIONS_MAX)


def _incidents(incidents: DataFrame, newest_ms: Mapping[str, int], made_at_ms: int) -> SectionRows:
    """One that is not over lasts until the newest cycle of its cluster, or until now where the history has none.

    One that ended more than four weeks before that is no part of the report.
    """
    until_ms = f.coalesce(of_cluster(newest_ms), f.lit(made_at_ms))
    found = incidents.select(
        "*",
        f.unix_millis("blocked_from").alias("blocked_from_ms"),
        f.unix_millis("operated_at").alias("operated_ms"),
        f.coalesce(f.unix_millis("ended_at"), until_ms).alias("ended_ms"),
    ).where(~f.col("is_over") | (f.col("ended_ms") > until_ms - WINDOW_MS))
    return first_rows(found.orderBy(f.desc("started_at"), "cluster_id", "incident"), INCIDENTS_MAX)


def _coverage_gaps(covered: DataFrame) -> SectionRows:
    """Hours with an incomplete cycle, or with too few cycles for their interval or none; the last one is not over.

    Cycles of several exporters count together: `unwatched_ms` says whether they left out a part of the hour. It is null in
    rows of older versions.
    """
    hours = covered.groupBy("cluster_id", f.unix_millis("hour").alias("hour_ms")).agg(
        f.sum("cycles").alias("cycles"),
        (f.lit(HOUR_MS) / f.max("interval_ms")).cast("long").alias("cycles_expected"),
        f.max("unwatched_ms").alias("unwatched_ms"),
        f.sum("cycles_incomplete").alias("incomplete"),
        f.max("partitions_unread_max").alias("unread_partitions_max"),
    )
    first, last = f.min("hour_ms").alias("first"), f.max("hour_ms").alias("last")
    span = hours.groupBy("cluster_id").agg(first, last, f.min("cycles_expected").alias("usual"))
    each_hour = span.withColumn("hour_ms", f.explode(f.sequence("first", "last", f.lit(HOUR_MS))))
    every = each_hour.join(hours, on=["cluster_id", "hour_ms"], how="left")
    every = every.withColumn("unwatched_ms", f.when(f.col("cycles").isNull(), HOUR_MS).otherwise(f.col("unwatched_ms")))
    every = every.fillna(0, ["cycles", "incomplete", "unread_partitions_max"])
    every = every.withColumn("cycles_expected", f.coalesce("cycles_expected", "usual"))
    is_expected = f.col("cycles_expected") > 0
    few = f.col("cycles") < (1 - UNWATCHED_SHARE) * f.col("cycles_expected")
    unwatched = is_expected & (f.coalesce("unwatched_ms", f.lit(0)) > UNWATCHED_SHARE * HOUR_MS)
    is_gap = (f.col("incomplete") > 0) | ((few | unwatched) & (f.col("hour_ms") != f.col("last")))
    return first_rows(
        every.where(is_gap).select(hours.columns).orderBy(f.desc("hour_ms"), "cluster_id"), COVERAGE_GAPS_MAX
    )


def _uncounted(covered: DataFrame, newest_ms: Mapping[str, int]) -> Mapping[str, int | None]:
    """The job that counts hours has not run, has failed, or is behind: nothing is known of the cluster's newest hours."""
    rows = covered.groupBy("cluster_id").agg(f.unix_millis(f.max("hour")).alias("newest_ms")).collect()
    ends_ms = {row.cluster_id: row.newest_ms + HOUR_MS for row in rows}
    return {
        cluster_id: ends_ms.get(cluster_id)
        for cluster_id, cycle_ms in sorted(newest_ms.items())
        if cycle_ms >= ends_ms.get(cluster_id, 0)
    }
