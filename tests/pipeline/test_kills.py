"""The pipeline killed (SIGKILL) at random instants of its work: nothing is lost and nothing is there twice.

Instants come from a fixed seed, one in each twentieth of the time that the work takes without a kill; what is held
against the truth is the same at whatever instant a kill meets it.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from examples.workload.rhythm import Rhythm
from examples.workload.workload import Workload
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.tables import Tables
from exporter.pipeline.transaction_log import logs_read_to_ms, outcomes_of, read_records
from tests.brokers.jars import spark_jars
from tests.conftest import FreshName, MakeCluster
from tests.pipeline.days import DAY_MS, DAYS, rows, write_days
from tests.pipeline.program import PATIENCE_S, Begin
from tests.workload.conftest import HASTY, PARTITIONS

KILLS: Final = 20

pytestmark = pytest.mark.slow


def seconds(work: Callable[[], bool]) -> float:
    begun = time.monotonic()
    assert work()
    return time.monotonic() - begun


def test_a_run_killed_at_any_instant_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path, begin: Begin
) -> None:
    """Twenty runs from nothing are killed, and the next one ends the work: the tables are those of an undisturbed run."""
    history = tmp_path / "history"
    write_days(history)

    def arguments(folder: Path) -> list[str]:
        return ["run", f"--history={history}", f"--tables={folder}", f"--temporary={tmp_path}"]

    length_s = seconds(lambda: begin(arguments(tmp_path / "undisturbed")).is_over_within(PATIENCE_S))
    expected = rows(spark, Tables(tmp_path / "undisturbed"))
    random_ = random.Random(7)
    killed = 0
    while killed < KILLS:
        folder = tmp_path / f"killed-{killed}"
        begun = time.monotonic()
        program = begin(arguments(folder))
        if program.is_over_within(length_s * (killed + random_.random()) / KILLS):
            length_s = min(length_s * 0.95, time.monotonic() - begun)  # quicker than the first: the instant comes again
            shutil.rmtree(folder)
            continue
        program.kill(with_spark=killed % 2 == 0)
        killed += 1
        _end_the_work(spark, history, folder)

        tables = Tables(folder)
        assert rows(spark, tables) == expected
        assert tables.transactions.read(spark).count() == 2 * DAYS
        assert (tables.root / "baselines.json").exists()
        shutil.rmtree(folder)


def _end_the_work(spark: SparkSession, history: Path, folder: Path) -> None:
    tables = Tables(folder)
    Jobs(lambda: spark, history, tables, (), 90 * DAY_MS, lambda: int(time.time() * 1000), lambda _: None).run()


def test_the_log_s_stream_killed_at_any_instant_has_each_transaction_once(
    make_cluster: MakeCluster, fresh_name: FreshName, spark: SparkSession, tmp_path: Path, begin: Begin
) -> None:
    """Twenty times while transactions go on; the workload's own counts, by outcome, and no record twice."""
    cluster = make_cluster("4.3.1", properties=HASTY)
    topic = cluster.topics.create(fresh_name("topic"), partitions=len(PARTITIONS))
    arguments = ["transaction-log", f"--tables={tmp_path / 'tables'}", f"--jars={spark_jars()}"]
    arguments += [f"--temporary={tmp_path}", "--bootstrap-server", cluster.bootstrap]
    random_ = random.Random(11)
    rhythm = Rhythm(per_second=5, abort_share=0.2, stall_every=20, zombie_every=15, stall_timeout_ms=1000)
    with Workload(cluster.bootstrap, [(topic, partition) for partition in PARTITIONS]) as workload:
        for number in range(2):
            workload.add(f"killed-{number}", rhythm)
        length_s = seconds(lambda: begin(arguments).is_over_within(PATIENCE_S))
        for kill in range(KILLS):
            program = begin([*arguments, "--every=200ms"])
            # Its end lies beyond: a stream that goes on writes one small file after the other there.
            assert not program.is_over_within(1.5 * length_s * (kill + random_.random()) / KILLS)
            program.kill(with_spark=True)
    time.sleep(1)  # the last markers are written behind the client's answer
    assert begin(arguments).is_over_within(PATIENCE_S)

    total = workload.ledger.total()
    assert (workload.failures, total.unresolved) == ([], 0)
    table = Tables(tmp_path / "tables").transaction_log
    records = read_records(spark, table, dict.fromkeys(logs_read_to_ms(table), 0))
    counted = Counter(row.outcome for row in outcomes_of(records).collect())
    assert counted == +Counter(
        commit=total.committed, abort=total.aborted, timeout=total.timed_out, fenced=total.fenced
    )
    assert records.select("log_partition", "offset").distinct().count() == records.count()
