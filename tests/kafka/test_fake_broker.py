"""The fake cluster gives the same responses as a real 4.3.1 broker in the same small state."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from kafka import KafkaAdminClient

from examples.workload.producers import OpenTransaction, run_transaction
from exporter.kafka.client.connections import Address, Connections
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.broker_configs import max_timeout, strangers
from exporter.kafka.coordinators import describe_ids, list_transactions
from exporter.kafka.messages import describe_producers, fetch
from exporter.kafka.messages.fetch import Position, fetched_of_topic
from exporter.kafka.offsets import latest_offsets
from exporter.kafka.visibility.ids import id_visibility
from exporter.snapshot import STATE_TOPIC
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import plant_hang, plant_hang_without_id
from hangbench.waiting import until
from tests.conftest import FreshName, MakeTopic
from tests.kafka.fake_broker import FETCH, FakeCluster
from tests.kafka.fake_model import Model, Partition, Producer, Transaction
from tests.kafka.loopback import HOST, framed

STATE_PARTITIONS = 5


def test_the_fake_answers_as_a_real_broker_does(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """Hangs, a live transaction, a finished one, and questions for what does not exist: answer by answer the same."""
    bootstrap, topic = kafka_4_3_1.bootstrap, make_topic(kafka_4_3_1, partitions=4)
    live, done, hung = fresh_name("live"), fresh_name("done"), fresh_name("hung")
    written_ms = time.time_ns() // 1_000_000 - 5000
    with OpenTransaction(bootstrap, live, [(topic, 2)], records=3, timeout_ms=50_000, timestamp_ms=written_ms):
        run_transaction(bootstrap, done, [(topic, 3)])
        known = plant_hang(bootstrap, topic, 0, hung, timestamp_ms=written_ms, timeout_ms=40_000)
        unknown = plant_hang_without_id(bootstrap, topic, 1, timestamp_ms=written_ms)
        transactions = described(bootstrap, live, done, hung)
        idle = Producer(transactions[done].producer_id)
        model = Model(
            topics={
                STATE_TOPIC: [Partition(1) for _ in range(STATE_PARTITIONS)],
                topic: [
                    Partition(1, high_watermark=1, producers=[planted(known)], log=b"its batch"),
                    Partition(1, high_watermark=1, producers=[planted(unknown)]),
                    Partition(
                        1,
                        high_watermark=3,
                        producers=[
                            Producer(transactions[live].producer_id, 0, last_sequence=2, last_timestamp_ms=written_ms)
                        ],
                    ),
                    Partition(1, high_watermark=2, producers=[idle]),
                ],
            },
            transactions=transactions,
        )
        ids = {name: transaction.producer_id for name, transaction in transactions.items()}
        real = said_of(Address(*address(bootstrap)), topic, ids)
    with FakeCluster(model) as fake:
        fake.offered[1] |= FETCH
        faked = said_of(Address(HOST, fake.ports[1]), topic, ids)

    for question, answer in real.items():
        assert faked[question] == answer, question


def test_a_version_that_is_not_offered_ends_the_connection(kafka_4_3_1: KafkaCluster) -> None:
    """Without a response, by the fake as by a real broker."""
    metadata_99 = framed(struct.pack(">hhih", 3, 99, 7, -1) + b"\0")
    with FakeCluster(Model()) as fake:
        for where in (address(kafka_4_3_1.bootstrap), (HOST, fake.ports[1])):
            with socket.create_connection(where, timeout=30) as connection:
                connection.sendall(metadata_99)
                assert connection.recv(1) == b""


def address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def planted(transaction: Any) -> Producer:
    return Producer(
        transaction.producer_id,
        transaction.start_offset,
        epoch=transaction.producer_epoch,
        last_timestamp_ms=transaction.timestamp_ms,
    )


def described(bootstrap: str, *ids: str) -> dict[str, Transaction]:
    """These ids as kafka-python's admin client describes them, once none is completing any more."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        states = until(
            lambda: admin.describe_transactions(list(ids)),
            lambda states: not any(row.state.value.startswith("Prepare") for row in states.values()),
        )
    finally:
        admin.close()
    return {
        name: Transaction(
            row.producer_id,
            row.state.value,
            epoch=row.producer_epoch,
            timeout_ms=row.transaction_timeout_ms,
            start_ms=-1 if row.transaction_start_time_ms is None else row.transaction_start_time_ms,
            partitions={(tp.topic, tp.partition) for tp in row.topic_partitions},
        )
        for name, row in states.items()
    }


def said_of(broker: Address, topic: str, ids: dict[str, int]) -> dict[str, Any]:
    """Question -> answer, of everything that a cycle asks."""
    connections = Connections({}, client_id="comparison")
    try:
        answers: dict[str, Any] = connections.run(_ask_everything, connections, broker, topic, ids)
    finally:
        connections.close()
    return answers


ANOTHER = 99


async def _ask_everything(connections: Connections, broker: Address, topic: str, ids: dict[str, int]) -> dict[str, Any]:
    client = ClusterClient(
        connections=connections, bootstrap=(broker,), request_timeout_s=30, deadline=time.monotonic() + 60
    )
    named = await client.topology((topic, STATE_TOPIC, "no-such-topic"))
    every = await client.topology()
    topics = {topic: [0, 1, 2, 3, 99], "no-such-topic": [0]}
    producers = await client.request(
        1, "DescribeProducers", describe_producers.request(topics), lambda raw: describe_producers.decode(raw.body)
    )
    listed = await list_transactions(client, [1])
    chosen = await list_transactions(client, [1], states=(), producer_ids=ids.values())
    client.brokers = {**every.brokers, ANOTHER: broker}
    return {
        "leaders": [named.leader_of(topic, i) for i in range(5)],
        "state partitions": len(named.rows_of(STATE_TOPIC)),
        "topic errors": dict(named.topic_errors),
        "brokers": list(named.brokers),
        "every topic": topic in every.first_row,
        "producers": producers_by_name(producers),
        "active": {t for listing in listed for t in listing.transactions if t.transactional_id in ids},
        "by producer": {t for listing in chosen for t in listing.transactions},
        "failures": [listing.failure for listing in (*listed, *chosen)],
        "descriptions": await describe_ids(client, 1, [*ids, "no-such-id"]),
        "offsets": await latest_offsets(client, {(topic, i): 1 for i in range(4)}),
        "limit": await max_timeout(client, [1]),
        "strangers": strangers(await max_timeout(client, [1, ANOTHER]), {}),
        "visibility": await id_visibility(client, [1]),
        "fetched": [await _fetched(client, topic, offset) for offset in (0, 1, 2)],
    }


async def _fetched(client: ClusterClient, topic: str, offset: int) -> tuple[int, bool, int, int | None]:
    """(error, whether there are records, high watermark, divergence) of the first partition, which has one record."""
    request = fetch.request(topic, {0: Position(offset, leader_epoch=0)})
    found = await client.request(1, "Fetch", request, lambda response: fetched_of_topic(response, topic, {0}))
    return found[0].error, bool(found[0].records), found[0].high_watermark, found[0].diverges_at


def producers_by_name(answer: describe_producers.ProducersResponse) -> dict[tuple[str, int], Any]:
    """(topic, partition) -> error, number of producers and open entries: brokers may answer in any order."""
    rows = {
        (answer.topics[topic], int(partition)): [int(error), int(count)]
        for topic, partition, error, count in zip(
            answer.topic, answer.partition, answer.error, answer.producers, strict=True
        )
    }
    names = list(rows)
    for i, row in enumerate(answer.entry_partition):
        columns = (
            answer.producer_id,
            answer.producer_epoch,
            answer.last_sequence,
            answer.last_timestamp,
            answer.coordinator_epoch,
            answer.current_txn_start_offset,
        )
        rows[names[row]] += [int(column[i]) for column in columns]
    return rows
