"""Errors of clients after a time-out and a fence: the texts in docs/transactions.md are those of the real client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from hangbench.kafka.cluster import KafkaCluster
from hangbench.waiting import until
from tests.marks import starts
from tests.real_brokers.exporting import ended

DOCUMENT = (Path(__file__).parents[2] / "docs" / "transactions.md").read_text()
TIMEOUT_MS = 1500
PATIENCE_S = 20


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
@starts("broker")
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Coordinators that look every 200 ms for what has timed out, and keep it."""
    properties = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
    with KafkaCluster(request.param, properties=properties) as made:
        made.topics.create("t", partitions=1)
        yield made


def writing(cluster: KafkaCluster, name: str) -> Producer:
    """A producer with a transaction that has written a record."""
    options = {"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "transaction.timeout.ms": TIMEOUT_MS}
    producer = Producer(options)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t", b"x")
    producer.flush(PATIENCE_S)
    return producer


def time_out(cluster: KafkaCluster, folder: Path, name: str) -> None:
    until(lambda: name in ended(folder, "timeouts", "--bootstrap-server", cluster.bootstrap).stdout)


def fence(cluster: KafkaCluster, _: Path, name: str) -> None:
    options = {"bootstrap.servers": cluster.bootstrap, "transactional.id": name}
    Producer(options).init_transactions(PATIENCE_S)


@pytest.mark.parametrize("happens", [time_out, fence])
def test_librdkafka_says_after_commit_what_the_document_says(
    cluster: KafkaCluster, tmp_path: Path, happens: Callable[[KafkaCluster, Path, str], None]
) -> None:
    name = f"{happens.__name__}-commit"
    producer = writing(cluster, name)
    happens(cluster, tmp_path, name)
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(PATIENCE_S)
    error = caught.value.args[0]
    assert (error.name(), error.fatal()) == ("_FENCED", True)
    assert f"`{error.str()}`" in DOCUMENT


def test_a_java_client_s_texts_are_those_of_its_errors() -> None:
    """kafka-python has copies of the descriptions of Kafka's own error codes."""
    from kafka.errors import InvalidProducerEpochError, InvalidTxnStateError, ProducerFencedError  # noqa: PLC0415

    for error in (InvalidProducerEpochError, InvalidTxnStateError, ProducerFencedError):
        assert error.description in DOCUMENT
