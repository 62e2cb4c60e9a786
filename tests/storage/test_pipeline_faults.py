"""The pipeline on a store with faults, and killed: the next run ends the work, nothing is lost or there twice."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from exporter.pipeline.session import FAST_START
from exporter.pipeline.tables import Tables
from tests.brokers.jars import spark_jars
from tests.pipeline.days import DAYS, Rows, rows, taken, write_days
from tests.pipeline.program import PATIENCE_S
from tests.storage.conftest import Bucket
from tests.storage.fault_proxy import Fault, FaultProxy
from tests.storage.server import SECRET_KEY, ObjectStore, upload

KILLS: Final = 20
RUNS_MAX: Final = 8
USUAL_S: Final = 20
"""About as long as a run takes."""

pytestmark = pytest.mark.slow


@pytest.fixture
def expected(spark_on_s3: SparkSession, bucket: Bucket, tmp_path: Path) -> Rows:
    """The rows on a disk, of the history that is in the bucket as well."""
    write_days(tmp_path / "history")
    upload(tmp_path / "history", bucket.place("history"))
    taken(spark_on_s3, tmp_path / "history", Tables(tmp_path / "tables"))
    return rows(spark_on_s3, Tables(tmp_path / "tables"))


def begin(bucket: Bucket, temporary: Path, endpoint: str) -> subprocess.Popen[str]:
    arguments = [f"--history={bucket.place('history')}", f"--tables={bucket.place('tables')}"]
    arguments += [f"--jars={spark_jars()}", f"--temporary={temporary}", "--master=local[2]", "--memory=512m"]
    return subprocess.Popen(
        [sys.executable, "-m", "exporter", "pipeline", "run", *arguments],
        env={**os.environ, "AWS_ENDPOINT_URL": endpoint, "JDK_JAVA_OPTIONS": FAST_START},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_a_store_with_faults_costs_time_and_no_row(
    expected: Rows,
    bucket: Bucket,
    proxy: FaultProxy,
    store: ObjectStore,
    spark_on_s3: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Refused, slow, cut, and stored with a lost response, at one request in ten; a run that fails says why in one line."""
    random_, counter = random.Random(5), itertools.count()

    def weather(_method: str, _path: str) -> Fault | None:
        faults = (
            Fault(refusal=(503, "SlowDown")),
            Fault(delay_s=0.5),
            Fault(is_cut=True),
            Fault(is_response_lost=True),
        )
        return random_.choice(faults) if next(counter) % 10 == 0 else None

    proxy.weather = weather
    status = None
    for number in range(RUNS_MAX):
        if number == RUNS_MAX // 2:
            proxy.weather = lambda *_: None
        with begin(bucket, tmp_path, os.environ["AWS_ENDPOINT_URL"]) as running:
            output, _ = running.communicate(timeout=2 * PATIENCE_S)
        status = running.returncode
        print(f"run {number}: status {status}, {next(counter)} requests: {output.strip().splitlines()[-1]}")
        assert SECRET_KEY not in output
        if status == 0:
            break
    # deltalake blocks the threads of this process, and with them the proxy.
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.environment()["AWS_ENDPOINT_URL"])

    assert status == 0
    assert rows(spark_on_s3, Tables(bucket.place("tables"))) == expected


def test_expired_credentials_end_the_run_with_the_cure(bucket: Bucket, proxy: FaultProxy, tmp_path: Path) -> None:
    """No history file is marked as damaged."""
    write_days(tmp_path / "history", 1)
    upload(tmp_path / "history", bucket.place("history"))
    proxy.weather = lambda _, path: Fault(refusal=(400, "ExpiredToken")) if ".parquet" in path else None
    with begin(bucket, tmp_path, os.environ["AWS_ENDPOINT_URL"]) as running:
        output, _ = running.communicate(timeout=PATIENCE_S)

    assert running.returncode != 0
    (said,) = (line for line in output.splitlines() if line.startswith("kafka-transaction-exporter: "))
    assert f"s3://{bucket.name}/history/v1/" in said
    assert "the credentials in the environment" in said
    assert not any("left_out" in name for name in bucket.objects())


def test_runs_that_are_killed_lose_and_double_nothing(
    expected: Rows,
    bucket: Bucket,
    spark_on_s3: SparkSession,
    tmp_path: Path,
) -> None:
    """Twenty runs on the same tables, each killed at an instant of its own; every other time Java lives on for a moment."""
    random_ = random.Random(7)
    killed = 0
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    for number in range(KILLS):
        with begin(bucket, tmp_path, endpoint) as running:
            is_over = _is_over_within(running.wait, USUAL_S * (number + random_.random()) / KILLS)
            if not is_over:
                os.killpg(running.pid, signal.SIGKILL) if number % 2 else running.kill()
                killed += 1
    time.sleep(2)
    with begin(bucket, tmp_path, endpoint) as running:
        output, _ = running.communicate(timeout=PATIENCE_S)

    print(f"{killed} of {KILLS} were killed")
    assert running.returncode == 0, output
    tables = Tables(bucket.place("tables"))
    assert rows(spark_on_s3, tables) == expected
    assert tables.transactions.read(spark_on_s3).count() == 2 * DAYS


def _is_over_within(wait: Callable[[float], int], seconds: float) -> bool:
    try:
        wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
