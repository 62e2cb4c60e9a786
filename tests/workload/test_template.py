"""The recovery template: the reaction to each error, and with a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from examples.workload.producers import transactional_producer
from examples.workload.template import (
    Decision,
    Ended,
    GaveUp,
    Record,
    Remedy,
    Transactions,
    persist,
    remedy_of,
    write_all,
)
from hangbench.kafka.cluster import KafkaCluster
from tests.workload.conftest import committed_values


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (KafkaError(KafkaError._TIMED_OUT, retriable=True), Remedy.RETRY),
        (KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, txn_requires_abort=True), Remedy.ABORT),
        (KafkaError(KafkaError._FENCED, fatal=True), Remedy.REPLACE),
        (KafkaError(KafkaError._FENCED, fatal=True, txn_requires_abort=True), Remedy.REPLACE),
        (KafkaError(KafkaError._STATE), Remedy.REPLACE),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, txn_requires_abort=True), Remedy.END),
    ],
)
def test_each_kind_of_error_has_its_remedy(error: KafkaError, remedy: Remedy) -> None:
    """The three answers of librdkafka, what is none of them, and what no repetition can help."""
    assert remedy_of(error) is remedy


def test_a_call_is_repeated_while_its_error_passes_and_no_longer() -> None:
    """Until it answers; with the failure itself where it does not pass; GaveUp when the time is over."""
    passing = KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))
    lasting = KafkaException(KafkaError(KafkaError._FENCED, fatal=True))
    answers: list[KafkaException | str] = [passing, passing, "at last"]

    def call(_timeout_s: float) -> str:
        answer = answers.pop(0)
        if isinstance(answer, KafkaException):
            raise answer
        return str(answer)

    assert persist(call, give_up_s=60) == "at last"
    answers = [passing, lasting]
    with pytest.raises(KafkaException) as raised:
        persist(call, give_up_s=60)
    assert raised.value is lasting
    answers = [passing]
    with pytest.raises(GaveUp, match="after 0 s still"):
        persist(call, give_up_s=0)


def test_a_replaced_producer_is_lost_and_its_successor_goes_on(hasty: KafkaCluster, topic: str, name: str) -> None:
    """A second producer of the id fences the first, whose commit is fatal; the second is not touched by that."""

    def connect() -> Producer:
        return transactional_producer(hasty.bootstrap, name)

    owner = Transactions(connect, give_up_s=30)
    zombie = Transactions(connect, give_up_s=30)
    errors: list[KafkaError] = []

    def write(producer: Producer) -> Decision:
        write_all(producer, [Record(topic, 0, b"owner")], 30)
        return "commit"

    def write_while_replaced(producer: Producer) -> Decision:
        write_all(producer, [Record(topic, 0, b"zombie")], 30)
        owner.run(write)
        return "commit"

    assert zombie.run(write_while_replaced, failed=errors.append) is Ended.LOST
    assert [(error.code(), error.fatal()) for error in errors] == [(KafkaError._FENCED, True)]
    assert owner.run(write) is Ended.COMMITTED
    assert committed_values(hasty, topic) == [b"owner", b"owner"]


def test_a_failure_of_the_application_aborts_and_is_raised(hasty: KafkaCluster, topic: str, name: str) -> None:
    """Nothing of it is read, and the next transaction is written by the same producer."""
    made: list[Producer] = []

    def connect() -> Producer:
        made.append(transactional_producer(hasty.bootstrap, name))
        return made[-1]

    def write(producer: Producer, value: bytes = b"whole") -> Decision:
        write_all(producer, [Record(topic, 0, value)], 30)
        if value == b"half":
            raise KeyError(value)
        return "commit"

    transactions = Transactions(connect, give_up_s=30)
    with pytest.raises(KeyError):
        transactions.run(lambda producer: write(producer, b"half"))

    assert transactions.run(write) is Ended.COMMITTED
    assert len(made) == 1
    assert committed_values(hasty, topic) == [b"whole"]
