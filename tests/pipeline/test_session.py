"""Where a session of Spark listens and what it prints: on the loopback and errors only, unless it is on a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from exporter.cli import main
from exporter.pipeline.connectors import JarsError
from exporter.pipeline.session import FAST_START, LONG_RUN, _compiler, _where
from exporter.pipeline.spark_output import failure_of, without_notices, write_log4j
from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.days import taken

PATIENCE_S = 60
NOTICE = "WARNING: Using incubator modules: jdk.incubator.vector"
SEND = " (the Python of Spark's workers lacks it: send it with --archives, as docs/pipeline.md says (On a cluster))"


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_in_one_process_nothing_listens_outside_the_machine(master: str) -> None:
    assert _where(master, "1g") == {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_the_workers_of_a_cluster_can_reach_the_driver(master: str) -> None:
    """With an address of the loopback they would call themselves; they have the memory that the user has chosen."""
    assert _where(master, "1g") == {"spark.executor.memory": "1g"}


@pytest.mark.parametrize(
    ("master", "is_short", "expected"),
    [
        ("local[2]", True, (FAST_START,)),
        ("local[*]", False, (LONG_RUN,)),
        ("spark://host:7077", True, ()),
    ],
)
def test_a_run_in_one_process_optimises_late_and_a_short_one_never(
    master: str, expected: tuple[str, ...], *, is_short: bool
) -> None:
    assert _compiler(master, is_short=is_short) == expected


def test_notices_of_every_start_are_left_out_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    """Also what the process prints later, and what it prints without an end of line."""
    before = set(threading.enumerate())
    with without_notices():
        (forwarder,) = (
            thread for thread in threading.enumerate() if thread not in before and thread.name == "spark output"
        )
        text = f"import sys; sys.stderr.write({NOTICE!r} + chr(10) + 'an error' + chr(10) + 'the last')"
        process = subprocess.Popen([sys.executable, "-c", text])
    os.write(2, b"ours\n")
    process.wait()
    forwarder.join(PATIENCE_S)
    shown = capfd.readouterr().err  # once: what is written while it reads is lost

    assert sorted(shown.replace("the last", "the last\n").splitlines()) == ["an error", "ours", "the last"]


def test_spark_logs_errors_only(tmp_path: Path) -> None:
    """By a file of its own: the one that Spark has logs warnings, and says that it is used."""
    option = write_log4j(tmp_path)

    assert option == f"-Dlog4j2.configurationFile={(tmp_path / 'log4j2.properties').as_uri()}"
    assert "rootLogger.level = error" in (tmp_path / "log4j2.properties").read_text()


def test_java_optimises_what_is_long(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run has all the history to take, and one with an interval goes on; what follows takes an hour."""
    history, tables = tmp_path / "history", tmp_path / "tables"
    cases.write_file(history, "c", "w0", [{"at": 30}])
    taken(spark, history, Tables(tables))
    cases.write_file(history, "c", "w1", [{"at": 60}])
    asked = []

    def open_session(*_: object, is_short: bool, **__: object) -> None:
        asked.append(is_short)
        raise JarsError("not in this test")

    monkeypatch.setattr(import_module("exporter.pipeline.session"), "open_session", open_session)
    for words in ("run", "transactions", "run --every=1h", "baselines", f"run --tables={tmp_path}/new"):
        assert main(["pipeline", f"--history={history}", f"--tables={tables}", *words.split()]) == 1

    assert asked == [True, True, False, False, False]


def test_a_failure_of_spark_is_its_innermost_cause(spark: SparkSession, tmp_path: Path) -> None:
    """Not "an error occurred while calling o12.parquet"."""
    (tmp_path / "bad.parquet").write_bytes(b"no Parquet at all")
    frame: Any = spark.read.schema("a int").parquet(str(tmp_path))
    with pytest.raises(Exception, match="FAILED_READ_FILE") as failed:
        frame.collect()

    assert "is not a Parquet file" in failure_of(failed.value)
    assert "\n" not in failure_of(failed.value)
    assert failure_of(ValueError("one\ntwo")) == "one"


@pytest.mark.parametrize(
    ("before", "raised", "advice"),
    [
        ("An exception was thrown from the Python worker: ", "ModuleNotFoundError: No module named 'exporter'", SEND),
        ("[STREAM_FAILED] Query terminated with exception: ", "exporter.pipeline.delta.TableError: /t: is locked", ""),
    ],
)
def test_a_failure_in_python_on_a_worker_is_what_was_raised_there(before: str, raised: str, advice: str) -> None:
    """Spark puts it at the end of a trace, of which the first line says nothing. A missing module has its advice."""
    trace = f'Traceback (most recent call last):\n  File "worker.py", line 1, in main\n    import exporter\n{raised}\n'

    failure = RuntimeError(f"{before}{trace}\n\tat org.apache.spark.X(X.scala:1)\nJVM stacktrace: none")
    assert failure_of(failure) == raised + advice
