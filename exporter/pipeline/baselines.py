"""Computes baselines: usual durations of each transactional id, group and topic, from closed transactions that never hung.

Durations are observed ones, because they are compared with observed ones. They are counted on a grid of 2 %, so that a
percentile is exact within 1 %, and the number of counts does not grow with the transactions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from exporter.baseline import FORMAT, VERSION
from exporter.incidents.incident import HANGING
from exporter.patterns import GroupRules, group_of
from exporter.pipeline import schemas
from exporter.pipeline.thresholds import HOUR_SAMPLES_MIN, HOUR_SPAN_MS_MIN, UsualDurations, threshold_of
from exporter.pipeline.transactions import CLOSED

GRID: Final = 0.02
IDS_MAX: Final = 5_000
"""Ids with the most samples of each cluster, so that the file stays small. Other ids have their group and topics."""
KINDS: Final = {"transactional_id": "transactional_ids", "group": "groups", "topic": "topics"}
"""Kind of a threshold -> its list in the file."""
_PERCENTILES: Final = (0.25, 0.5, 0.75, 0.95, 0.99)
_SUBJECT: Final = ("cluster_id", "kind", "name")
_HOUR_MS: Final = 3_600_000
_MONDAY_MS: Final = 4 * 86_400_000
"""The epoch began on a Thursday: hour 0 is that of Monday, UTC."""


def usual_of_transactions(transactions: DataFrame) -> DataFrame:
    """`TRANSACTIONS` -> id, topics, hour of the week, durations and idle times on the grid, of the usual ones."""
    known = schemas.shaped(transactions, schemas.TRANSACTIONS)
    hanging = f.array(*(f.lit(verdict) for verdict in HANGING))
    is_usual = (f.col("end") == CLOSED) & ~f.arrays_overlap("verdicts", hanging)
    began_ms = f.unix_millis("first_seen")
    hour = (f.floor((began_ms - _MONDAY_MS) / _HOUR_MS) % 168).cast("int")
    return known.where(is_usual).select(
        "cluster_id",
        "transactional_id",
        f.sort_array(f.array_distinct(f.col("partitions")["topic"])).alias("topics"),
        hour.alias("hour"),
        _on_grid("duration_ms").alias("grid"),
        _on_grid("idle_ms").alias("idle_grid"),
        "duration_ms",
        began_ms.alias("began_ms"),
    )


def _on_grid(column: str) -> Column:
    return f.floor(f.log(f.greatest(f.col(column), f.lit(1))) / GRID + 0.5).cast("int")


def samples_of_usual(usual: DataFrame, groups: DataFrame) -> DataFrame:
    """Sample counts of each id and set of topics by duration, by idle time, and of each group by hour and duration.

    `groups` is (transactional_id, group). Columns that a row is not counted by are null in it; `is_of_an_hour` is its
    kind. Counted by all columns at once, nearly every transaction would have its own row.
    """
    shared = ["cluster_id", "group", "topics"]
    sets = [
        [*shared, "transactional_id", "grid"],
        [*shared, "transactional_id", "idle_grid"],
        [*shared, "hour", "grid"],
    ]
    return (
        usual.join(f.broadcast(groups), on="transactional_id", how="left")
        .groupingSets(sets, *shared, "transactional_id", "hour", "grid", "idle_grid")
        .agg(
            (f.grouping("hour") == 0).alias("is_of_an_hour"),
            f.count("*").alias("samples"),
            f.max("duration_ms").alias("max_ms"),
            f.min("began_ms").alias("from_ms"),
            f.max("began_ms").alias("to_ms"),
        )
    )


def by_subject(samples: DataFrame) -> DataFrame:
    """One row for each id, group and topic that samples count for."""
    subjects = f.array_union(
        f.array(*(f.struct(f.lit(kind).alias("kind"), f.col(column).alias("name")) for kind, column in _SINGLE)),
        f.transform("topics", lambda topic: f.struct(f.lit("topic").alias("kind"), topic.alias("name"))),
    )
    return (
        samples.withColumn("subject", f.explode(subjects))
        .select("*", "subject.kind", "subject.name")
        .where(f.col("name").isNotNull())
    )


_SINGLE: Final = (("transactional_id", "transactional_id"), ("group", "group"))


def group_of_each_id(spark: SparkSession, usual: DataFrame, groups: GroupRules) -> DataFrame:
    """(transactional_id, group) by the daemon's own rules: the first that matches the whole id.

    The rules are Python's regular expressions, and Spark's differ: so they are matched here, once for each id.
    """
    schema = "transactional_id string, `group` string"
    if not groups:
        return spark.createDataFrame([], schema)
    ids = [row[0] for row in usual.select("transactional_id").distinct().collect() if row[0] is not None]
    rows = [(transactional_id, group_of(groups, transactional_id)) for transactional_id in ids]
    return spark.createDataFrame(rows, schema)


def statistics_of(subjects: DataFrame, *by: str) -> list[Row]:
    """Percentiles of each subject, and of each value of the columns `by`."""
    quantiles = f.array(*(f.lit(percentile) for percentile in _PERCENTILES))
    return (
        subjects.groupBy(*_SUBJECT, *by)
        .agg(
            f.sum(f.when(f.col("grid").isNotNull(), f.col("samples"))).alias(
                "samples"
            ),  # once, and not by idle time too
            f.percentile("grid", quantiles, f.col("samples")).alias("grid"),
            f.percentile("idle_grid", f.lit(0.99), f.col("samples")).alias("idle_grid"),
            f.max("max_ms").alias("max_ms"),
            (f.max("to_ms") - f.min("from_ms")).alias("span_ms"),
        )
        .collect()
    )


def baselines_document(
    spark: SparkSession, transactions: DataFrame, groups: GroupRules, *, made_at_ms: int, window_ms: int
) -> str:
    """The JSON file, from `TRANSACTIONS` that closed within the window."""
    usual = usual_of_transactions(transactions)
    samples = samples_of_usual(usual, group_of_each_id(spark, usual, groups)).persist()
    try:
        rows = statistics_of(by_subject(samples.where(~f.col("is_of_an_hour"))))
        # There are many ids: their hours would be most of the file.
        hours = statistics_of(by_subject(samples.where("is_of_an_hour")), "hour")
    finally:
        samples.unpersist()
    return document_of(rows, hours, made_at_ms=made_at_ms, window_ms=window_ms)


def document_of(rows: Iterable[Any], hours: Iterable[Any], *, made_at_ms: int, window_ms: int) -> str:
    """The file, from statistics by subject, and by subject and hour of the week."""
    of_hours: dict[tuple[str, ...], list[Any]] = {}
    for row in hours:
        if row["samples"] >= HOUR_SAMPLES_MIN and row["span_ms"] >= HOUR_SPAN_MS_MIN:
            of_hours.setdefault(tuple(row[column] for column in _SUBJECT), []).append(row)
    thresholds: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS.values()}
    ranked = sorted(rows, key=lambda row: (row["cluster_id"], row["kind"], -row["samples"], row["name"]))
    counted: dict[tuple[str, str], int] = {}
    for row in ranked:
        place = (row["cluster_id"], row["kind"])
        counted[place] = counted.get(place, 0) + 1
        if counted[place] <= IDS_MAX:
            pattern = of_hours.get(tuple(row[column] for column in _SUBJECT), [])
            thresholds[KINDS[row["kind"]]].append(_entry(row, pattern))
    document = {
        "format": FORMAT,
        "version": VERSION,
        "cluster_ids": sorted({row["cluster_id"] for row in ranked}),
        "made_at_ms": made_at_ms,
        "window_ms": window_ms,
        "thresholds": thresholds,
    }
    return json.dumps(document, indent=1)


def _entry(row: Any, hours: Sequence[Any]) -> dict[str, Any]:
    p25, p50, p75, p95, p99 = (_off_grid(value) for value in row["grid"])
    threshold_ms, reason = threshold_of(UsualDurations(row["samples"], row["span_ms"], p25, p75, p99))
    entry: dict[str, Any] = {
        "cluster_id": row["cluster_id"],
        row["kind"]: row["name"],
        "samples": row["samples"],
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "max_ms": row["max_ms"],
        "idle_p99_ms": _off_grid(row["idle_grid"]),
        "threshold_ms": threshold_ms,
        "reason": reason,
    }
    if hours:
        entry["hours_of_week"] = [
            {"hour": hour["hour"], "samples": hour["samples"], "p99_ms": _off_grid(hour["grid"][-1])}
            for hour in sorted(hours, key=lambda hour: int(hour["hour"]))
        ]
    return entry


def _off_grid(value: float) -> int:
    return round(math.exp(value * GRID))
