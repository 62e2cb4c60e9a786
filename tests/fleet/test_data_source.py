"""The table source `kafka_transactions` on real brokers, as a batch and as a stream."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from examples.workload.producers import OpenTransaction
from exporter.fleet.data_source import NAME, KafkaTransactions
from hangbench.kafka.cluster import KafkaCluster
from tests.conftest import MakeTopic


def test_the_scan_is_a_table(spark: SparkSession, kafka_4_3_1: KafkaCluster, make_topic: MakeTopic) -> None:
    """A row for each partition with the broker that leads it, and one for each broker with its requests."""
    topic = make_topic(kafka_4_3_1, partitions=3)
    with OpenTransaction(kafka_4_3_1.bootstrap, "app-1", [(topic, 2)]):
        rows = scan_of(spark, kafka_4_3_1.bootstrap).collect()

    of_topic = sorted((row for row in rows if row.topic == topic), key=lambda row: row.partition)
    assert [(row.partition, row.answer, row.broker, len(row.open_transactions)) for row in of_topic] == [
        (0, "read", 1, 0),
        (1, "read", 1, 0),
        (2, "read", 1, 1),
    ]
    assert of_topic[2].open_transactions[0].start_offset == 0
    assert len({row.cluster_id for row in rows}) == 1
    (broker,) = (row for row in rows if row.topic is None and row.broker == 1)
    assert broker.failure is None
    (of_cluster,) = (row for row in rows if row.topic is None and row.broker == -1)
    assert "DescribeProducers" in [request.api for request in of_cluster.requests]


@pytest.mark.slow
def test_a_stream_of_scans_is_written_once(
    spark: SparkSession, kafka_4_3_1: KafkaCluster, tmp_path: Path, make_topic: MakeTopic
) -> None:
    """A batch for each scan; over a restart by its checkpoint none is there twice, and none is read before its time."""
    topic = make_topic(kafka_4_3_1)
    table, checkpoint = str(tmp_path / "scans"), str(tmp_path / "checkpoint")

    def run(interval: str) -> None:
        stream = spark.readStream.format(NAME).option("kafka.bootstrap.servers", kafka_4_3_1.bootstrap)
        rows = stream.option("scan.interval", interval).option("scan.deadline", "900ms").load()
        query = rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        written = query.format("parquet").start(table)
        try:
            assert written.awaitTermination(60)
        finally:
            written.stop()

    spark.dataSource.register(KafkaTransactions)
    run("1s")
    run("1s")
    run("1h")
    read = spark.read.parquet(table).where(f.col("topic") == topic)
    instants = [row.taken_at_ms for row in read.collect()]
    assert len(instants) == len(set(instants)) == 2


@pytest.mark.parametrize("says_start", [True, False], ids=["4.2", "4.0 and 4.1"])
def test_no_instant_is_read_before_its_time(monkeypatch: pytest.MonkeyPatch, *, says_start: bool) -> None:
    """Spark 4.0 and 4.1 ask for the latest offset without the one before."""
    now_s = 1_000.0
    monkeypatch.setattr(time, "time", lambda: now_s)
    source = KafkaTransactions({"kafka.bootstrap.servers": "broker:9092", "scan.interval": "30s"})
    stream: Any = source.streamReader(source.schema())
    start: dict[str, int] = stream.initialOffset()

    def read() -> tuple[int, int]:
        nonlocal start
        end = stream.latestOffset(start, None) if says_start else stream.latestOffset()
        before, start = start, end
        return end["read_at_ms"], len(stream.partitions(before, end))

    assert read() == (1_000_000, 1)
    now_s = 1_029.0
    assert read() == (1_000_000, 0)
    now_s = 1_030.0
    assert read() == (1_030_000, 1)


def scan_of(spark: SparkSession, bootstrap: str) -> DataFrame:
    spark.dataSource.register(KafkaTransactions)
    return spark.read.format(NAME).option("kafka.bootstrap.servers", bootstrap).load()
