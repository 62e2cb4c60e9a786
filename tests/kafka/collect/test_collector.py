"""A cycle's result while the cluster changes."""

from __future__ import annotations

import threading
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import pytest
from kafka.protocol.admin.transactions import DescribeProducersResponse

from exporter.kafka.collect.collector import Collector
from exporter.kafka.errors import ClientClosedError, ClusterUnavailableError, ErrorCode
from exporter.snapshot import STATE_TOPIC, MaxTimeout, PartitionResult, TransactionKey, TransactionKeys
from tests.kafka.fake_broker import FakeCluster, Fault, Received
from tests.kafka.scene import (
    ALIVE,
    HANGING,
    answers,
    collected,
    collector_of,
    evaluated,
    nth,
    reasons,
    scene,
    verdicts,
)


def test_a_partition_whose_leader_has_moved_is_requested_again_within_the_cycle() -> None:
    """NOT_LEADER_OR_FOLLOWER costs fresh metadata and one more question, at the new leader: the partition is read."""
    model = scene()

    def move() -> None:
        model.topics["mixed"][0].leader, model.topics["mixed"][0].leader_epoch = 1, 1

    snapshot = collected(model, on_request=nth(1, "DescribeProducers", move))

    assert answers(snapshot)["mixed", 0] is PartitionResult.READ
    assert snapshot.is_complete
    assert verdicts(evaluated(snapshot)) == HANGING | ALIVE


def test_a_partition_that_no_broker_leads_is_requested_twice_and_no_more() -> None:
    """A leader that goes on saying NOT_LEADER_OR_FOLLOWER leaves the partition unread, with that as the reason."""
    asked_for = []

    def refuse(received: Received, response: Any) -> None:
        for topic in response.topics if received.api == "DescribeProducers" else ():
            for partition in topic.partitions:
                if (topic.name, partition.partition_index) == ("lively", 2):
                    asked_for.append(received.number)
                    partition.error_code, partition.active_producers = ErrorCode.NOT_LEADER_OR_FOLLOWER, []

    snapshot = collected(scene(), on_response=refuse)

    assert reasons(snapshot) == {("lively", 2): "NOT_LEADER_OR_FOLLOWER"}
    assert len(asked_for) == 2


def test_a_former_leader_is_ignored_when_it_shows_nothing_any_more() -> None:
    """After a move the re-reads go to the new leader: a former one answers from a log that may lack the transaction."""
    model = scene()
    moved = model.topics["hung"][1]

    def move() -> None:
        moved.leader, moved.leader_epoch = 1, 1

    errors: list[int] = []

    def forget(received: Received, response: Any) -> None:
        """Node 2 reports that it has moved; read again, it follows, and has lost what it had not replicated."""
        for topic in response.topics if (received.api, received.node) == ("DescribeProducers", 2) else ():
            for partition in topic.partitions:
                if (topic.name, partition.partition_index) == ("hung", 1):
                    errors.append(partition.error_code)
                    partition.error_code = errors[0] if len(errors) == 1 else 0

    snapshot = collected(model, on_request=nth(1, "DescribeProducers", move), on_response=forget)

    assert verdicts(evaluated(snapshot)) == HANGING | ALIVE
    partitions = snapshot.partitions
    leaders = {partitions.name(row): int(partitions.leader[row]) for row in range(len(partitions))}
    assert leaders["hung", 1] == 1


def test_the_partitions_of_a_topic_deleted_meanwhile_leave_the_snapshot() -> None:
    """A topic that is gone from fresh metadata is not unread: it is not there, and the others keep their rows."""
    model = scene()
    snapshot = collected(model, on_request=nth(1, "DescribeProducers", lambda: model.topics.pop("lively")))

    assert {topic for topic, _ in answers(snapshot)} == {STATE_TOPIC, "hung", "mixed"}
    assert snapshot.is_complete
    expected = {row: verdict for row, verdict in (HANGING | ALIVE).items() if row[0] != "lively"}
    assert verdicts(evaluated(snapshot)) == expected


def test_metadata_that_lag_do_not_make_an_unread_partition_vanish() -> None:
    """A leader that does not respond, and metadata without its topic: unread, whichever is right about the topic."""
    model = scene()
    metadata_asked = 0

    def lag(received: Received, response: Any) -> None:
        nonlocal metadata_asked
        if received.api == "Metadata":
            metadata_asked += 1
            if metadata_asked > 1:
                response.topics = [topic for topic in response.topics if topic.name != "hung"]

    def silence(received: Received) -> Fault | None:
        return Fault.CLOSED if (received.api, received.node) == ("DescribeProducers", 2) else None

    snapshot = collected(model, on_request=silence, on_response=lag)

    assert metadata_asked > 1
    assert answers(snapshot)["hung", 1] is PartitionResult.UNAVAILABLE
    assert not snapshot.is_complete


def test_a_response_in_another_order_with_doubles_and_strangers_is_read_right() -> None:
    """Topics and partitions are accepted in any order; surplus and duplicate ones are ignored."""

    def shuffle(received: Received, response: Any) -> None:
        if received.api != "DescribeProducers":
            return
        topic_type = DescribeProducersResponse.TopicResponse
        partition_type = topic_type.PartitionResponse
        stranger = partition_type(version=0, partition_index=77, error_code=0, active_producers=_open_everywhere())
        for topic in response.topics:
            topic.partitions = [*reversed(topic.partitions), stranger]
        twice = [
            topic_type(
                version=0,
                name=topic.name,
                partitions=[
                    partition_type(
                        version=0,
                        partition_index=partition.partition_index,
                        error_code=0,
                        active_producers=_open_everywhere(),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in response.topics
        ]
        unknown = topic_type(version=0, name="never-heard-of", partitions=[stranger])
        # Beyond the eight of its topic: taken for rows, these would be the partitions of the topics that follow.
        beyond = topic_type(
            version=0,
            name=STATE_TOPIC,
            partitions=[
                partition_type(version=0, partition_index=i, error_code=0, active_producers=_open_everywhere())
                for i in (-1, *range(8, 15))
            ],
        )
        response.topics = [unknown, beyond, *reversed(response.topics), *twice]

    snapshot = collected(scene(), on_response=shuffle)

    assert snapshot.is_complete
    assert verdicts(evaluated(snapshot)) == HANGING | ALIVE


def _open_everywhere() -> list[Any]:
    state_type = DescribeProducersResponse.TopicResponse.PartitionResponse.ProducerState
    return [state_type(version=0, producer_id=666, producer_epoch=0, coordinator_epoch=0, current_txn_start_offset=0)]


def test_a_partition_left_out_of_the_response_is_unread() -> None:
    """A partition that the response leaves out is unavailable, and says so."""

    def leave_out(received: Received, response: Any) -> None:
        for topic in response.topics if received.api == "DescribeProducers" else ():
            topic.partitions = [p for p in topic.partitions if (topic.name, p.partition_index) != ("lively", 2)]

    snapshot = collected(scene(), on_response=leave_out)

    assert reasons(snapshot) == {("lively", 2): "left_out_of_the_answer"}
    assert answers(snapshot)["lively", 2] is PartitionResult.UNAVAILABLE
    assert not snapshot.is_complete


def test_a_partition_without_a_leader_is_unread_and_one_without_permission_is_known_by_its_offsets() -> None:
    """No leader is `unavailable`, no READ is `by_offsets`; neither counts as read."""
    model = scene()
    model.topics["lively"][2].leader = -1
    model.unreadable_topics.add("mixed")
    snapshot = collected(model)

    assert reasons(snapshot) == {
        ("lively", 2): "no_leader",
        ("mixed", 0): "TOPIC_AUTHORIZATION_FAILED",
        ("mixed", 1): "TOPIC_AUTHORIZATION_FAILED",
    }
    results = answers(snapshot)
    assert results["lively", 2] is PartitionResult.UNAVAILABLE
    assert results["mixed", 0] is results["mixed", 1] is PartitionResult.BY_OFFSETS
    assert not any(snapshot.partitions.was_read[snapshot.partitions.row("mixed", index)] for index in (0, 1))


def test_a_dead_broker_costs_only_what_it_leads() -> None:
    """With one node gone, its partitions are unavailable, nothing is proved, and the other's are as they were."""
    model = scene()
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        cluster.stop(2)
        snapshot = collector.collect(seen_before=None)

    results = answers(snapshot)
    unread = {partition for partition, answer in results.items() if answer is not PartitionResult.READ}
    assert unread == {(topic, i) for topic, all_ in model.topics.items() for i, p in enumerate(all_) if p.leader == 2}
    assert not any(verdict.is_hanging for verdict in verdicts(evaluated(snapshot)).values())


def test_no_broker_at_any_address_is_cluster_unavailable() -> None:
    """Where no address answers, there is no snapshot at all, and the sentence names every address."""
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        ports = list(cluster.ports.values())
        cluster.stop(1)
        cluster.stop(2)
        with pytest.raises(ClusterUnavailableError) as unavailable:
            collector.collect()

    assert all(str(port) in str(unavailable.value) for port in ports)


def test_a_broker_that_knows_no_broker_is_not_an_empty_cluster() -> None:
    """A node that has not caught up responds to Metadata without topics; the next address is queried instead."""

    def know_nothing(received: Received, response: Any) -> None:
        if received.api == "Metadata" and received.node == 1:
            response.brokers, response.topics = [], []

    snapshot = collected(scene(), on_response=know_nothing)

    assert len(snapshot.partitions) == 15


def test_only_what_lasts_is_described() -> None:
    """Without anything seen before, transactions that are merely open cost no DescribeTransactions."""
    model = scene()
    for row, partition in [("hung", 0), ("hung", 1)]:
        model.topics[row][partition].producers = []
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        collector.collect()
        apis = [request.api for request in cluster.received]
        assert "DescribeTransactions" not in apis

        key = TransactionKey("mixed", 0, 1, 0, uuid5(NAMESPACE_DNS, "mixed").hex)
        collector.collect(seen_before=TransactionKeys.of([key]))
        (described,) = [request.request for request in cluster.received if request.api == "DescribeTransactions"]
    assert list(described.transactional_ids) == ["alive"]


def test_offsets_of_open_transactions_are_read_at_both_isolation_levels() -> None:
    """High watermark and last stable offset are the leader's; UNKNOWN_OFFSET if it does not return them."""
    snapshot = collected(scene())
    open_ = snapshot.open_transactions

    transactions = {
        snapshot.partitions.name(int(row)): (int(stable), int(high))
        for row, stable, high in zip(open_.partition_row, open_.last_stable_offset, open_.high_watermark, strict=True)
    }
    assert transactions == {
        ("hung", 0): (5, 100),
        ("hung", 1): (7, 100),
        ("mixed", 0): (0, 100),
        ("mixed", 1): (4, 100),
        ("lively", 0): (9, 100),
        ("lively", 1): (2, 100),
    }

    def refuse(received: Received) -> ErrorCode | None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if received.api == "ListOffsets" else None

    unread = collected(scene(), on_request=refuse).open_transactions
    assert set(unread.high_watermark.tolist()) == set(unread.last_stable_offset.tolist()) == {-1}


def test_a_cycle_cut_off_by_close_gives_no_snapshot() -> None:
    """Not even one that was all but whole: what the closing made unreadable must not look like the cluster's doing."""
    last_phase = threading.Event()
    outcome: list[object] = []

    def hang(received: Received) -> Fault | None:
        if received.api != "ListOffsets":
            return None
        last_phase.set()
        return Fault.SILENT

    def collect(collector: Collector) -> None:
        try:
            outcome.append(collector.collect(seen_before=None))
        except ClientClosedError as closed:
            outcome.append(closed)

    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        cluster.on_request = hang
        thread = threading.Thread(target=collect, args=(collector,))
        thread.start()
        assert last_phase.wait(60)
        collector.close()
        thread.join(60)

    assert [type(result) for result in outcome] == [ClientClosedError]


def test_the_limit_is_read_from_every_broker() -> None:
    """transaction.max.timeout.ms is the largest value; a refusal is reported with its reason."""
    assert collected(scene()).max_timeout == MaxTimeout(timeout_ms=900_000, timeout_ms_min=900_000, unread=())

    def refuse_one(received: Received) -> ErrorCode | None:
        refused = (received.api, received.node) == ("DescribeConfigs", 2)
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED if refused else None

    max_timeout = collected(scene(), on_request=refuse_one).max_timeout
    assert max_timeout == MaxTimeout(
        timeout_ms=900_000, timeout_ms_min=900_000, unread=((2, "CLUSTER_AUTHORIZATION_FAILED"),)
    )


@pytest.mark.parametrize("value", ["9" * 5000, "2147483648", "\u00b2", "\u0661", "-1", "1e3", " 1", ""])
def test_a_limit_that_is_not_an_int_of_kafka_is_unknown(value: str) -> None:
    """One of 5,000 digits, and a superscript, were digits to Python, and ended the cycle."""

    def on_response(received: Received, response: Any) -> None:
        for result in response.results if received.api == "DescribeConfigs" else ():
            result.configs[0].value = value

    max_timeout = collected(scene(), on_response=on_response).max_timeout

    assert (max_timeout.timeout_ms, len(max_timeout.unread)) == (None, 2)
