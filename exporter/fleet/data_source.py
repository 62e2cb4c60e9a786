"""The Spark table source `kafka_transactions`: the scan of one or many clusters, as a batch or as a stream.

    spark.dataSource.register(KafkaTransactions)
    spark.read.format("kafka_transactions").option("kafka.bootstrap.servers", "broker:9092").load()

Options are the settings' names (`kafka.*`, `scan.deadline`, ...); `clusters` is the path of a fleet's file, `config.file`
that of the settings. A stream reads once in `scan.interval`: its offsets are instants, and no instant is read twice. The
columns are those of `exporter.fleet.scan_table`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from exporter.config.fleet import Sources, alone, load_fleet
from exporter.config.loading import load
from exporter.config.settings import ClusterSettings, Settings
from exporter.files import read_text
from exporter.fleet.clients import CLIENTS
from exporter.fleet.scan import Budget, Share, plan, read
from exporter.fleet.scan_table import SCAN, broker_table
from exporter.snapshot import NO_LEADER

NAME: Final = "kafka_transactions"
PACKED_NAME: Final = "kafka_transactions_packed"
PACKED: Final = pa.schema(
    [pa.field("cluster", pa.string(), nullable=False), pa.field("rows", pa.binary(), nullable=False)]
)
CLUSTERS: Final = "clusters"
CONFIG_FILE: Final = "config.file"


class KafkaTransactions(DataSource):
    """The scan, one task for each cluster and broker."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(SCAN)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Reads one scan."""
        return _Reader(settings_of_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        """Reads one scan in each interval."""
        return _StreamReader(settings_of_options(self.options))


def packed_source_of(settings: Settings) -> type[DataSource]:
    """The same scan for the engine of a fleet. The class holds the settings: no option and no query plan has a password.

    One row for each cluster and broker, with the rows of its partitions packed in one cell: Spark building a row for every
    partition took six times as long as the scan.
    """

    class Packed(DataSource):
        @classmethod
        def name(cls) -> str:
            return PACKED_NAME

        def schema(self) -> StructType:
            return from_arrow_schema(PACKED)

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
            return _PackedReader(settings)

    return Packed


def packed_rows(table: pa.Table) -> bytes:
    """The rows of a scan in one cell."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    data: bytes = out.getvalue().to_pybytes()
    return data


def unpacked_rows(cell: pa.Scalar) -> pa.Table:
    """The rows in a cell of `packed_rows`, without a copy."""
    return pa.ipc.open_stream(cell.as_buffer()).read_all()


def settings_of_options(options: Mapping[str, str]) -> Settings:
    """The settings with their clusters; without a file of clusters, the only cluster is named after its bootstrap brokers.

    Raises ConfigurationError.
    """
    flags = {name: value for name, value in options.items() if name not in (CLUSTERS, CONFIG_FILE)}
    config = options.get(CONFIG_FILE)
    file = None if config is None else (config, read_text(Path(config)))
    path = options.get(CLUSTERS)
    if path is None:
        return alone(load(file=file, environment={}, flags=flags))
    clusters = (path, read_text(Path(path)))
    return load_fleet(Sources(clusters=clusters, file=file, flags=flags)).settings


class _Partition(InputPartition):
    def __init__(self, share: Share, budget: Budget) -> None:
        super().__init__(share.broker)
        self.share = share
        self.budget = budget


class _Reader(DataSourceReader):
    def __init__(self, settings: Settings) -> None:
        self._clusters = settings.clusters
        self._budget = Budget.of_cycle(settings.scan)

    def partitions(self) -> list[InputPartition]:
        return _partitions(self._clusters, self._budget)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Partition)
        yield from _rows(partition).to_batches()


class _PackedReader(_Reader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Partition)
        cells = {"cluster": [partition.share.cluster.name], "rows": [packed_rows(_rows(partition))]}
        yield from pa.table(cells, schema=PACKED).to_batches()


class _StreamReader(DataSourceStreamReader):
    def __init__(self, settings: Settings) -> None:
        self._clusters = settings.clusters
        self._interval_ms = settings.scan.interval_ms
        self._budget = Budget.of_cycle(settings.scan)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"read_at_ms": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: ARG002, N802 - Spark's signature
        now_ms = int(time.time() * 1000)
        return {"read_at_ms": now_ms} if now_ms - start["read_at_ms"] >= self._interval_ms else start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return _partitions(self._clusters, self._budget) if end["read_at_ms"] > start["read_at_ms"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Partition)
        yield from _rows(partition).to_batches()


def _partitions(clusters: Iterable[ClusterSettings], budget: Budget) -> list[InputPartition]:
    return [_Partition(share, budget) for share in plan(clusters, budget, CLIENTS)]


def _rows(partition: _Partition) -> pa.Table:
    """A defect of the exporter costs the cluster its cycle, and no other cluster anything."""
    share = partition.share
    try:
        return read(share, partition.budget, CLIENTS)
    except Exception as error:  # noqa: BLE001 - reported in the table
        return broker_table(
            share.cluster.name,
            share.cluster_id,
            share.taken_at_ms,
            broker=NO_LEADER,
            address=None,
            failure=f"defect in the exporter: {type(error).__name__}: {error}",
            seconds=0.0,
            requests=(),
        )
