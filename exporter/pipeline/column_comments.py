"""The meaning of each column of the tables, as docs/tables.md has it; Delta keeps it as the column's comment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import types as t

TRANSACTIONS: Final = {
    "cluster_id": "Kafka's cluster id",
    "producer_id": "the producer",
    "producer_epoch": "its epoch while the transaction was open",
    "transactional_id": "null while no cycle has it",
    "started_at": "the earliest known start",
    "start_source": "source of the start: `coordinator`, `transaction_log`, `not_open_before`, `last_write` or "
    "`first_seen`; the first two are exact",
    "first_seen": "first cycle with it",
    "last_seen": "last cycle with it",
    "duration_ms": "longest observed duration; null if unknown: one cycle has seen it, without its start",
    "idle_ms": "longest observed time since the last write, by the client's clock; null if unknown",
    "is_late": "it was open for longer than `transaction.max.timeout.ms` and padding",
    "verdicts": "all verdicts, in the order of their first appearance; one of a newer exporter keeps its name",
    "end": "`closed`, `still_open` or `lost_from_view`",
    "closed_at": "first cycle that read the partition without it; else null",
    "outcome": "`commit`, `abort`, `timeout` or `fenced`; null where the log has none",
    "exact_duration_ms": "from start to decision, by the log; null without outcome",
    "marker_ms": "from the decision to the last marker; null if unknown",
    "log_read_to": "newest record of the log when the outcome was joined; null if never",
    "partitions": "its partition transactions, with the fields below",
    "was_suspect": "one of the verdicts is a suspect's, or of a newer exporter",
    "date": "day of `closed_at`; null unless closed",
    "closed_hour": "its hour, 0 to 23; null also once compaction has joined the day",
}
PARTITIONS: Final = {
    "topic": "the topic",
    "partition": "the partition",
    "start_offset": "offset of its first record there",
    "first_seen": "as above, on this partition",
    "last_seen": "as above, on this partition",
    "started_at": "the earliest start that was observed",
    "exact_started_at": "the start by the coordinator or the log; null where neither has one",
    "start_rank": "the pipeline's own: the best source of a start",
    "duration_ms": "longest observed duration; null if unknown",
    "idle_ms": "longest observed time since the last write",
    "is_late": "as above",
    "last_stable_offset_lag": "most offsets held back; null where not known",
    "verdicts": "each verdict (`verdict`) with the first cycle that had it (`first_seen`)",
    "groups": "consumer groups that stood still behind it",
    "closed_at": "as above, on this partition; null unless closed",
    "is_lost": "there are later cycles, and none could read the partition",
    "topic_id": "the topic's id; null where the history has none",
}
INCIDENTS: Final = {
    "cluster_id": "Kafka's cluster id",
    "incident": "its name: the instant of its start, as in `20261103T050100000Z`",
    "blocked_from": "the earliest start of its transactions; before that no group waited behind them",
    "is_start_known": "false if it may be earlier: no start is known",
    "started_at": "first cycle with one of them as a suspect",
    "ended_at": "`closed_at` of its last transaction; null until all are closed",
    "duration_ms": "from `blocked_from` to `ended_at`; null until all are closed",
    "is_over": "all of its transactions are closed",
    "worst_verdict": "the worst verdict of its transactions",
    "transactions": "number of its transactions",
    "transactional_ids": "theirs, as far as known",
    "partitions": "partitions on which they were suspects, such as `orders-0`",
    "groups": "consumer groups that were blocked",
    "records_held_back": "the maximum on each partition, added up; null where no lag is known",
    "noticed_delay_ms": "from `blocked_from` to `started_at`; null if no start is known",
    "detection_delay_ms": "from the first cycle with one of them until it was a suspect; the least",
    "proof_delay_ms": "from `started_at` to the first proof; null without one",
    "causes": "why its transactions hung, as far as found",
    "operators": "users who confirmed a command on one of them, by `operator_steps`",
    "operated_at": "when the first of them did; null if none",
}
COVERAGE: Final = {
    "cluster_id": "Kafka's cluster id",
    "cluster_name": "its name in the exporter's settings; null without one",
    "date": "UTC day",
    "hour": "begin of the hour",
    "writer": "the process that recorded it, by a new name after each start",
    "exporter_version": "its version",
    "cycles": "its cycles in this hour",
    "interval_ms": "from one cycle to the next, as configured",
    "cycles_incomplete": "cycles with a gap in coverage",
    "partitions_asked": "the most that a cycle had to read",
    "partitions_read_min": "the fewest that a cycle has read",
    "partitions_unread_max": "the most that a cycle could not read",
    "partitions_unauthorized_max": "the most of these that were not authorized; null for files of older exporters",
    "partitions_by_offsets_max": "the most that were read by offsets alone; null likewise",
    "partitions_excluded_max": "the most that the settings excluded; null likewise",
    "brokers_failed_max": "the most leaders without a response in a cycle",
    "coordinators_failed_max": "the most coordinators without one",
    "clock_offset_ms": "cluster's clock minus exporter's; null if unknown",
    "clock_difference_ms": "by how much its clock contradicts another exporter's; null if it does not",
    "unwatched_ms": "time of the hour, up to the newest cycle, that no cycle's interval covers; null in older rows",
}
STALLS: Final = {
    "cluster_id": "Kafka's cluster id",
    "date": "UTC day",
    "hour": "begin of the hour",
    "topic": "the topic",
    "partition": "the partition",
    "transactional_id": "of the transaction that held the offset; null if unknown",
    "verdict": "its verdict at the time",
    "waiting_group": "a group that waited; null in the row of the partition, which has all of its time",
    "stalled_ms": "for how long the offset stood still in this hour, with records behind it",
    "records_max": "most offsets behind it",
    "transactions": "number of transactions that held it, one after the other",
    "producer_id": "producer of the transaction that held it longest",
    "start_offset": "its start offset",
    "cause": "why a hang held it; null until the exporter has found it",
}
RUNS: Final = {
    "started_at": "its begin",
    "ended_at": "its end",
    "exporter_version": "version of the program",
    "files": "files of the history that it read",
    "failures": "jobs that failed, with their reasons",
}
OPERATOR_STEPS: Final = {
    "step_id": "key",
    "written_at": "by the operator's clock",
    "who": "`user@host`",
    "cluster_id": "null in older logs",
    "step": "`planned`, `plan_file`, `judged_again`, `confirmed`, `declined`, `refused`, `sending`, `answered`, `ended`",
    "action": "`abort`, `complete`, `force-terminate`; null if the step does not name it",
    "topic": "null for `force-terminate`, as partition, offset and topic id",
    "partition": "the partition",
    "producer_id": "the producer",
    "start_offset": "its start offset",
    "topic_id": "the topic's id",
    "transactional_id": "null if the step does not name it",
    "result": "the reason, or the response",
}
TRANSACTION_LOG: Final = {
    "cluster_id": "Kafka's cluster id",
    "log_partition": "partition of the log",
    "offset": "offset in it",
    "written_at": "the record's own time",
    "kind": "`state`, `tombstone`, `unknown_version` or `malformed`; the columns below are null where a kind has no value",
    "transactional_id": "the record's key",
    "producer_id": "the producer",
    "producer_epoch": "its epoch",
    "timeout_ms": "the transaction's time-out",
    "status": "Kafka's state of the transaction, such as `PREPARE_COMMIT`",
    "partitions": "its partitions, such as `orders-0`",
    "last_update_ms": "when the coordinator changed the state",
    "start_ms": "when the transaction began",
    "client_transaction_version": "version of transactions that the client uses; null in old records",
}


def described(columns: Any, meanings: Mapping[str, str], parts: Mapping[str, str] = PARTITIONS) -> Any:
    """Returns the columns with their meanings as comments; `parts` are those of a list's elements."""
    fields = []
    for column in columns:
        kind = column.dataType
        if isinstance(kind, t.ArrayType) and isinstance(kind.elementType, t.StructType) and column.name == "partitions":
            kind = t.ArrayType(described(kind.elementType, parts))
        fields.append(t.StructField(column.name, kind, True, {"comment": meanings[column.name]}))
    return t.StructType(fields)
