"""Computes baselines: usual durations of each transactional id, group and topic, of transactions that never were suspects.

Durations are observed ones, because they are compared with observed ones. A transaction of unknown duration is counted
apart. Durations are counted on a grid of 2 %, so that a percentile is exact within 1 %, and the number of counts does not
grow with the transactions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

from exporter.baseline import FORMAT, VERSION
from exporter.patterns import GroupRules, group_of
from exporter.pipeline import schemas
from exporter.pipeline.suspects import has_suspect
from exporter.pipeline.thresholds import RARE_SAMPLES, RARE_WINDOW_MS, TAIL, WINDOW_MS, threshold_of
from exporter.pipeline.transactions import CLOSED

GRID: Final = 0.02
ENTRIES_MAX: Final = 5_000
"""Ids with the most samples of each cluster, and as many groups and topics. Other ids have their group and topics."""
FILE_BYTES: Final = 32_000_000
"""The daemon refuses files above `baseline.BYTES_MAX`, and takes several times their size in memory."""
_BETWEEN: Final = ",\n   "
KINDS: Final = {"transactional_id": "transactional_ids", "group": "groups", "topic": "topics"}
"""Kind of a threshold -> its list in the file."""
_PERCENTILES: Final = (0.5, 0.95, 0.99)
_SUBJECT: Final = ("cluster_id", "kind", "name")


def usual_of_transactions(transactions: DataFrame, newest_ms: Mapping[str, int]) -> DataFrame:
    """`TRANSACTIONS` -> id, topics, durations and idle times on the grid, of the usual ones.

    Of those that closed within `RARE_WINDOW_MS` of the newest cycle of their cluster; `is_recent` are those of `WINDOW_MS`.
    """
    known = schemas.with_schema(transactions, schemas.TRANSACTIONS)
    newest = known.sparkSession.createDataFrame(list(newest_ms.items()), "cluster_id string, newest_ms long")
    is_usual = (f.col("end") == CLOSED) & ~has_suspect()
    age_ms = f.col("newest_ms") - f.unix_millis("closed_at")
    recent = known.where(is_usual).join(f.broadcast(newest), on="cluster_id").where(age_ms <= RARE_WINDOW_MS)
    return recent.select(
        "cluster_id",
        "transactional_id",
        f.sort_array(f.array_distinct(f.col("partitions")["topic"])).alias("topics"),
        (age_ms <= WINDOW_MS).alias("is_recent"),
        _on_grid("duration_ms").alias("grid"),
        _on_grid("idle_ms").alias("idle_grid"),
        "duration_ms",
        f.when(f.col("duration_ms").isNotNull(), f.unix_millis("first_seen")).alias("began_ms"),
    )


def _on_grid(column: str) -> Column:
    """Null where the value is unknown."""
    return f.floor(f.log(f.when(f.col(column) < 1, 1).otherwise(f.col(column))) / GRID + 0.5).cast("int")


def samples_of_usual(usual: DataFrame, groups: DataFrame) -> DataFrame:
    """Sample counts of each id and set of topics by duration, and by idle time.

    `groups` is (transactional_id, group). `is_by_duration` tells which of both a row counts. By both at once nearly every
    transaction would have its own row.
    """
    shared = ["cluster_id", "group", "topics", "transactional_id", "is_recent"]
    return (
        usual.join(f.broadcast(groups), on="transactional_id", how="left")
        .groupingSets([[*shared, "grid"], [*shared, "idle_grid"]], *shared, "grid", "idle_grid")
        .agg(
            (f.grouping("grid") == 0).alias("is_by_duration"),
            f.count("*").alias("samples"),
            f.max("duration_ms").alias("max_ms"),
            f.min("began_ms").alias("from_ms"),
            f.max("began_ms").alias("to_ms"),
        )
    )


def by_subject(samples: DataFrame) -> DataFrame:
    """Returns one row for each id, group and topic that samples count for."""
    single = (f.struct(f.lit(kind).alias("kind"), f.col(kind).alias("name")) for kind in ("transactional_id", "group"))
    topics = f.transform("topics", lambda topic: f.struct(f.lit("topic").alias("kind"), topic.alias("name")))
    return (
        samples.withColumn("subject", f.explode(f.array_union(f.array(*single), topics)))
        .select("*", "subject.kind", "subject.name")
        .where(f.col("name").isNotNull())
    )


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


def statistics_of(subjects: DataFrame) -> list[Row]:
    """Percentiles and the longest durations of each subject, of four weeks, or of eight if it has few samples."""
    quantiles = f.array(*(f.lit(percentile) for percentile in _PERCENTILES))
    # Once, and not by idle time too.
    counted = f.when(f.col("grid").isNotNull(), f.col("samples"))
    is_unknown = f.col("is_by_duration") & f.col("grid").isNull()
    of_subject = Window.partitionBy(*_SUBJECT)
    longer = of_subject.orderBy(f.desc_nulls_last("grid")).rowsBetween(Window.unboundedPreceding, -1)
    by_samples = Window.partitionBy("cluster_id", "kind").orderBy(f.desc("samples"), "name")
    return (
        subjects.withColumn("recent", f.sum(f.when(f.col("is_recent"), counted)).over(of_subject))
        .where(f.col("is_recent") | (f.coalesce("recent", f.lit(0)) < RARE_SAMPLES))
        .withColumn("longer", f.coalesce(f.sum(counted).over(longer), f.lit(0)))
        .groupBy(*_SUBJECT)
        .agg(
            f.coalesce(f.sum(counted), f.lit(0)).alias("samples"),
            f.coalesce(f.sum(f.when(is_unknown, f.col("samples"))), f.lit(0)).alias("unknown"),
            f.percentile("grid", quantiles, f.col("samples")).alias("grid"),
            f.percentile("idle_grid", f.lit(0.99), f.col("samples")).alias("idle_grid"),
            f.max("max_ms").alias("max_ms"),
            (f.max("to_ms") - f.min("from_ms")).alias("span_ms"),
            f.collect_list(f.when(f.col("longer") <= TAIL, f.struct("grid", counted.alias("samples")))).alias(
                "longest"
            ),
        )
        .withColumn("rank", f.row_number().over(by_samples))
        .where(f.col("rank") <= ENTRIES_MAX)
        .collect()
    )


def baselines_document(
    spark: SparkSession,
    transactions: DataFrame,
    groups: GroupRules,
    *,
    newest_ms: Mapping[str, int],
    made_at_ms: int,
) -> str:
    """The JSON file, from `TRANSACTIONS` and the newest cycle of each cluster."""
    usual = usual_of_transactions(transactions, newest_ms)
    rows = statistics_of(by_subject(samples_of_usual(usual, group_of_each_id(spark, usual, groups))))
    return document_of(rows, made_at_ms=made_at_ms)


def document_of(rows: Collection[Any], *, made_at_ms: int) -> str:
    """The JSON file of statistics, which have a rank within their cluster and kind."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "cluster_ids": sorted({row["cluster_id"] for row in rows}),
        "made_at_ms": made_at_ms,
        "window_ms": WINDOW_MS,
    }
    return f"{json.dumps(head, indent=1)[:-2]},\n {_thresholds(rows)}\n}}"


def _thresholds(rows: Iterable[Any]) -> str:
    """Returns the lists of the file, an entry a line, within `FILE_BYTES`: the first ones of every cluster come first."""
    entries: dict[str, list[tuple[str, int, str]]] = {kind: [] for kind in KINDS}
    left = FILE_BYTES
    for row in sorted(rows, key=lambda row: (row["rank"], row["cluster_id"], row["kind"])):
        line = json.dumps(_entry(row))
        left -= len(line + _BETWEEN)
        if left < 0:
            break
        entries[row["kind"]].append((row["cluster_id"], row["rank"], line))
    lists = []
    for kind, found in entries.items():
        lines = _BETWEEN.join(line for *_, line in sorted(found))
        lists.append(f'"{KINDS[kind]}": [\n   {lines}\n  ]')
    return '"thresholds": {\n  ' + ",\n  ".join(lists) + "\n }"


def _entry(row: Any) -> dict[str, Any]:
    # The longest is exact, and a value of the grid within 1 %.
    p50, p95, p99 = (
        (min(_off_grid(value), row["max_ms"]) for value in row["grid"]) if row["samples"] else (None, None, None)
    )
    cells = [(_off_grid(cell["grid"]), cell["samples"]) for cell in row["longest"] if cell["samples"]]
    longest = sorted(cells, reverse=True)
    threshold_ms, reason = threshold_of(row["samples"], row["span_ms"] or 0, longest)
    return {
        "cluster_id": row["cluster_id"],
        row["kind"]: row["name"],
        "samples": row["samples"],
        "unknown": row["unknown"],
        "span_ms": row["span_ms"] or 0,
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "max_ms": row["max_ms"],
        "idle_p99_ms": None if row["idle_grid"] is None else _off_grid(row["idle_grid"]),
        "threshold_ms": threshold_ms,
        "reason": reason,
    }


def _off_grid(value: float) -> int:
    return round(math.exp(value * GRID))
