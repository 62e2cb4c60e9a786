"""Compares the rows of `transaction_log` with those of the logs on Spark's workers, one producer id after the other."""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from exporter.audit.data_source import TRANSACTION, transaction_row, transactions_of
from exporter.audit.decisions import Decision, decisions_of
from exporter.audit.judge import judge
from exporter.audit.tables import FINDING, AuditState
from exporter.audit.verdicts import (
    ACCUSATIONS,
    AuditFinding,
    AuditVerdict,
    Horizon,
    NotRead,
    PartitionRead,
    is_reached,
    read_to_ms,
)
from exporter.pipeline.transaction_log import (
    ROWS_AT_ONCE,
    dicts_of,
    partition_names,
    partitions_named,
    state_log_records,
)
from exporter.snapshot import TopicPartition
from exporter.storage.last_audit import DAY_MS

LOOKBACK_MS: Final = 3_600_000
"""Decisions are read again from so long before the oldest one that is not settled."""
UNREAD_KEPT_MS: Final = 7 * DAY_MS
"""Decisions about a partition that cannot be read are kept for so long."""
EXAMPLES_MAX: Final = 20
DECISION: Final = pa.schema(
    [
        ("producer_id", pa.int64()),
        ("transactional_id", pa.string()),
        ("open_epoch", pa.int32()),
        ("has_own_epoch", pa.bool_()),
        ("is_epoch_sure", pa.bool_()),
        ("marker_epoch", pa.int32()),
        ("commit", pa.bool_()),
        ("partitions", pa.list_(pa.string())),
        ("start_ms", pa.int64()),
        ("decided_ms", pa.int64()),
        ("completed_ms", pa.int64()),
        ("log_partition", pa.int32()),
        ("completed_offset", pa.int64()),
    ]
)
_KIND, _COUNT = pa.field("kind", pa.string()), pa.field("count", pa.int64())
FINDING_KIND, PENDING, _UNSETTLED, _UNREAD = "finding", "pending", "unsettled", "unread"
_ON_PARTITION, _IN_ALL = "partition", "all"
JUDGED: Final = pa.schema([_KIND, _COUNT, *FINDING, *TRANSACTION])


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Facts about the transaction log as a run finds it."""

    offsets: Mapping[int, int]
    settled: Mapping[int, int]
    read_from_ms: int
    """Oldest record of this run."""
    read_to_ms: int
    """All of its partitions were read up to this instant."""
    complete_from_ms: int


def log_facts(records: DataFrame, state: AuditState, *, log_ends: Mapping[int, int], settled_by_ms: int) -> LogFacts:
    """A record whose offset does not follow on that of the one before is after a gap."""
    written_ms = f.unix_millis("written_at")
    in_order = Window.partitionBy("log_partition").orderBy("offset")
    known = (
        f.create_map(*[f.lit(each) for pair in state.log_offsets.items() for each in pair])
        if state.log_offsets
        else None
    )
    before = f.lag("offset").over(in_order)
    first: Column = f.lit(-1).cast("long") if known is None else f.coalesce(known[f.col("log_partition")], f.lit(-1))
    is_seen = f.col("offset") <= first
    follows = (f.col("offset") - f.coalesce(before, first) <= 1) | is_seen
    marked = records.select("log_partition", "offset", written_ms.alias("ms"), follows.alias("follows"))
    found = (
        marked.groupBy("log_partition")
        .agg(
            f.max("offset").alias("newest"),
            f.max(f.when(f.col("ms") <= settled_by_ms, f.col("offset"))).alias("settled"),
            f.min("ms").alias("read_from_ms"),
            f.max("ms").alias("read_to_ms"),
            f.max(f.when(~f.col("follows"), f.col("ms"))).alias("after_gap_ms"),
        )
        .collect()
    )
    before_run = state.settled.get(state.run, {})
    offsets = {**state.log_offsets, **{row.log_partition: row.newest for row in found}}
    newest_ms = {
        **dict.fromkeys(offsets, state.records_from_ms),
        **{row.log_partition: row.read_to_ms for row in found},
    }
    return LogFacts(
        offsets=offsets,
        settled={**before_run, **{row.log_partition: row.settled for row in found if row.settled is not None}},
        read_from_ms=min((row.read_from_ms for row in found), default=0),
        # One whose end is not known, while it has no leader, may have newer records.
        read_to_ms=read_to_ms(
            newest_ms, [each for each in offsets if each not in log_ends or offsets[each] + 1 < log_ends[each]]
        ),
        complete_from_ms=max(
            [state.log_complete_from_ms, *(row.after_gap_ms for row in found if row.after_gap_ms is not None)]
        ),
    )


def decision_rows(records: pa.Table) -> pa.Table:
    """Records of one transactional id -> DECISION, some thousand at a time: an id may have had millions."""
    with _without_collector():
        rows = map(_decision_row, decisions_of(state_log_records(records)))
        parts = iter(lambda: list(islice(rows, ROWS_AT_ONCE)), [])
        return pa.Table.from_batches([pa.RecordBatch.from_pylist(part, schema=DECISION) for part in parts], DECISION)


def decisions_in(records: DataFrame) -> DataFrame:
    known = records.where(f.col("kind").isin("state", "tombstone"))
    return known.groupBy("log_partition", "transactional_id").applyInArrow(decision_rows, from_arrow_schema(DECISION))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Python looks for cycles among millions of records that have none: a quarter of the time of an audit."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _decision_row(decision: Decision) -> dict[str, Any]:
    row = {name: getattr(decision, name) for name in DECISION.names}
    if decision.partitions is not None:
        row["partitions"] = partition_names(decision.partitions)
    return row


def _decision_of(row: Mapping[str, Any]) -> Decision:
    names = row["partitions"]
    return Decision(**{**row, "partitions": None if names is None else partitions_named(tuple(names))})


def judged_rows(
    decisions: DataFrame,
    parts: DataFrame,
    partitions: Mapping[TopicPartition, PartitionRead | NotRead],
    horizon: Horizon,
    judged_before: Mapping[TopicPartition, Mapping[int, int]],
) -> DataFrame:
    """`judged_before` has the partitions that could not be read: a later run compares newer decisions with them."""

    def waits(decision: Decision) -> bool:
        on = judged_before.keys() & (decision.partitions or ())
        return any(not is_reached(judged_before[partition], decision) for partition in on)

    def judge_one(left: pa.Table, right: pa.Table) -> pa.Table:
        order = [("log_partition", "ascending"), ("completed_offset", "ascending")]
        with _without_collector():
            known = [_decision_of(row) for row in dicts_of(left.sort_by(order))]
            judgement = judge(known, transactions_of(right), partitions, horizon)
        on_partition = Counter((each.topic, each.partition, each.verdict) for each in judgement.findings)
        on_partition.update((each.topic, each.partition, AuditVerdict.OPEN) for each in judgement.pending)
        rows: list[dict[str, Any]] = [
            {"kind": _IN_ALL, "verdict": verdict.value, "count": count}
            for verdict, count in judgement.transactions.items()
        ]
        rows += [
            {"kind": _ON_PARTITION, "topic": topic, "partition": number, "verdict": verdict.value, "count": count}
            for (topic, number, verdict), count in on_partition.items()
        ]
        rows += [_finding_row(each) for each in judgement.findings if each.verdict is not AuditVerdict.AS_DECIDED]
        rows += [{"kind": PENDING, **transaction_row(each)} for each in judgement.pending]
        begun = [each.start_ms for each in known if each.start_ms is not None and not horizon.is_settled(each)]
        rows += [{"kind": _UNSETTLED, "start_ms": start_ms} for start_ms in begun]
        rows += [{"kind": _UNREAD, "start_ms": each.start_ms} for each in known if judged_before and waits(each)]
        return pa.Table.from_pylist(rows, schema=JUDGED)

    grouped = decisions.groupBy("producer_id").cogroup(parts.groupBy("producer_id"))
    return grouped.applyInArrow(judge_one, from_arrow_schema(JUDGED))


def disagreeing_rows(markers: DataFrame) -> DataFrame:
    """Rows as of `judged_rows`, of markers that differ on a replica; columns of decisions are left out."""
    verdict = f.lit(AuditVerdict.REPLICAS_DISAGREE.value)
    counted = markers.groupBy("topic", "partition").agg(f.count("*").alias("count"))
    rows = markers.select("leader_marker", *TRANSACTION.names).withColumn("kind", f.lit(FINDING_KIND))
    counts = counted.withColumn("kind", f.lit(_ON_PARTITION))
    return rows.unionByName(counts, allowMissingColumns=True).withColumn("verdict", verdict)


def _finding_row(finding: AuditFinding) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kind": FINDING_KIND,
        "verdict": finding.verdict.value,
        "reason": None if finding.reason is None else finding.reason.value,
    }
    if finding.in_log is not None:
        row |= transaction_row(finding.in_log)
    if (decision := finding.decision) is not None:
        row |= {
            "producer_id": decision.producer_id,
            "transactional_id": decision.transactional_id,
            "decision": "commit" if decision.commit else "abort",
            "decision_epoch": decision.open_epoch,
            "decision_marker_epoch": decision.marker_epoch,
            "start_ms": decision.start_ms,
            "decided_ms": decision.decided_ms,
            "completed_ms": decision.completed_ms,
            "log_partition": decision.log_partition,
            "log_offset": decision.completed_offset,
        }
    return {**row, "topic": finding.topic, "partition": finding.partition}


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    transactions: Counter[AuditVerdict]
    on_partitions: Mapping[TopicPartition, Mapping[str, int]]

    @property
    def accusations(self) -> Counter[AuditVerdict]:
        return Counter({verdict: count for verdict in ACCUSATIONS if (count := self._of(verdict))})

    @property
    def waiting(self) -> int:
        return self._of(AuditVerdict.OPEN)

    def _of(self, verdict: AuditVerdict) -> int:
        return sum(counts.get(verdict.value, 0) for counts in self.on_partitions.values())


def counts_of(judged: DataFrame) -> VerdictCounts:
    rows = (
        judged.where(f.col("kind").isin(_IN_ALL, _ON_PARTITION))
        .groupBy("kind", "topic", "partition", "verdict")
        .agg(f.sum("count").alias("count"))
        .collect()
    )
    on_partitions: dict[TopicPartition, dict[str, int]] = defaultdict(dict)
    for row in rows:
        if row["kind"] == _ON_PARTITION:
            on_partitions[row["topic"], row["partition"]][row["verdict"]] = row["count"]
    return VerdictCounts(
        transactions=Counter({AuditVerdict(row["verdict"]): row["count"] for row in rows if row["kind"] == _IN_ALL}),
        on_partitions=on_partitions,
    )


def examples_of(judged: DataFrame) -> tuple[str, ...]:
    """Some accusations, a line each."""
    accusing = [verdict.value for verdict in ACCUSATIONS]
    found = judged.where((f.col("kind") == FINDING_KIND) & f.col("verdict").isin(accusing))
    rows = found.orderBy("verdict", "topic", "partition", "marker_offset").limit(EXAMPLES_MAX).collect()
    return tuple(_example(row) for row in rows)


def _example(row: Any) -> str:
    offset = row["marker_offset"] if row["first_offset"] is None else row["first_offset"]
    place = f"{row['topic']}-{row['partition']}" + ("" if offset is None else f" from offset {offset}")
    known = [f"producer id {row['producer_id']}"]
    if row["transactional_id"] is not None:
        known.insert(0, f"transactional id {row['transactional_id']}")
    if row["verdict"] == AuditVerdict.REPLICAS_DISAGREE.value:
        place = f"{row['topic']}-{row['partition']} at offset {row['marker_offset']}"
        known.append(f"broker {row['replica']} has {row['marker'] or 'no marker'}")
        known.append(f"the leader {row['leader_marker'] or 'none'}")
    elif row["decision"] is not None:
        known.append(f"the decision is {row['decision']}")
    if row["marker"] is not None and row["replica"] is None:
        known.append(f"the marker {row['marker']} at offset {row['marker_offset']}")
    return f"{row['verdict']} on {place}: {', '.join(known)}"


def needed_from(judged: DataFrame, facts: LogFacts) -> int:
    """Decisions that are not settled yet, those about what is pending, and those for unread partitions begin later."""
    instant = f.coalesce("marker_timestamp_ms", "first_timestamp_ms", "start_ms")
    waiting = judged.where(f.col("kind").isin(PENDING, _UNSETTLED, _UNREAD)).groupBy("kind")
    oldest = {row.kind: row.ms for row in waiting.agg(f.min(instant).alias("ms")).collect() if row.ms is not None}
    if _UNREAD in oldest:
        oldest[_UNREAD] = max(oldest[_UNREAD], facts.read_to_ms - UNREAD_KEPT_MS)
    return int(max(min([facts.read_to_ms, *oldest.values()]) - LOOKBACK_MS, 0))
