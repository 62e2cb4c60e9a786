"""Declares every field of an open transaction once: its type, its meaning, and the outputs that have it.

JSON, CSV, history, plan files, Spark's schemas and the documents are made from this tuple. A new field is declared here,
gets an attribute in `TransactionRow`, and a function in `table.py`, which finds its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from exporter.baseline import UsualDuration
from exporter.evaluation.field_types import ColumnType, Field, Greatest, Output
from exporter.evaluation.verdicts import (
    InconclusiveReason,
    OutcomeEvidence,
    OwnerState,
    StartSource,
    TransactionRow,
    Verdict,
    WaitingGroup,
)


def fields_of(output: Output) -> tuple[Field, ...]:
    """The fields that an output has, in their order."""
    return tuple(each for each in FIELDS if output not in each.left_out)


def project(row: TransactionRow, output: Output) -> dict[str, Any]:
    """The fields of `row` that an output has, as values of JSON under their names there."""
    return {
        name: getattr(row, attribute) if convert is None else convert(getattr(row, attribute))
        for name, attribute, convert in _PROJECTIONS[output]
    }


_BY_LEADER: Final = {
    Output.STATE: "every cycle reads it from the leader",
    Output.INCIDENT: "it changes with each write",
    Output.SERIES: "a label that changes with each write would be another series",
}
_BY_COORDINATOR: Final = {
    Output.PLAN: "`abort` asks the coordinator again",
    Output.INCIDENT: "the sentence of the evidence has it",
    Output.SERIES: "another state would be another series",
    Output.STATE: "every cycle asks the coordinator again",
    Output.SCAN: "the driver asks the coordinators",
}
_BY_EVALUATION: Final = {
    Output.PLAN: "`abort` evaluates it again",
    Output.INCIDENT: "the time line has instants",
    Output.SERIES: "it changes in every cycle",
    Output.STATE: "every cycle evaluates it again",
    Output.SCAN: "the driver evaluates it",
}
_SENTENCES: Final = {**_BY_EVALUATION, Output.HISTORY: "hundreds of bytes in each row of each cycle"}


def _without(reasons: Mapping[Output, str], *present: Output) -> Mapping[Output, str]:
    return {output: reason for output, reason in reasons.items() if output not in present}


FIELDS: Final = (
    Field(name="topic", kind=ColumnType.TEXT, meaning="the partition's topic"),
    Field(name="partition", kind=ColumnType.INTEGER, meaning="the partition's number"),
    Field(
        name="producer_id",
        kind=ColumnType.LONG,
        meaning="producer id of the open transaction; -1 where only its offset is known (DESCRIBE without READ)",
        minimum=-1,
    ),
    Field(
        name="producer_epoch",
        kind=ColumnType.INTEGER,
        meaning="producer epoch of its records on this partition; -1 likewise",
        minimum=-1,
    ),
    Field(
        name="coordinator_epoch",
        is_new_in_history=True,
        kind=ColumnType.INTEGER,
        meaning="coordinator epoch of the last marker of this producer on the partition; -1 without one",
        minimum=-1,
        left_out=_BY_LEADER,
    ),
    Field(name="start_offset", kind=ColumnType.LONG, meaning="offset of its first record on this partition"),
    Field(
        name="last_sequence",
        is_new_in_history=True,
        kind=ColumnType.INTEGER,
        meaning="sequence number of the producer's last record on this partition; -1 without one",
        minimum=-1,
        left_out=_BY_LEADER,
    ),
    Field(
        name="last_timestamp_ms",
        is_new_in_history=True,
        kind=ColumnType.LONG,
        meaning="timestamp of the producer's last write here, by the client's clock unless the topic uses LogAppendTime",
        minimum=None,
        left_out=_BY_LEADER,
    ),
    Field(
        name="start_ms",
        kind=ColumnType.INSTANT,
        meaning="its start, by the source in `start_source`",
        minimum=None,
        names={
            Output.JSON: "start_timestamp_ms",
            Output.HISTORY: "started_at",
            Output.SERIES: "the value, in seconds",
        },
        left_out={
            Output.PLAN: "`abort` evaluates it again",
            Output.SCAN: "the driver evaluates it",
        },
    ),
    Field(
        name="start_source",
        kind=ColumnType.TEXT,
        meaning="source of the start: coordinator, transaction_log, last_write, not_open_before or first_seen",
        values=StartSource,
        left_out=_without(_BY_EVALUATION, Output.STATE),
    ),
    Field(
        name="duration_ms",
        kind=ColumnType.LONG,
        meaning="time since that start",
        left_out=_BY_EVALUATION,
        greatest=Greatest.OF_TRANSACTION,
    ),
    Field(
        name="idle_ms",
        kind=ColumnType.LONG,
        meaning="time since the producer's last write here, by the client's clock",
        null="where the producer is unknown, or wrote no timestamp",
        left_out=_BY_EVALUATION,
        greatest=Greatest.OF_TRANSACTION,
    ),
    Field(
        name="silent_ms",
        kind=ColumnType.LONG,
        meaning="time for which the exporter has seen no write of its producer on any partition, by its own clock",
        null="in a command, which looks once, and where the transaction was not examined",
        left_out={**_BY_EVALUATION, Output.HISTORY: "each cycle's last sequence is there"},
    ),
    Field(
        name="usual_silence_ms",
        kind=ColumnType.LONG,
        meaning="longest usual silence of its transactional id, from its last eight transactions without the longest",
        null="in a command, and until the exporter has seen three transactions of the id end",
        left_out={**_BY_EVALUATION, Output.HISTORY: "each process learns it"},
    ),
    Field(
        name="owner",
        kind=ColumnType.TEXT,
        meaning="silent where its silence is longer than is usual, or than a part of its time-out; it may still commit",
        null="for every other verdict than open_within_timeout, and until it was watched for long enough",
        values=OwnerState,
        left_out={**_BY_EVALUATION, Output.HISTORY: "it follows from the last sequence of the cycles"},
    ),
    Field(
        name="takes_new_ids",
        kind=ColumnType.FLAG,
        meaning="true if others with its id's prefix were used last before its id appeared, so that no restart fences it; "
        "false in a command, which does not follow the transaction log",
        left_out={**_BY_EVALUATION, Output.HISTORY: "the transaction log shows it"},
    ),
    Field(
        name="ends_at_ms",
        kind=ColumnType.INSTANT,
        meaning="time by which its coordinator aborts it, unless it has ended before",
        null="where that is unknown, or no time-out applies",
        left_out={**_BY_EVALUATION, Output.HISTORY: "start and time-out are there"},
    ),
    Field(
        name="is_late",
        kind=ColumnType.FLAG,
        meaning="true if it is open for longer than transaction.max.timeout.ms and padding",
        names={Output.JSON: "late"},
        left_out=_BY_EVALUATION,
        greatest=Greatest.OF_TRANSACTION,
    ),
    Field(
        name="transactional_id",
        kind=ColumnType.TEXT,
        meaning="its transactional id",
        null="where neither a coordinator nor the transaction log has one",
        left_out=_without(_BY_COORDINATOR, Output.PLAN, Output.INCIDENT, Output.SERIES),
    ),
    Field(
        name="coordinator",
        is_new_in_history=True,
        kind=ColumnType.INTEGER,
        meaning="broker id of the coordinator that has the producer id",
        null="where no coordinator lists the producer id",
        minimum=None,
        left_out=_BY_COORDINATOR,
    ),
    Field(
        name="coordinator_state",
        kind=ColumnType.TEXT,
        meaning="the coordinator's state of the transactional id, by Kafka's name; Unknown for a name of a later Kafka",
        null="where no coordinator lists the producer id",
        left_out=_BY_COORDINATOR,
    ),
    Field(
        name="coordinator_producer_epoch",
        is_new_in_history=True,
        kind=ColumnType.INTEGER,
        meaning="producer epoch at the coordinator",
        null="where the transaction was not described",
        minimum=None,
        left_out=_BY_COORDINATOR,
    ),
    Field(
        name="timeout_ms",
        kind=ColumnType.LONG,
        meaning="the transaction's own time-out",
        null="where the transaction was not described",
        minimum=None,
        left_out=_BY_COORDINATOR,
    ),
    Field(
        name="last_stable_offset_lag",
        kind=ColumnType.LONG,
        meaning="high watermark minus last stable offset: records and end markers that are held back here",
        null="where either is unknown",
        names={Output.INCIDENT: "records_held_back"},
        left_out=_without(_BY_EVALUATION, Output.INCIDENT),
        greatest=Greatest.OF_PARTITION,
    ),
    Field(
        name="held_bytes",
        kind=ColumnType.LONG,
        meaning="bytes on disk that Kafka can neither compact nor tier because of it, an estimate (docs/verdicts.md)",
        null="where it does not hold the last stable offset, and where the size is unknown",
        left_out={**_BY_EVALUATION, Output.HISTORY: "an estimate; the metric of the partition has its course"},
    ),
    Field(
        name="groups",
        kind=ColumnType.TEXTS,
        meaning="visible consumer groups behind it, most waiting records first (in the history those that stand still); "
        "only of suspects, and of what holds the last stable offset",
        record=WaitingGroup,
        of_suspects_only=True,
        has_blocking=True,
        left_out=_without(_BY_EVALUATION, Output.INCIDENT),
    ),
    Field(
        name="outcome_evidence",
        kind=ColumnType.TEXT,
        meaning="outcome on other partitions: committed (some evidence), aborted (proved) or none",
        values=OutcomeEvidence,
        of_suspects_only=True,
        left_out=_without(_BY_EVALUATION, Output.INCIDENT),
    ),
    Field(
        name="outcome_seen",
        kind=ColumnType.TEXTS,
        meaning="the sources of the outcome, and what may hide a commit, a phrase each",
        left_out=_SENTENCES,
    ),
    Field(
        name="verdict",
        kind=ColumnType.TEXT,
        meaning="the exporter's verdict; each hanging_* is a proof (docs/verdicts.md)",
        values=Verdict,
        left_out=_without(_BY_EVALUATION, Output.PLAN, Output.INCIDENT, Output.SERIES),
    ),
    Field(
        name="inconclusive_reason",
        kind=ColumnType.TEXT,
        meaning="the missing part of the proof (docs/verdicts.md)",
        null="for other verdicts than inconclusive",
        values=InconclusiveReason,
        of_suspects_only=True,
        left_out=_BY_EVALUATION,
    ),
    Field(
        name="reason",
        kind=ColumnType.TEXT,
        meaning="a sentence with the evidence and its sources",
        left_out=_without(_SENTENCES, Output.INCIDENT),
    ),
    Field(
        name="topic_id",
        is_new_in_history=True,
        kind=ColumnType.TEXT,
        meaning="the topic's id",
        null="from brokers without topic ids",
        is_empty_where_null=True,
        left_out={Output.SERIES: "the same transaction on the same topic is the same series"},
    ),
    Field(
        name="unusual",
        kind=ColumnType.RECORD,
        meaning="the exceeded baseline",
        null="where it is not unusually long, or has no baseline",
        record=UsualDuration,
        left_out={**_BY_EVALUATION, Output.HISTORY: "baselines are made from the history"},
    ),
    Field(
        name="outcome_unsearched",
        kind=ColumnType.TEXTS,
        meaning="those of `outcome_seen` that a later search may find",
        left_out=_SENTENCES,
    ),
)
"""The fields in the order of the outputs."""


_PROJECTIONS: Final = {
    output: tuple((each.name_in(output), each.name, each.conversion(output)) for each in fields_of(output))
    for output in Output
}
