"""From real brokers through the history and the pipeline back into the exporter, every part a process of its own."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from examples.workload.producers import OpenTransaction, run_transaction
from exporter.config.settings import HistorySettings
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.history.writer import History
from exporter.pipeline.tables import Tables
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import plant_hang
from hangbench.waiting import until
from tests.conftest import FreshName, MakeTopic
from tests.evaluation.builders import Entry, snapshot, transaction
from tests.pipeline import cases
from tests.pipeline.days import write_days
from tests.pipeline.log_records import positions
from tests.pipeline.program import PATIENCE_S, Begin
from tests.real_brokers.exporting import serving

DAY_MS = 86_400_000
CYCLE_MS = 30_000
SAMPLES = 40
UNUSUAL = "kafka_partition_unusually_long_transactions"
SUSPECTS = "kafka_suspect_transaction_start_timestamp_seconds"

pytestmark = pytest.mark.slow


def write_history(directory: Path, cluster_id: str, transactional_id: str) -> None:
    """Three days of it by the daemon's own writer: forty transactions that took a second each."""
    begin_ms = int(time.time() * 1000) - 4 * DAY_MS
    settings = HistorySettings(
        directory=str(directory),
        rotate_interval_ms=3_600_000,
        retention_age_ms=30 * DAY_MS,
        retention_bytes=10**9,
    )
    kept = History(settings, writer="made-up")
    for number in range(SAMPLES):
        at_ms = begin_ms + number * 3 * DAY_MS // SAMPLES
        described = transaction(transactional_id=transactional_id, start_ms=at_ms - 1000)
        entry = Entry(start_offset=100 + number, last_timestamp_ms=at_ms - 500)
        for cycle in (
            snapshot([entry], transactions=(described,), taken_at_ms=at_ms, cluster_id=cluster_id),
            snapshot(taken_at_ms=at_ms + CYCLE_MS, cluster_id=cluster_id),
        ):
            kept.record(evaluate(cycle, Memory(), Policy()), CYCLE_MS)
    kept.rotate()
    assert kept.status().failure is None


def test_what_is_learned_comes_back_and_a_hang_is_reported(
    kafka_4_3_1: KafkaCluster,
    make_topic: MakeTopic,
    fresh_name: FreshName,
    tmp_path: Path,
    begin: Begin,
) -> None:
    """A transaction longer than usual is reported while its verdict is fine; the next run reports a planted hang."""
    cluster, usual_id, hang_id = kafka_4_3_1, fresh_name("usual"), fresh_name("hang")
    topic = make_topic(cluster, partitions=2)
    run_transaction(cluster.bootstrap, fresh_name("first"), [(topic, 0)])  # makes the coordinators' log
    cluster_id, _ = positions(cluster.bootstrap)
    history, tables = tmp_path / "history", Tables(tmp_path / "tables")
    write_history(history, cluster_id, usual_id)
    places = [f"--history={history}", f"--tables={tmp_path / 'tables'}", f"--temporary={tmp_path}"]
    assert begin(["run", *places]).is_over_within(PATIENCE_S)

    with serving(
        cluster.bootstrap, tmp_path, history__directory=str(history), baseline__file=str(tables.baselines)
    ) as exporter:
        with OpenTransaction(cluster.bootstrap, usual_id, [(topic, 0)]):
            metrics = exporter.until(lambda shown: shown.get(UNUSUAL, {}).get((topic, "0")) == 0)
            assert metrics["kafka_transaction_exporter_baseline_used"][()] == 1
            metrics = exporter.until(lambda shown: shown.get(UNUSUAL, {}).get((topic, "0")) == 1)
            assert metrics["kafka_open_transactions"][("open_within_timeout",)] == 1
            assert [labels for labels in metrics.get(SUSPECTS, {}) if labels[0] == topic] == []
        plant_hang(cluster.bootstrap, topic, 1, hang_id)
        exporter.until(lambda shown: any(labels[:2] == (topic, "1") for labels in shown.get(SUSPECTS, {})))
        exporter.process.terminate()
        exporter.process.wait(PATIENCE_S)

    assert begin(["run", *places]).is_over_within(PATIENCE_S)
    assert begin(["report", *places]).is_over_within(PATIENCE_S)
    words = re.sub(r"<[^>]*>|\s+", " ", tables.report.read_text())
    assert re.search(rf"still open .{{0,40}}hanging_\w+ .{{0,80}}{topic}-1 ", words), words


def test_again_and_again_until_ctrl_c(tmp_path: Path, begin: Begin) -> None:
    """Two runs, the second of which takes what came between; Ctrl-C is a good end."""
    history = tmp_path / "history"
    write_days(history, 1)
    arguments = [f"--history={history}", f"--tables={tmp_path / 'tables'}", f"--temporary={tmp_path}", "--every=2s"]
    program = begin(["run", *arguments])
    program.until(lambda output: "compact:" in output)
    cases.write_file(history, "c", "later", [{"at": 90_000, "open": [{"start_offset": 99, "started": 90_000}]}])
    # The next run may begin between the two files.
    until(lambda: len(Tables(tmp_path / "tables").current().state.taken) == 6, patience_s=PATIENCE_S)
    program.until(lambda output: "incidents:" in output.rpartition("transactions:")[2])
    program.interrupt()

    assert program.is_over_within(PATIENCE_S)
