"""The documented commands on Spark's own master with two workers that lack this program, and those of a notebook."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from examples.workload.rhythm import Rhythm
from exporter.pipeline.tables import Tables
from exporter.pipeline.transaction_log import logs_read_to_ms, outcomes_of, read_records
from tests.brokers.spark_cluster import WORKERS_PYTHON, SparkCluster
from tests.conftest import FreshName, MakeCluster
from tests.marks import starts
from tests.pipeline.days import taken
from tests.pipeline.log_records import commit, joined_rows, worked, write_hour, write_log
from tests.pipeline.on_a_cluster import fences, section, shell, with_places
from tests.workload.conftest import HASTY, PARTITIONS

pytestmark = pytest.mark.slow
ARCHIVE = " --archives packages.tar.gz#packages --conf spark.executorEnv.PYTHONPATH=./packages"

BARE: Final = {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": WORKERS_PYTHON}
"""Workers have a Python without any package."""
JOINED: Final = [(0, "closed", "commit", 40_000), (3600, "closed", None, None)]


@pytest.fixture
@starts("spark")
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path / "cluster") as made:
        yield made


def command_of(cluster: SparkCluster, folder: Path, **more: str) -> str:
    """The lines for a standalone master, which are the first ones, on one line each."""
    command = re.sub(r" *\\\n *", " ", fences("sh")[0])
    return with_places(command, folder, {"spark://HOST:7077": cluster.url, **more})


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    """Two hours wait in the history, and the log has the outcome of the first."""
    tables = Tables(tmp_path / "tables")
    for hour in (0, 1):
        write_hour(tmp_path / "history", hour)
    write_log(spark, tables, commit(0), read_to_s=3600)
    return tables


def test_workers_without_the_archive_lack_a_module_that_is_named(
    cluster: SparkCluster, spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    """With what to do about it; the other steps go on."""
    command = command_of(cluster, tmp_path, **{ARCHIVE: ""})
    lacking = shell(command[command.index("spark-submit") :], tmp_path, **BARE)

    assert lacking.returncode == 1
    assert "ModuleNotFoundError: No module named 'exporter' (the Python of Spark's workers lacks it" in lacking.stdout
    assert all(path.exists() for path in (tables.baselines, tables.report))
    assert "compact: " in lacking.stdout
    assert {row[2] for row in joined_rows(spark, tables)} == {None}


def test_python_runs_on_the_workers_with_the_archive(
    cluster: SparkCluster, spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    done = shell(command_of(cluster, tmp_path), tmp_path, **BARE)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "outcomes: 2 hours and days joined" in done.stdout
    assert joined_rows(spark, tables) == JOINED


def test_python_runs_on_the_workers_of_one_environment(
    cluster: SparkCluster, spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    """All have it at the same place: the program itself is enough."""
    (line,) = re.findall(r"`(pipeline run --master=spark://HOST:7077)`", section())
    places = " --history=s3://kafka/history --tables=s3://kafka/tables --jars=/opt/spark-jars"
    command = f"kafka-transaction-exporter {line}{places} --temporary={tmp_path}"
    taken(spark, tmp_path / "history", tables)
    more = {"spark://HOST:7077": cluster.url, "pipeline run": "pipeline outcomes"}
    done = shell(with_places(command, tmp_path, more), tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert joined_rows(spark, tables) == JOINED


def test_the_log_is_decoded_and_audited_on_the_workers(
    cluster: SparkCluster, make_cluster: MakeCluster, fresh_name: FreshName, spark: SparkSession, tmp_path: Path
) -> None:
    """A real broker's logs have as many outcomes as the workload has counted, and as many transactions."""
    brokers = make_cluster("4.3.1", properties=HASTY)
    topic = brokers.topics.create(fresh_name("topic"), partitions=len(PARTITIONS))
    expected: Counter[str] = worked(brokers, topic, "app", Rhythm(transactions=8, abort_share=0.2))
    log, audit = (
        shell(
            command_of(
                cluster,
                tmp_path,
                **{
                    f"pipeline run --history={tmp_path}/history": f"pipeline {job} "
                    f"--kafka.bootstrap.servers={brokers.bootstrap}"
                },
            ),
            tmp_path,
            **BARE,
        )
        for job in ("transaction-log", "audit")
    )

    assert log.returncode == 0, log.stdout + log.stderr
    assert audit.returncode == 0, audit.stdout + audit.stderr
    coverage = spark.read.format("delta").load(f"{tmp_path}/tables/v1/audit_coverage").where(f"topic = '{topic}'")
    audited = coverage.selectExpr("sum(open + as_decided)", "max(failure)", "sum(read_bytes)").collect()[0]
    assert audited[:2] == (expected.total(), None)  # each is on one partition
    assert audited[2] > 0
    table = Tables(tmp_path / "tables").transaction_log
    outcomes = outcomes_of(read_records(spark, table, dict.fromkeys(logs_read_to_ms(table), 0)))
    assert Counter(row.outcome for row in outcomes.collect()) == expected


def test_a_notebook_reads_the_tables(spark: SparkSession, tmp_path: Path) -> None:
    """The documented cell shows the rows."""
    write_hour(tmp_path / "history", 0)
    taken(spark, tmp_path / "history", Tables(tmp_path / "tables"))
    (cell,) = fences("python")
    (tmp_path / "cell.py").write_text(with_places(cell, tmp_path, {}).replace('.where("was_suspect")', ""))

    shown = shell("python cell.py", tmp_path)

    assert shown.returncode == 0, shown.stderr
    assert re.search(r"^\|\s*c\|.*closed", shown.stdout, re.MULTILINE), shown.stdout
    assert [row[1] for row in joined_rows(spark, Tables(tmp_path / "tables"))] == ["closed"]
