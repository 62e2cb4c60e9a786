"""Brokers of another cluster behind an address of the watched one are refused, until the right ones are back."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid4

import pytest

from exporter.config.loading import load
from exporter.kafka.client.connections import Address
from exporter.kafka.errors import AnotherClusterError, ClusterUnavailableError
from exporter.snapshot import STATE_TOPIC, ClusterIdentity
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import CLUSTER_ID, Model, Partition
from tests.kafka.loopback import HOST
from tests.kafka.scene import ALIVE, HANGING, collector_of, evaluated, scene, verdicts

A: Mapping[str, str] = {STATE_TOPIC: "s", "p": "1", "q": "2"}


def another(cluster_id: str = "another") -> Model:
    """A cluster with topics of the same names, and nothing open."""
    topics = {topic: [Partition(1) for _ in partitions] for topic, partitions in scene().topics.items()}
    return Model(topics=topics, cluster_id=cluster_id, topic_ids={topic: uuid4() for topic in topics})


@pytest.mark.parametrize(
    ("now", "is_another"),
    [
        (A, False),
        ({**A, "p": "other"}, False),
        ({**A, "p": "other", "q": "other"}, False),
        ({**A, STATE_TOPIC: "made again"}, False),
        ({STATE_TOPIC: "made again", "p": "1"}, False),
        ({STATE_TOPIC: "o", "p": "o", "q": "o"}, True),
        ({STATE_TOPIC: "o", "p": "o"}, True),
        ({STATE_TOPIC: "o", "x": "o"}, True),
        ({"p": "o", "q": "o"}, True),
        ({"p": "o"}, False),
        ({}, False),
        ({STATE_TOPIC: "", "p": "", "q": ""}, False),
    ],
)
def test_topic_ids_tell_clusters_of_one_id_apart(now: Mapping[str, str], *, is_another: bool) -> None:
    """Topics that were made again, also the coordinators', are of the same cluster while one topic is still the same."""
    known = ClusterIdentity(cluster_id="c", topic_ids=A)
    contradiction = known.contradiction(ClusterIdentity(cluster_id="c", topic_ids=now))
    assert (contradiction is not None) is is_another


def test_one_topic_alone_tells_nothing() -> None:
    known = ClusterIdentity(cluster_id="c", topic_ids={STATE_TOPIC: "s"})
    assert known.contradiction(ClusterIdentity(cluster_id="c", topic_ids={STATE_TOPIC: "o"})) is None


def test_the_id_of_a_hidden_transaction_log_is_remembered() -> None:
    """Rights hide the topic, and then another cluster responds whose only topic in common has another id."""
    seen = ClusterIdentity(cluster_id="c", topic_ids={STATE_TOPIC: "s", "p": "1", "q": "2"})
    hidden = seen.updated(ClusterIdentity(cluster_id="c", topic_ids={"p": "1", "q": "2"}))
    other = ClusterIdentity(cluster_id="c", topic_ids={STATE_TOPIC: "o", "p": "o"})

    assert hidden.contradiction(other) is not None
    assert hidden.updated(seen) is seen


@pytest.mark.parametrize("cluster_id", ["another", CLUSTER_ID], ids=["two ids", "one id"])
def test_of_two_clusters_in_one_list_only_the_first_is_read(cluster_id: str) -> None:
    """While it is down, cycles fail and name both; when it is back, reading goes on."""
    with (
        FakeCluster(scene(), nodes=2) as first,
        FakeCluster(another(cluster_id)) as second,
        collector_of(first) as collector,
    ):
        collector._bootstrap += (Address(HOST, second.ports[1]),)
        collector.collect()
        ports = dict(first.ports)
        first.move(1, HOST, 0)
        first.move(2, HOST, 0)
        sentence = f"broker at {HOST}:{second.ports[1]} belongs to another cluster: its cluster id is {cluster_id}"
        for _ in range(4):
            with pytest.raises(AnotherClusterError, match=sentence):
                collector.collect()
        for node, port in ports.items():
            first.move(node, HOST, port)
        assert verdicts(evaluated(collector.collect(seen_before=None))) == HANGING | ALIVE


def test_a_cluster_from_before_a_restart_is_required() -> None:
    """Unless the settings have changed since: other servers may be of another cluster."""
    known = ClusterIdentity(cluster_id="before", topic_ids={STATE_TOPIC: str(UUID(int=1)), "t": str(UUID(int=2))})
    with FakeCluster(scene(), nodes=2) as cluster:
        with collector_of(cluster) as collector:
            collector.recall(known)
            with pytest.raises(AnotherClusterError, match=f"its cluster id is {CLUSTER_ID}, not before"):
                collector.collect()
        with collector_of(cluster) as collector:
            collector.recall(known, is_required=False)
            assert collector.collect().cluster_id == CLUSTER_ID


@pytest.mark.parametrize("changed", [False, True], ids=["other credentials", "other servers"])
def test_only_other_servers_lead_to_another_cluster(*, changed: bool) -> None:
    model = scene()
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        collector.collect()
        model.cluster_id = "another"
        ports = list(cluster.ports.values())
        servers = ",".join(f"{HOST}:{port}" for port in (ports[:1] if changed else ports))
        settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": servers}).settings
        collector.use(settings.kafka, settings.scan, reconnect=True)
        if changed:
            assert collector.collect().cluster_id == "another"
        else:
            with pytest.raises(ClusterUnavailableError):
                collector.collect()


def test_topics_that_are_made_again_stay_in_the_cluster() -> None:
    """Also the coordinators' topic, and then all others one after the other."""
    model = scene()
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        collector.collect()
        for topic in model.topics:
            model.topic_ids[topic] = uuid4()
            assert collector.collect().cluster_id == CLUSTER_ID


def test_topics_that_are_made_again_within_a_cycle_are_of_the_same_cluster() -> None:
    """Two that an operator makes again are all that the second look at the suspects' topics shows."""
    model = scene()
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        collector.collect()
        model.topic_ids.update({"hung": uuid4(), "mixed": uuid4()})
        found = collector.query(lambda client: client.topology(("hung", "mixed")))
        assert found.topics == ("hung", "mixed")
        model.cluster_id = "another"
        with pytest.raises(AnotherClusterError):
            collector.query(lambda client: client.topology(("hung", "mixed")))
