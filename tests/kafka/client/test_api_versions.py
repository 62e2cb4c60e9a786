"""Brokers that are downgraded or replaced by older ones: the exporter knows less, and nothing is wrong.

A connection ends with its broker, and the next one offers fewer versions, or lacks an API. Behind a balancer it may stay
open: then a broker ends it when it is asked for what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from exporter.evaluation.gaps import gaps
from exporter.kafka.client.negotiation import negotiate
from exporter.kafka.collect.collector import Collector
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.messages import metadata
from exporter.snapshot import NO_PRODUCER_ID, UNKNOWN_OFFSET, IdVisibility, Snapshot
from hangbench.waiting import until
from tests.kafka.fake_broker import EVERYTHING, FakeCluster, Received
from tests.kafka.scene import (
    HANGING,
    UNKNOWN,
    assert_true_of_the_scene,
    collector_of,
    cycle,
    evaluated,
    reasons,
    remembered,
    scene,
    verdicts,
)

Offered = Mapping[str, int | None]
"""API -> newest version that is left; None where it is gone."""

BOTH = (1, 2)
NOTICED_S = 10.0


class Lost(Enum):
    """Parts of a snapshot that can be unread."""

    PARTITIONS = auto()
    COORDINATORS = auto()
    PROOF = auto()
    OFFSETS = auto()
    LIMITS = auto()
    DENIALS = auto()


KAFKA_2_7: Offered = {"DescribeProducers": None, "DescribeTransactions": None, "ListTransactions": None}
DOWNGRADES: dict[str, tuple[Offered, set[Lost]]] = {
    "Kafka 2.7": (KAFKA_2_7, {Lost.PARTITIONS, Lost.COORDINATORS}),
    "Kafka 2.8": ({"DescribeTransactions": None, "ListTransactions": None}, {Lost.COORDINATORS, Lost.PROOF}),
    "DescribeProducers gone": ({"DescribeProducers": None}, {Lost.PARTITIONS}),
    "DescribeTransactions gone": ({"DescribeTransactions": None}, {Lost.PROOF}),
    "ListTransactions gone": ({"ListTransactions": None}, {Lost.COORDINATORS, Lost.PROOF}),
    "ListTransactions 0": ({"ListTransactions": 0}, set()),
    "ListOffsets gone": ({"ListOffsets": None}, {Lost.OFFSETS}),
    "ListOffsets 5": ({"ListOffsets": 5}, {Lost.OFFSETS}),
    "DescribeConfigs gone": ({"DescribeConfigs": None}, {Lost.LIMITS}),
    "DescribeConfigs 0": ({"DescribeConfigs": 0}, {Lost.LIMITS}),
    "DescribeAcls gone": ({"DescribeAcls": None}, {Lost.DENIALS}),
    "DescribeAcls 0": ({"DescribeAcls": 0}, {Lost.DENIALS}),
}
"""The newest version that all brokers are left with, and the parts that are unread then."""
METADATA_LOST: dict[str, Offered] = {
    "Metadata gone": {"Metadata": None},
    "Metadata 8": {"Metadata": 8},
    "everything gone": dict.fromkeys(EVERYTHING),
}
ALL: dict[str, Offered] = {name: offered for name, (offered, _) in DOWNGRADES.items()} | METADATA_LOST

QUICK = ("Kafka 2.8", (2,))
"""It loses what a proof needs."""


def downgrade(cluster: FakeCluster, offered: Offered, nodes: tuple[int, ...], *, restarts: bool) -> None:
    """These nodes offer no more than this. A restart ends all connections; without it they are kept."""
    for node in nodes:
        for api, newest in offered.items():
            cluster.offered[node].pop(api, None)
            if newest is not None:
                cluster.offered[node][api] = newest
    if restarts:
        cluster.cut()


def upgrade(cluster: FakeCluster, collector: Collector) -> None:
    """Every node offers everything again, on new connections: what a broker offers is known of each connection."""
    for node in cluster.offered:
        cluster.offered[node] = dict(EVERYTHING)
        cluster.oldest[node].clear()
    cluster.cut()
    connections = collector._connections._connections
    until(lambda: all(each.closed for each in [*connections.values()]), patience_s=NOTICED_S, pause_s=0.001)


def lost_in(snapshot: Snapshot) -> set[Lost]:
    assert set(reasons(snapshot).values()) <= {"unsupported_api"}
    signs = {
        Lost.PARTITIONS: bool(reasons(snapshot)) or snapshot.partitions.by_offsets_count > 0,
        Lost.COORDINATORS: any(coordinator.failure is not None for coordinator in snapshot.coordinators),
        Lost.PROOF: snapshot.proof is not None and snapshot.proof.failure is not None,
        Lost.OFFSETS: bool(np.any(snapshot.open_transactions.high_watermark == UNKNOWN_OFFSET)),
        Lost.LIMITS: snapshot.max_timeout.unread != (),
        Lost.DENIALS: snapshot.proof is not None and snapshot.proof.id_visibility is not IdVisibility.ALL,
    }
    return {lost for lost, is_lost in signs.items() if is_lost}


@pytest.mark.parametrize(
    ("nodes", "restarts"),
    [
        pytest.param((2,), False, id="one-kept"),
        pytest.param(BOTH, True, id="both-restarted"),
        pytest.param((2,), True, id="one-restarted", marks=pytest.mark.slow),
        pytest.param(BOTH, False, id="both-kept", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("offered", ALL.values(), ids=ALL.keys())
def test_a_downgrade_between_two_cycles_makes_no_lie(
    offered: Offered,
    nodes: tuple[int, ...],
    restarts: bool,  # noqa: FBT001
) -> None:
    """Nor does the cycle after it; and the first cycle after the upgrade sees everything again."""
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        memory = remembered(collector)
        downgrade(cluster, offered, nodes, restarts=restarts)
        for _ in range(2):
            snapshot = cycle(collector)
            assert (snapshot is None) == (offered in METADATA_LOST.values() and nodes == BOTH)
            if snapshot is not None:
                assert_true_of_the_scene(snapshot, memory)
        upgrade(cluster, collector)
        assert remembered(collector).transactions.keys() == memory.transactions.keys()


@pytest.mark.parametrize(("offered", "lost"), DOWNGRADES.values(), ids=DOWNGRADES.keys())
def test_a_snapshot_says_what_was_lost_with_a_version(offered: Offered, lost: set[Lost]) -> None:
    """That and nothing else; a hang is proved where nothing that its proof needs is missing."""
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        memory = remembered(collector)
        downgrade(cluster, offered, BOTH, restarts=True)
        snapshot = collector.collect(seen_before=None)

    assert lost_in(snapshot) == lost
    proved = {row for row, verdict in verdicts(evaluated(snapshot, memory)).items() if verdict.is_hanging}
    if lost == {Lost.PARTITIONS}:
        assert proved == {("hung", 0, NO_PRODUCER_ID), ("hung", 1, NO_PRODUCER_ID)}
    elif lost & {Lost.PARTITIONS, Lost.PROOF}:
        assert proved == set()
    else:
        assert proved == set(HANGING) - ({UNKNOWN} if Lost.DENIALS in lost else set())


NEWER: dict[str, set[Lost]] = {
    "DescribeProducers": {Lost.PARTITIONS},
    "DescribeTransactions": {Lost.PROOF},
    "ListTransactions": {Lost.COORDINATORS, Lost.PROOF},
    "ListOffsets": {Lost.OFFSETS},
    "DescribeConfigs": {Lost.LIMITS},
    "DescribeAcls": {Lost.DENIALS},
    "DescribeQuorum": set(),
}
"""API -> what is unknown if all brokers offer only unknown versions of it."""


@pytest.mark.parametrize(("api", "lost"), NEWER.items(), ids=NEWER.keys())
def test_brokers_that_are_newer_than_the_exporter_are_a_gap(api: str, lost: set[Lost]) -> None:
    """In every cycle, whether or not it sends that request; it ends with the brokers that offer what is known."""
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        memory = remembered(collector)
        replace_by_newer(cluster, api)
        for _ in range(2):
            snapshot = collector.collect(seen_before=None)
            reported = [gap for gap in gaps(snapshot) if f"newer than this exporter supports: of {api} " in gap]
            assert len(reported) == len(BOTH)
            assert not snapshot.is_complete
            assert_true_of_the_scene(snapshot, memory)
            assert lost_in(snapshot) == lost
        upgrade(cluster, collector)
        assert gaps(collector.collect(seen_before=None)) == ()


def test_a_cluster_that_only_a_newer_exporter_can_describe_is_reported() -> None:
    """Its metadata cannot be read, and it is not called too old."""
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        replace_by_newer(cluster, "Metadata")
        with pytest.raises(ClusterUnavailableError, match="newer than this exporter supports: of Metadata") as raised:
            collector.collect(seen_before=None)
    assert "or later" not in str(raised.value)


def replace_by_newer(cluster: FakeCluster, api: str) -> None:
    """All nodes come back with unknown versions of `api`."""
    for node in BOTH:
        cluster.oldest[node][api], cluster.offered[node][api] = 30, 32
    cluster.cut()


def test_the_listener_of_a_controller_is_not_an_old_broker() -> None:
    """To take its port for the broker's is a usual mistake; it offers other requests, and no Metadata."""
    versions = SimpleNamespace(api_versions={18: (0, 4), 55: (0, 2)})
    connection = SimpleNamespace(node_id="127.0.0.1:9093", broker_version_data=versions, too_new=set())

    with pytest.raises(BrokerFault, match="a KRaft controller responds like this; name a listener of a broker"):
        negotiate(connection, metadata.request(()))


def test_a_cluster_that_no_broker_can_describe_any_more_is_reported() -> None:
    """The sentence names the API; the cluster is not reported as one without transactions."""
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        remembered(collector)
        downgrade(cluster, METADATA_LOST["Metadata 8"], BOTH, restarts=True)
        with pytest.raises(ClusterUnavailableError, match="does not offer Metadata"):
            collector.collect(seen_before=None)


@pytest.mark.parametrize(
    ("offered", "nodes"),
    [
        pytest.param(offered, nodes, id=f"{name}-{nodes}", marks=() if (name, nodes) == QUICK else pytest.mark.slow)
        for name, offered in ALL.items()
        for nodes in ((1,), (2,), BOTH)
    ],
)
def test_a_downgrade_within_a_cycle_makes_no_lie(offered: Offered, nodes: tuple[int, ...]) -> None:
    """Before any of its requests: a proof that began with one half of the versions is not completed with the other."""
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        memory = remembered(collector)
        for number in range(1, len(cluster.received) + 1):
            cluster.restart_numbers()
            cluster.on_request = partial(_at, number, partial(downgrade, cluster, offered, nodes, restarts=True))
            snapshot = cycle(collector)
            if snapshot is not None:
                assert_true_of_the_scene(snapshot, memory)
            cluster.on_request = lambda _: None
            upgrade(cluster, collector)
            assert remembered(collector).transactions.keys() == memory.transactions.keys()


def _at(number: int, act: Callable[[], None], received: Received) -> None:
    """Does `act` before this request is answered."""
    if received.number == number:
        act()
