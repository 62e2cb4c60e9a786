"""The audit's tables, and its state: how far each partition is read, and what waits for its decision.

As in the pipeline, a run writes a new state, and then commits its findings with the name of this state in the note of the
commit. The rows of `audit_coverage` are in the state as well: a run that was killed before it has added them leaves that
to the next one.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_schema

from exporter import __version__
from exporter.audit.data_source import TRANSACTION
from exporter.audit.verdicts import AuditVerdict
from exporter.pipeline.column_comments import described
from exporter.pipeline.connectors import spark_path
from exporter.pipeline.delta import APPLICATION, TableError, TableVersion
from exporter.pipeline.tables import KEPT_S, Tables, write_whole
from exporter.snapshot import TopicPartition
from exporter.storage import last_audit
from exporter.storage.places import Place, remove_folder

FINDING: Final = pa.schema(
    [
        ("verdict", pa.string()),
        ("reason", pa.string()),
        ("transactional_id", pa.string()),
        ("decision", pa.string()),
        ("decision_epoch", pa.int32()),
        ("decision_marker_epoch", pa.int32()),
        ("start_ms", pa.int64()),
        ("decided_ms", pa.int64()),
        ("completed_ms", pa.int64()),
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("leader_marker", pa.string()),
    ]
)
COMMENTS: Final = {
    "cluster_id": "Kafka's id of the cluster",
    "run": "number of the run that found it",
    "audited_at": "when this run asked for the ends of the logs",
    "verdict": "see docs/audit.md",
    "reason": "why it is unknown; null otherwise",
    "transactional_id": "id of the decision; null without one, as the next columns",
    "decision": "`commit` or `abort`",
    "decision_epoch": "producer epoch while the transaction was open",
    "decision_marker_epoch": "producer epoch of the coordinator's markers",
    "start_ms": "when the transaction began, by the coordinator's clock in ms since 1970, as the next two",
    "decided_ms": "when it was decided",
    "completed_ms": "when all markers were written",
    "log_partition": "partition of `__transaction_state` that says so",
    "log_offset": "offset in it",
    "leader_marker": "of `replicas_disagree`: the leader's marker at this offset; null if it has none",
    "topic": "the topic",
    "topic_id": "its id, different for a later topic of the same name",
    "partition": "the partition",
    "producer_id": "the producer",
    "first_epoch": "producer epoch of the first record in the partition's log; null without a record, as the next columns",
    "last_epoch": "producer epoch of the last record",
    "first_offset": "offset of the first record",
    "last_offset": "offset of the last record",
    "records": "number of records; 0 without one",
    "size_bytes": "size of their batches",
    "first_timestamp_ms": "timestamp of the first record",
    "last_timestamp_ms": "timestamp of the last record",
    "first_leader_epoch": "leader epoch of the first record",
    "last_leader_epoch": "leader epoch of the last record",
    "marker": "`commit`, `abort`, or `gone` where compaction has emptied it; null without one, as the next columns",
    "marker_offset": "its offset",
    "marker_epoch": "its producer epoch",
    "coordinator_epoch": "epoch of the coordinator that had it written",
    "marker_timestamp_ms": "when it was written, by the leader's clock",
    "marker_leader_epoch": "its leader epoch",
    "other_records": "records of the producer since its transaction before that belong to no transaction",
    "replica": "broker with this copy of the log; null for the leader's",
}
_HEAD: Final = t.StructType(
    [
        t.StructField("cluster_id", t.StringType()),
        t.StructField("run", t.LongType()),
        t.StructField("audited_at", t.TimestampType()),
    ]
)
FINDINGS: Final = described(
    t.StructType([*_HEAD, *from_arrow_schema(FINDING), *from_arrow_schema(TRANSACTION)]), COMMENTS
)
COVERAGE_COMMENTS: Final = {
    "cluster_id": "Kafka's id of the cluster",
    "run": "number of the run",
    "audited_at": "when it asked for the ends of the logs",
    "topic": "the topic",
    "topic_id": "its id",
    "partition": "the partition",
    "from_offset": "first offset that was read",
    "to_offset": "offset after the last one",
    "read_bytes": "size of the batches that were read",
    "batches": "their number",
    "first_missing": "first offset without a record, by compaction or retention; null if there is none",
    "last_missing": "last one",
    "failure": "why it was not read; null otherwise",
    **{verdict.value: f"transactions on it with the verdict `{verdict.value}`" for verdict in AuditVerdict},
}
COVERAGE: Final = described(
    t.StructType(
        [
            *_HEAD,
            t.StructField("topic", t.StringType()),
            t.StructField("topic_id", t.StringType()),
            t.StructField("partition", t.IntegerType()),
            *(
                t.StructField(name, t.LongType())
                for name in ("from_offset", "to_offset", "read_bytes", "batches", "first_missing", "last_missing")
            ),
            t.StructField("failure", t.StringType()),
            *(t.StructField(verdict.value, t.LongType()) for verdict in AuditVerdict),
        ]
    ),
    COVERAGE_COMMENTS,
)
STATE: Final = "audit"
"""Key in the note of a commit: the name of the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPosition:
    """Position up to which a partition is read and judged."""

    topic_id: str
    next_offset: int
    leader_epoch: int
    """Epoch of the last batch that was read."""
    read_from_ms: int | None
    read_from: int
    gaps: tuple[tuple[int, int], ...]
    judged_in: int
    """The run whose decisions it was compared with last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """Counts of one run by verdict."""

    audited_at_ms: int
    transactions: Mapping[str, int]
    findings: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditState:
    """The state after a run."""

    run: int = 0
    positions: Mapping[TopicPartition, PartitionPosition] = field(default_factory=dict)
    settled: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Last settled offset by partition of the transaction log, for each run that a position names."""
    log_offsets: Mapping[int, int] = field(default_factory=dict)
    """Newest record that was seen, by partition of the transaction log."""
    log_complete_from_ms: int = 0
    log_topic_id: str = ""
    """Topic id of `__transaction_state`; empty if it was not known."""
    records_from_ms: int = 0
    """Decisions of the next run begin later."""
    coverage: tuple[Mapping[str, Any], ...] = ()
    """The rows of `audit_coverage`."""
    recent: tuple[RunCounts, ...] = ()
    """The runs of the last day, oldest first; states of older versions have none."""

    def position_of(self, partition: TopicPartition, topic_id: str) -> PartitionPosition | None:
        """None if no run has read this partition, but perhaps one of an earlier topic of its name."""
        known = self.positions.get(partition)
        return known if known is not None and known.topic_id == topic_id else None

    def judged(self, position: PartitionPosition) -> Mapping[int, int]:
        """Returns up to which offset decisions were compared with a partition, by partition of the transaction log."""
        return self.settled.get(position.judged_in, {})


class AuditTables:
    """The tables of the audits of all clusters, beside those of the pipeline."""

    def __init__(self, tables: Tables, cluster_id: str) -> None:
        self._application = f"{APPLICATION}-audit-{cluster_id}"
        self._states = tables.states
        self.last_audit = tables.root / last_audit.file_name(cluster_id)
        self.findings = replace(
            tables.audit_transactions,
            columns=FINDINGS,
            description="Transactions whose logs are not as decided, or unknown",
        )
        self.coverage = replace(
            tables.audit_coverage, columns=COVERAGE, description="What each run of the audit has read"
        )

    def current(self, spark: SparkSession) -> tuple[TableVersion, AuditState, Place | None]:
        """The version to begin with, its state, and the folder of what is pending. Raises TableError."""
        version = self.findings.begin(spark, self.findings.snapshot(self._application))
        name = (version.note or {}).get(STATE)
        if name is None:
            if version.run:
                raise TableError(f"{self.findings.folder}: a commit has no note, so what was audited is unknown")
            return version, AuditState(), None
        folder = self._states / str(name)
        return version, read_state(folder / "state.json"), folder / "pending"

    def new_state(self) -> Place:
        return self._states / f"audit-{secrets.token_hex(8)}"

    def commit(self, version: TableVersion, state: AuditState, folder: Place, findings: DataFrame) -> None:
        """Commits the findings and the state. Raises ConflictError if another run was first."""
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "state.json", json.dumps(state_document(state)))
        self.findings.commit(findings, version, note={"version": __version__, STATE: folder.name})

    def add_coverage(self, spark: SparkSession, state: AuditState, cluster_id: str) -> None:
        """Adds the rows of the state, unless they are there already: each run has one commit, if only an empty one."""
        version = self.coverage.begin(spark, self.coverage.snapshot(self._application))
        if version.run >= state.run:
            return
        rows = [
            {
                **row,
                "cluster_id": cluster_id,
                "run": state.run,
                "audited_at": datetime.fromtimestamp(row["audited_at"] / 1000, timezone.utc),
            }
            for row in state.coverage
        ]
        self.coverage.commit(
            spark.createDataFrame([tuple(row.get(name) for name in COVERAGE.names) for row in rows], COVERAGE).coalesce(
                1
            ),
            version,
            note={"version": __version__},
        )

    def remove_others(self, kept: Place, *, now_s: float) -> None:
        """Removes older states of runs before, and of killed runs: another run may be writing a new one."""
        written_s = {each.parent.parent: each.stat().st_mtime for each in self._states.glob("audit-*/pending/*")}
        for folder, at_s in written_s.items():
            if folder.name != kept.name and at_s < now_s - KEPT_S:
                remove_folder(folder)

    def pending(self, spark: SparkSession, folder: Place | None) -> DataFrame:
        schema = from_arrow_schema(TRANSACTION)
        if folder is None or not (folder / "_SUCCESS").exists():
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(spark_path(folder))


def state_document(state: AuditState) -> dict[str, Any]:
    positions = [[*partition, asdict(position)] for partition, position in sorted(state.positions.items())]
    return {**asdict(state), "positions": positions}


def read_state(path: Place) -> AuditState:
    """Raises TableError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        positions = {
            (topic, partition): PartitionPosition(**{**known, "gaps": tuple(tuple(gap) for gap in known["gaps"])})
            for topic, partition, known in document.pop("positions")
        }
        settled = {int(run): _by_number(offsets) for run, offsets in document.pop("settled").items()}
        return AuditState(
            positions=positions,
            settled=settled,
            log_offsets=_by_number(document.pop("log_offsets")),
            coverage=tuple(document.pop("coverage")),
            recent=tuple(RunCounts(**each) for each in document.pop("recent", ())),
            **document,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(
            f"{path}: is not the state of an audit ({error}): remove the tables of the audit, and it begins again"
        ) from error


def _by_number(offsets: Mapping[str, int]) -> dict[int, int]:
    return {int(number): offset for number, offset in offsets.items()}
