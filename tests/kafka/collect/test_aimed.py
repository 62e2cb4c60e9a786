"""Aimed attacks: odd responses about quorum and ACLs, missing controllers, single failing steps of a proof."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.evaluation.gaps import gaps
from exporter.evaluation.memory import RememberedTransactions
from exporter.evaluation.verdicts import InconclusiveReason
from exporter.kafka.collect.collector import Collector
from exporter.kafka.errors import ErrorCode, MalformedResponseError
from exporter.kafka.leadership.metadata_source import CHECKED_EVERY_CYCLES
from exporter.kafka.visibility import ids, topics
from exporter.snapshot import STATE_TOPIC, Snapshot
from tests.kafka.fake_broker import FakeCluster, Fault, Received
from tests.kafka.fake_model import Model, Partition
from tests.kafka.scene import ALIVE, HANGING, collected, collector_of, evaluated, inconclusive, scene, verdicts

ALLOW, DESCRIBE = 3, 8
LITERAL, PREFIXED = 3, 4


def no_voters(quorum: Any) -> None:
    quorum.observers, quorum.current_voters = [*quorum.observers, *quorum.current_voters], []


def at_the_end_of_time(quorum: Any) -> None:
    for state in (*quorum.observers, *quorum.current_voters):
        state.last_caught_up_timestamp = 2**63 - 1


def no_times(quorum: Any) -> None:
    for state in (*quorum.observers, *quorum.current_voters):
        state.last_caught_up_timestamp = -1


def no_leader(quorum: Any) -> None:
    quorum.leader_id = -1


@pytest.mark.parametrize("change", [no_voters, at_the_end_of_time, no_times, no_leader])
def test_an_odd_quorum_does_not_end_the_cycle(change: Callable[[Any], None]) -> None:
    """It shows neither the brokers' progress nor the time: then all of them must agree, and they do."""

    def on_response(received: Received, response: Any) -> None:
        if received.api == "DescribeQuorum":
            change(response.topics[0].partitions[0])

    assert verdicts(evaluated(collected(scene(), on_response=on_response))) == HANGING | ALIVE


def test_a_broker_whose_directory_was_created_again_is_current() -> None:
    """Its former self stays among the observers for five minutes, under the same id."""

    def on_response(received: Received, response: Any) -> None:
        if received.api == "DescribeQuorum":
            quorum = response.topics[0].partitions[0]
            former = type(quorum.observers[0])(version=1, replica_id=2, log_end_offset=1, last_caught_up_timestamp=9)
            quorum.observers = [*quorum.observers, former]

    assert verdicts(evaluated(collected(scene(), on_response=on_response))) == HANGING | ALIVE


def test_controllers_that_are_gone_do_not_cost_the_cycle() -> None:
    """Each of eight brokers holds its response back for three seconds: one after the other they would take it all."""
    model = Model(
        topics={STATE_TOPIC: [Partition(node) for node in range(1, 9)], "t": [Partition(node) for node in range(1, 9)]}
    )
    with FakeCluster(model, nodes=8) as cluster, collector_of(cluster, deadline_s=12) as collector:
        cluster.on_request = lambda received: Fault.SILENT if received.api == "DescribeQuorum" else None
        began = time.monotonic()
        snapshots = [collector.collect() for _ in range(2)]

        assert time.monotonic() - began < 9
    assert not any(snapshot.partitions.reasons for snapshot in snapshots), "every partition is read"
    assert not any(snapshot.is_complete for snapshot in snapshots), "also where nothing is asked anew"


def test_another_source_of_metadata_is_checked_at_once() -> None:
    """The one that was checked is gone, and the next one is cut off from its controller and hides a new topic."""
    model = Model(topics={STATE_TOPIC: [Partition(1), Partition(2), Partition(3)], "t": [Partition(3)]})
    with FakeCluster(model, nodes=3) as cluster, collector_of(cluster) as collector:
        assert collector.collect().is_complete
        model.topics["new"] = [Partition(3)]
        model.hidden_topics = {(2, "new")}
        cluster.on_request = lambda received: (
            Fault.CLOSED if received.node == 1 or (received.node == 2 and received.api == "DescribeQuorum") else None
        )

        assert "new" in collector.collect().partitions.topics


def test_a_source_that_was_checked_is_kept() -> None:
    """The first cycle queries a bootstrap address; the next must not use a broker that was not checked."""
    model = Model(topics={STATE_TOPIC: [Partition(1)], "t": [Partition(1)]})
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        collector._bootstrap = collector._bootstrap[::-1]
        sources = [_source_of_metadata(cluster, collector) for _ in range(4)]

    assert sources == [{2}] * 4


def test_a_source_behind_a_name_of_no_broker_is_checked_under_its_own() -> None:
    """A load balancer, or a service of Kubernetes: the broker behind it is unknown."""
    model = Model(topics={STATE_TOPIC: [Partition(1)], "t": [Partition(1)]})
    with FakeCluster(model) as cluster, collector_of(cluster, bootstrap="localhost") as collector:
        cycles = [_apis(cluster, collector) for _ in range(CHECKED_EVERY_CYCLES + 1)]

    assert [apis.count("DescribeQuorum") for apis in cycles] == [1, 0, 0, 1]
    assert [apis.count("Metadata") for apis in cycles] == [2, 1, 1, 1]


def test_a_source_is_looked_for_also_among_bootstrap_addresses() -> None:
    """Node 1 is cut off, was so before node 2 came back, and does not name it."""
    model = Model(topics={STATE_TOPIC: [Partition(2)], "t": [Partition(2)]})

    def forget(received: Received, response: Any) -> None:
        if received.api == "Metadata" and received.node == 1:
            response.brokers = [broker for broker in response.brokers if broker.node_id == 1]

    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        cluster.on_response = forget
        cluster.on_request = lambda received: (
            Fault.CLOSED if received.api == "DescribeQuorum" and received.node == 1 else None
        )

        assert collector.collect().is_complete
        assert _source_of_metadata(cluster, collector) == {2}


def _apis(cluster: FakeCluster, collector: Collector) -> list[str]:
    cluster.restart_numbers()
    collector.collect()
    return [request.api for request in cluster.received]


def _source_of_metadata(cluster: FakeCluster, collector: Collector) -> set[int]:
    cluster.restart_numbers()
    collector.collect()
    return {request.node for request in cluster.received if request.api == "Metadata"}


def proof_fails(api: str, nth: int) -> Callable[[Received], ErrorCode | None]:
    """Of the proof's requests of this API at node 1 the `nth` is refused."""
    listings = seen = 0

    def on_request(received: Received) -> ErrorCode | None:
        nonlocal listings, seen
        listings += received.api == "ListTransactions"
        is_due = api == "DescribeAcls" or listings >= 2 * 2
        seen += is_due and (received.api, received.node) == (api, 1)
        return (
            ErrorCode.KAFKA_STORAGE_ERROR if is_due and (received.api, received.node, seen) == (api, 1, nth) else None
        )

    return on_request


@pytest.mark.parametrize(("api", "nth"), [("DescribeAcls", 1), ("DescribeAcls", 2), ("DescribeTransactions", 1)])
def test_coverage_is_not_complete_where_a_step_of_a_proof_was_refused(api: str, nth: int) -> None:
    """A hang is inconclusive because a response is missing: that is a gap with a sentence."""
    snapshot = collected(scene(), on_request=proof_fails(api, nth))

    assert inconclusive(evaluated(snapshot))
    assert_gap(snapshot)


def test_coverage_is_not_complete_where_a_coordinator_does_not_show_its_topics() -> None:
    """After its descriptions it is queried whether it shows the suspects' topics, and does not respond."""
    listings = acls = 0

    def on_request(received: Received) -> Fault | None:
        nonlocal listings, acls
        listings += received.api == "ListTransactions"
        acls += received.api == "DescribeAcls"
        is_due = (listings, acls) == (2 * 2, 2) and (received.api, received.node) == ("Metadata", 2)
        return Fault.CLOSED if is_due else None

    snapshot = collected(scene(), on_request=on_request)

    assert InconclusiveReason.TOPICS_HIDDEN in inconclusive(evaluated(snapshot)).values()
    assert_gap(snapshot)


def assert_gap(snapshot: Snapshot) -> None:
    assert not snapshot.is_complete
    assert gaps(snapshot)


def acl(name: str | None, pattern: int) -> SimpleNamespace:
    acls = [SimpleNamespace(operation=DESCRIBE, permission_type=ALLOW)]
    return SimpleNamespace(resource_name=name, pattern_type=pattern, acls=acls)


@pytest.mark.parametrize("pattern", [LITERAL, PREFIXED])
@pytest.mark.parametrize("read", [ids._patterns, topics._names])
def test_an_acl_without_a_name_is_malformed(read: Callable[[Any], object], pattern: int) -> None:
    """Null for a name is the broker's fault, and no exception of the exporter."""
    with pytest.raises(MalformedResponseError):
        read(SimpleNamespace(error_code=0, resources=[acl(None, pattern)]))


def test_made_up_topics_match_no_longer_prefix_by_chance() -> None:
    """`team-` belongs to others, `team-a` and every hexadecimal digit to this principal: no probe may be its own."""
    ours = [*"0123456789abcdef", *(f"team-{character}" for character in "0123456789abcdef")]
    answer = SimpleNamespace(error_code=0, resources=[acl(prefix, PREFIXED) for prefix in (*ours, "team-")])

    names = topics._names(answer)

    assert any(not name.startswith((*ours, "team-")) for name in names), "one that no ACL names"
    assert any(name.startswith("team-") and not name.startswith(tuple(ours)) for name in names)


def test_a_transaction_remembered_without_a_topic_id_is_described() -> None:
    """Brokers without topic ids return none: a live transaction that was open over the upgrade stays what it is."""
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        memory = evaluated(collector.collect(seen_before=None)).memory
        rows = {key._replace(topic_id=""): remembered for key, remembered in memory.transactions.items()}
        old = RememberedTransactions.of(rows)
        snapshot = collector.collect(seen_before=old.identity)

    assert verdicts(evaluated(snapshot, replace(memory, transactions=old))) == HANGING | ALIVE
