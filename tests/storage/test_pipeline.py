"""The pipeline on a real server of S3: the tables of a disk, two writers, and a store without conditional writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from exporter.history.writer import History
from exporter.pipeline import probe
from exporter.pipeline.delta import ConflictError, TableError
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.probe import require_conditional_writes
from exporter.pipeline.session import FAST_START
from exporter.pipeline.tables import Tables, TablesState
from exporter.pipeline.transaction_log import logs_read_to_ms, read_records, records_of
from exporter.storage.places import Place, place_of
from tests.brokers.jars import spark_jars
from tests.history.cycles import cycle, settings
from tests.pipeline import cases
from tests.pipeline.days import DAY_MS, rows, write_days
from tests.pipeline.log_records import KAFKA_COLUMNS, ONGOING
from tests.storage.conftest import Bucket
from tests.storage.fault_proxy import Fault, FaultProxy
from tests.storage.server import SECRET_KEY, ObjectStore, upload
from tests.transaction_log.builders import key_of, value

JOBS: Final = ["transactions", "stalls", "operators", "incidents", "baselines", "report", "compact"]
ESCAPED: Final = "é/ü %"
"""A cluster id whose folder's name is full of escapes."""


def jobs(spark: SparkSession, history: Place, tables: Tables, now_ms: int = cases.NOW_MS) -> Jobs:
    return Jobs(lambda: spark, history, tables, (), 10_000 * DAY_MS, lambda: now_ms, lambda _: None)


@pytest.mark.slow
def test_the_tables_in_a_store_are_those_on_a_disk(spark_on_s3: SparkSession, bucket: Bucket, tmp_path: Path) -> None:
    """Every case, then late files, compaction and clean-up: the same rows, baselines and report, nothing left behind."""
    on_disk, in_store = Tables(tmp_path / "tables"), Tables(bucket.place("tables"))
    for late in (False, True):
        for name in cases.names():
            cases.write_case(name, tmp_path / "history", late=late)
        cases.write_file(tmp_path / "history", ESCAPED, f"w{late}", [{"at": late, "open": [{}]}, {"at": 30 + late}])
        upload(tmp_path / "history", bucket.place("history"))
        for history, tables in ((tmp_path / "history", on_disk), (bucket.place("history"), in_store)):
            jobs(spark_on_s3, history, tables).run()

    for table in (in_store.transactions, in_store.incidents):
        spark_on_s3.sql(
            f"ALTER TABLE {table.sql_name} SET TBLPROPERTIES (delta.deletedFileRetentionDuration = 'interval 0 hours')"
        )
    in_store.clean(spark_on_s3, kept_s=0)
    assert rows(spark_on_s3, in_store) == rows(spark_on_s3, on_disk)
    assert (ESCAPED in rows(spark_on_s3, in_store), in_store.current().state.taken) == (
        True,
        on_disk.current().state.taken,
    )
    for path in ("baselines", "report"):
        assert getattr(in_store, path).read_text() == getattr(on_disk, path).read_text()
    names = {str(path).removeprefix(f"{in_store.root}/") for path in bucket.place("tables").rglob("*")}
    assert sum(name.startswith("state/") and name.endswith(".json") for name in names) == 1
    kept = {file["path"] for file in in_store.transactions.files()}
    assert {name.removeprefix("transactions/") for name in names if "/date=" in name} == kept


@pytest.mark.slow
def test_days_become_large_objects(spark_on_s3: SparkSession, bucket: Bucket, tmp_path: Path) -> None:
    """Compaction in the store, by Arrow: fewer objects, the same rows."""
    write_days(tmp_path / "history")
    upload(tmp_path / "history", bucket.place("history"))
    tables = Tables(bucket.place("tables"))
    work = jobs(spark_on_s3, bucket.place("history"), tables)
    work.transactions()
    expected, before = rows(spark_on_s3, tables), len(list(bucket.place("history").rglob("*.parquet")))
    work.stalls()
    work.compact()

    assert rows(spark_on_s3, tables) == expected
    assert len(list(bucket.place("history").rglob("*.parquet"))) == before - 4
    work.transactions()
    assert rows(spark_on_s3, tables) == expected


@pytest.mark.slow
def test_the_log_s_table_keeps_its_files_through_a_clean_up(spark_on_s3: SparkSession, bucket: Bucket) -> None:
    """It is partitioned by cluster id: a name with escapes is the same for Spark, for Delta and for the store."""
    table = Tables(bucket.place("tables")).transaction_log
    record = (0, 0, cases.instant(0), key_of("app-1"), value(ONGOING, cases.milliseconds(0)))
    records = records_of(spark_on_s3.createDataFrame([record], KAFKA_COLUMNS), ESCAPED)
    table.commit(records, table.begin(spark_on_s3, table.snapshot()))
    table.vacuum(spark_on_s3)

    assert read_records(spark_on_s3, table, {ESCAPED: 0}).count() == 1
    assert logs_read_to_ms(table) == {ESCAPED: cases.milliseconds(0)}


def test_of_two_pipelines_one_commits(spark_on_s3: SparkSession, bucket: Bucket) -> None:
    """Both begin with the same version; the second one changes nothing, and its next run takes what is left."""
    tables = Tables(bucket.place("tables"))
    nothing = spark_on_s3.createDataFrame([], tables.transactions.columns)
    first, second = (tables.begin(spark_on_s3, tables.current()) for _ in range(2))
    tables.commit(first, TablesState(frozenset({"a"})), nothing)
    with pytest.raises(
        ConflictError, match=f"^s3://{bucket.name}/tables/v1/transactions: another pipeline has changed"
    ):
        tables.commit(second, TablesState(frozenset({"b"})), nothing)

    assert tables.current().state.taken == {"a"}


def test_of_two_commits_at_the_same_instant_the_store_refuses_one(
    spark_on_s3: SparkSession, store: ObjectStore, bucket: Bucket
) -> None:
    """Two processes have seen that the version is free: with Delta's own class the second one overwrites the first."""
    java: Any = spark_on_s3._jvm
    spark_on_s3.range(1).write.format("delta").save(f"s3a://{bucket.name}/t")  # Delta loads its class
    path = java.org.apache.hadoop.fs.Path(f"s3a://{bucket.name}/log/1.json")
    with FaultProxy(store.port) as proxy:
        proxy.weather = lambda method, _: Fault(delay_s=1) if method == "PUT" else None
        settings = spark_on_s3._jsparkSession.sessionState().newHadoopConf()
        settings.set("fs.s3a.endpoint", store.environment(proxy.port)["AWS_ENDPOINT_URL"])
        settings.set("fs.s3a.impl.disable.cache", "true")

        def outcome(text: str) -> str:
            lines = java.java.util.List.of(text).iterator()
            try:
                java.kafka_transaction_exporter.ConditionalLogStore(settings).write(path, lines, False, settings)
            except Py4JJavaError as error:
                return str(error.java_exception.getClass().getName())
            return text

        with ThreadPoolExecutor(2) as executor:
            outcomes = set(executor.map(outcome, ("one", "other")))
        puts = [request for request in proxy.requests if request.startswith("PUT")]

    assert len(puts) == 2
    assert outcomes - {"one", "other"} == {"java.nio.file.FileAlreadyExistsException"}
    assert {bucket.place("log/1.json").read_text().strip()} == outcomes & {"one", "other"}


def test_a_store_with_conditional_writes_is_found_so(bucket: Bucket) -> None:
    """Every time; the probe leaves nothing behind."""
    for _ in range(5):
        require_conditional_writes(bucket.place("tables"))

    assert bucket.objects() == set()


def test_a_failure_beside_a_commit_is_the_answer_of_the_last_round_only(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As S3Proxy over a folder at times: an object that is being overwritten is missing in a list."""
    missing, conflict = TableError("Invalid table version: 0"), ConflictError("another was first")
    unclear, overwritten = [None, missing, conflict, conflict], [None, None, conflict, conflict]
    for rounds, sentence in (
        ([unclear, overwritten], "ignores conditional writes"),
        ([unclear] * probe.PROBE_ROUNDS, "Invalid table version"),
        ([[conflict, missing, missing, missing]], "Invalid table version"),
    ):
        left = iter(rounds)
        monkeypatch.setattr(probe, "_race", lambda _, left=left: next(left))
        with pytest.raises(TableError, match=sentence):
            require_conditional_writes(bucket.place())


@pytest.mark.programs
def test_a_store_that_ignores_conditions_is_refused(monkeypatch: pytest.MonkeyPatch, store: ObjectStore) -> None:
    """There pipelines that commit at the same time overwrite each other: all of them succeed, and one is there."""
    command = [sys.executable, "-m", "tests.storage.careless_store"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as careless:
        assert careless.stdin is not None
        assert careless.stdout is not None
        for name, text in {**store.environment(), "AWS_ENDPOINT_URL": careless.stdout.readline().strip()}.items():
            monkeypatch.setenv(name, text)
        for _ in range(2):
            with pytest.raises(TableError, match=r"^s3://careless/tables: this store ignores conditional writes"):
                require_conditional_writes(place_of("s3://careless/tables"))
        folder = place_of("s3://careless/known")  # every round shows it, not only the first
        assert all(isinstance(outcome, ConflictError | None) for _ in range(3) for outcome in probe._race(folder))
        careless.stdin.close()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "another-secret"}, "check the credentials in the environment"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "check the network, and AWS_ENDPOINT_URL"),
    ],
)
def test_errors_name_the_table_and_what_to_do(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], reason: str
) -> None:
    for name, text in change.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(
        TableError, match=f"^s3://{bucket.name}/tables/v1/transactions: [^\n]*{reason}[^\n]*$"
    ) as refused:
        Tables(bucket.place("tables")).current()

    assert "secret" not in str(refused.value)


@pytest.mark.spark
def test_from_the_daemon_to_the_report_by_the_program(bucket: Bucket, tmp_path: Path) -> None:
    """History as the daemon writes it, the command as users run it; credentials are in the environment only."""
    now_ms = int(time.time() * 1000)
    kept = History(settings(str(bucket.place("history"))))
    for number in range(3):
        kept.record(cycle(now_ms - 90_000 + 30_000 * number, open_transactions=2 if number < 2 else 0), 30_000)
    kept.rotate()
    log = bucket.place("audit.jsonl")
    at = datetime.fromtimestamp(now_ms / 1000, timezone.utc).isoformat()
    log.write_bytes(json.dumps({"at": at, "who": "ada@host", "step": "confirmed", "topic": "orders"}).encode())
    arguments = [f"--history=s3a://{bucket.name}/history", f"--tables={bucket.place('tables')}", f"--audit-log={log}"]
    arguments += [f"--jars={spark_jars()}", f"--temporary={tmp_path}", "--master=local[2]", "--memory=512m"]
    command = [sys.executable, "-m", "exporter", "pipeline", "run", *arguments]
    environment = {**os.environ, "JDK_JAVA_OPTIONS": FAST_START}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as running:
        shown = set()
        while running.poll() is None:
            shown |= {path.read_bytes() for path in _command_lines(running.pid)}
            time.sleep(0.5)
        assert running.stdout is not None
        said = running.stdout.read()
    tables = Tables(bucket.place("tables"))

    assert running.returncode == 0, said
    assert sum(file["num_records"] for file in tables.transactions.files()) == 2
    assert [line.partition(":")[0] for line in said.splitlines()] == JOBS  # and nothing of Spark and Java
    assert sum(file["num_records"] for file in tables.operator_steps.files()) == 1
    assert f"report: s3://{bucket.name}/tables/v1/report.html" in said
    assert len(shown) > 1  # Spark's process too
    assert not any(SECRET_KEY in text for text in (said, *(line.decode(errors="replace") for line in shown)))


def _command_lines(pid: int) -> Iterator[Path]:
    """Of the process and its children, as far as they still run."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if pid in (int(path.parent.name), int(fields[1])):
            yield path.with_name("cmdline")
