"""The Spark table source `kafka_transactions`: the scan of one or many clusters, as a batch or as a stream.

    spark.dataSource.register(KafkaTransactions)
    spark.read.format("kafka_transactions").option("kafka.bootstrap.servers", "broker:9092").load()

Options are the settings' names (`kafka.*`, `scan.deadline`, ...); `clusters` is the path of a fleet's file, `config.file`
that of the settings. A stream reads once in `scan.interval`: its offsets are instants, and no instant is read twice. The
columns are those of `exporter.fleet.scan_table`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from exporter.config.fleet import load_fleet
from exporter.config.loading import load
from exporter.config.settings import ClusterSettings, Settings
from exporter.files import read_text
from exporter.fleet.executor import CLIENTS, Clients
from exporter.fleet.scan_table import SCAN, scan_table
from exporter.kafka.client.credentials import CredentialsError
from exporter.kafka.errors import ClusterUnavailableError
from exporter.status import ApiStatistics, since

NAME: Final = "kafka_transactions"
CLUSTERS: Final = "clusters"
CONFIG_FILE: Final = "config.file"


class KafkaTransactions(DataSource):
    """The scan, one task for each cluster."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(SCAN)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Reads one scan."""
        return _TableReader(settings_of_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        """Reads one scan in each interval."""
        return _StreamReader(settings_of_options(self.options))


def settings_of_options(options: Mapping[str, str]) -> Settings:
    """The settings with their clusters; without a file of clusters, the only cluster is named after its bootstrap brokers.

    Raises ConfigurationError.
    """
    flags = {name: value for name, value in options.items() if name not in (CLUSTERS, CONFIG_FILE)}
    config = options.get(CONFIG_FILE)
    file = None if config is None else (config, read_text(Path(config)))
    path = options.get(CLUSTERS)
    if path is None:
        return load(file=file, environment={}, flags=flags).settings
    clusters = (path, read_text(Path(path)))
    return load_fleet(clusters, file=file, flags=flags).settings


class _Partition(InputPartition):
    def __init__(self, cluster: ClusterSettings) -> None:
        super().__init__(cluster.name)
        self.cluster = cluster


class _TableReading:
    """Common part of a batch and a stream."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Partition)
        yield from read_table(partition.cluster).to_batches()


class _TableReader(_TableReading, DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [_Partition(cluster) for cluster in self._settings.watched]


class _StreamReader(_TableReading, DataSourceStreamReader):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._newest = self.initialOffset()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"read_at_ms": 0}

    def latestOffset(  # noqa: N802 - Spark's name
        self,
        start: dict[str, int] | None = None,
        limit: Any = None,  # noqa: ARG002 - Spark's signature
    ) -> dict[str, int]:
        """Returns now if a scan is due. Spark 4.0 and 4.1 do not give `start`: then the newest offset here counts."""
        newest, now_ms = self._newest if start is None else start, int(time.time() * 1000)
        is_due = now_ms - newest["read_at_ms"] >= self._settings.scan.interval_ms
        self._newest = {"read_at_ms": now_ms} if is_due else newest
        return self._newest

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        self._newest = max(self._newest, end, key=lambda offset: offset["read_at_ms"])
        is_due = end["read_at_ms"] > start["read_at_ms"]
        return [_Partition(cluster) for cluster in self._settings.watched] if is_due else []


def read_table(cluster: ClusterSettings, clients: Clients = CLIENTS) -> pa.Table:
    """The rows of one cluster; any failure costs this cluster its rows, and no other cluster anything."""
    name = cluster.name or cluster.settings.kafka.bootstrap
    taken_at_ms, began = int(time.time() * 1000), time.monotonic()
    found, failure = None, None
    requests: tuple[ApiStatistics, ...] = ()
    try:
        collector = clients.of(cluster.settings.kafka, cluster.settings.scan)
        before = collector.statistics()
        found = collector.scan()
        requests = since(before, collector.statistics())
    except (CredentialsError, ClusterUnavailableError) as error:
        failure = str(error)
    except Exception as error:  # noqa: BLE001 - reported in the table
        failure = f"defect in the exporter: {type(error).__name__}: {error}"
    seconds = time.monotonic() - began
    return scan_table(name, found, taken_at_ms=taken_at_ms, seconds=seconds, requests=requests, failure=failure)
