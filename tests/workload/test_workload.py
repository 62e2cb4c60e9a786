"""Producers that stall, are fenced, abort and crash: nothing is lost or doubled, and the truth is that of the log."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.workload.__main__ import main
from examples.workload.coordinator import standing_of
from examples.workload.rhythm import AfterCrash, Rhythm
from examples.workload.truth import Counts
from examples.workload.workload import Workload
from hangbench.kafka.cluster import KafkaCluster
from hangbench.waiting import until
from tests.conftest import FreshName, MakeCluster
from tests.workload.conftest import HASTY, PARTITIONS, committed_values, log_after, logged

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "examples.workload"]
PATIENCE_S = 90
SOON_MS = 1000  # librdkafka takes no less


def run(cluster: KafkaCluster, topic: str, rhythms: dict[str, Rhythm]) -> dict[str, Counts]:
    """Let them work until they have done all their transactions."""
    with Workload(cluster.bootstrap, [(topic, partition) for partition in PARTITIONS]) as workload:
        for name, rhythm in rhythms.items():
            workload.add(name, rhythm)
        until(lambda: workload.is_done, patience_s=PATIENCE_S)
    assert workload.failures == []
    return workload.ledger.counts()


def numbers(name: str, count: int) -> list[bytes]:
    return sorted(f"{name}/{number}".encode() for number in range(count))


def test_a_stalled_producer_recovers_and_loses_and_doubles_nothing(hasty: KafkaCluster, topic: str, name: str) -> None:
    """Its coordinator times it out, once for each stall, and what it was writing is committed later, once."""
    rhythm = Rhythm(transactions=3, stall_every=2, stall_timeout_ms=SOON_MS)
    counts = run(hasty, topic, {name: rhythm})[name]
    in_log = log_after(hasty, [name], counts.begun)

    assert (counts.begun, counts.timed_out, counts.committed) == (3, 1, 2)
    assert in_log == logged(counts)
    assert sorted(committed_values(hasty, topic)) == numbers(name, 2 * rhythm.records)
    assert counts.records == 2 * rhythm.records


def test_a_zombie_is_fenced_by_the_one_who_took_its_id(hasty: KafkaCluster, topic: str, name: str) -> None:
    """Its transaction counts as fenced, and its records are those of the newer producer alone."""
    rhythm = Rhythm(transactions=3, zombie_every=2)
    counts = run(hasty, topic, {name: rhythm})[name]
    in_log = log_after(hasty, [name], counts.begun)

    assert (counts.begun, counts.fenced, counts.committed) == (3, 1, 2)
    assert in_log == logged(counts)
    assert sorted(committed_values(hasty, topic)) == numbers(name, counts.records)


@pytest.mark.parametrize(
    ("after_crash", "ends_as"), [("wait", "timed_out"), pytest.param("initialise", "fenced", marks=pytest.mark.slow)]
)
def test_a_crash_ends_as_whoever_comes_first_has_it(
    hasty: KafkaCluster, topic: str, name: str, after_crash: AfterCrash, ends_as: str
) -> None:
    """Left open by kill -9: timed out without a successor, fenced where its id is initialised before that."""
    rhythm = Rhythm(transactions=3, crash_every=2, after_crash=after_crash, stall_timeout_ms=SOON_MS)
    counts = run(hasty, topic, {name: rhythm})[name]
    in_log = log_after(hasty, [name], counts.begun)

    assert (counts.begun, counts.crashed, getattr(counts, ends_as), counts.committed) == (3, 1, 1, 2)
    assert in_log == logged(counts)
    assert sorted(committed_values(hasty, topic)) == numbers(name, counts.records)


@pytest.mark.slow
def test_consume_transform_produce_copies_each_record_once(hasty: KafkaCluster, topic: str, name: str) -> None:
    """Through aborts, stalls, zombies and crashes, the output of the command is its input, partition by partition."""
    source = hasty.topics.create(f"{name}-source", partitions=len(PARTITIONS))
    written = run(hasty, source, {f"{name}-in": Rhythm(transactions=6, records=4, size=200)})
    log_after(hasty, [f"{name}-in"], written[f"{name}-in"].begun)

    trouble = ["--abort-share=0.2", "--stall-every=4", "--zombie-every=5", "--crash-every=6", "--seed=1"]
    command = [*COMMAND, "--bootstrap-server", hasty.bootstrap, "--topic", topic, "--transform", source, "--ids=2"]
    more = ["--id-prefix=copy", "--records=4", f"--stall-timeout-ms={SOON_MS}"]
    done = subprocess.run(
        [*command, *trouble, *more], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    truth = json.loads(done.stdout)
    total = Counts(**truth["total"])
    in_log = log_after(hasty, list(truth["transactional_ids"]), total.begun)

    assert sorted(truth["transactional_ids"]) == ["copy-0", "copy-1"]
    assert min(total.aborted, total.timed_out, total.fenced, total.crashed) > 0
    assert in_log == logged(total)
    copied = committed_values(hasty, topic)
    assert copied == committed_values(hasty, source)
    assert len(copied) == total.records == written[f"{name}-in"].records > 0
    assert {len(value) for value in copied} == {200}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_with_the_counts(
    hasty: KafkaCluster, topic: str, name: str, number: signal.Signals
) -> None:
    """In the middle of held transactions: they are ended as they would have been, and nothing is left open."""
    command = [
        *COMMAND,
        "--bootstrap-server",
        hasty.bootstrap,
        "--topic",
        topic,
        f"--id-prefix={name}",
        "--hold-ms=60000",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: standing_of(hasty.bootstrap, f"{name}-0", PATIENCE_S).is_open, patience_s=PATIENCE_S)
            process.send_signal(number)
            output, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    total = Counts(**json.loads(output)["total"])

    assert process.returncode == 0
    assert (total.begun, total.committed) == (1, 1)
    assert log_after(hasty, [f"{name}-0"], 1) == logged(total)


def test_what_is_in_the_way_gets_a_sentence(
    hasty: KafkaCluster, topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that is not there, more ids than there is input for, no listener at the address, no address."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the handlers of pytest stay
    at = ["--bootstrap-server", hasty.bootstrap]

    assert main([*at, "--topic", "nowhere"]) == 1
    assert capsys.readouterr().err == "workload: topic nowhere does not exist: create it first\n"
    assert main([*at, "--topic", topic, "--transform", topic, "--ids", "4"]) == 1
    assert "--ids 4 is more than the 3 partitions" in capsys.readouterr().err
    assert main(["--bootstrap-server", "127.0.0.1:1", "--topic", topic]) == 1
    assert "no broker answers at 127.0.0.1:1" in capsys.readouterr().err
    assert main(["--bootstrap-server", "broker", "--topic", topic]) == 1
    assert capsys.readouterr().err == "workload: --bootstrap-server must be HOST:PORT[,...], not broker\n"


@pytest.mark.slow
def test_the_truth_survives_a_broker_that_is_killed_and_comes_back(
    make_cluster: MakeCluster, fresh_name: FreshName
) -> None:
    """Each of three in turn, and with it coordinators and leaders: the counts stay those of the log."""
    cluster = make_cluster("4.3.1", nodes=3, properties=HASTY)
    topic = cluster.topics.create(fresh_name("topic"), partitions=len(PARTITIONS))
    rhythm = Rhythm(abort_share=0.2, stall_every=17, zombie_every=11, hold_s=0.02)
    names = [fresh_name("worker") for _ in range(4)]
    with Workload(cluster.bootstrap, [(topic, partition) for partition in PARTITIONS]) as workload:
        for name in names:
            workload.add(name, rhythm)
        for broker in cluster.brokers:
            committed = workload.ledger.total().committed
            broker.kill()
            broker.launch()
            cluster.wait_until_serving()
            until(workload.ledger.total, lambda total, least=committed + 20: total.committed >= least)  # type: ignore[misc]
    total = workload.ledger.total()
    in_log = log_after(cluster, names, total.begun)

    assert workload.failures == []
    assert min(total.aborted, total.timed_out, total.fenced) > 0
    assert in_log == logged(total)
    expected = [value for name, counts in workload.ledger.counts().items() for value in numbers(name, counts.records)]
    assert sorted(committed_values(cluster, topic)) == sorted(expected)
