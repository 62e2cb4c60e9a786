"""The programs of a fleet, as users start them: `serve` with each engine, commands, and with spark-submit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest

from examples.workload.producers import OpenTransaction
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang
from hangbench.kafka.ports import free_ports
from hangbench.kafka.process import end_with_parent
from hangbench.waiting import until
from tests.conftest import MakeCluster, MakeTopic
from tests.real_brokers.exporting import ended, metrics

ROOT: Final = Path(__file__).parents[2]
PATIENCE_S: Final = 360.0
"""Spark starts within 90 s on a machine with ten times as much to do as it can."""


def fleet_file(folder: Path, **bootstraps: str) -> Path:
    path = folder / "clusters.yaml"
    lines = [f"  {name}: {{kafka: {{bootstrap.servers: '{bootstrap}'}}}}\n" for name, bootstrap in bootstraps.items()]
    path.write_text("clusters:\n" + "".join(lines))
    return path


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """`serve`, ended with all that it has started."""
    (port,) = free_ports(1)
    log = folder / "exporter.log"
    words = [
        f"--publish.listen-address=127.0.0.1:{port}",
        "--scan.interval=2s",
        "--scan.deadline=1900ms",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "exporter", "serve", *words, *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": str(folder)},
            start_new_session=True,  # Spark's own processes go with it
            preexec_fn=end_with_parent(signal.SIGTERM),  # noqa: PLW1509 - one bound call, see end_with_parent
        )
    try:
        yield process, f"http://127.0.0.1:{port}", log
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("engine", ["embedded", pytest.param("spark", marks=pytest.mark.slow)])
def test_a_fleet_is_served_reloaded_recorded_and_ended(make_cluster: MakeCluster, tmp_path: Path, engine: str) -> None:
    """A cluster more after SIGHUP, verdicts, outcomes, what was seen in the history, a clean end on SIGTERM."""
    one = make_cluster("4.3.1", properties=HANGS_CAN_BE_PLANTED)
    other = make_cluster("3.9.1")
    for cluster in (one, other):
        cluster.topics.create("orders", partitions=2)
    plant_hang(one.bootstrap, "orders", 1, "app-1")
    clusters, history = fleet_file(tmp_path, one=one.bootstrap), tmp_path / "history"
    hanging = 'kafka_open_transactions{cluster="one",verdict="hanging_not_in_transaction"} 1'
    words = [f"--engine={engine}", f"--clusters={clusters}", f"--history.directory={history}"]
    if engine == "spark":
        words.append(f"--temporary={tmp_path}")
    with serving(tmp_path, *words, "--transaction-log.enabled=true") as (process, url, log):
        until(lambda: hanging in metrics(url), patience_s=PATIENCE_S, status=log.read_text)
        assert 'cluster="other"' not in metrics(url)
        fleet_file(tmp_path, one=one.bootstrap, other=other.bootstrap)
        process.send_signal(signal.SIGHUP)
        succeeded = 'kafka_transaction_exporter_last_cycle_success{cluster="other"} 1'
        until(lambda: succeeded in metrics(url), patience_s=PATIENCE_S, status=log.read_text)
        read = 'kafka_transaction_exporter_transaction_log_records_total{cluster="one"}'
        until(lambda: read in metrics(url), patience_s=PATIENCE_S, status=log.read_text)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()

    # The brokers of tests share one cluster id, as those of Kafka's image do.
    assert "cluster one has the same cluster id" in log.read_text()
    (cycles,) = history.glob("v1/cycles/*/*/*.parquet")
    assert pq.read_metadata(cycles).num_rows >= 1
    (observations,) = history.glob("v1/observations/*/*/*.parquet")
    verdicts = set(pq.read_table(observations)["verdict"].to_pylist())
    assert verdicts == {"hanging_not_in_transaction"}
    kept = {path.name for path in (tmp_path / ".local/state/kafka-transaction-exporter").glob("state-*.json")}
    assert sorted(path.count(".") for path in kept) == [1, 1, 2, 2]  # states and incidents


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
    ("arguments", "sentence", "status"),
    [
        (["serve", "--master=local[2]"], "--master needs --engine=spark", 2),
        (["serve", "--memory=1g"], "--memory needs --engine=spark", 2),
        (["serve", "--temporary", "/tmp"], "--temporary needs --engine=spark", 2),
        (["serve", "--clusters=clusters.yaml", "--state.file=s.json"], "state.file must be `auto` or `none`", 1),
        (["serve", "--clusters=nowhere.yaml"], "nowhere.yaml: cannot be read", 1),
        (["serve", "--cluster=one"], "--cluster one: it needs --clusters, the file that has this name", 2),
        (["once", "--clusters=clusters.yaml", "--bootstrap-server=x:1"], "--bootstrap-server", 2),
        (["find-hanging", "--clusters=clusters.yaml", "--watch"], "--watch is about one cluster: choose it by", 2),
        (["once", "--clusters=clusters.yaml", "--cluster=two"], "there is no such cluster; the file has one, other", 2),
        *(
            (
                [*command, "--clusters=clusters.yaml"],
                "this command reads one cluster: choose it by --cluster NAME, one of one, other",
                2,
            )
            for command in (["describe", "--transactional-id=x"], ["why", "--group=readers"], ["incident"])
        ),
    ],
)
def test_what_cannot_work_is_refused(
    arguments: list[str], sentence: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a sentence, before anything is started."""
    monkeypatch.chdir(tmp_path)
    fleet_file(tmp_path, one="one:9092", other="other:9092")
    command, *words = arguments
    server = [] if "--clusters=clusters.yaml" in words else ["--bootstrap-server=127.0.0.1:1"]
    run = ended(tmp_path, command, *server, *words, PYTHONPATH=str(ROOT))
    assert run.returncode == status
    assert sentence in run.stderr


def test_commands_read_all_clusters_or_the_named_one(
    kafka_4_3_1: KafkaCluster, kafka_3_9_1: KafkaCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Every row names its cluster; one that does not respond makes the result incomplete, and is named."""
    topic = make_topic(kafka_4_3_1, partitions=1)
    clusters = fleet_file(tmp_path, east=kafka_4_3_1.bootstrap, west=kafka_3_9_1.bootstrap, dead="127.0.0.1:1")
    quickly = "--kafka.request.timeout.ms=2000"
    with OpenTransaction(kafka_4_3_1.bootstrap, "fleet-app", [(topic, 0)]):
        found = ended(tmp_path, "find-hanging", f"--clusters={clusters}", quickly, "--all", "--format=json")
        named = ended(tmp_path, "list", f"--clusters={clusters}", "--cluster=east", "--format=json")
        once = ended(tmp_path, "once", f"--clusters={clusters}", quickly, "--format=prometheus")
        table = ended(tmp_path, "once", f"--clusters={clusters}", "--cluster=east")
    unread = [
        ended(tmp_path, word, f"--clusters={clusters}", "--cluster=dead", quickly) for word in ("once", "find-hanging")
    ]
    doctor = ended(tmp_path, "doctor", f"--clusters={clusters}", quickly, "--format=json")
    described = ended(
        tmp_path,
        "describe",
        f"--clusters={clusters}",
        "--cluster=east",
        "--transactional-id=fleet-app",
        "--format=json",
    )

    assert (found.returncode, once.returncode, doctor.returncode) == (4, 4, 4)
    by_name = {one["cluster_name"]: one for one in json.loads(found.stdout)["clusters"]}
    assert topic in {row["topic"] for row in by_name["east"]["transactions"]}
    assert by_name["west"]["coverage"]["complete"]
    assert "127.0.0.1:1 cannot be connected to" in by_name["dead"]["failure"]
    assert "dead: no broker responded" in found.stderr
    assert [(one.returncode, one.stdout) for one in unread] == [(1, "")] * 2  # "No suspect" would be believed
    assert ("east", "fleet-app") in {(row["cluster"], row["transactional_id"]) for row in json.loads(named.stdout)}
    assert f'kafka_partition_open_transactions{{cluster="east",topic="{topic}",partition="0"}} 1' in once.stdout
    assert 'kafka_transaction_exporter_last_cycle_success{cluster="dead"} 0' in once.stdout
    assert re.search(rf"^east +{topic} +0 ", table.stdout, re.MULTILINE)
    assert [one["cluster_name"] for one in json.loads(doctor.stdout)["clusters"]] == ["east", "west", "dead"]
    assert json.loads(described.stdout)["transactional_id"] == "fleet-app"
