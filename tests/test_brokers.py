"""The tests' real brokers work as the other tests require."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.workload.producers import run_transaction
from hangbench.kafka import maven, ports
from hangbench.kafka.broker import HOST, Broker
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.wire import Wire, metadata, open_wire
from hangbench.waiting import until
from tests.conftest import FreshName, MakeCluster, MakeTopic

REPOSITORY = Path(__file__).parent.parent


def answers(broker: Broker) -> bool:
    try:
        with Wire(HOST, broker.port):
            return True
    except OSError:
        return False


def process_lives(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_no_two_processes_find_the_same_port_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the search and the start of what listens there, another would take it."""
    find = "from hangbench.kafka.ports import free_ports; print(*free_ports(3), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", find], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout is not None
            found = [int(port) for port in other.stdout.readline().split()]
            monkeypatch.setattr(ports, "PORTS", found)
            with pytest.raises(maven.BrokersUnavailable, match="fewer than 1 free ports"):
                ports.free_ports(1)
        finally:
            other.kill()
            other.wait()

    assert sorted(ports.free_ports(3)) == sorted(found)


def test_a_booted_cluster_serves_transactions(broker: KafkaCluster, make_topic: MakeTopic) -> None:
    """Right after its boot a cluster takes a whole transaction on a fresh topic."""
    topic = make_topic(broker, partitions=2)

    run_transaction(broker.bootstrap, "first", [(topic, 0), (topic, 1)], records=2)


def test_topics_are_seen_changed_when_the_call_returns(kafka_4_3_1: KafkaCluster, fresh_name: FreshName) -> None:
    """Creating, growing and deleting a topic have happened for every client when the call returns."""
    name = fresh_name("grown")

    def partitions() -> int:
        with open_wire(kafka_4_3_1.bootstrap) as wire:
            return len(metadata(wire, [name]).topics[0].partitions)

    kafka_4_3_1.topics.create(name, partitions=2, config={"cleanup.policy": "compact"})
    assert partitions() == 2
    kafka_4_3_1.topics.grow(name, 5)
    assert partitions() == 5
    kafka_4_3_1.topics.delete(name)
    assert partitions() == 0


def test_tools_of_the_same_jars_run(kafka_4_3_1: KafkaCluster) -> None:
    """A command line tool of the same version answers from the same jars, and its failure is an exception."""
    tool = "org.apache.kafka.tools.TransactionsCommand"
    listed = kafka_4_3_1.tool(tool, "--bootstrap-server", kafka_4_3_1.bootstrap, "list")

    assert "TransactionalId" in listed
    with pytest.raises(subprocess.CalledProcessError):
        kafka_4_3_1.tool(tool, "no-such-command")


@pytest.mark.slow
def test_a_broker_comes_back_with_its_data_after_a_crash_and_after_a_stop(make_cluster: MakeCluster) -> None:
    """Stopped or killed, a broker is gone; started again it has its port and its topics."""
    cluster = make_cluster("4.3.1")
    broker = cluster.broker(1)
    cluster.topics.create("kept")
    for end in (broker.stop, broker.kill):
        end()
        assert not broker.running
        assert not answers(broker)
        broker.start()
        with open_wire(cluster.bootstrap) as wire:
            assert [topic.name for topic in metadata(wire, None).topics] == ["kept"]


def test_a_paused_broker_is_silent_until_resumed(make_cluster: MakeCluster) -> None:
    """A frozen broker's socket still accepts, but nothing is answered; resumed, it answers again."""
    broker = make_cluster("4.3.1").broker(1)
    with Wire(HOST, broker.port) as wire:
        broker.pause()
        wire.timeout(0.5)
        with pytest.raises(TimeoutError):
            metadata(wire, [])
    broker.resume()

    broker.wait_until_serving({1})
    assert answers(broker)


@pytest.mark.slow
def test_three_nodes_are_one_cluster(make_cluster: MakeCluster) -> None:
    """Three nodes know one another, replicate by default, and go on without one of them."""
    cluster = make_cluster("4.3.1", nodes=3)
    replicated = cluster.topics.create("replicated", partitions=3)
    placed = cluster.topics.create_on("placed", [3, 1])

    with open_wire(cluster.bootstrap) as wire:
        by_name = {topic.name: topic.partitions for topic in metadata(wire, [replicated, placed]).topics}
    assert all(sorted(partition.replica_nodes) == [1, 2, 3] for partition in by_name[replicated])
    by_index = {partition.partition_index: partition.leader_id for partition in by_name[placed]}
    assert by_index == {0: 3, 1: 1}

    cluster.broker(3).kill()
    with Wire(HOST, cluster.broker(1).port) as wire:
        until(lambda: {node.node_id for node in metadata(wire, []).brokers} == {1, 2})
        until(lambda: all(part.leader_id in {1, 2} for part in metadata(wire, [replicated]).topics[0].partitions))
    cluster.broker(3).start()
    cluster.wait_until_serving()


@pytest.mark.broker
def test_no_broker_outlives_a_killed_test_run(tmp_path: Path) -> None:
    program = (
        "import time; from hangbench.kafka.cluster import KafkaCluster\n"
        "with KafkaCluster('4.3.1') as cluster:\n"
        "    print(cluster.broker(1).process_id, flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # what the killed run cannot tidy up
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        broker_pid = int(run.stdout.readline())
        assert process_lives(broker_pid)
        os.kill(run.pid, signal.SIGKILL)

    until(lambda: not process_lives(broker_pid))


def test_a_broker_that_cannot_start_says_why(make_cluster: MakeCluster) -> None:
    """A setting that Kafka refuses fails the boot at once, with Kafka's own words."""
    with pytest.raises(maven.BrokersUnavailable, match=r"num\.partitions"):
        make_cluster("4.3.1", properties={"num.partitions": "many"})


def test_ports_are_below_the_ephemeral_range() -> None:
    """Every port is different, and never one that the kernel gives to an outgoing connection."""
    first, second = ports.free_ports(6), ports.free_ports(6)
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    assert len({*first, *second}) == 12
    assert all(port < lowest for port in (*first, *second))


def test_a_missing_maven_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Maven on the PATH the message names it, and no half-made folder stays."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("KAFKA_JARS_CACHE", str(tmp_path / "cache"))

    with pytest.raises(maven.BrokersUnavailable, match="mvn is missing"):
        maven.kafka_jars("4.3.1")
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.programs
def test_a_version_that_does_not_exist_is_reported_by_maven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where Maven fails, its words are in the message, and no half-made folder stays."""
    (tmp_path / "mvn").write_text("#!/bin/sh\necho no such artifact; exit 1\n")
    (tmp_path / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("KAFKA_JARS_CACHE", str(tmp_path / "cache"))

    with pytest.raises(maven.BrokersUnavailable, match=r"Apache Kafka 0\.0\.0: no such artifact"):
        maven.kafka_jars("0.0.0")
    assert not list((tmp_path / "cache").iterdir())
