"""`serve` as a process with real brokers: documented series and values, staleness, restarts, and a clean end."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow.parquet import ParquetFile

from examples.workload.producers import OpenTransaction, run_transaction
from exporter.evaluation.verdicts import Verdict
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import plant_hang, plant_producers
from hangbench.kafka.ports import free_ports
from tests.conftest import FreshName, MakeTopic, versions
from tests.real_brokers.exporting import SUSPECTS, Exporter, called, command, serving, suspects_on

HOUR_MS = 3_600_000

SNAPSHOT_AT = "kafka_transaction_exporter_snapshot_timestamp_seconds"
LONGEST = "kafka_partition_max_active_transaction_duration_seconds"


def test_every_situation_gives_its_promised_series(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """An open, an idle, a finished, a hanging and a backdated hanging producer give the promised series and values."""
    topic = make_topic(broker, partitions=5)
    hang_id, old_id = fresh_name("hang"), fresh_name("old-hang")
    plant_producers(broker.bootstrap, topic, [1], [8_600_000_001])
    run_transaction(broker.bootstrap, fresh_name("done"), [(topic, 2)])
    hang = plant_hang(broker.bootstrap, topic, 3, hang_id)
    old_ms = int(time.time() * 1000) - HOUR_MS
    old = plant_hang(broker.bootstrap, topic, 4, old_id, timestamp_ms=old_ms)

    recorded = tmp_path / "history"
    with (
        serving(broker.bootstrap, tmp_path, history__directory=str(recorded)) as exporter,
        OpenTransaction(broker.bootstrap, fresh_name("live"), [(topic, 0)], records=4),
    ):
        exporter.until(lambda m: m.get("kafka_partition_last_stable_offset_lag", {}).get((topic, "0")) == 4)
        metrics = exporter.until(lambda m: [row[-1][:7] for row in suspects_on(m, topic)] == ["hanging", "hanging"])
        exporter.process.terminate()
        exporter.process.wait(10)

    def of_topic(name: str) -> dict[str, float]:
        return {labels[1]: value for labels, value in metrics[name].items() if labels[0] == topic}

    longest = of_topic(LONGEST)
    assert set(longest) == {"0", "1", "2", "3", "4"}
    assert (longest["1"], longest["2"]) == (0, 0)
    assert longest["4"] >= 3600
    assert longest["3"] < 600
    assert of_topic("kafka_partition_open_transactions") == {"0": 1, "3": 1, "4": 1}
    assert of_topic("kafka_partition_late_transactions") == {"0": 0, "3": 0, "4": 1}
    assert of_topic("kafka_partition_last_stable_offset_lag") == {"0": 4, "3": 1, "4": 1}
    assert set(of_topic("kafka_partition_max_transaction_idle_seconds")) == {"0", "3", "4"}
    assert metrics["kafka_late_transactions"][()] == 1
    assert metrics["kafka_partitions_with_late_transactions"][()] == 1
    verdicts = {labels[0]: value for labels, value in metrics["kafka_open_transactions"].items()}
    assert set(verdicts) == {verdict.label for verdict in Verdict}
    assert verdicts["hanging_not_in_transaction"] == 2
    assert verdicts["open_within_timeout"] == 1
    verdict = "hanging_not_in_transaction"
    assert set(suspects_on(metrics, topic)) == {
        (topic, "3", str(hang.producer_id), "0", str(hang.start_offset), hang_id, verdict),
        (topic, "4", str(old.producer_id), "0", str(old.start_offset), old_id, verdict),
    }
    assert (
        metrics[SUSPECTS][topic, "4", str(old.producer_id), "0", str(old.start_offset), old_id, verdict]
        == old_ms / 1000
    )
    assert metrics["kafka_suspect_transactions_hidden"][()] == 0
    assert metrics["kafka_transaction_max_timeout_seconds"][()] == 900
    assert metrics["kafka_transaction_exporter_coverage_complete"][()] == 1
    rows = [row for file in recorded.rglob("*.parquet") for row in ParquetFile(file).read().to_pylist()]
    seen = {(row["partition"], row["verdict"], row["transactional_id"]) for row in rows if row.get("topic") == topic}
    assert {(3, verdict, hang_id), (4, verdict, old_id)} <= seen, "what waits is written at the end"
    assert metrics["kafka_transaction_exporter_history_writing"][()] == 1


@pytest.mark.parametrize("broker", versions("4.3.1"), indirect=True)
def test_an_incident_is_reported_from_its_first_record_to_the_abort_that_ended_it(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """On its page and by `incident`, with the first record and the operator's own steps, also after a restart."""
    topic = make_topic(broker)
    hang = plant_hang(broker.bootstrap, topic, 0, fresh_name("hang"))
    # A first cycle that is cut knows no last write, and a later one says it only where it is a second before.
    time.sleep(1.1)
    with serving(broker.bootstrap, tmp_path, incident__show_records="true") as exporter:
        exporter.until(lambda m: [labels[-1][:7] for labels in suspects_on(m, topic)] == ["hanging"])
        place = ("--topic", topic, "--partition", "0", "--start-offset", str(hang.start_offset))
        run = called(tmp_path, "--bootstrap-server", broker.bootstrap, "abort", *place, "--yes")
        assert run.returncode == 0, run.stderr
        exporter.until(lambda m: not suspects_on(m, topic))
    where = ("--bootstrap-server", broker.bootstrap, f"--state.file={tmp_path / 'state.json'}")
    listed = called(tmp_path, "incident", *where)
    (name,) = [line.split()[0] for line in listed.stdout.splitlines()]
    printed = called(tmp_path, "incident", name, *where).stdout
    with serving(broker.bootstrap, tmp_path) as exporter:
        page = exporter.get(f"/incidents/{name}")[1]
    steps = (
        "was last written to",
        "is seen open for the first time",
        "is hanging",
        "sends the marker",
        "no longer open",
    )
    assert "its first record has the timestamp" in page
    assert "and no headers" in page
    for text in (printed.replace("\\", ""), page):
        places = [text.find(step, text.index("ime line")) for step in steps]
        assert -1 not in places, text
        assert places == sorted(places), text


def test_a_dead_cluster_makes_rows_vanish_and_nothing_else(
    make_cluster: Callable[..., KafkaCluster], fresh_name: FreshName, tmp_path: Path
) -> None:
    """After three missed cycles the cluster's rows are removed, the timestamp does not change, and health stays good."""
    cluster = make_cluster("4.3.1")
    topic = cluster.topics.create(fresh_name("topic"))
    plant_hang(cluster.bootstrap, topic, 0, fresh_name("hang"))

    with serving(cluster.bootstrap, tmp_path) as exporter:
        exporter.until(lambda m: len(suspects_on(m, topic)) == 1)
        assert exporter.get("/-/ready")[0] == 200
        cluster.broker(1).kill()
        stale = exporter.until(lambda m: SUSPECTS not in m)
        later = exporter.until(
            lambda m: (
                m["kafka_transaction_exporter_cycles_failed_total"][()]
                > stale["kafka_transaction_exporter_cycles_failed_total"][()]
            )
        )

        assert LONGEST not in stale
        assert "kafka_open_transactions" not in stale
        lost = ("kafka_transaction_exporter_cycles_failed_total", "kafka_transaction_exporter_cycles_missed_total")
        assert sum(stale[name][()] for name in lost) >= 3, "a busy machine misses cycles that would have failed"
        assert stale["kafka_transaction_exporter_last_cycle_success"][()] == 0
        assert later[SNAPSHOT_AT] == stale[SNAPSHOT_AT]
        assert exporter.get("/-/healthy")[0] == 200
        assert "no broker responded" in exporter.get("/")[1]

        cluster.broker(1).start()
        exporter.until(lambda m: len(suspects_on(m, topic)) == 1)
        assert exporter.log.count("cycle failed: no broker responded") <= 3, "one line a change, not one a cycle"


def test_first_seen_survives_a_restart(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """A hang with a future timestamp is as old after a restart as before: only the exporter knows its beginning."""
    topic = make_topic(kafka_4_3_1)
    future_ms = int(time.time() * 1000) + HOUR_MS // 2
    plant_hang(kafka_4_3_1.bootstrap, topic, 0, fresh_name("hang"), timestamp_ms=future_ms)

    starts = []
    for _ in range(2):
        with serving(kafka_4_3_1.bootstrap, tmp_path) as exporter:
            metrics = exporter.until(lambda m: len(suspects_on(m, topic)) == 1)
            starts += [value for labels, value in metrics[SUSPECTS].items() if labels[0] == topic]
            end(exporter)

    assert starts[0] == starts[1]


def test_a_damaged_state_file_is_set_aside(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """The exporter starts with an invalid state file, reports it, and keeps it for an operator."""
    topic = make_topic(kafka_4_3_1)
    plant_hang(kafka_4_3_1.bootstrap, topic, 0, fresh_name("hang"))
    (tmp_path / "state.json").write_text("of use to somebody")

    with serving(kafka_4_3_1.bootstrap, tmp_path) as exporter:
        exporter.until(lambda m: len(suspects_on(m, topic)) == 1)

        assert "first-seen times start from now" in exporter.log
        assert (tmp_path / "state.json.damaged-1").read_text() == "of use to somebody"


def end(exporter: Exporter) -> float:
    """Seconds from SIGTERM to a clean end."""
    began = time.monotonic()
    exporter.process.send_signal(signal.SIGTERM)
    assert exporter.process.wait(30) == 0, exporter.log
    return time.monotonic() - began


def test_sigterm_ends_cleanly_in_the_middle_of_a_cycle(
    make_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    """While a broker is silent and a cycle waits for it, SIGTERM ends the exporter long before the cycle's deadline."""
    cluster = make_cluster("4.3.1")
    cluster.broker(1).pause()

    with serving(
        cluster.bootstrap, tmp_path, scan__interval="40s", scan__deadline="30s", kafka__request__timeout__ms="30000"
    ) as exporter:
        time.sleep(0.5)  # into the cycle that cannot end; whenever the signal comes, the end must be clean
        seconds = end(exporter)

    print(f"ended {seconds:.2f} s after SIGTERM")
    assert seconds < 10, "the cycle would have waited for 30 s"
    assert "Traceback" not in exporter.log


def test_a_busy_port_is_one_sentence(tmp_path: Path) -> None:
    """A taken port ends `serve` at once with the address in the sentence, and status 1."""
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        run = subprocess.run(
            command("serve", "--bootstrap-server", "127.0.0.1:1", "--publish.listen-address", f"127.0.0.1:{port}"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )

    assert run.returncode == 1
    assert str(port) in run.stderr
    assert len(run.stderr.splitlines()) == 1
