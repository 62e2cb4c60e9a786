"""Which partition of __transaction_state owns an id, and how contradicting coordinators are handled."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin.transactions import ListTransactionsResponse

from exporter.evaluation.verdicts import InconclusiveReason, Verdict
from exporter.kafka.client.connections import Address, Connections
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.coordinator_proof import prove
from exporter.kafka.coordinators import list_transactions
from exporter.kafka.lookups import KafkaRequestError, describe_id
from exporter.kafka.state_partitions import _partitions_of, _random_ids, probe_ids, state_partition
from exporter.snapshot import STATE_TOPIC, CoordinatorTransaction, IdVisibility, TransactionState
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import init_producer_id
from hangbench.kafka.wire import metadata, open_wire
from tests.conftest import FreshName
from tests.kafka.counting import CALLS_MAX, calls
from tests.kafka.fake_broker import FakeCluster, Received
from tests.kafka.fake_model import Acl
from tests.kafka.scene import PRODUCER_ID_UNKNOWN, collector_of, evaluated, inconclusive, scene, verdicts

STATE_PARTITIONS = 5
"""Of the brokers that the tests boot."""

# Written down from Apache Kafka 4.3.1's own Utils.abs(id.hashCode()) % n.
VECTORS = [
    ("", 0, 0, 0),
    ("a", 97, 47, 6),
    ("hello", 99162322, 22, 0),
    ("transaction-0", 448239873, 23, 4),
    ("polygenelubricants", -2147483648, 0, 0),
    ("GydZG_", -2147483648, 0, 0),
    ("zzzzzzzzzzz", -1765712838, 38, 1),
    ("orders-7", 1234322255, 5, 5),
    ("é", 233, 33, 2),
    ("日本語", 25921943, 43, 5),
    ("😀-x", 1703757454, 4, 0),
    ("😀", 1772899, 49, 2),
    ("Ünïcødé-transaction", -177750936, 36, 6),
    ("payments-eu-west-1-00000042", -666200837, 37, 1),
]


@pytest.mark.parametrize(("transactional_id", "_hash", "of_50", "of_7"), VECTORS)
def test_the_state_partition_of_an_id_is_the_one_that_java_computes(
    transactional_id: str, _hash: int, of_50: int, of_7: int
) -> None:
    """Utils.abs(String.hashCode) modulo: over UTF-16 units, negative hashes and the smallest int included."""
    assert (state_partition(transactional_id, 50), state_partition(transactional_id, 7)) == (of_50, of_7)


def test_ids_hash_in_columns_as_they_do_alone() -> None:
    """Every id of a thousand, over as many partitions as brokers have, few and many."""
    ids = _random_ids(1000)
    for partitions in (1, 2, 50, 99_991):
        alone = [state_partition(encoded.tobytes().decode(), partitions) for encoded in ids]
        assert _partitions_of(ids, partitions).tolist() == alone


@given(st.integers(1, 200))
def test_there_is_a_probe_for_every_state_partition(partitions: int) -> None:
    """One id for each partition, in order, all different, long enough never to have been used, new each time."""
    probes = probe_ids(partitions)

    assert [state_partition(probe, partitions) for probe in probes] == list(range(partitions))
    assert min(len(probe) for probe in probes) >= 32
    assert not set(probes) & set(probe_ids(partitions))


def test_probes_for_many_partitions_take_few_steps() -> None:
    """Ids are drawn in columns until each partition has one; only those are text."""
    partitions = 5_000
    per_partition = 8
    assert calls(lambda: probe_ids(partitions)) < CALLS_MAX + per_partition * partitions


def test_a_real_broker_keeps_each_id_in_its_computed_partition(
    kafka_4_3_1: KafkaCluster, fresh_name: FreshName
) -> None:
    """The record of every id, plain, accented or beyond the basic plane, lies in its computed state partition."""
    ids = [fresh_name(stem) for stem in ("orders", "Ünïcødé", "日本語", "😀") for _ in range(8)]
    for transactional_id in ids:
        init_producer_id(kafka_4_3_1.bootstrap, transactional_id)
    with open_wire(kafka_4_3_1.bootstrap) as wire:
        assert len(metadata(wire, [STATE_TOPIC]).topics[0].partitions) == STATE_PARTITIONS

    found = state_records(kafka_4_3_1.bootstrap, set(ids))

    assert found == {transactional_id: state_partition(transactional_id, STATE_PARTITIONS) for transactional_id in ids}
    assert set(found.values()) == set(range(STATE_PARTITIONS))


def state_records(bootstrap: str, wanted: set[str]) -> dict[str, int]:
    """Transactional id -> the partition of __transaction_state in which its record lies."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader-of-state",
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    found: dict[str, int] = {}
    deadline = time.monotonic() + 60
    try:
        consumer.assign([TopicPartition(STATE_TOPIC, partition, 0) for partition in range(STATE_PARTITIONS)])
        while wanted - found.keys():
            assert time.monotonic() < deadline, f"no record of {wanted - found.keys()}"
            for message in consumer.consume(500, 1.0):
                key, partition = message.key(), message.partition()
                assert isinstance(key, bytes)
                assert partition is not None
                version, size = struct.unpack_from(">hh", key)
                assert version == 0
                name = key[4 : 4 + size].decode()
                if name in wanted:
                    found[name] = partition
    finally:
        consumer.close()
    return found


def test_a_real_broker_proves_all_its_state_partitions(kafka_4_3_1: KafkaCluster, fresh_name: FreshName) -> None:
    """Probes at the leaders, listing by producer id, and DescribeAcls without an authorizer: nothing is missing."""
    transactional_id = fresh_name("known")
    producer_id, epoch = init_producer_id(kafka_4_3_1.bootstrap, transactional_id, timeout_ms=45_000)
    host, _, port = kafka_4_3_1.bootstrap.rpartition(":")

    async def ask(connections: Connections) -> Any:
        client = ClusterClient(
            connections=connections,
            bootstrap=(Address(host, int(port)),),
            request_timeout_s=30,
            deadline=time.monotonic() + 60,
        )
        topology = await client.topology()
        return await prove(client, topology, producer_ids={producer_id}, topics={STATE_TOPIC})

    connections = Connections({}, client_id="prover")
    try:
        proof = connections.run(ask, connections)
    finally:
        connections.close()

    assert proof.failure is None
    assert [(p.partition, p.leader, p.failure) for p in proof.state_partitions] == [
        (i, 1, None) for i in range(STATE_PARTITIONS)
    ]
    assert proof.transactions == (
        CoordinatorTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            state=TransactionState.EMPTY,
            coordinator=1,
            producer_epoch=epoch,
            timeout_ms=45_000,
            start_ms=None,
            partitions=frozenset(),
            state_partition=state_partition(transactional_id, STATE_PARTITIONS),
        ),
    )
    assert proof.id_visibility is IdVisibility.ALL


def test_a_producer_id_that_two_coordinators_claim_proves_nothing() -> None:
    """Its state partition is just moving: inconclusive for this one, the others are proved."""
    model = scene()
    owner = model.coordinator_of("ended")[1]

    def claim(received: Received, response: Any) -> None:
        """The other node goes on as if it still were the coordinator."""
        if received.node == owner:
            return
        if received.api == "ListTransactions" and received.request.producer_id_filters:
            state_type = ListTransactionsResponse.TransactionState
            response.transaction_states.append(
                state_type(version=1, transactional_id="ended", producer_id=12, transaction_state="CompleteCommit")
            )
        for row in response.transaction_states if received.api == "DescribeTransactions" else ():
            if row.transactional_id == "ended":
                row.error_code, row.producer_id, row.transaction_state = 0, 12, "CompleteCommit"

    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        cluster.on_response = claim
        evaluation = evaluated(collector.collect(seen_before=None))

    assert set(inconclusive(evaluation)) == {("hung", 1, 12)}
    assert inconclusive(evaluation)["hung", 1, 12] in {
        InconclusiveReason.CHANGED_WHILE_ASKED,
        InconclusiveReason.COORDINATOR_MOVED,
    }


def test_an_id_that_names_another_producer_meanwhile_proves_nothing() -> None:
    """Between listing and description the id got a new producer id: what was listed is not what is described."""
    model = scene()

    def rename(received: Received) -> None:
        if received.api == "DescribeTransactions" and "ended" in received.request.transactional_ids:
            model.transactions["ended"] = replace(model.transactions["ended"], producer_id=1000)

    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        cluster.on_request = rename
        evaluation = evaluated(collector.collect(seen_before=None))

    assert inconclusive(evaluation) == {("hung", 1, 12): InconclusiveReason.CHANGED_WHILE_ASKED}


@pytest.mark.parametrize("denials", [[], [Acl(4, 2)]], ids=["none", "of WRITE"])
def test_readable_acls_without_a_denial_of_describing_hide_nothing(denials: list[Acl]) -> None:
    """With an authorizer whose ACLs rule it out, an unlisted producer id is proved hanging at once."""
    model = scene()
    model.acls = denials
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        evaluation = evaluated(collector.collect(seen_before=None))

    assert verdicts(evaluation)["hung", 0, PRODUCER_ID_UNKNOWN] is Verdict.HANGING_NO_TRANSACTIONAL_ID


def test_a_state_that_is_not_known_is_reported_as_such() -> None:
    """A later Kafka's new state name is neither an error nor evidence."""
    model = scene()
    model.transactions["ended"] = replace(model.transactions["ended"], state="Hibernating")
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        evaluation = evaluated(collector.collect(seen_before=None))

    assert inconclusive(evaluation) == {("hung", 1, 12): InconclusiveReason.UNKNOWN_STATE}


def test_listings_are_filtered_by_state_or_by_producer() -> None:
    """Active states when everything is listed; any state for unverified producers; never by duration."""
    with FakeCluster(scene(), nodes=2) as cluster:

        async def ask(connections: Connections) -> Any:
            client = ClusterClient(
                connections=connections,
                bootstrap=tuple(Address("127.0.0.1", port) for port in cluster.ports.values()),
                request_timeout_s=30,
                deadline=time.monotonic() + 60,
            )
            await client.topology()
            return (
                await list_transactions(client, (1, 2)),
                await list_transactions(client, (1, 2), states=(), producer_ids={12, 98, 4}),
            )

        connections = Connections({}, client_id="lister")
        try:
            active, chosen = connections.run(ask, connections)
        finally:
            connections.close()
        durations = {sent.request.duration_filter for sent in cluster.received if sent.api == "ListTransactions"}

    assert {t.transactional_id for listing in active for t in listing.transactions} == {
        "alive",
        "completing",
        "wide",
        "prepared",
        "elsewhere",
        "newer",
    }
    assert {t.transactional_id for listing in chosen for t in listing.transactions} == {"ended", "idle", "prepared"}
    assert durations == {-1}


def _hidden_state_topic(cluster: FakeCluster) -> None:
    cluster.model.hidden_topics |= {(1, STATE_TOPIC), (2, STATE_TOPIC)}


def test_without_a_right_on_the_state_topic_every_broker_is_asked_for_an_id() -> None:
    """The coordinator's answer counts; others say that they are not it."""
    model = scene()
    for name in model.transactions:
        with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
            seen = collector.query(lambda client, name=name: describe_id(client, name))  # type: ignore[misc]
            _hidden_state_topic(cluster)
            asked = len(cluster.received)
            assert collector.query(lambda client, name=name: describe_id(client, name)) == seen  # type: ignore[misc]
            apis = [received.api for received in cluster.received[asked:]]
            assert apis.count("DescribeTransactions") == 2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda model: model.transactions.clear(), "does not know transactional id 'gone'"),
        (lambda model: setattr(model, "may_describe_ids", False), "'gone' is not visible: grant DESCRIBE on it"),
        (lambda model: model.topics.pop(STATE_TOPIC), "no broker is the coordinator of 'gone'"),
    ],
)
def test_an_id_that_no_broker_describes_is_an_error(change: Callable[[Any], object], sentence: str) -> None:
    """With what to do."""
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        _hidden_state_topic(cluster)
        change(cluster.model)
        with pytest.raises(KafkaRequestError, match=re.escape(sentence)):
            collector.query(lambda client: describe_id(client, "gone"))


def test_two_coordinators_of_one_id_are_an_error() -> None:
    """One of them does not know yet that it is none any more: its state may be of before."""
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        name = next(iter(cluster.model.transactions))
        _hidden_state_topic(cluster)
        cluster.on_response = lambda received, answer: _as_coordinator(cluster, received, answer)
        with pytest.raises(KafkaRequestError, match="brokers 1 and 2 are coordinators"):
            collector.query(lambda client: describe_id(client, name))


def _as_coordinator(cluster: FakeCluster, received: Received, answer: Any) -> None:
    if received.api == "DescribeTransactions":
        for row in answer.transaction_states:
            transaction = cluster.model.transactions[row.transactional_id]
            row.error_code, row.transaction_state = 0, transaction.state
            row.transaction_timeout_ms, row.transaction_start_time_ms = transaction.timeout_ms, 1
            row.producer_id, row.producer_epoch = transaction.producer_id, transaction.epoch
