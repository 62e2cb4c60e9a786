"""How an audit's reader gains from a second worker of Spark: `python -m benchmarks.audit_workers`.

Three brokers have 900 MB in batches of 16 kB on six partitions. Spark's own master has two workers with a processor each;
in each round the same logs are read by one of them, and by both, without a limit. Everything shares this machine.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks.audit_load import fill
from benchmarks.contestants import peak_mb
from benchmarks.shapes import KAFKA
from exporter.audit.data_source import NAME, KafkaTransactionMarkers
from exporter.pipeline.session import open_session
from hangbench.kafka.cluster import KafkaCluster
from tests.brokers.spark_cluster import SparkCluster

ROUNDS: Final = 3
PARTITIONS: Final = 6
LOGS, FEW = "logs", "few"
LOG_BYTES: Final = 900_000_000
RANGE_BYTES: Final = 32_000_000
ROOT: Final = Path(__file__).parents[1]


def read_s(spark: SparkSession, bootstrap: str, topic: str) -> tuple[float, int]:
    """Returns seconds, and bytes that were read."""
    source = spark.read.format(NAME).option("kafka.bootstrap.servers", bootstrap)
    rows = source.option("scan.topics.include", topic).option("range.bytes", str(RANGE_BYTES)).load()
    began = time.perf_counter()
    (row,) = rows.agg(f.sum("read_bytes").alias("size")).collect()
    return time.perf_counter() - began, row.size


def round_of(workers: int, cluster: SparkCluster, bootstrap: str, folder: str) -> float:
    """An application of its own with so many workers; what starts them does not count."""
    more = {
        "spark.cores.max": str(workers),
        "spark.executor.cores": "1",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
    }
    spark = open_session(cluster.url, folder, memory="512m", more=more)
    try:
        spark.dataSource.register(KafkaTransactionMarkers)
        for _ in range(3):
            read_s(spark, bootstrap, FEW)
        took_s, size = read_s(spark, bootstrap, LOGS)
        assert size > LOG_BYTES
        executors = [pid for number in range(2) for pid in cluster.executors(f"worker-{number}")]
        gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - PySpark has no other access to its process
        print(
            f"{workers}: {took_s:.2f} s, {size / took_s / 1e6:.0f} MB/s; peaks: driver {peak_mb(gateway.proc.pid):.0f} MB, "
            f"executors {', '.join(f'{peak_mb(pid):.0f} MB' for pid in executors)}",
            flush=True,
        )
    finally:
        spark.stop()
    return took_s


def main() -> None:
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(KAFKA, nodes=3) as brokers:
        for topic, size in ((LOGS, LOG_BYTES), (FEW, 12_000_000)):
            brokers.topics.create(topic, partitions=PARTITIONS)
            fill(brokers.bootstrap, topic, size, partitions=PARTITIONS)
        with SparkCluster(Path(folder) / "cluster") as cluster:
            ratios = []
            for _ in range(ROUNDS):
                one, two = (round_of(workers, cluster, brokers.bootstrap, folder) for workers in (1, 2))
                ratios.append(two / one)
    print(
        f"two workers take {min(ratios):.2f} to {max(ratios):.2f} of one's time, median {statistics.median(ratios):.2f}"
    )


if __name__ == "__main__":
    main()
