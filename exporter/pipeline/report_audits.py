"""The report's section about the audits of the last week; `exporter.audit` makes their tables and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from exporter.pipeline.connectors import spark_path
from exporter.pipeline.report import WEEK_MS, SectionRows, first_rows, of_cluster
from exporter.pipeline.report_html import (
    DASH,
    Columns,
    as_section,
    as_table,
    minute_of,
    not_shown,
    on_one_line,
    with_cluster,
)
from exporter.pipeline.tables import Tables, read_whole
from exporter.storage import last_audit
from exporter.storage.last_audit import LastAudit

UNAUDITED_MAX: Final = 25
_NO_FINDINGS: Final = frozenset({"unknown", "open", "as_decided"})
_DAMAGE: Final = ("torn", "contradicted", "closed_by_another", "marker_missing")
"""Verdicts for which the alert about audits pages."""


@dataclass(frozen=True, slots=True)
class ClusterAudits:
    """The audits of one cluster."""

    newest: LastAudit
    verdicts: Mapping[str, int]
    """Transactions on single partitions by verdict, in audits of the last week; without those of 0."""

    @property
    def cluster_id(self) -> str:
        return self.newest.cluster_id

    @property
    def findings(self) -> tuple[str, ...]:
        """The verdicts that contradict a decision, with their numbers."""
        found = ((verdict, count) for verdict, count in self.verdicts.items() if verdict not in _NO_FINDINGS)
        return tuple(f"{count:,} {verdict}" for verdict, count in found)


@dataclass(frozen=True, slots=True)
class AuditsOfWeek:
    """The audits of all clusters, and what they did not audit."""

    clusters: Sequence[ClusterAudits]
    unaudited: SectionRows
    """Rows (cluster_id, topic, partition, failure, first_missing, last_missing, unknown): partitions that the newest audit
    could not read, then those with most transactions that are unknown, then those where records are missing."""


def audits_of_week(spark: SparkSession, tables: Tables, *, made_at_ms: int) -> AuditsOfWeek | None:
    """Returns None if no audit has run. Raises StoreError and TableError."""
    if not tables.audit_coverage.exists:
        return None
    rows = spark.read.format("delta").load(spark_path(tables.audit_coverage.folder))
    clusters = rows.select("cluster_id").distinct().orderBy("cluster_id").collect()
    files = (tables.root / last_audit.file_name(row.cluster_id) for row in clusters)
    newest = [audit for path in files if (audit := read_whole(path, last_audit.parse)) is not None]
    return of_coverage(rows, newest, made_at_ms=made_at_ms) if newest else None


def of_coverage(coverage: DataFrame, newest: Sequence[LastAudit], *, made_at_ms: int) -> AuditsOfWeek:
    """`coverage` are rows of `audit_coverage`: its columns after `failure` are counts by verdict.

    A failure counts in the newest audit of its cluster alone: a later one has no row of a partition without a new record.
    """
    verdicts = coverage.columns[coverage.columns.index("failure") + 1 :]
    week = coverage.where(f.col("audited_at") > f.timestamp_millis(f.lit(made_at_ms - WEEK_MS)))
    newest_ms = {audit.cluster_id: audit.audited_at_ms for audit in newest}
    is_newest = f.unix_millis("audited_at") >= f.coalesce(of_cluster(newest_ms), f.lit(0))
    partitions = (
        week.withColumn("failure", f.when(is_newest, f.col("failure")))
        .groupBy("cluster_id", "topic", "partition")
        .agg(
            f.max_by("failure", "audited_at").alias("failure"),
            f.min("first_missing").alias("first_missing"),
            f.max("last_missing").alias("last_missing"),
            *(f.sum(verdict).alias(verdict) for verdict in verdicts),
        )
        .persist()
    )
    sums = partitions.groupBy("cluster_id").agg(*(f.sum(verdict).alias(verdict) for verdict in verdicts)).collect()
    counts = {row.cluster_id: {verdict: row[verdict] for verdict in verdicts if row[verdict]} for row in sums}
    lacks = partitions.where("failure IS NOT NULL OR unknown > 0 OR last_missing IS NOT NULL")
    order = (f.col("failure").isNull(), f.desc("unknown"), "cluster_id", "topic", "partition")
    unaudited = first_rows(lacks.orderBy(*order), UNAUDITED_MAX)
    partitions.unpersist()
    return AuditsOfWeek(
        [ClusterAudits(audit, counts.get(audit.cluster_id, {})) for audit in newest],
        unaudited,
    )


def section_of_audits(audits: AuditsOfWeek | None, *, several: bool) -> Iterator[str]:
    """Says what was not audited, then the counts of each cluster."""
    if audits is None:
        yield '<p class="nothing">Unknown: no audit has run (pipeline audit).</p>'
        return
    nothing = "Every partition was read, no record is missing, and nothing is unknown."
    yield as_section(audits.unaudited, nothing, _UNAUDITED, several)
    yield not_shown(audits.unaudited.cut, "partitions")
    yield as_table(with_cluster(_AUDITS, several), audits.clusters)


def damage_in_words(audits: AuditsOfWeek | None) -> str:
    """A sentence about outcomes that are damaged; empty if no audit has found one."""
    clusters = () if audits is None else audits.clusters
    counts = {verdict: sum(each.verdicts.get(verdict, 0) for each in clusters) for verdict in _DAMAGE}
    found = [f"{count:,} {verdict}" for verdict, count in counts.items() if count]
    return f" Audits of the last week have found damaged outcomes: {', '.join(found)}." if found else ""


def _why_unaudited(row: Row) -> str:
    if row.failure is not None:
        return f"not read: {escape(row.failure)}"
    if row.last_missing is None:
        return "evidence is missing: see audit_transactions"
    return f"records are missing between offsets {row.first_missing:,} and {row.last_missing:,}"


_UNAUDITED: Final[Columns] = {
    "partition": lambda row: escape(f"{row.topic}-{row.partition}"),
    "not audited, because": _why_unaudited,
    "#transactions unknown": lambda row: DASH if row.unknown is None else f"{row.unknown:,}",
}
_AUDITS: Final[Columns] = {
    "newest audit": lambda audits: on_one_line(minute_of(audits.newest.audited_at_ms)),
    "#partitions audited": lambda audits: f"{audits.newest.partitions:,}",
    "#not read": lambda audits: f"{audits.newest.partitions_unread:,}",
    "#as decided on partitions": lambda audits: f"{audits.verdicts.get('as_decided', 0):,}",
    "#unknown": lambda audits: f"{audits.verdicts.get('unknown', 0):,}",
    "findings": lambda audits: ", ".join(map(on_one_line, audits.findings)) or "none",
}
