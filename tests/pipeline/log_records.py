"""Makes rows of Kafka's source in Spark with records of the transaction log, tables of them, and their history."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from examples.workload.rhythm import Rhythm
from examples.workload.workload import Workload
from exporter.config.kafka_section import KafkaSettings
from exporter.config.loading import load
from exporter.kafka.state_log import StateLog
from exporter.pipeline.tables import Tables
from exporter.pipeline.transaction_log import (
    records_of,
)
from hangbench.kafka.cluster import KafkaCluster
from hangbench.waiting import until
from tests.pipeline import cases
from tests.pipeline.days import transactions
from tests.transaction_log.builders import key_of, value
from tests.workload.conftest import PARTITIONS

PATIENCE_S = 120
ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMMITTED, ABORTED = 1, 2, 3, 4, 5
KAFKA_COLUMNS = "partition int, offset long, timestamp timestamp, key binary, value binary"


def settings_of(bootstrap: str) -> KafkaSettings:
    return load(file=None, environment={}, flags={"kafka.bootstrap.servers": bootstrap}).settings.kafka


def positions(bootstrap: str) -> tuple[str, dict[int, int]]:
    """The cluster's id, and where its log begins: of all partitions, as `pipeline transaction-log` needs them."""

    def placed() -> tuple[str, dict[int, int], dict[int, str]]:
        log = StateLog(settings_of(bootstrap), since_ms=0, positions={})
        try:
            return log.cluster_id, dict(log.positions), dict(log.failures)
        finally:
            log.close()

    cluster_id, offsets, _ = until(placed, lambda result: not result[2], patience_s=PATIENCE_S)
    return cluster_id, offsets


def worked(cluster: KafkaCluster, topic: str, name: str, rhythm: Rhythm) -> Counter[str]:
    """The outcomes of two ids' transactions, all of them completed."""
    with Workload(cluster.bootstrap, [(topic, partition) for partition in PARTITIONS]) as workload:
        for number in range(2):
            workload.add(f"{name}-{number}", rhythm)
        until(lambda: workload.is_done, patience_s=PATIENCE_S)
    total = workload.ledger.total()
    time.sleep(1)  # the last markers are written behind the client's answer
    assert (workload.failures, total.unresolved) == ([], 0)
    return Counter(commit=total.committed, abort=total.aborted, timeout=total.timed_out, fenced=total.fenced)


def write_log(
    spark: SparkSession,
    tables: Tables,
    records: Iterable[tuple[str, bytes | None, float]],
    read_to_s: int,
    cluster_id: str = "c",
) -> None:
    """Files of (transactional id, value, seconds after the cases' beginning), read to that second: another id's record."""
    table = tables.transaction_log
    before = table.read(spark).where(f.col("cluster_id") == cluster_id).count()
    rows = [
        (0, number, datetime.fromtimestamp(cases.milliseconds(at) / 1000, timezone.utc), key_of(name), value)
        for number, (name, value, at) in enumerate([*records, ("other", None, read_to_s)], start=before)
    ]
    basis = table.begin(spark, table.snapshot(f"test/{cluster_id}"))
    table.commit(records_of(spark.createDataFrame(rows, KAFKA_COLUMNS), cluster_id).coalesce(1), basis)


def write_hour(history: Path, hour: int, *, is_open: bool = False, cluster_id: str = "c") -> None:
    """A transaction that begins with the hour and is closed after a minute, or is open to the end."""
    at = 3600 * hour
    row = {"start_offset": hour, "started": at, "transactional_id": "app"}
    after: list[dict[str, Any]] = [row] if is_open else []
    cases.write_file(history, cluster_id, f"w{hour}", [{"at": at + 30, "open": [row]}, {"at": at + 60, "open": after}])


def commit(hour: int) -> list[tuple[str, bytes, float]]:
    """The log's records of that hour's transactions: committed after 40 seconds."""
    start_ms = cases.milliseconds(3600 * hour)
    return [
        ("app", value(ONGOING, start_ms), 3600 * hour),
        ("app", value(PREPARE_COMMIT, start_ms, updated_ms=start_ms + 40_000), 3600 * hour + 40),
        ("app", value(COMMITTED, start_ms, updated_ms=start_ms + 40_010), 3600 * hour + 40.01),
    ]


def joined_rows(spark: SparkSession, tables: Tables) -> list[tuple[Any, ...]]:
    frame = transactions(spark, tables).orderBy("started_at")
    return [(cases.seconds(row.started_at), row.end, row.outcome, row.exact_duration_ms) for row in frame.collect()]
