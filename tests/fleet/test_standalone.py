"""`examples/spark/submit.sh` on Spark's standalone master with two workers that do not have this program."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang
from hangbench.kafka.ports import free_ports
from hangbench.kafka.process import end_with_parent
from hangbench.waiting import until
from tests.brokers.spark_cluster import WORKERS_PYTHON, SparkCluster
from tests.conftest import MakeCluster
from tests.marks import starts
from tests.real_brokers.exporting import metrics

ROOT: Final = Path(__file__).parents[2]
PATIENCE_S: Final = 180.0
PASSWORD: Final = "of-the-kafka-cluster"
SECRET: Final = "of-the-spark-cluster"
ENDED: Final = "Spark's application has ended"
HANGING: Final = 'kafka_open_transactions{cluster="one",verdict="hanging_not_in_transaction"} 1'
QUICKLY: Final = ("--scan.interval=4s", "--scan.deadline=2s", "--publish.stale-after-cycles=60", "--memory=512m")

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.broker]


@pytest.fixture
@starts("spark")
def spark_cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path / "spark", cores=3, memory="2g", secret=SECRET) as cluster:
        yield cluster


def clusters_file(folder: Path, **clusters: KafkaCluster) -> Path:
    """Each has a password, which its listener does not ask for: it must travel, and be seen nowhere."""
    lines = ["clusters:"]
    for name, cluster in clusters.items():
        lines += [f"  {name}:", "    kafka:", f"      bootstrap.servers: '{cluster.bootstrap}'"]
    lines += [
        "  dead:",
        "    kafka:",
        "      bootstrap.servers: '127.0.0.1:1'",
        "      security.protocol: SASL_PLAINTEXT",
    ]
    lines += [f"      sasl: {{mechanism: PLAIN, username: exporter, password: {PASSWORD}}}", ""]
    path = folder / "clusters.yaml"
    path.write_text("\n".join(lines))
    return path


@contextmanager
def submitted(spark_cluster: SparkCluster, clusters: Path, **more: str) -> Iterator[tuple[str, Path]]:
    """submit.sh with its driver, ended with all that it has started."""
    folder = clusters.parent
    (port,) = free_ports(1)
    log = folder / "driver.log"
    environment = {
        **os.environ,
        "HOME": str(folder),
        "PYTHON": sys.executable,
        "PYSPARK_PYTHON": WORKERS_PYTHON,
        "SPARK_MASTER": spark_cluster.url,
        "SPARK_SECRET_FILE": str(spark_cluster.secret_file),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_EXECUTOR_CORES": "3",
        **more,
    }
    words = [f"--clusters={clusters}", f"--publish.listen-address=127.0.0.1:{port}", *QUICKLY]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(ROOT / "examples" / "spark" / "submit.sh"), *words],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=ROOT,
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGTERM),  # noqa: PLW1509 - one bound call, see end_with_parent
        )
    try:
        yield f"http://127.0.0.1:{port}", log
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_three_clusters_are_published_as_by_one_process(
    spark_cluster: SparkCluster, make_cluster: MakeCluster, tmp_path: Path
) -> None:
    """Line for line, but for clocks and counters; and no password or secret is in a file of others, or an argument."""
    one = make_cluster("4.3.1", properties=HANGS_CAN_BE_PLANTED)
    two, three = make_cluster("3.9.1"), make_cluster("4.3.1")
    one.topics.create("orders", partitions=3)
    plant_hang(one.bootstrap, "orders", 1, "app-1")
    clusters = clusters_file(tmp_path, one=one, two=two, three=three)

    def is_read(url: str) -> bool:
        published = metrics(url)
        return HANGING in published and all(
            f'kafka_transaction_protection{{cluster="{name}",check=' in published for name in ("one", "two", "three")
        )

    events, properties = tmp_path / "events", tmp_path / "more.conf"
    events.mkdir()
    properties.write_text(f"spark.eventLog.enabled true\nspark.eventLog.dir {events}\nspark.eventLog.compress false\n")
    with submitted(spark_cluster, clusters, SPARK_PROPERTIES=str(properties)) as (url, log):
        until(lambda: is_read(url), patience_s=PATIENCE_S, status=log.read_text)
        by_executors = metrics(url)
        arguments = b"".join(
            path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.name != str(os.getpid())
        )
    (port,) = free_ports(1)
    with (tmp_path / "embedded.log").open("wb") as output:
        words = [
            f"--clusters={clusters}",
            f"--publish.listen-address=127.0.0.1:{port}",
            *QUICKLY[:3],
            "--state.file=none",
        ]
        embedded = subprocess.Popen(
            [sys.executable, "-m", "exporter", "serve", *words],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=end_with_parent(),  # noqa: PLW1509 - one bound call, see end_with_parent
        )
        try:
            here = f"http://127.0.0.1:{port}"
            until(lambda: is_read(here), patience_s=PATIENCE_S, status=(tmp_path / "embedded.log").read_text)
            by_one_process = metrics(here)
        finally:
            embedded.kill()
            embedded.wait()

    assert comparable(by_executors) == comparable(by_one_process)
    assert len(comparable(by_executors)) > 200
    assert PASSWORD.encode() not in arguments
    assert SECRET.encode() not in arguments
    assert any(path.stat().st_size > 10_000 for path in events.rglob("*"))  # Spark's own record of properties and jobs
    for path in tmp_path.rglob("*"):
        if path.is_file() and path not in (clusters, spark_cluster.secret_file) and path.name != "daemons.conf":
            content = path.read_bytes()
            assert PASSWORD.encode() not in content, path
            assert SECRET.encode() not in content, path


def comparable(exposition: str) -> list[str]:
    """Series and the values that no clock, no disk and no number of cycles has a part in."""
    lines = [line for line in exposition.splitlines() if "process_" not in line and "DescribeQuorum" not in line]
    return [
        line.rpartition(" ")[0] if re.search(r"_seconds|_total|_count|_bucket|_ms|lag|_usable_bytes", line) else line
        for line in lines
    ]


def start_of_the_hang(published: str) -> str:
    found = re.search(r'kafka_suspect_transaction_start_timestamp_seconds\{cluster="one"[^\n]*', published)
    return "" if found is None else found[0]


def cycles(published: str, name: str = "cycles_total") -> int:
    found = re.search(rf'kafka_transaction_exporter_{name}{{cluster="one"}} (\d+)', published)
    return 0 if found is None else int(found[1])


def test_workers_and_master_die_and_nothing_is_said_that_is_not(
    spark_cluster: SparkCluster, make_cluster: MakeCluster, tmp_path: Path
) -> None:
    """A worker with its executors is killed; then the master, which starts again without what it knew.

    The hang has the same start all the time, no other verdict appears, what was read last is served meanwhile, and cycles
    succeed again.
    """
    one, two = make_cluster("4.3.1", properties=HANGS_CAN_BE_PLANTED), make_cluster("4.3.1")
    one.topics.create("orders", partitions=3)
    plant_hang(one.bootstrap, "orders", 1, "app-1")
    with submitted(spark_cluster, clusters_file(tmp_path, one=one, two=two)) as (url, log):
        until(lambda: HANGING in metrics(url), patience_s=PATIENCE_S, status=log.read_text)
        start = start_of_the_hang(metrics(url))
        assert start
        for number in range(2):
            if number == 0:
                spark_cluster.kill("worker-1")
            else:
                spark_cluster.kill("master")
                spark_cluster.start_master()
                # The new master does not know the application, and has its executors killed.
                until(lambda: ENDED in log.read_text(), patience_s=PATIENCE_S, status=log.read_text)
            before = metrics(url)
            succeeded = cycles(before) - cycles(before, "cycles_failed_total")

            def goes_on(succeeded: int = succeeded) -> bool:
                published = metrics(url)
                if not published:  # a busy machine
                    return False
                assert start_of_the_hang(published) == start, log.read_text()
                assert len(re.findall(r'kafka_open_transactions{[^}]*"hanging[^}]*} [1-9]', published)) == 1, published
                return cycles(published) - cycles(published, "cycles_failed_total") >= succeeded + 3

            until(goes_on, patience_s=PATIENCE_S, status=log.read_text)


def test_executors_without_the_program_are_named(
    spark_cluster: SparkCluster, kafka_4_3_1: KafkaCluster, tmp_path: Path
) -> None:
    """Before anything is served: the missing module, or the Python that is not there."""
    clusters = clusters_file(tmp_path, one=kafka_4_3_1)
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        f"spark.authenticate true\nspark.authenticate.secret {SECRET}\nspark.network.crypto.enabled true\n"
        "spark.task.maxFailures 1\n"
    )
    said = []
    for python in (WORKERS_PYTHON, "/nowhere/python3"):
        run = subprocess.run(
            [
                sys.executable,
                "-m",
                "exporter",
                "serve",
                "--engine=spark",
                f"--master={spark_cluster.url}",
                f"--clusters={clusters}",
                f"--temporary={tmp_path}",
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            cwd=ROOT,
            env={**os.environ, "SPARK_CONF_DIR": str(conf), "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
        assert run.returncode == 1, run.stderr
        said.append(run.stderr)
    assert "Spark's executors cannot run this program: ModuleNotFoundError: No module named 'exporter'" in said[0]
    assert "/nowhere/python3" in said[1]
