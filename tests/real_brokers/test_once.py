"""`once`: formats, exit statuses, and messages about missing data."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.workload.producers import OpenTransaction
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import plant_hang
from tests.conftest import FreshName, MakeTopic, versions
from tests.real_brokers.exporting import called, command, ended

NO_HOME = Path("/nonexistent")


def once(bootstrap: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return called(NO_HOME, "once", "--bootstrap-server", bootstrap, *arguments)


def once_as_a_process(bootstrap: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ended(NO_HOME, "once", "--bootstrap-server", bootstrap, *arguments)


def test_json_is_the_promised_object(broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """Every open transaction with verdict, evidence and durations, and the coverage."""
    topic = make_topic(broker, partitions=2)
    hang = plant_hang(broker.bootstrap, topic, 1, fresh_name("hang"))
    name = fresh_name("live")

    with OpenTransaction(broker.bootstrap, name, [(topic, 0)]):
        run = once(broker.bootstrap, "--format", "json")

    document = json.loads(run.stdout)
    rows = {row["partition"]: row for row in document["transactions"] if row["topic"] == topic}
    assert (run.returncode, run.stderr) == (0, "")
    assert document["coverage"]["complete"] is True
    assert {"cluster_id", "taken_at_ms", "coverage", "transactions"} <= set(document)
    assert rows[0]["verdict"] == "open_within_timeout"
    assert (rows[0]["transactional_id"], rows[0]["start_source"], rows[0]["timeout_ms"]) == (
        name,
        "coordinator",
        60_000,
    )
    assert rows[1]["verdict"] == "hanging_not_in_transaction"
    assert (rows[1]["producer_id"], rows[1]["start_offset"]) == (hang.producer_id, hang.start_offset)


@pytest.mark.parametrize("broker", versions("4.3.1"), indirect=True)
def test_only_included_topics_are_read(broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """The hang of the included topic is proved although nothing else is read; excluded partitions are counted."""
    topic, other = make_topic(broker), make_topic(broker)
    plant_hang(broker.bootstrap, topic, 0, fresh_name("hang"))
    plant_hang(broker.bootstrap, other, 0, fresh_name("other"))

    run = once(broker.bootstrap, "--format", "json", "--scan.topics.include", topic)

    found = json.loads(run.stdout)
    assert run.returncode == 0, run.stderr
    assert [(row["topic"], row["verdict"]) for row in found["transactions"]] == [(topic, "hanging_not_in_transaction")]
    counts = found["coverage"]["partitions"]
    assert (found["coverage"]["complete"], counts["read"], counts["unauthorized"], counts["unavailable"]) == (
        True,
        1,
        0,
        0,
    )
    assert counts["excluded"] > 1


@pytest.mark.parametrize("broker", versions("4.3.1"), indirect=True)
def test_the_table_puts_the_worst_first(broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """The hang comes before the live transaction, and the line below it has the reason of its verdict."""
    topic = make_topic(broker, partitions=2)
    plant_hang(broker.bootstrap, topic, 1, fresh_name("hang"))

    with OpenTransaction(broker.bootstrap, fresh_name("live"), [(topic, 0)]):
        run = once(broker.bootstrap)

    lines = [line for line in run.stdout.splitlines() if topic in line]
    assert run.returncode == 0
    assert lines[0].endswith("hanging_not_in_transaction")
    assert lines[1].startswith("  Coordinator 1 has transactional id")
    assert lines[2].endswith("open_within_timeout")


def test_prometheus_format_is_an_exposition(kafka_4_3_1: KafkaCluster) -> None:
    """The text of a scrape, for a text file collector."""
    run = once_as_a_process(kafka_4_3_1.bootstrap, "--format", "prometheus")

    assert run.returncode == 0
    assert "# TYPE kafka_open_transactions gauge" in run.stdout


def test_no_broker_is_status_1_and_a_sentence() -> None:
    """No listener: the address and the reason are reported, and there is no output."""
    run = once_as_a_process("127.0.0.1:9", "--kafka.request.timeout.ms", "2000")

    assert (run.returncode, run.stdout) == (1, "")
    assert "no broker responded: broker at 127.0.0.1:9 cannot be connected to (unreachable)" in run.stderr
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.slow
def test_an_incomplete_snapshot_is_status_4_and_says_what_is_missing(make_cluster: Callable[..., KafkaCluster]) -> None:
    """With one broker of three gone, rows are printed, and standard error names the partitions and the broker."""
    cluster = make_cluster("4.3.1", nodes=3)
    cluster.topics.create_on("lonely", [3])
    survivors = ",".join(cluster.broker(node).address for node in (1, 2))
    cluster.broker(3).kill()

    run = once(survivors)

    assert run.returncode == 4
    assert "lonely-0" in run.stderr
    assert "0 of 1 partition read" in run.stdout


def test_wrong_usage_is_status_2_and_wrong_settings_are_status_1(tmp_path: Path) -> None:
    """An unknown flag is a usage error; a wrong value names its place."""
    (tmp_path / "c.yaml").write_text("scan:\n  interval: never\n")

    assert once_as_a_process("127.0.0.1:9", "--nonsense").returncode == 2
    wrong = once_as_a_process("127.0.0.1:9", "--config.file", str(tmp_path / "c.yaml"))
    assert wrong.returncode == 1
    assert "c.yaml:2: scan.interval must be a duration" in wrong.stderr


def test_a_reader_that_leaves_is_not_an_error(kafka_4_3_1: KafkaCluster) -> None:
    """`once | head -0` ends quietly."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        run = subprocess.run(
            command("once", "--bootstrap-server", kafka_4_3_1.bootstrap),
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
            # What is buffered is only missed at the very end.
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )

    assert (run.returncode, run.stderr) == (0, b"")


def test_a_short_scan_says_nothing_of_progress_even_on_a_terminal(kafka_4_3_1: KafkaCluster) -> None:
    """Progress is for scans that take a while: a quick one leaves the terminal clean."""
    master, slave = pty.openpty()
    subprocess.run(
        command("once", "--bootstrap-server", kafka_4_3_1.bootstrap),
        stdout=subprocess.DEVNULL,
        stderr=slave,
        timeout=60,
        check=True,
    )
    os.close(slave)
    os.set_blocking(master, False)
    try:
        shown = os.read(master, 1000)
    except (BlockingIOError, OSError):
        shown = b""
    os.close(master)

    assert shown == b""
