"""The programs of a fleet, as users start them: `serve --engine=spark`, and with spark-submit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest

from examples.workload.planting import plant_hang
from tests.brokers.cluster import KafkaCluster, free_ports
from tests.conftest import HANGS_CAN_BE_PLANTED, MakeCluster
from tests.real_brokers.exporting import ended
from tests.waiting import until

ROOT: Final = Path(__file__).parents[2]
PATIENCE_S: Final = 90.0

MakeTopic = Callable[..., str]


def fleet_file(folder: Path, **bootstraps: str) -> Path:
    path = folder / "clusters.yaml"
    lines = [f"  {name}: {{kafka: {{bootstrap.servers: '{bootstrap}'}}}}\n" for name, bootstrap in bootstraps.items()]
    path.write_text("clusters:\n" + "".join(lines))
    return path


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """`serve --engine=spark`, ended with all that it has started."""
    (port,) = free_ports(1)
    log = folder / "exporter.log"
    words = [
        "--engine=spark",
        f"--publish.listen-address=127.0.0.1:{port}",
        "--scan.interval=2s",
        "--scan.deadline=1900ms",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "exporter", "serve", *words, f"--temporary={folder}", *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": str(folder)},
            start_new_session=True,  # Spark's own processes go with it
        )
    try:
        yield process, f"http://127.0.0.1:{port}", log
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def metrics(url: str) -> str:
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


@pytest.mark.slow
def test_a_fleet_is_served_reloaded_recorded_and_ended(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """A cluster more after SIGHUP, verdicts, what was seen in the history, a clean end on SIGTERM."""
    one = make_cluster("4.3.1", properties=HANGS_CAN_BE_PLANTED)
    other = make_cluster("3.9.1")
    one.topics.create("orders", partitions=2)
    plant_hang(one.bootstrap, "orders", 1, "app-1")
    clusters, history = fleet_file(tmp_path, one=one.bootstrap), tmp_path / "history"
    hanging = 'kafka_open_transactions{cluster="one",verdict="hanging_not_in_transaction"} 1'
    with serving(tmp_path, f"--clusters={clusters}", f"--history.directory={history}") as (process, url, log):
        until(lambda: hanging in metrics(url), patience_s=PATIENCE_S, status=log.read_text)
        assert 'cluster="other"' not in metrics(url)
        fleet_file(tmp_path, one=one.bootstrap, other=other.bootstrap)
        process.send_signal(signal.SIGHUP)
        succeeded = 'kafka_transaction_exporter_last_cycle_success{cluster="other"} 1'
        until(lambda: succeeded in metrics(url), patience_s=PATIENCE_S, status=log.read_text)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()

    (cycles,) = history.glob("v1/cycles/*/*/*.parquet")  # the brokers of tests share one cluster id
    assert pq.read_metadata(cycles).num_rows >= 2
    (observations,) = history.glob("v1/observations/*/*/*.parquet")
    verdicts = set(pq.read_table(observations)["verdict"].to_pylist())
    assert verdicts == {"hanging_not_in_transaction"}
    assert len(list((tmp_path / ".local/state/kafka-transaction-exporter").glob("state-*.json"))) == 2


@pytest.mark.slow
def test_a_scan_is_submitted_to_spark(kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, tmp_path: Path) -> None:
    """`examples/spark/scan.py` by spark-submit: twice appended, two scans."""
    topic, table = make_topic(kafka_4_3_1, partitions=3), tmp_path / "scans"
    clusters = fleet_file(tmp_path, one=kafka_4_3_1.bootstrap)
    submit = str(Path(sys.executable).with_name("spark-submit"))
    script = str(ROOT / "examples" / "spark" / "scan.py")
    for _ in range(2):
        run = subprocess.run(
            [submit, "--master", "local[2]", script, f"--clusters={clusters}", f"--table={table}"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
        assert run.returncode == 0, run.stderr[-4000:]
    rows = pq.read_table(table, filters=[("topic", "=", topic)]).to_pylist()
    assert sorted((row["partition"], row["answer"]) for row in rows) == [
        (partition, "read") for partition in (0, 0, 1, 1, 2, 2)
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--clusters=clusters.yaml"], "--clusters needs --engine=spark"),
        (["--master=local[2]"], "--master needs --engine=spark"),
        (
            ["--engine=spark", "--transaction-log.enabled=true"],
            "transaction_log.enabled is not supported with --engine=spark",
        ),
        (["--engine=spark", "--clusters=clusters.yaml", "--state.file=s.json"], "state.file must be `auto` or `none`"),
        (["--engine=spark", "--clusters=nowhere.yaml"], "nowhere.yaml: cannot be read"),
    ],
)
def test_what_cannot_work_is_refused(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a sentence, before anything is started."""
    monkeypatch.chdir(tmp_path)
    fleet_file(tmp_path, one="one:9092", other="other:9092")
    run = ended(tmp_path, "serve", "--bootstrap-server=127.0.0.1:1", *arguments, PYTHONPATH=str(ROOT))
    assert run.returncode == 1
    assert sentence in run.stderr
