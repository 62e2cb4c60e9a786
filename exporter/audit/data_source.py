"""The Spark table source `kafka_transaction_markers`: the transactions and markers in the logs of partitions, as a batch.

    spark.dataSource.register(KafkaTransactionMarkers)
    spark.read.format("kafka_transaction_markers").option("kafka.bootstrap.servers", "broker:9092").load()

Options are the settings' names (`kafka.*`, `scan.topics.include`, ...), `config.file` the path of their file.
`startingOffsets` and `endingOffsets` are JSON, as of Spark's Kafka source: {"orders": {"0": 12}}, where -2 is the earliest
offset and -1 the latest one; by default whole logs are read. `range.bytes` is the size of a task's part of the log. A row
without a producer id is about a range of the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from exporter.audit.log_transactions import LogTransaction
from exporter.audit.reading import (
    RANGE_BYTES,
    LogExtent,
    LogRange,
    LogReadError,
    RangeResult,
    list_partitions,
    ranges_of,
    read_ranges,
)
from exporter.config.kafka_section import KafkaSettings
from exporter.config.settings import ClusterSettings
from exporter.fleet.data_source import settings_of_options
from exporter.kafka.collect.topic_filter import TopicFilter
from exporter.pipeline.transaction_log import dicts_of
from exporter.snapshot import TopicPartition

NAME: Final = "kafka_transaction_markers"
STARTING_OFFSETS: Final = "startingOffsets"
ENDING_OFFSETS: Final = "endingOffsets"
RANGE_BYTES_OPTION: Final = "range.bytes"
EARLIEST: Final = -2
LATEST: Final = -1
"""Spark's Kafka source has these two numbers in place of offsets, too."""
_ROWS: Final = 10_000
"""Rows of an Arrow batch."""
_LONG, _INTEGER, _TEXT = pa.int64(), pa.int32(), pa.string()
_TYPES: Final = {
    "topic": _TEXT,
    "topic_id": _TEXT,
    "partition": _INTEGER,
    "first_epoch": _INTEGER,
    "last_epoch": _INTEGER,
    "first_leader_epoch": _INTEGER,
    "last_leader_epoch": _INTEGER,
    "marker": _TEXT,
    "marker_epoch": _INTEGER,
    "coordinator_epoch": _INTEGER,
    "marker_leader_epoch": _INTEGER,
    "replica": _INTEGER,
}
TRANSACTION: Final = pa.schema([(each.name, _TYPES.get(each.name, _LONG)) for each in fields(LogTransaction)])
"""The columns of a `LogTransaction`."""
RANGE: Final = pa.schema(
    [
        ("range_first", _LONG),
        ("range_end", _LONG),
        ("read_to", _LONG),
        ("read_bytes", _LONG),
        ("batches", _LONG),
        ("first_gap", _LONG),
        ("last_gap", _LONG),
        ("leader_epoch", _INTEGER),
        ("diverges_at", _LONG),
        ("failure", _TEXT),
    ]
)
MARKERS: Final = pa.schema([*TRANSACTION, *RANGE])


class KafkaTransactionMarkers(DataSource):
    """The transactions in the logs, one task for each range."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(MARKERS)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        return _Reader(self.options)


class _Partition(InputPartition):
    def __init__(self, kafka: KafkaSettings, wanted: LogRange) -> None:
        super().__init__(f"{wanted.topic}-{wanted.partition} from {wanted.first}")
        self.kafka = kafka
        self.wanted = wanted


class _Reader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        own = {STARTING_OFFSETS, ENDING_OFFSETS, RANGE_BYTES_OPTION}
        by_name = {name.lower(): value for name, value in options.items()}
        self._starting = _offsets(STARTING_OFFSETS, by_name.get(STARTING_OFFSETS.lower()))
        self._ending = _offsets(ENDING_OFFSETS, by_name.get(ENDING_OFFSETS.lower()))
        self._range_bytes = int(by_name.get(RANGE_BYTES_OPTION, RANGE_BYTES))
        lowered = {name.lower() for name in own}
        given = {name: value for name, value in options.items() if name.lower() not in lowered}
        self._cluster: ClusterSettings = settings_of_options(given).watched[0]

    def partitions(self) -> list[InputPartition]:
        kafka, scan = self._cluster.settings.kafka, self._cluster.settings.scan
        listing = list_partitions(kafka, TopicFilter(scan.topics_include, scan.topics_exclude))
        if listing.failures:
            (topic, number), why = min(listing.failures.items())
            raise LogReadError(f"{topic}-{number}: {why}")
        given = ((STARTING_OFFSETS, self._starting), (ENDING_OFFSETS, self._ending))
        firsts, lasts = (_offsets_in(listing.ends, option, offsets) for option, offsets in given)
        ranges: list[InputPartition] = []
        for partition, ends in sorted(listing.ends.items()):
            end, first = lasts.get(partition, ends.high_watermark), firsts.get(partition, ends.log_start)
            if first > end:
                name = f"{partition[0]}-{partition[1]}"
                raise LogReadError(f"{STARTING_OFFSETS}: offset {first} of {name} is after its ending offset, {end}")
            wanted = ranges_of(partition, ends, first, end=end, range_bytes=self._range_bytes)
            ranges += [_Partition(kafka, each) for each in wanted]
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Partition)
        for rows in read_rows(partition.kafka, [partition.wanted]):
            if (failure := rows[-1].get("failure")) is not None:
                wanted = partition.wanted
                raise LogReadError(f"{wanted.topic}-{wanted.partition}: {failure}")
            yield pa.RecordBatch.from_pylist(rows, schema=MARKERS)


def _offsets(option: str, text: str | None) -> dict[TopicPartition, int]:
    if text is None:
        return {}
    try:
        return {
            (topic, int(number)): int(offset)
            for topic, offsets in json.loads(text).items()
            for number, offset in offsets.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f'{option}: {error}; it looks like {{"orders": {{"0": 12}}}}') from error


def _offsets_in(
    extents: Mapping[TopicPartition, LogExtent], option: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Returns the offsets, with those of the log for `EARLIEST` and `LATEST`.

    Raises LogReadError for an offset that the log does not have, which would be read as nothing or as the whole log.
    """
    found = {}
    for partition, offset in offsets.items():
        extent, name = extents.get(partition), f"{partition[0]}-{partition[1]}"
        if extent is None:
            raise LogReadError(f"{option}: {name} does not exist, or the settings exclude it, or it needs DESCRIBE")
        first, end = extent.log_start, extent.high_watermark
        found[partition] = {EARLIEST: first, LATEST: end}.get(offset, offset)
        if not first <= found[partition] <= end:
            raise LogReadError(
                f"{option}: offset {offset} of {name} is not in its log, which is from {first} to {end} "
                f"({EARLIEST} is the earliest offset, {LATEST} the latest one)"
            )
    return found


def read_rows(
    kafka: KafkaSettings, ranges: Iterable[LogRange], *, bytes_per_second: float = float("inf")
) -> Iterator[list[dict[str, Any]]]:
    """The rows of ranges in lists of some thousand; the last row of a range is about the range itself."""
    rows: list[dict[str, Any]] = []
    for found in read_ranges(kafka, ranges, bytes_per_second=bytes_per_second):
        if isinstance(found, LogTransaction):
            rows.append(transaction_row(found))
        else:
            rows.append(range_row(found))
        if len(rows) >= _ROWS:
            yield rows
            rows = []
    if rows:
        yield rows


def range_row(result: RangeResult) -> dict[str, Any]:
    log = result.log
    return {
        "topic": log.topic,
        "topic_id": log.topic_id,
        "partition": log.partition,
        "replica": log.replica,
        "range_first": log.first_offset,
        "range_end": log.end_offset,
        "read_to": log.next_offset,
        "read_bytes": log.size_bytes,
        "batches": log.batches,
        "first_gap": log.first_gap,
        "last_gap": log.last_gap,
        "leader_epoch": log.leader_epoch,
        "diverges_at": result.diverges_at,
        "failure": result.failure,
    }


def transaction_row(transaction: LogTransaction) -> dict[str, Any]:
    return {name: getattr(transaction, name) for name in TRANSACTION.names}


def transactions_of(rows: pa.Table) -> Iterator[LogTransaction]:
    """The transactions in rows of the source."""
    return (LogTransaction(**row) for row in dicts_of(rows.select(TRANSACTION.names)))
