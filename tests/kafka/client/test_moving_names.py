"""Brokers change their address under the same host name, as pods and virtual machines do.

A name is looked up for each connection. While name server and brokers disagree, less is known, and nothing is false.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.protocol.admin.transactions import DescribeProducersResponse

from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import InconclusiveReason
from exporter.kafka.collect.collector import Collector
from exporter.kafka.errors import ClusterUnavailableError
from exporter.snapshot import STATE_TOPIC, Snapshot
from tests.kafka.fake_broker import FakeCluster, Received
from tests.kafka.fake_model import Model, Partition, Producer, Transaction
from tests.kafka.loopback import HOST
from tests.kafka.scene import (
    ALIVE,
    HANGING,
    assert_true_of_the_scene,
    collector_of,
    evaluated,
    inconclusive,
    reasons,
    remembered,
    scene,
    verdicts,
)

ELSEWHERE = "127.0.0.2"
BOOTSTRAP, ONE, TWO = "kafka.example", "one.example", "two.example"
OF_NODE_2 = {("hung", 1), ("mixed", 0), ("lively", 1), ("lively", 2)} | {
    ("__transaction_state", partition) for partition in (1, 3, 5, 7)
}


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Name -> address; a test may change it. Addresses are their own names."""
    known = dict.fromkeys((BOOTSTRAP, ONE, TWO), HOST)
    real = socket.getaddrinfo

    def look_up(host: str, port: int, *more: Any) -> Any:
        if host.endswith(".example") and host not in known:
            raise socket.gaierror(-2, "Name or service not known")
        return real(known.get(host, host), port, *more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


@contextmanager
def watched() -> Iterator[tuple[FakeCluster, Collector, Memory]]:
    """A cluster whose brokers have names, and a collector that has seen all of it."""
    with FakeCluster(scene(), nodes=2) as cluster:
        cluster.hosts.update({1: ONE, 2: TWO})
        with collector_of(cluster, bootstrap=BOOTSTRAP) as collector:
            yield cluster, collector, remembered(collector)


def assert_whole(snapshot: Snapshot) -> None:
    assert snapshot.is_complete
    assert verdicts(evaluated(snapshot)) == HANGING | ALIVE


@pytest.mark.parametrize("cycles", [0, 1, 3])
def test_a_broker_that_moves_is_found_as_soon_as_its_name_follows(names: dict[str, str], cycles: int) -> None:
    """For as many cycles its partitions are unread, and say why; the next one sees everything."""
    with watched() as (cluster, collector, memory):
        cluster.move(2, ELSEWHERE, cluster.ports[2])
        for _ in range(cycles):
            snapshot = collector.collect(seen_before=None)
            assert reasons(snapshot) == dict.fromkeys(OF_NODE_2, "unreachable")
            assert_true_of_the_scene(snapshot, memory)
        names[TWO] = ELSEWHERE
        assert_whole(collector.collect(seen_before=None))


def test_all_brokers_move_and_the_bootstrap_name_leads_to_them(names: dict[str, str]) -> None:
    """Their own names no longer resolve: the new ones are learned behind the name of the settings."""
    with watched() as (cluster, collector, _):
        for node in (1, 2):
            cluster.move(node, ELSEWHERE, cluster.ports[node])
        names.clear()
        with pytest.raises(ClusterUnavailableError, match=f"the host name {BOOTSTRAP} cannot be resolved"):
            collector.collect(seen_before=None)
        names.update(dict.fromkeys((BOOTSTRAP, "new-1.example", "new-2.example"), ELSEWHERE))
        cluster.hosts.update({1: "new-1.example", 2: "new-2.example"})
        assert_whole(collector.collect(seen_before=None))


def test_a_name_that_is_forgotten_costs_nothing_while_the_connection_lasts(names: dict[str, str]) -> None:
    """Then its broker is unreachable until the name is known again."""
    with watched() as (cluster, collector, memory):
        del names[TWO]
        assert_whole(collector.collect(seen_before=None))
        cluster.cut()
        for _ in range(2):
            snapshot = collector.collect(seen_before=None)
            assert reasons(snapshot) == dict.fromkeys(OF_NODE_2, "unreachable")
            assert_true_of_the_scene(snapshot, memory)
            assert f"the host name {TWO} cannot be resolved" in str([broker.failure for broker in snapshot.brokers])
        names[TWO] = HOST
        assert_whole(collector.collect(seen_before=None))


@pytest.mark.parametrize("astray", [(ONE,), (TWO,), (ONE, TWO)])
def test_a_name_that_leads_to_another_broker_makes_no_lie(names: dict[str, str], astray: tuple[str, ...]) -> None:
    """An address was given to another broker of the cluster, on the port of all: it says that it does not lead."""
    with watched() as (cluster, collector, memory):
        cluster.move(2, ELSEWHERE, cluster.ports[1])
        names[TWO] = ELSEWHERE
        assert_whole(collector.collect(seen_before=None))
        right = dict(names)
        names.update({name: {ONE: ELSEWHERE, TWO: HOST}[name] for name in astray})
        cluster.cut()
        for _ in range(2):
            snapshot = collector.collect(seen_before=None)
            assert set(reasons(snapshot).values()) == {"NOT_LEADER_OR_FOLLOWER"}
            assert_true_of_the_scene(snapshot, memory)
        names.update(right)
        cluster.cut()
        assert_whole(collector.collect(seen_before=None))


def test_a_follower_that_lags_behind_a_leaders_name_proves_nothing(names: dict[str, str]) -> None:
    """Node 2's name leads to node 1, which follows its partition and has not seen the end of a transaction.

    Followers respond to DescribeProducers, and node 2 coordinates nothing: the only sign is that node 1
    does not say that it is node 2. Without that check an ended transaction was called hanging.
    """
    model = Model(
        topics={STATE_TOPIC: [Partition(1) for _ in range(4)], "t": [Partition(2, producers=[Producer(12)])]},
        transactions={"done": Transaction(12, "CompleteCommit")},
    )
    with FakeCluster(model, nodes=2) as cluster:
        cluster.hosts.update({1: ONE, 2: TWO})
        cluster.on_response = as_a_follower_that_lags
        with collector_of(cluster, bootstrap=BOOTSTRAP) as collector:
            assert verdicts(evaluated(collector.collect(seen_before=None))) == {}
            cluster.move(2, ELSEWHERE, cluster.ports[1])
            evaluation = evaluated(collector.collect(seen_before=None))
            assert inconclusive(evaluation) == {("t", 0, 12): InconclusiveReason.SECOND_READ_FAILED}
            names[TWO] = ELSEWHERE
            cluster.cut()
            assert verdicts(evaluated(collector.collect(seen_before=None))) == {}


def as_a_follower_that_lags(received: Received, response: Any) -> None:
    """Node 1 still shows open in the log of partition t-0 what has ended at its leader."""
    if (received.node, received.api) != (1, "DescribeProducers"):
        return
    producer = DescribeProducersResponse.TopicResponse.PartitionResponse.ProducerState(
        version=0,
        producer_id=12,
        producer_epoch=0,
        last_sequence=0,
        last_timestamp=0,
        coordinator_epoch=-1,
        current_txn_start_offset=5,
    )
    for topic in response.topics:
        for partition in topic.partitions:
            if topic.name == "t":
                partition.error_code, partition.active_producers = 0, [producer]
