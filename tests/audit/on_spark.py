"""Audits a world by the job itself, whose brokers are replaced by the world's bytes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from exporter.audit.data_source import range_row, transaction_row
from exporter.audit.job import AuditJob, AuditResult
from exporter.audit.log_transactions import RangeOfLog
from exporter.audit.reading import LogExtent, LogListing, LogRange, RangeResult
from exporter.config.loading import load
from exporter.kafka.collect.topic_filter import NO_FILTER
from exporter.kafka.messages.log_batches import batches_from
from exporter.pipeline.tables import Tables
from exporter.pipeline.transaction_log import records_of
from exporter.snapshot import TopicPartition
from tests.audit.runs import SETTLED_MS
from tests.audit.world import TOPIC_ID, World
from tests.pipeline.log_records import KAFKA_COLUMNS

CLUSTER = "cluster"
Copies = Mapping[int, Mapping[tuple[str, int, int], bytes]]
"""Batches by (topic, partition, offset) that a broker has in place of the leader's."""
KAFKA = load(file=None, environment={}, flags={"kafka.bootstrap.servers": "a:1"}).settings.kafka


def add_records(spark: SparkSession, tables: Tables, world: World, after_ms: int, to_ms: int) -> None:
    """Adds the records that `pipeline transaction-log` would."""
    rows = [
        (each.log_partition, each.offset, datetime.fromtimestamp(each.at_ms / 1000, timezone.utc), each.key, each.value)
        for each in world.state
        if after_ms < each.at_ms <= to_ms
    ]
    table = tables.transaction_log
    records = records_of(spark.createDataFrame(rows, KAFKA_COLUMNS), CLUSTER).coalesce(1)
    table.commit(records, table.begin(spark, table.snapshot()))


class WorldsLogs:
    """The logs of a world at an instant; each broker in `copies` has other batches at some offsets of a partition."""

    def __init__(
        self, world: World, now_ms: int, copies: Copies | None = None, unread: Iterable[TopicPartition] = ()
    ) -> None:
        self._now_ms = now_ms
        self.unread = frozenset(unread)
        self._copies = copies or {}
        there = {name: [each for each in log if each.at_ms <= now_ms] for name, log in world.logs.items()}
        self._ends = {name: self._end(log[-1].data) if log else 0 for name, log in there.items()}
        every: list[tuple[int | None, Mapping[tuple[str, int, int], bytes]]] = [(None, {}), *self._copies.items()]
        self._data: dict[tuple[str, int, int | None], bytes] = {
            (*name, replica): b"".join(
                other.get((*name, each.offset), each.data) for each in log if (name, each.offset) not in world.removed
            )
            for replica, other in every
            for name, log in there.items()
        }

    @staticmethod
    def _end(data: bytes) -> int:
        return next(batches_from(data, 0)).next_offset

    def listing(self, *_: object) -> LogListing:
        ends = {
            partition: LogExtent(
                topic_id=TOPIC_ID, log_start=0, high_watermark=end, size_bytes=None, followers=tuple(self._copies)
            )
            for partition, end in self._ends.items()
        }
        failures = dict.fromkeys(self.unread, "it has no leader")
        ends = {partition: extent for partition, extent in ends.items() if partition not in failures}
        return LogListing(cluster_id=CLUSTER, at_ms=self._now_ms, ends=ends, failures=failures, excluded=frozenset())

    def reader(self) -> Callable[..., Iterator[list[dict[str, Any]]]]:
        """Stands in for `read_rows` on the workers."""
        logs = self._data

        def read_rows(_: object, ranges: Iterable[LogRange], **__: object) -> Iterator[list[dict[str, Any]]]:
            for wanted in ranges:
                data = logs[wanted.topic, wanted.partition, wanted.replica]
                place = (wanted.topic, wanted.topic_id, wanted.partition, wanted.first, wanted.end)
                log = RangeOfLog(*place, replica=wanted.replica)
                found = [each for batch in batches_from(data, wanted.first) for each in log.take(batch, data)]
                log.skip_to(wanted.end)
                rows = [transaction_row(each) for each in [*found, *log.rest()]]
                yield [*rows, range_row(RangeResult(log))]

        return read_rows


class JobOfWorld:
    """The job on the tables of one world."""

    def __init__(self, spark: SparkSession, world: World, folder: Path, copies: Copies | None = None) -> None:
        self.tables = Tables(folder)
        self._spark = spark
        self._world = world
        self._copies = copies
        self._read_to_ms = 0

    def job(self, now_ms: int, *, unread: Iterable[TopicPartition] = (), **options: Any) -> AuditJob:
        logs = WorldsLogs(self._world, now_ms, self._copies, unread)
        return AuditJob(
            open_spark=lambda: self._spark,
            kafka=KAFKA,
            topics=NO_FILTER,
            tables=self.tables,
            say=lambda _: None,
            list_partitions=logs.listing,
            begin_at=lambda _, listing, *__: listing,
            read_rows=logs.reader(),
            settled_ms=SETTLED_MS,
            replicas=self._copies is not None,
            **options,
        )

    def run(self, now_ms: int, **options: Any) -> AuditResult:
        add_records(self._spark, self.tables, self._world, self._read_to_ms, now_ms)
        self._read_to_ms = now_ms
        return self.job(now_ms, **options).run()

    def rows(self, name: str) -> list[Any]:
        return self._spark.read.format("delta").load(str(self.tables.root / name)).collect()


Row = tuple[str, str | None, int, str, int, int | None, int | None, int | None]


def of_table(rows: Sequence[Any]) -> Counter[Row]:
    return Counter(
        (
            row.verdict,
            row.reason,
            row.producer_id,
            row.topic,
            row.partition,
            row.start_ms,
            row.first_offset,
            row.marker_offset,
        )
        for row in rows
    )


def instants(world: World, chance: random.Random, runs: int) -> list[int]:
    return [*sorted(chance.randint(world.state[0].at_ms, world.now_ms) for _ in range(runs - 1)), world.now_ms]
