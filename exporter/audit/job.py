"""Runs the audit: reads what is new in the logs, compares it with the decisions in `transaction_log`, and adds findings.

The transaction log is looked at first, and then the partitions' ends: a marker that a decision claims to be written is
before such an end. Each offset of a partition is read once. docs/audit.md has the rules.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from exporter.audit.data_source import MARKERS, TRANSACTION, read_rows
from exporter.audit.decision_rows import (
    FINDING_KIND,
    PENDING,
    LogFacts,
    VerdictCounts,
    counts_of,
    decisions_in,
    disagreeing_rows,
    examples_of,
    judged_rows,
    log_facts,
    needed_from,
)
from exporter.audit.positions import (
    copies_of,
    judged_before,
    new_ranges,
    partition_reads,
    plan_of,
    ranges_read,
    rate_of_task,
    shares_of,
    state_after,
    unknown_partitions,
    why_another_log,
)
from exporter.audit.reading import LogListing, LogRange, begin_at, list_partitions, offsets_since
from exporter.audit.replicas import disagreements
from exporter.audit.tables import FINDINGS, AuditState, AuditTables, RunCounts
from exporter.audit.verdicts import ACCUSATIONS, SETTLED_MS, AuditVerdict, Horizon, NotRead, PartitionRead
from exporter.config.kafka_section import KafkaSettings
from exporter.kafka.collect.topic_filter import TopicFilter
from exporter.pipeline.connectors import spark_path
from exporter.pipeline.delta import TableError
from exporter.pipeline.tables import Tables, write_whole
from exporter.snapshot import STATE_TOPIC, TopicPartition
from exporter.storage.last_audit import DAY_MS, LastAudit, document

TASKS_PER_CORE: Final = 8
"""Small ranges share a task and its connections."""
OF_DECISIONS: Final = tuple(verdict for verdict in AuditVerdict if verdict is not AuditVerdict.OPEN)
"""Verdicts that a decided transaction may have."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Result of a run."""

    cluster_id: str
    transactions: Counter[AuditVerdict]
    """Decided transactions that are new to it, by their worst verdict."""
    partitions: int
    unread: Mapping[TopicPartition, str]
    findings: Counter[AuditVerdict]
    """Findings, on single partitions, also those without a decision that is new to this run."""
    examples: tuple[str, ...]
    """Some of them, a line each."""
    waiting: int
    """Transactions on partitions that are open, or wait for their decision."""
    log_behind: int
    """Records of the transaction log that the table does not have yet."""
    read_bytes: int
    copies: int = 0
    """Replicas of partitions that were compared with their leaders."""
    copies_unread: Mapping[tuple[str, int, int], str] = field(default_factory=dict)
    """Reasons why others were not, by topic, partition and broker."""


@dataclass(frozen=True, slots=True)
class AuditJob:
    """One cluster's audit. A run may be killed at any instant."""

    open_spark: Callable[[], SparkSession]
    kafka: KafkaSettings
    topics: TopicFilter
    tables: Tables
    say: Callable[[str], None]
    list_partitions: Callable[[KafkaSettings, TopicFilter], LogListing] = list_partitions
    begin_at: Callable[..., LogListing] = begin_at
    offsets_since: Callable[..., Mapping[TopicPartition, int]] = offsets_since
    read_rows: Callable[..., Iterator[list[dict[str, Any]]]] = read_rows
    """Reads a range on a worker."""
    settled_ms: int = SETTLED_MS
    bytes_per_second: float = float("inf")
    """Limit for each broker, on average; the tasks that run at the same time share those of all brokers evenly."""
    replicas: bool = False
    """True if the same ranges are read at all in-sync replicas too, and compared."""
    since_ms: int = 0
    """Instant from which the first run of a cluster audits, where `transaction_log` begins earlier."""

    def run(self) -> AuditResult:
        """Raises TableError, LogReadError and what Spark raises."""
        spark = self.open_spark()
        log_version = self.tables.transaction_log.snapshot()
        if log_version.number < 0:
            raise TableError(f"{self.tables.transaction_log.folder}: is missing: `pipeline transaction-log` makes it")
        listing = self.list_partitions(self.kafka, self.topics)  # after the version of the log
        tables = AuditTables(self.tables, listing.cluster_id)
        version, state, pending_folder = tables.current(spark)
        tables.add_coverage(spark, state, listing.cluster_id)
        records = self.tables.transaction_log.read(spark, log_version).where(f.col("cluster_id") == listing.cluster_id)
        if not state.run:
            state = first_state(state, records, since_ms=self.since_ms)
        records = records.where(f.col("written_at") >= f.timestamp_millis(f.lit(state.records_from_ms)))
        facts, log_behind = self._log_of(listing, state, records)
        listing = self.begin_at(self.kafka, listing, unknown_partitions(listing, state), facts.read_from_ms)
        ranges = new_ranges(listing, state)
        copies = copies_of(listing, ranges) if self.replicas else []
        self.say(plan_of(listing, ranges, copies, self.bytes_per_second))
        rows = self._read(spark, [*ranges, *copies], listing.leaders).persist(StorageLevel.DISK_ONLY)
        read, copies_read = ranges_read(rows.where(f.col("producer_id").isNull()).collect())
        horizon = Horizon(
            settled=facts.settled,
            log_read_to_ms=facts.read_to_ms - self.settled_ms,
            log_complete_from_ms=max(facts.complete_from_ms, state.records_from_ms),
            first_judged=state.settled.get(state.run, {}),
        )
        partitions = partition_reads(listing, state, read)
        failed = [partition for partition, known in partitions.items() if isinstance(known, NotRead)]
        of_leaders = rows.where(f.col("producer_id").isNotNull() & f.col("replica").isNull())
        parts = without(of_leaders, failed).select(*TRANSACTION.names)
        parts = parts.unionByName(tables.pending(spark, pending_folder))
        judged = judged_rows(decisions_in(records), parts, partitions, horizon, judged_before(state, partitions))
        if copies:
            judged = judged.unionByName(disagreeing_rows(disagreements(rows)), allowMissingColumns=True)
        judged = judged.persist(StorageLevel.DISK_ONLY)
        counts = counts_of(judged)
        folder = tables.new_state()
        pending = judged.where(f.col("kind") == PENDING).select(*TRANSACTION.names)
        pending.coalesce(1).write.parquet(spark_path(folder / "pending"))
        new = state_after(state, listing, read, partitions, facts, counts, needed_from(judged, facts))
        new = replace(new, recent=last_day(state.recent, counts, listing.at_ms))
        findings = findings_of(judged, new.run, listing)
        examples = examples_of(judged)
        tables.commit(version, new, folder, findings)
        tables.add_coverage(spark, new, listing.cluster_id)
        result = AuditResult(
            cluster_id=listing.cluster_id,
            transactions=counts.transactions,
            partitions=sum(isinstance(known, PartitionRead) for known in partitions.values()),
            unread={
                **listing.failures,
                **{partition: each.failure or "" for partition, each in read.items() if each.failure},
            },
            findings=counts.accusations,
            examples=examples,
            waiting=counts.waiting,
            log_behind=log_behind,
            read_bytes=sum(each.read_bytes for each in (*read.values(), *copies_read.values())),
            copies=sum(each.failure is None for each in copies_read.values()),
            copies_unread={place: each.failure for place, each in copies_read.items() if each.failure is not None},
        )
        write_whole(tables.last_audit, document(last_audit_of(result, listing, new)))
        tables.remove_others(folder, now_s=time.time())
        rows.unpersist()
        judged.unpersist()
        return result

    def _log_of(self, listing: LogListing, state: AuditState, records: DataFrame) -> tuple[LogFacts, int]:
        """Returns the facts about the transaction log, and the number of its records that the table lacks.

        A partition of which the table has none was either not read, or has none that is new enough. Raises TableError and
        LogReadError.
        """
        facts = log_facts(records, state, log_ends=listing.log_ends, settled_by_ms=listing.at_ms - self.settled_ms)
        self._check_log(listing, state, facts)
        unseen = [
            (STATE_TOPIC, number) for number, end in listing.log_ends.items() if number not in facts.offsets and end
        ]
        begins = self.offsets_since(self.kafka, unseen, facts.read_from_ms)
        unread = {number: begin for _, number in unseen if (begin := begins.get((STATE_TOPIC, number), 0)) >= 0}
        following = {number: newest + 1 for number, newest in facts.offsets.items()}
        behind = sum(max(listing.log_ends.get(number, 0) - at, 0) for number, at in {**unread, **following}.items())
        return (replace(facts, read_to_ms=facts.read_from_ms) if unread else facts), behind

    def _check_log(self, listing: LogListing, state: AuditState, facts: LogFacts) -> None:
        """Raises TableError if `transaction_log` has nothing of these brokers' log, or what is not in it."""
        folder = self.tables.transaction_log.folder
        if not facts.offsets:
            raise TableError(
                f"{folder}: has no record of cluster {listing.cluster_id}: `pipeline transaction-log` adds them"
            )
        if (why := why_another_log(listing, state, facts.offsets)) is not None:
            raise TableError(
                f"{folder}: is not the {STATE_TOPIC} of these brokers, which was made again or cut off ({why}): "
                "use another --tables"
            )

    def _read(self, spark: SparkSession, ranges: Sequence[LogRange], leaders: int) -> DataFrame:
        schema = from_arrow_schema(MARKERS)
        if not ranges:
            return spark.createDataFrame([], schema)
        kafka, read_rows = self.kafka, self.read_rows
        parallel = spark.sparkContext.defaultParallelism
        shared = shares_of(ranges, TASKS_PER_CORE * parallel)
        rate = rate_of_task(self.bytes_per_second, leaders, min(len(shared), parallel))

        def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    for rows in read_rows(kafka, shared[number], bytes_per_second=rate):
                        yield pa.RecordBatch.from_pylist(rows, schema=MARKERS)

        return spark.range(0, len(shared), 1, len(shared)).mapInArrow(read, schema)


def first_state(state: AuditState, records: DataFrame, *, since_ms: int) -> AuditState:
    """The state before a first run that begins at `since_ms`: records of the transaction log until then are known."""
    if not since_ms:
        return state
    older = records.where(f.col("written_at") < f.timestamp_millis(f.lit(since_ms)))
    newest = older.groupBy("log_partition").agg(f.max("offset").alias("newest")).collect()
    return replace(state, records_from_ms=since_ms, log_offsets={row.log_partition: row.newest for row in newest})


def without(rows: DataFrame, partitions: Sequence[TopicPartition]) -> DataFrame:
    if not partitions:
        return rows
    left_out = rows.sparkSession.createDataFrame(list(partitions), "topic string, partition int")
    return rows.join(f.broadcast(left_out), on=["topic", "partition"], how="left_anti")


def last_day(before: Sequence[RunCounts], counts: VerdictCounts, at_ms: int) -> tuple[RunCounts, ...]:
    """The runs of the day that ends with this one; a run without anything new is left out."""
    this = RunCounts(
        audited_at_ms=at_ms, transactions=_by_name(counts.transactions), findings=_by_name(counts.accusations)
    )
    runs = (*before, this) if this.transactions or this.findings else before
    return tuple(run for run in runs if run.audited_at_ms > at_ms - DAY_MS)


def _by_name(counts: Counter[AuditVerdict]) -> dict[str, int]:
    return {verdict.value: count for verdict, count in counts.items() if count}


def findings_of(judged: DataFrame, run: int, listing: LogListing) -> DataFrame:
    rows = judged.where(f.col("kind") == FINDING_KIND)
    head = {
        "cluster_id": f.lit(listing.cluster_id),
        "run": f.lit(run).cast("long"),
        "audited_at": f.timestamp_millis(f.lit(listing.at_ms)),
    }
    return rows.withColumns(head).select(*FINDINGS.names).coalesce(1)


def last_audit_of(result: AuditResult, listing: LogListing, state: AuditState) -> LastAudit:
    transactions, findings = Counter[str](), Counter[str]()
    for run in state.recent:
        transactions.update(run.transactions)
        findings.update(run.findings)
    return LastAudit(
        cluster_id=result.cluster_id,
        audited_at_ms=listing.at_ms,
        transactions={verdict.value: transactions[verdict.value] for verdict in OF_DECISIONS},
        findings={verdict.value: findings[verdict.value] for verdict in OF_DECISIONS if verdict in ACCUSATIONS},
        partitions=result.partitions,
        partitions_unread=len(result.unread),
    )
