"""The transaction log of a real broker, followed live: every outcome once, through restarts on both sides."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import pytest

from examples.workload.producers import OpenTransaction, run_transaction
from exporter.config.loading import load
from exporter.kafka.log_progress import COMPRESSED, LogRecord
from exporter.kafka.state_log import StateLog
from exporter.snapshot import CLUSTER_ID_VARIABLE
from exporter.transaction_log.report import LogPosition
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import init_producer_id
from hangbench.waiting import until
from tests.marks import starts
from tests.real_brokers.exporting import PATIENCE_S, ended
from tests.real_brokers.log_reading import MINE, QUICK, completed, counting, outcomes, reading

TIMEOUT_MS = 1500
READING = "kafka_transaction_exporter_transaction_log_reading"
PARTITIONS = "kafka_transaction_exporter_transaction_log_partitions"


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
@starts("broker")
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Coordinators that look every 200 ms. Each test has ids with a prefix of its own."""
    with KafkaCluster(request.param, properties=QUICK) as made:
        made.topics.create("t", partitions=3)
        run_transaction(made.bootstrap, "first", [("t", 0)])
        yield made


def test_every_outcome_is_counted_once_over_a_kill_of_the_exporter(cluster: KafkaCluster, tmp_path: Path) -> None:
    """Transactions end before the first start, while it runs, and while it is dead; one is open over the kill."""
    run_transaction(cluster.bootstrap, "kill-1", [("t", 0)])
    run_transaction(cluster.bootstrap, "kill-1", [("t", 0)], outcome="abort")
    with counting(cluster.bootstrap, tmp_path, "kill") as exporter:
        before = exporter.until(lambda m: len(completed(m)) == 2)
        fenced = OpenTransaction(cluster.bootstrap, "kill-2", [("t", 1)])
        fenced.__enter__()
        init_producer_id(cluster.bootstrap, "kill-2")
        during = exporter.until(lambda m: len(completed(m)) == 3)
        stalled = OpenTransaction(cluster.bootstrap, "kill-3", [("t", 2)], timeout_ms=TIMEOUT_MS)
        stalled.__enter__()
        exporter.until(lambda m: m.get("kafka_partition_open_transactions", {}).get(("t", "2")) == 1)
        exporter.process.kill()
        exporter.process.wait()
    run_transaction(cluster.bootstrap, "kill-1", [("t", 0)])
    with counting(cluster.bootstrap, tmp_path, "kill") as exporter:
        after = exporter.until(lambda m: completed(m).get("timeout") == 1)

    assert completed(before) == {"commit": 1, "abort": 1}
    assert completed(during) == {**completed(before), "fenced": 1}
    assert completed(after) == {"commit": 1, "timeout": 1}, "nothing of the first run again"
    assert after["kafka_transaction_duration_seconds_count"][MINE, "timeout"] == 1
    assert after["kafka_transaction_duration_seconds_sum"][MINE, "timeout"] >= TIMEOUT_MS / 1000
    assert after["kafka_transaction_marker_seconds_count"][MINE,] == 2
    assert during["kafka_transactional_id_initializations_total"][MINE,] >= 3


def test_the_log_answers_what_verdicts_need(cluster: KafkaCluster) -> None:
    """The owner of a producer id, its start to the millisecond, and the outcome of the transaction before."""
    run_transaction(cluster.bootstrap, "told", [("t", 0)])
    with (
        OpenTransaction(cluster.bootstrap, "told", [("t", 1)]),
        reading(cluster.bootstrap) as reader,
    ):
        until(reader.report, lambda report: report.partitions_current == 5)
        journal = reader.journal(range(5000))

    (logged,) = (producer for producer in journal.producers.values() if producer.transactional_id == "told")
    assert logged.latest is not None
    assert logged.latest.partitions == {("t", 1)}
    assert logged.ended[("t", 0)].outcome.value == "commit"
    assert logged.ended[("t", 0)].decided_ms <= logged.latest.start_ms


def test_time_outs_and_fences_are_named(cluster: KafkaCluster, tmp_path: Path) -> None:
    """By `timeouts`, on the page and in the log of the daemon: id, how it ended, and its partitions."""
    with counting(cluster.bootstrap, tmp_path, "named") as exporter:
        exporter.until(lambda m: m[READING][()] == 1 and m[PARTITIONS][("current",)] == 5)
        for name in ("named-fenced", "named-late"):
            OpenTransaction(cluster.bootstrap, name, [("t", 1)], timeout_ms=TIMEOUT_MS).__enter__()
        init_producer_id(cluster.bootstrap, "named-fenced")
        exporter.until(lambda m: completed(m).get("timeout") == 1 and completed(m).get("fenced") == 1)
        page = exporter.get("/")[1]
        log = exporter.log
    run = ended(tmp_path, "timeouts", "--bootstrap-server", cluster.bootstrap, "--format", "json")
    assert run.returncode == 0, run.stderr
    printed = {row["transactional_id"]: row for row in json.loads(run.stdout)}
    assert printed["named-late"]["outcome"] == "timeout"
    assert printed["named-late"]["duration_ms"] >= TIMEOUT_MS == printed["named-late"]["timeout_ms"]
    assert (printed["named-fenced"]["outcome"], printed["named-fenced"]["partitions"]) == ("fenced", ["t-1"])
    one = ended(
        tmp_path, "timeouts", "--bootstrap-server", cluster.bootstrap, "--transactional-id=named-late", "--format=json"
    )
    assert ([row["transactional_id"] for row in json.loads(one.stdout)], one.stderr) == (["named-late"], "")
    mistyped = ended(
        tmp_path, "timeouts", "--bootstrap-server", cluster.bootstrap, "--transactional-id=named-lat", "--format=json"
    )
    assert (mistyped.returncode, json.loads(mistyped.stdout)) == (0, [])
    assert "is about transactional id 'named-lat'" in mistyped.stderr
    elsewhere = ended(tmp_path, "timeouts", "--bootstrap-server", cluster.bootstrap, **{CLUSTER_ID_VARIABLE: "other"})
    assert (elsewhere.returncode, elsewhere.stdout) == (1, "")
    assert ", not other; " in elsewhere.stderr
    for name in ("named-late", "named-fenced"):
        assert f"transaction of '{name}'" in log
        assert name in page[page.index('id="timeouts"') :]


def test_a_leader_has_the_time_of_a_request_for_its_first_response(cluster: KafkaCluster) -> None:
    """Until then nothing is wrong; after it the reader, which reads nothing here, says that no leader responds."""
    flags = {"kafka.bootstrap.servers": cluster.bootstrap, "kafka.request.timeout.ms": "10000"}
    settings = load(file=None, environment={}, flags=flags).settings
    now = 0.0
    log = StateLog(settings.kafka, since_ms=0, positions={}, clock=lambda: now)
    try:
        now = 9.0
        assert log.failure is None
        now = 11.0
        assert log.failure == "no leader of a partition of __transaction_state responds"
    finally:
        log.close()


@pytest.mark.slow
def test_positions_that_are_not_offsets_of_the_log_are_a_gap(cluster: KafkaCluster) -> None:
    """Cut off by a new leader: it goes on at the end, says so once for each partition, and reads what comes."""
    settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": cluster.bootstrap}).settings
    begun_ms = int(time.time() * 1000)
    log = StateLog(settings.kafka, since_ms=0, positions=dict.fromkeys(range(5), 100_000))
    try:
        deadline = time.monotonic() + PATIENCE_S
        gaps: list[int] = []
        while len(gaps) < 5 and time.monotonic() < deadline:
            gaps += log.read(0.1).gaps
        run_transaction(cluster.bootstrap, "gap", [("t", 0)])
        records: list[LogRecord] = []
        while not any(b"gap" in (record.key or b"") for record in records) and time.monotonic() < deadline:
            records += log.read(0.1).records
    finally:
        log.close()

    assert sorted(gaps) == list(range(5))
    assert all(record.written_at_ms >= begun_ms for record in records), "nothing is read a second time"


def test_records_that_another_leader_replaced_are_a_gap(cluster: KafkaCluster) -> None:
    """A leader that has never had the epoch of the last record that was read: it names its own end instead (KIP-595)."""
    settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": cluster.bootstrap}).settings
    run_transaction(cluster.bootstrap, "before", [("t", 0)])
    log = StateLog(settings.kafka, since_ms=0, positions={})
    gaps: list[int] = []
    try:
        until(lambda: (log.read(0.1), log.ends and log.positions == log.ends)[1], patience_s=PATIENCE_S)
        number, end = max(log.positions.items(), key=lambda item: item[1])
        log._progress._epochs[number] = 99
        while not gaps:
            gaps += log.read(0.1).gaps
        assert (gaps, log.positions[number]) == ([number], end)
        until(lambda: not log.read(0.1).gaps and number in log.ends, patience_s=PATIENCE_S)
    finally:
        log.close()


def test_compressed_records_are_skipped_with_a_reason(cluster: KafkaCluster) -> None:
    """An administrator has set compression.type on the topic: brokers compress what they append, until it is set back."""
    settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": cluster.bootstrap}).settings
    log = StateLog(settings.kafka, since_ms=int(time.time() * 1000), positions={})

    gaps: list[int] = []
    found: set[bytes] = set()

    def read() -> set[bytes]:
        batch = log.read(0.1)
        gaps.extend(batch.gaps)
        found.update((record.key or b"")[4:] for record in batch.records)
        return found

    try:
        cluster.topics.configure("__transaction_state", {"compression.type": "gzip"})
        run_transaction(cluster.bootstrap, "packed", [("t", 0)])
        until(lambda: (read(), log.failures)[1], patience_s=PATIENCE_S)  # others' records may be there, too
        failures, ends = dict(log.failures), log.ends  # of this transaction, and of whichever else ends meanwhile
        cluster.topics.configure("__transaction_state", {"compression.type": "uncompressed"})
        run_transaction(cluster.bootstrap, "packed", [("t", 0)])
        until(lambda: b"packed" in read(), patience_s=PATIENCE_S)
    finally:
        cluster.topics.configure("__transaction_state", {"compression.type": "uncompressed"})
        log.close()

    assert set(failures.values()) == {COMPRESSED}
    assert failures.keys() <= set(gaps)
    assert len(gaps) == len(set(gaps)), "once for each partition"
    assert not failures.keys() & ends.keys()


@pytest.mark.slow
def test_an_earlier_run_s_position_is_of_one_cluster_only(cluster: KafkaCluster) -> None:
    """Offsets of another cluster say nothing about this one."""
    run_transaction(cluster.bootstrap, "once", [("t", 0)])
    with reading(cluster.bootstrap, "once") as reader:
        mine = until(reader.report, lambda report: outcomes(report) == {"commit": 1}).position
    foreign = LogPosition(cluster_id="another", offsets=MappingProxyType(dict(mine.offsets)))

    with reading(cluster.bootstrap, "once", counted_before=mine) as reader:
        assert outcomes(until(reader.report, lambda report: report.counted is not None)) == {}
    with reading(cluster.bootstrap, "once", counted_before=foreign) as reader:
        assert outcomes(until(reader.report, lambda report: report.counted is not None)) == {"commit": 1}


@pytest.mark.slow
def test_a_broker_s_death_is_reported_and_costs_no_event(cluster: KafkaCluster, tmp_path: Path) -> None:
    """While it is down nothing counts as read; afterwards it goes on where it was."""
    run_transaction(cluster.bootstrap, "dead-1", [("t", 0)])
    with counting(cluster.bootstrap, tmp_path, "dead") as exporter:
        well = exporter.until(lambda m: m.get(PARTITIONS, {}).get(("current",)) == 5)
        cluster.broker(1).kill()
        down = exporter.until(lambda m: m[READING][()] == 0)
        unread = exporter.until(lambda m: m[PARTITIONS]["unread",] == 5)
        cluster.broker(1).start()
        run_transaction(cluster.bootstrap, "dead-1", [("t", 0)])
        again = exporter.until(lambda m: completed(m) == {"commit": 2})
        exporter.until(lambda m: m[PARTITIONS]["current",] == 5 and m[READING][()] == 1)

    assert completed(well) == completed(down) == completed(unread) == {"commit": 1}
    assert "kafka_transaction_exporter_transaction_log_lag_records" not in unread
    assert completed(again) == {"commit": 2}


@pytest.mark.slow
def test_a_cluster_without_transactions_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic comes with the first transactional id: until then the reader says why it reads nothing."""
    monkeypatch.setattr("exporter.daemon.log_follower.OPEN_AGAIN_SECONDS", 0.2)
    with KafkaCluster("4.3.1", properties=QUICK) as empty:
        empty.topics.create("t")
        with reading(empty.bootstrap) as reader:
            waiting = until(reader.report, lambda report: "no client has used" in (report.failure or ""))
            run_transaction(empty.bootstrap, "app", [("t", 0)])
            until(reader.report, lambda report: outcomes(report) == {"commit": 1})

    assert (waiting.counted, waiting.partitions_current) == (None, 0)
