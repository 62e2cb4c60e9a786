"""The fleet on real brokers: Spark's executors publish what this process publishes, line for line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from examples.workload.producers import OpenTransaction
from exporter import cycle
from exporter.commands.serve import embedded_reader
from exporter.config.fleet import load_fleet
from exporter.config.settings import Settings
from exporter.cycle import EvaluationInput
from exporter.daemon.daemon import Daemon
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy
from exporter.fleet import executor
from exporter.fleet.engine import FIRST_EXECUTOR_WITHIN_S, SparkEngine, _cycle, job_failure_of
from exporter.kafka.collect.collector import Collector
from exporter.snapshot import Snapshot
from exporter.transaction_log.journal import NO_JOURNAL
from exporter.web.routes import Request, Routes
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang, plant_hang_without_id, plant_producers
from tests.conftest import MakeCluster
from tests.evaluation.builders import NOW_MS, Entry, snapshot, transaction

NOBODY = "127.0.0.1:1"
A_SECOND = {"kafka.request.timeout.ms": "1000", "scan.deadline": "10s", "scan.interval": "20s"}


def settings_for(*bootstraps: str) -> Settings:
    clusters = "".join(
        f"  cluster-{number}: {{kafka: {{bootstrap.servers: '{bootstrap}'}}}}\n"
        for number, bootstrap in enumerate(bootstraps)
    )
    return load_fleet(("fleet.yaml", f"clusters:\n{clusters}"), flags=A_SECOND).settings


def got(routes: Routes, path: str) -> str:
    answer = routes.answer(Request(method="GET", path=path, headers={}))
    assert answer.status == 200
    return b"".join(answer.chunks).decode()


@contextmanager
def planted(cluster: KafkaCluster) -> Iterator[None]:
    """Two hangs, a live transaction, idle producers on many partitions."""
    cluster.topics.create("orders", partitions=4)
    cluster.topics.create("payments", partitions=30)
    cluster.topics.create("audit.log", partitions=1)
    plant_producers(cluster.bootstrap, "payments", range(30), range(9_000_000_000, 9_000_000_003))
    plant_hang(cluster.bootstrap, "orders", 1, "app-1")
    plant_hang_without_id(cluster.bootstrap, "orders", 2)
    with OpenTransaction(cluster.bootstrap, "app-2", [("orders", 3), ("audit.log", 0)]):
        yield


def comparable(exposition: str) -> list[str]:
    """Without what clock, disk and process have a part in, and the check of the controller that connections begin with:
    an executor may have several processes of Python, each with connections of its own.
    """
    lines = [line for line in exposition.splitlines() if "process_" not in line and "DescribeQuorum" not in line]
    return [line.rpartition(" ")[0] if "_seconds" in line or "_usable_bytes" in line else line for line in lines]


def cycles(daemon: Daemon, count: int) -> None:
    for _ in range(count):
        for cluster in daemon.jobs.values():
            cluster.cycle()


@pytest.mark.parametrize("nodes", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_executors_publish_what_this_process_publishes(
    spark: SparkSession, make_cluster: MakeCluster, nodes: int
) -> None:
    """Two cycles of each engine on the same state, a dead cluster beside: every series, value and order, except values
    that depend on a clock. What is not of every cycle is read, too: whether hangs can be proved, protection, a cause.
    """
    cluster = make_cluster("4.3.1", nodes=nodes, properties=HANGS_CAN_BE_PLANTED)
    settings = settings_for(cluster.bootstrap, NOBODY)
    with planted(cluster):
        embedded = Daemon(settings, embedded_reader)
        on_spark = Daemon(settings, SparkEngine(lambda: spark).reader)
        for daemon in (embedded, on_spark, embedded, on_spark):
            cycles(daemon, 1)
        expected, published = got(embedded.routes, "/metrics"), got(on_spark.routes, "/metrics")
        page = got(on_spark.routes, "/clusters/cluster-0")
        embedded.close()

    assert comparable(published) == comparable(expected)
    assert 'kafka_open_transactions{cluster="cluster-0",verdict="hanging_not_in_transaction"} 1' in published
    assert published.count('kafka_partition_max_active_transaction_duration_seconds{cluster="cluster-0"') >= 35
    assert 'kafka_transaction_protection{cluster="cluster-0",check="' in published
    assert "can be proved" in page, re.findall(r"[^<>]*prove[^<>]*", page)
    assert re.findall(r'last_cycle_success\{cluster="([^"]*)"\} (\d)', published) == [
        ("cluster-0", "1"),
        ("cluster-1", "0"),
    ]
    assert f"broker at {NOBODY} cannot be connected to" in got(on_spark.routes, "/clusters/cluster-1")
    series = [line for line in published.splitlines() if not line.startswith(("#", "process_"))]
    without = {line.split("{")[0].split(" ")[0] for line in series if 'cluster="' not in line}
    assert all(name.startswith("kafka_transaction_exporter_config_") for name in without), without


def test_executors_that_can_run_the_program_are_found(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """Before anything is served; in local mode nobody else reaches the driver's port."""
    with caplog.at_level("INFO"):
        SparkEngine(lambda: spark).check()
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "Spark's executors have version" in caplog.text


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            (
                "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
                ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times\n"
                "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
                '  File "worker.py", line 1, in main\n'
                "ModuleNotFoundError: No module named 'exporter'\n\n\tat org.apache.spark.api.python.X(X.scala:1)"
            ),
            "ModuleNotFoundError: No module named 'exporter'",
        ),
        (
            (
                "An error occurred while calling o1.\n: org.apache.spark.SparkException: Job aborted due to stage failure: "
                'Lost task 0.0 (TID 1) (host executor 0): java.io.IOException: Cannot run program "python9": '
                "error=2, No such file or directory\nCaused by: java.io.IOException: error=2, No such file or directory\n"
            ),
            'Cannot run program "python9": error=2, No such file or directory',
        ),
        (
            (
                "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
                ": org.apache.spark.SparkException: Job 3 cancelled part of cancelled job tags a\n\tat org.X(X.scala:1)"
            ),
            "org.apache.spark.SparkException: Job 3 cancelled part of cancelled job tags a",
        ),
        ("Job 3 cancelled because SparkContext was shut down", "Job 3 cancelled because SparkContext was shut down"),
    ],
)
def test_the_cause_of_a_failed_job_is_one_line(message: str, cause: str) -> None:
    """Spark's first line only says which call has failed."""
    found = job_failure_of(RuntimeError(message))
    assert cause in found
    assert "error occurred while calling" not in found


class Application:
    """A session on a cluster, with as many executors as are set."""

    def __init__(self) -> None:
        self.executors = 0
        self.is_stopped = False
        java = SimpleNamespace(
            isStopped=lambda: self.is_stopped,
            getExecutorMemoryStatus=lambda: SimpleNamespace(size=lambda: self.executors + 1),
        )
        self.sparkContext = SimpleNamespace(master="spark://master:7077", _jsc=SimpleNamespace(sc=lambda: java))

    def stop(self) -> None:
        self.is_stopped = True


@pytest.mark.parametrize("machine", ["this", "other"])
def test_an_executor_on_another_machine_has_another_monotonic_clock(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one has remembered by its clock, the next one takes only if it is the same clock."""
    monkeypatch.setattr(executor, "BOOT_ID", "this")
    given: list[Memory] = []

    def collect(**_: object) -> Snapshot:
        return snapshot([Entry()], transactions=(transaction("PrepareCommit"),))

    def noted(taken: Snapshot, memory: Memory, *others: object) -> Evaluation:
        given.append(memory)
        return evaluate(taken, memory, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(cycle, "evaluate", noted)
    first = evaluate(collect(), Memory(), Policy()).memory
    known = EvaluationInput(memory=first, policy=Policy())
    _cycle(known, NO_JOURNAL, machine, cast("Collector", SimpleNamespace(collect=collect)))
    (memory,) = given
    (remembered,) = memory.transactions.values()

    assert (remembered.completing_from_ms is None, remembered.watched_from_ms is None) == (machine == "other",) * 2
    assert remembered.completing_since_ms == NOW_MS


def test_an_application_is_given_time_for_its_first_executor_and_none_for_its_next() -> None:
    """On a busy machine Java starts slower than a cycle ends: each new application was ended, for ever."""
    now_s, opened = [1_000.0], list[Application]()

    def open_session() -> SparkSession:
        opened.append(Application())
        return cast("SparkSession", opened[-1])

    engine = SparkEngine(open_session, lambda: now_s[0])
    context = engine.context()
    now_s[0] += FIRST_EXECUTOR_WITHIN_S
    engine.give_up(context)
    assert engine.context() is context
    now_s[0] += 1
    engine.give_up(context)
    context = engine.context()
    assert len(opened) == 2

    opened[1].executors = 1
    engine.has_answered(context)
    engine.give_up(context)
    assert engine.context() is context, "a stuck executor is no reason"
    opened[1].executors = 0
    engine.give_up(context)
    context = engine.context()
    engine.give_up(context)
    assert engine.context() is context, "what the one before has had does not count"
    assert [made.is_stopped for made in opened] == [True, True, False]
