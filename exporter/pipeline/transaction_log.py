"""Reads the transaction log with Spark: records of `__transaction_state` into a table, and their outcomes.

Spark's own Kafka source reads them; the daemon's decoder and state machine are used, so that no logic exists twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from exporter.pipeline import schemas
from exporter.pipeline.connectors import spark_path
from exporter.pipeline.delta import APPLICATION, Table, to_ms
from exporter.pipeline.tables import by_cluster
from exporter.snapshot import STATE_TOPIC, TopicPartition, TransactionState
from exporter.storage.places import Place
from exporter.transaction_log.events import Event, Happening, StateMachine
from exporter.transaction_log.records import (
    MalformedRecordError,
    StateLogRecord,
    Tombstone,
    TransactionRecord,
    UnknownVersion,
    decode,
)

OLD_OFFSET_FETCHING: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Setting without which the source silently returns no row of an internal topic."""

_OF_ONE_CLUSTER: Final = t.StructType([column for column in schemas.RECORDS if column.name != "cluster_id"])
_FIELDS_OF_STATE: Final = (
    "producer_id",
    "producer_epoch",
    "timeout_ms",
    "last_update_ms",
    "start_ms",
    "client_transaction_version",
)
"""Columns that have the name and the value of the decoder's field."""
_FIELDS_OF_RECORD: Final = [column.name for column in _OF_ONE_CLUSTER]
ROWS_AT_ONCE: Final = 10_000


def kafka_stream(spark: SparkSession, options: Mapping[str, str], offsets: Mapping[int, int]) -> DataFrame:
    """The log from `offsets` on (by partition) as a stream; with a checkpoint, it begins at the end of the checkpoint."""
    spark.conf.set(OLD_OFFSET_FETCHING, "true")
    partitions = {str(partition): offset for partition, offset in sorted(offsets.items())}
    chosen = {
        **options,
        "assign": json.dumps({STATE_TOPIC: sorted(offsets)}),
        "startingOffsets": json.dumps({STATE_TOPIC: partitions}),
        "failOnDataLoss": "false",  # compaction takes records away, and that is no loss
    }
    return spark.readStream.format("kafka").options(**chosen).load()


def records_of(rows: DataFrame, cluster_id: str) -> DataFrame:
    """Rows of the Kafka source -> `RECORDS`."""
    chosen = rows.select("partition", "offset", "timestamp", "key", "value")
    decoded = chosen.mapInArrow(_decode_batches, _OF_ONE_CLUSTER)
    return schemas.with_schema(decoded.withColumn("cluster_id", f.lit(cluster_id)), schemas.RECORDS)


def write_records(stream: DataFrame, table: Table, cluster_id: str, checkpoint: Place, *, every: str | None) -> Any:
    """Appends the stream of one cluster, each record once, also after a kill; `every` None stops at the present end.

    A batch that was written before a kill comes again under its number, and is left out.
    """

    def append(batch: DataFrame, number: int) -> None:
        stream_id = json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"]
        basis = table.snapshot(f"{APPLICATION}/{stream_id}")
        if number + 1 <= basis.run:
            return
        # This avoids a file for each partition of the log.
        few = batch.coalesce(batch.sparkSession.sparkContext.defaultParallelism)
        table.commit(few, replace(table.begin(batch.sparkSession, basis), run=number), note={"cluster_id": cluster_id})

    trigger: dict[str, Any] = {"availableNow": True} if every is None else {"processingTime": every}
    writer = stream.writeStream.foreachBatch(append).option("checkpointLocation", spark_path(checkpoint))
    return writer.trigger(**trigger).start()


def logs_read_to_ms(table: Table) -> dict[str, int]:
    """Returns how far the log of each cluster was read: when the newest of its records was written, without Spark."""
    return by_cluster(max, ((file["partition.cluster_id"], _written_to_ms(file)) for file in table.files()))


def _written_to_ms(file: Mapping[str, Any]) -> int:
    """Returns the time of the newest record, not after the file, should a broker's clock be ahead."""
    greatest, written_ms = file.get("max.written_at"), int(file["modification_time"])
    return written_ms if greatest is None else min(written_ms, to_ms(greatest))


def read_records(spark: SparkSession, table: Table, since_ms: Mapping[str, int]) -> DataFrame:
    """The records of these clusters that were written at that instant or later."""
    is_wanted = [
        (f.col("cluster_id") == cluster_id) & (f.col("written_at") >= f.timestamp_millis(f.lit(from_ms)))
        for cluster_id, from_ms in since_ms.items()
    ]
    return table.read(spark).where(reduce(Column.__or__, is_wanted, f.lit(False)))


def outcomes_of(records: DataFrame) -> DataFrame:
    """`RECORDS` -> `OUTCOMES`: each id's records in their order, once each, through the daemon's state machine."""
    decoded = schemas.with_schema(records, schemas.RECORDS).where(f.col("kind").isin("state", "tombstone"))
    by_id = decoded.groupBy("cluster_id", "log_partition", "transactional_id")
    return by_id.applyInArrow(_outcomes_of_id, schemas.OUTCOMES)


_ARROW_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.string()),
}


def arrow_schema(schema: Any) -> pa.Schema:
    """The Arrow schema that Spark expects from Python for these columns."""
    return pa.schema([(field.name, _ARROW_TYPES[field.dataType.simpleString()]) for field in schema])


def _decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [_row(**row) for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=arrow_schema(_OF_ONE_CLUSTER))


def _row(*, partition: int, offset: int, timestamp: Any, key: bytes | None, value: bytes | None) -> dict[str, Any]:
    row: dict[str, Any] = {"log_partition": partition, "offset": offset, "written_at": timestamp}
    try:
        decoded = decode(key, value)
    except MalformedRecordError:
        return {**row, "kind": "malformed"}
    if isinstance(decoded, UnknownVersion):
        return {**row, "kind": "unknown_version"}
    row["transactional_id"] = decoded.transactional_id
    if isinstance(decoded, Tombstone):
        return {**row, "kind": "tombstone"}
    return {
        **row,
        "kind": "state",
        "status": decoded.status.name,
        "partitions": partition_names(decoded.partitions),
        **{name: getattr(decoded, name) for name in _FIELDS_OF_STATE},
    }


def _outcomes_of_id(records: pa.Table) -> pa.Table:
    """The outcomes of one transactional id in one partition of the log."""
    cluster_id = records["cluster_id"][0].as_py()
    machine = StateMachine()
    found: list[dict[str, Any]] = []
    for record in state_log_records(records):
        for event in machine.take(record.content, record.written_at_ms):
            _add_outcome(found, cluster_id, event)
    return pa.Table.from_pylist(found, schema=arrow_schema(schemas.OUTCOMES))


def _add_outcome(found: list[dict[str, Any]], cluster_id: str, event: Event) -> None:
    """A decision adds a row; the completion of the same transaction completes this row, or adds one.

    A time-out may write a decision once more, with the opposite outcome: nothing of the first one was sent.
    """
    if event.outcome is None:
        return
    start_ms = _known(event.start_ms)
    row: dict[str, Any] = {
        "cluster_id": cluster_id,
        "transactional_id": event.transactional_id,
        "producer_id": event.producer_id,
        "producer_epoch": event.producer_epoch,
        "outcome": event.outcome.value,
        "start_ms": start_ms,
    }
    is_same = bool(found) and start_ms is not None and found[-1]["start_ms"] == start_ms
    if event.happening is Happening.PREPARED:
        if is_same and "completed_ms" not in found[-1]:
            found.pop()
        partitions = partition_names(event.partitions)
        found.append(
            {**row, "decided_ms": event.at_ms, "duration_ms": _known(event.duration_ms), "partitions": partitions}
        )
    elif is_same:
        found[-1] |= {
            "outcome": row["outcome"],
            "completed_ms": event.at_ms,
            "marker_ms": _known(event.duration_ms),
        }
    else:
        found.append({**row, "completed_ms": event.at_ms, "partitions": []})


def _known(value: int) -> int | None:
    return None if value < 0 else value


def partition_names(partitions: Iterable[TopicPartition]) -> list[str]:
    """The column `partitions`: `orders-0` and so on, sorted."""
    return sorted(f"{topic}-{number}" for topic, number in partitions)


@lru_cache(maxsize=10_000)
def partitions_named(names: tuple[str, ...]) -> frozenset[TopicPartition]:
    """The partitions of the column: one object for equal ones, as most transactions of a producer have."""
    return frozenset((topic, int(number)) for topic, _, number in (name.rpartition("-") for name in names))


def dicts_of(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Yields what `to_pylist` returns, in half of its time: each column at once, of some thousand rows.

    A text that stands in several rows is one object.
    """
    names, known = rows.column_names, dict[Any, Any]()
    for batch in rows.to_batches(max_chunksize=ROWS_AT_ONCE):
        columns = [
            list(map(known.setdefault, texts := column.to_pylist(), texts))
            if pa.types.is_string(column.type)
            else column.to_pylist()
            for column in batch.columns
        ]
        yield from (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def state_log_records(rows: pa.Table) -> Iterator[StateLogRecord]:
    """`RECORDS` of the kinds state and tombstone, as their decoder made them: in the order of offsets, each once."""
    rows = rows.select(_FIELDS_OF_RECORD).sort_by("offset")
    # As numbers: an object for each instant takes as long as the state machine.
    written_ms = rows["written_at"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    rows = rows.set_column(rows.column_names.index("written_at"), "written_at", written_ms)
    before = -1
    for row in dicts_of(rows):
        if row["offset"] == before:
            continue
        before = row["offset"]
        content: TransactionRecord | Tombstone = Tombstone(row["transactional_id"])
        if row["kind"] != "tombstone":
            content = TransactionRecord(
                transactional_id=row["transactional_id"],
                status=TransactionState[row["status"]],
                partitions=partitions_named(tuple(row["partitions"])),
                **{name: row[name] for name in _FIELDS_OF_STATE},
            )
        yield StateLogRecord(row["log_partition"], before, row["written_at"], content)
