"""The pipeline on a standalone cluster of Spark, with history and tables in S3: the same tables, also without a worker."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from exporter.pipeline.tables import Tables
from hangbench.waiting import until
from tests.brokers.jars import spark_jars
from tests.brokers.spark_cluster import SparkCluster
from tests.pipeline import cases
from tests.pipeline.days import rows, taken, write_days
from tests.pipeline.program import PATIENCE_S
from tests.storage.conftest import Bucket
from tests.storage.server import SECRET_KEY, upload

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path / "cluster") as made:
        yield made


def begin(cluster: SparkCluster, bucket: Bucket, tables: str, temporary: Path) -> subprocess.Popen[str]:
    places = [f"--history={bucket.place('history')}", f"--tables={bucket.place(tables)}", f"--temporary={temporary}"]
    options = [f"--master={cluster.url}", "--memory=512m", f"--jars={spark_jars()}"]
    command = [sys.executable, "-m", "exporter", "pipeline", "run", *places, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_cluster_makes_the_tables_of_one_process(
    cluster: SparkCluster,
    bucket: Bucket,
    spark_on_s3: SparkSession,
    tmp_path: Path,
) -> None:
    """The same rows as in one process on a disk; then again, while a worker is killed in mid-job."""
    for name in cases.names():
        cases.write_case(name, tmp_path / "history")
    write_days(tmp_path / "history")
    upload(tmp_path / "history", bucket.place("history"))
    on_disk = Tables(tmp_path / "tables")
    taken(spark_on_s3, tmp_path / "history", on_disk)
    expected = rows(spark_on_s3, on_disk)

    with begin(cluster, bucket, "whole", tmp_path) as running:
        output, _ = running.communicate(timeout=2 * PATIENCE_S)
    assert running.returncode == 0, output
    assert rows(spark_on_s3, Tables(bucket.place("whole"))) == expected

    with begin(cluster, bucket, "without-a-worker", tmp_path) as running:
        try:
            until(lambda: _written(bucket, "without-a-worker"), patience_s=PATIENCE_S)
            executors = cluster.executors("worker-0")
            command_lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in executors]
            cluster.kill("worker-0")
        except BaseException:
            running.kill()
            raise
        begun = time.monotonic()
        output, _ = running.communicate(timeout=2 * PATIENCE_S)
    print(f"ended {time.monotonic() - begun:.0f} s after the worker was killed")
    assert running.returncode == 0, output
    assert rows(spark_on_s3, Tables(bucket.place("without-a-worker"))) == expected
    assert executors
    assert not any(SECRET_KEY in text for text in (output, *command_lines))


def _written(bucket: Bucket, tables: str) -> bool:
    """A task of the first large job has begun to write."""
    return any(f"{tables}/v1/transactions/run-" in name for name in bucket.objects()) or any(
        name.startswith(f"{tables}/v1/state/identities-") for name in bucket.objects()
    )
