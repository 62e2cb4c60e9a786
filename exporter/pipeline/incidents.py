"""Joins suspects to incidents, by the definition and under the names that the daemon's own incidents have."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from exporter.evaluation.verdicts import StartSource
from exporter.incidents.incident import HANGING, JOINED_SECONDS, SUSPECTS
from exporter.pipeline import schemas
from exporter.pipeline.suspects import is_suspect, texts, unknown_verdict
from exporter.pipeline.transactions import CLOSED

_INCIDENT: Final = ("cluster_id", "number")
_PLACE: Final = ("topic", "partition", "producer_id", "start_offset")
"""A transaction on one partition, within its cluster."""
_CONFIRMED: Final = "confirmed"
"""Step of a command that its operator has confirmed."""


def incidents_of_transactions(transactions: DataFrame, stalls: DataFrame, steps: DataFrame) -> DataFrame:
    """`TRANSACTIONS` -> `INCIDENTS`; transactions that never were suspects are skipped.

    Causes come from `STALLS`, and what operators did from `OPERATOR_STEPS`.
    """
    suspects = _suspects(schemas.with_schema(transactions, schemas.TRANSACTIONS))
    in_time = Window.partitionBy("cluster_id").orderBy("suspect_at", "producer_id", "producer_epoch")
    gap = f.col("suspect_at").cast("long") - f.lag("suspect_at").over(in_time).cast("long")
    numbered = suspects.withColumn("begins", f.when(gap <= JOINED_SECONDS, 0).otherwise(1)).withColumn(
        "number", f.sum("begins").over(in_time.rowsBetween(Window.unboundedPreceding, 0))
    )
    whole = numbered.groupBy(*_INCIDENT).agg(
        f.min("suspect_at").alias("started_at"),
        f.max("closed_at").alias("last_closed_at"),
        f.min(f.col("end") == CLOSED).alias("is_over"),
        f.min("worst_rank").alias("worst_rank"),
        f.min("unknown_verdict").alias("unknown_verdict"),
        f.min("blocked_from").alias("blocked_from"),
        f.min("is_start_known").alias("is_start_known"),
        f.count("*").alias("transactions"),
        f.array_sort(f.collect_set("transactional_id")).alias("transactional_ids"),
        f.min("hanging_at").alias("hanging_at"),
        f.min(f.unix_millis("suspect_at") - f.unix_millis("first_seen")).alias("detection_delay_ms"),
    )
    places = numbered.select(*_INCIDENT, "producer_id", f.explode("partitions").alias("one"))
    return schemas.with_schema(
        whole.join(_blast_radius(places), on=list(_INCIDENT), how="inner")
        .join(_causes(places, stalls), on=list(_INCIDENT), how="left")
        .join(_operators(places, whole, steps), on=list(_INCIDENT), how="left")
        .select(
            *(*whole.columns, "partitions", "groups", "records_held_back", "operated_at"),
            *(f.coalesce(name, f.array().cast("array<string>")).alias(name) for name in ("causes", "operators")),
            f.date_format("started_at", "yyyyMMdd'T'HHmmssSSS'Z'").alias("incident"),
            f.when(f.col("is_over"), f.col("last_closed_at")).alias("ended_at"),
            f.when(f.col("is_over"), f.unix_millis("last_closed_at") - f.unix_millis("blocked_from")).alias(
                "duration_ms"
            ),
            f.coalesce(f.get(texts(SUSPECTS), "worst_rank"), "unknown_verdict").alias("worst_verdict"),
            f.when(f.col("is_start_known"), f.unix_millis("started_at") - f.unix_millis("blocked_from")).alias(
                "noticed_delay_ms"
            ),
            (f.unix_millis("hanging_at") - f.unix_millis("started_at")).alias("proof_delay_ms"),
        ),
        schemas.INCIDENTS,
    )


def _suspects(transactions: DataFrame) -> DataFrame:
    """Returns suspects with their start, their first instants as suspect and as proved hang, and the worst verdict."""
    verdicts_seen = f.flatten(f.transform("partitions", lambda partition: partition["verdicts"]))
    worst = [f.when(f.array_contains("verdicts", verdict), f.lit(rank)) for rank, verdict in enumerate(SUSPECTS)]
    return transactions.select(
        "*",
        _first(verdicts_seen, is_suspect).alias("suspect_at"),
        _first(verdicts_seen, lambda verdict: verdict.isin(*HANGING)).alias("hanging_at"),
        f.coalesce(*worst).alias("worst_rank"),
        unknown_verdict().alias("unknown_verdict"),
        f.col("started_at").alias("blocked_from"),
        (f.col("start_source") != StartSource.FIRST_SEEN.label).alias("is_start_known"),
    ).where(f.col("suspect_at").isNotNull())


def _first(verdicts_seen: Column, is_wanted: Callable[[Column], Column]) -> Column:
    wanted = f.filter(verdicts_seen, lambda seen: is_wanted(seen["verdict"]))
    return f.array_min(f.transform(wanted, lambda seen: seen["first_seen"]))


def _causes(places: DataFrame, stalls: DataFrame) -> DataFrame:
    known = stalls.where(f.col("cause").isNotNull()).select("cluster_id", *_PLACE, "cause").distinct()
    found = _of(places).join(f.broadcast(known), on=["cluster_id", *_PLACE])
    return found.groupBy(*_INCIDENT).agg(f.array_sort(f.collect_set("cause")).alias("causes"))


def _operators(places: DataFrame, incidents: DataFrame, steps: DataFrame) -> DataFrame:
    """Logs of older versions lack ids: in these a step is known by its topic and offset, or by its transactional id."""
    one, step = _of(places).alias("one"), steps.where(f.col("step") == _CONFIRMED).alias("step")
    is_same = (f.col("one.topic") == f.col("step.topic")) & (f.col("one.partition") == f.col("step.partition"))
    is_same &= f.col("one.start_offset") == f.col("step.start_offset")
    for name in ("producer_id", "cluster_id", "topic_id"):
        is_same &= f.coalesce(f.col(f"one.{name}") == f.col(f"step.{name}"), f.lit(True))
    named = incidents.withColumn("transactional_id", f.explode("transactional_ids")).alias("one")
    is_meant = f.col("step.topic").isNull() & (f.col("one.transactional_id") == f.col("step.transactional_id"))
    is_meant &= f.coalesce(f.col("one.cluster_id") == f.col("step.cluster_id"), f.lit(True))
    is_meant &= f.col("step.written_at") >= f.col("one.started_at")
    is_meant &= ~f.col("one.is_over") | (f.col("step.written_at") <= f.col("one.last_closed_at"))
    columns = ("one.cluster_id", "one.number", "step.who", "step.written_at")
    found = (
        known.join(f.broadcast(step), on=fits).select(*columns) for known, fits in ((one, is_same), (named, is_meant))
    )
    by_incident = reduce(DataFrame.unionAll, found).groupBy(*_INCIDENT)
    return by_incident.agg(
        f.array_sort(f.collect_set("who")).alias("operators"), f.min("written_at").alias("operated_at")
    )


def _of(places: DataFrame) -> DataFrame:
    named = (f.col(f"one.{name}").alias(name) for name in ("topic", "partition", "start_offset", "topic_id"))
    return places.select(*_INCIDENT, "producer_id", *named)


def _blast_radius(places: DataFrame) -> DataFrame:
    """Partitions, groups, and the records held back: the maximum of each partition, added up."""
    name = f.concat_ws("-", "one.topic", f.col("one.partition").cast("string")).alias("name")
    by_partition = (
        places.where(f.exists("one.verdicts", lambda seen: is_suspect(seen["verdict"])))
        .groupBy(*_INCIDENT, name)
        .agg(f.max("one.last_stable_offset_lag").alias("lag"), f.flatten(f.collect_list("one.groups")).alias("groups"))
    )
    return by_partition.groupBy(*_INCIDENT).agg(
        f.array_sort(f.collect_set("name")).alias("partitions"),
        f.array_sort(f.array_distinct(f.flatten(f.collect_list("groups")))).alias("groups"),
        f.try_sum("lag").alias("records_held_back"),
    )
