"""Declares the columns of every table between two steps, and asserts that a frame has them."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import types as t

from exporter.evaluation.field_types import ColumnType, Greatest
from exporter.history.schema import CYCLE_COLUMNS, OBSERVATION_COLUMNS, PARTITIONS_BY_ANSWER, Column

_TEXT, _INTEGER, _LONG = t.StringType(), t.IntegerType(), t.LongType()
_FLAG, _INSTANT, _DATE = t.BooleanType(), t.TimestampType(), t.DateType()
_TEXTS: Final = t.ArrayType(_TEXT)
_TYPES: Final = {
    ColumnType.TEXT: _TEXT,
    ColumnType.INTEGER: _INTEGER,
    ColumnType.LONG: _LONG,
    ColumnType.FLAG: _FLAG,
    ColumnType.INSTANT: _INSTANT,
    ColumnType.TEXTS: _TEXTS,
}


def _columns(**types: Any) -> Any:
    return t.StructType([t.StructField(name, kind) for name, kind in types.items()])


def _of_history(columns: tuple[Column, ...]) -> Any:
    return _columns(**{column.name: _TYPES[column.kind] for column in columns}, cluster_id=_TEXT, date=_TEXT)


OBSERVATIONS: Final = _of_history(OBSERVATION_COLUMNS)
"""Observations as the daemon writes them, with the two columns of their path."""
CYCLES: Final = _of_history(CYCLE_COLUMNS)

_VERDICTS: Final = t.ArrayType(_columns(first_seen=_INSTANT, verdict=_TEXT))


def _greatest(*kept: Greatest) -> dict[str, Any]:
    return {column.name: _TYPES[column.kind] for column in OBSERVATION_COLUMNS if column.greatest in kept}


GREATEST_OF_TRANSACTION: Final = _greatest(Greatest.OF_TRANSACTION)
GREATEST_OF_PARTITION: Final = _greatest(Greatest.OF_PARTITION, Greatest.OF_TRANSACTION)
"""Observed columns whose greatest value is kept; null where never known."""

_PARTITION_TRANSACTION: Final = {
    "topic": _TEXT,
    "partition": _INTEGER,
    "start_offset": _LONG,
    "first_seen": _INSTANT,
    "last_seen": _INSTANT,
    "started_at": _INSTANT,  # the earliest that was observed
    "exact_started_at": _INSTANT,  # from the coordinator or the transaction log; null where neither has one
    "start_rank": _INTEGER,  # index in partition_transactions.START_SOURCES of the best source
    **GREATEST_OF_PARTITION,
    "verdicts": _VERDICTS,  # in order of first appearance
    "groups": _TEXTS,  # blocked while it was a suspect, sorted
    "closed_at": _INSTANT,  # the first cycle that read the partition without it
    "is_lost": _FLAG,  # there are later cycles, and none could read the partition
    "topic_id": _TEXT,  # null in `TRANSACTIONS` and empty in `PARTITION_TRANSACTIONS` where the history has none
}
PARTITION_TRANSACTIONS: Final = _columns(
    cluster_id=_TEXT, producer_id=_LONG, producer_epoch=_INTEGER, transactional_id=_TEXT, **_PARTITION_TRANSACTION
)
"""A transaction on one partition."""

OUTCOME: Final = {
    "outcome": _TEXT,  # commit, abort, timeout or fenced; null where the transaction log has none
    "exact_duration_ms": _LONG,  # from start to decision
    "marker_ms": _LONG,  # from the decision to the last marker
    "log_read_to": _INSTANT,  # how far the cluster's log was read when it was joined; null if never
}
"""Columns that come from the transaction log."""
TRANSACTIONS: Final = _columns(
    cluster_id=_TEXT,
    producer_id=_LONG,
    producer_epoch=_INTEGER,
    transactional_id=_TEXT,
    started_at=_INSTANT,
    start_source=_TEXT,
    first_seen=_INSTANT,
    last_seen=_INSTANT,
    **GREATEST_OF_TRANSACTION,
    verdicts=_TEXTS,
    end=_TEXT,
    closed_at=_INSTANT,
    **OUTCOME,
    partitions=t.ArrayType(_columns(**_PARTITION_TRANSACTION)),
)
"""One row each; `partitions` holds its partition transactions whole, so that a late file can be merged into it."""
TRANSACTIONS_TABLE: Final = t.StructType(
    [*TRANSACTIONS, *_columns(was_suspect=_FLAG, date=t.DateType(), closed_hour=_INTEGER)]
)
"""The table is partitioned by the last three."""

PRODUCERS: Final = _columns(cluster_id=_TEXT, producer_id=_LONG, transactional_id=_TEXT, newest_start=_INSTANT)
"""Each producer in the table; its id is null while it is unknown, its newest exact start where none was exact."""
PARTITIONS: Final = _columns(cluster_id=_TEXT, topic=_TEXT, topic_id=_TEXT, partition=_INTEGER, newest_offset=_LONG)
"""Each partition in the table, and the greatest start offset; an unknown topic id is empty."""

INCIDENTS: Final = _columns(
    cluster_id=_TEXT,
    incident=_TEXT,
    blocked_from=_INSTANT,
    is_start_known=_FLAG,
    started_at=_INSTANT,
    ended_at=_INSTANT,
    duration_ms=_LONG,
    is_over=_FLAG,
    worst_verdict=_TEXT,
    transactions=_LONG,
    transactional_ids=_TEXTS,
    partitions=_TEXTS,
    groups=_TEXTS,
    records_held_back=_LONG,
    noticed_delay_ms=_LONG,
    detection_delay_ms=_LONG,
    proof_delay_ms=_LONG,
    causes=_TEXTS,
    operators=_TEXTS,
    operated_at=_INSTANT,
)
"""Suspects of one cluster that began within minutes of each other."""

COVERAGE: Final = _columns(
    cluster_id=_TEXT,
    cluster_name=_TEXT,
    date=_DATE,
    hour=_INSTANT,
    writer=_TEXT,
    exporter_version=_TEXT,
    cycles=_LONG,
    interval_ms=_LONG,
    cycles_incomplete=_LONG,
    partitions_asked=_LONG,
    partitions_read_min=_LONG,
    partitions_unread_max=_LONG,
    **{f"partitions_{answer}_max": _LONG for answer in PARTITIONS_BY_ANSWER},
    brokers_failed_max=_LONG,
    coordinators_failed_max=_LONG,
    clock_offset_ms=_LONG,
    clock_difference_ms=_LONG,
    unwatched_ms=_LONG,
)
"""One row for each hour in which an exporter has recorded a cycle."""

RUNS: Final = _columns(
    started_at=_INSTANT,
    ended_at=_INSTANT,
    exporter_version=_TEXT,
    files=_LONG,
    failures=t.ArrayType(_columns(job=_TEXT, reason=_TEXT)),
)
"""One row for each run that was not killed."""

OPERATOR_STEPS: Final = _columns(
    step_id=_TEXT,
    written_at=_INSTANT,
    who=_TEXT,
    cluster_id=_TEXT,
    step=_TEXT,
    action=_TEXT,
    topic=_TEXT,
    partition=_INTEGER,
    producer_id=_LONG,
    start_offset=_LONG,
    topic_id=_TEXT,
    transactional_id=_TEXT,
    result=_TEXT,
)
"""One row for each step of a command in an audit log, and each of its transactions."""

STALLS: Final = _columns(
    cluster_id=_TEXT,
    date=_DATE,
    hour=_INSTANT,
    topic=_TEXT,
    partition=_INTEGER,
    transactional_id=_TEXT,
    verdict=_TEXT,
    waiting_group=_TEXT,
    stalled_ms=_LONG,
    records_max=_LONG,
    transactions=_LONG,
    producer_id=_LONG,
    start_offset=_LONG,
    cause=_TEXT,
)
"""One row for each hour, partition, application and verdict, and one more for each group that waited."""

RECORDS: Final = _columns(
    cluster_id=_TEXT,
    log_partition=_INTEGER,
    offset=_LONG,
    written_at=_INSTANT,
    kind=_TEXT,  # state, tombstone, unknown_version or malformed: others have nulls
    transactional_id=_TEXT,
    producer_id=_LONG,
    producer_epoch=_INTEGER,
    timeout_ms=_LONG,
    status=_TEXT,
    partitions=_TEXTS,  # topic-partition
    last_update_ms=_LONG,
    start_ms=_LONG,
    client_transaction_version=_INTEGER,
)
"""Records of the transaction log: one row each, of every kind."""

OUTCOMES: Final = _columns(
    cluster_id=_TEXT,
    transactional_id=_TEXT,
    producer_id=_LONG,
    producer_epoch=_INTEGER,  # while it was open
    outcome=_TEXT,  # commit, abort, timeout or fenced
    start_ms=_LONG,  # null where the log has none, as the next four
    decided_ms=_LONG,
    completed_ms=_LONG,
    duration_ms=_LONG,  # from start to decision
    marker_ms=_LONG,  # from decision to the last marker
    partitions=_TEXTS,
)
"""One row for each transaction whose outcome is decided."""


def with_schema(frame: DataFrame, schema: Any) -> DataFrame:
    """The columns of `schema` in its order; a frame that lacks one, or has it in another type, is a defect."""
    chosen = frame if frame.columns == schema.names else frame.select(*schema.names)
    found = [(field.name, field.dataType.simpleString()) for field in chosen.schema]
    wanted = [(field.name, field.dataType.simpleString()) for field in schema]
    assert found == wanted, f"columns are {sorted(set(found) - set(wanted))}, not {sorted(set(wanted) - set(found))}"
    return chosen
