"""Single transactions, open for as long as a test or a demo wants them."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable
from typing import Final

from confluent_kafka import Producer

from examples.workload.template import Decision, initialised

TopicPartition = tuple[str, int]

TIMEOUT_S: Final = 30.0

_UNHEARD: Final = logging.getLogger(f"{__name__}.librdkafka")
_UNHEARD.propagate = False
_UNHEARD.addHandler(logging.NullHandler())


class OpenTransaction:
    """A transaction that is open, with all its records in the log, until it is closed.

    As a context it opens on entry and commits on exit, or aborts after an exception.
    """

    def __init__(
        self,
        bootstrap: str,
        transactional_id: str,
        topic_partitions: Iterable[TopicPartition],
        *,
        records: int = 1,
        timeout_ms: int = 60_000,
        timestamp_ms: int | None = None,
    ) -> None:
        """`records` go to each partition, with `timestamp_ms` as their CreateTime (now when left out)."""
        self._producer = transactional_producer(bootstrap, transactional_id, timeout_ms=timeout_ms)
        self._topic_partitions = list(topic_partitions)
        self._records = records
        self._timestamp_ms = timestamp_ms
        self._open = False

    def __enter__(self) -> OpenTransaction:
        self._producer.begin_transaction()
        self._open = True
        self.write(self._records)
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        self.close("abort" if failure else "commit")

    def write(self, records: int = 1) -> None:
        """Write more records to each partition; they are in the log on return."""
        produce(self._producer, self._topic_partitions, records, timestamp_ms=self._timestamp_ms)

    def close(self, outcome: Decision) -> None:
        """Commit or abort; nothing to do where it is closed."""
        if self._open:
            self._open = False
            end_transaction(self._producer, outcome)


def run_transaction(
    bootstrap: str,
    transactional_id: str,
    topic_partitions: Iterable[TopicPartition],
    *,
    records: int = 1,
    outcome: Decision = "commit",
) -> None:
    """One whole transaction, `records` to each partition."""
    transaction = OpenTransaction(bootstrap, transactional_id, topic_partitions, records=records)
    with transaction:
        transaction.close(outcome)


def transactional_producer(
    bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000, give_up_s: float = TIMEOUT_S
) -> Producer:
    """A producer whose transactional id is initialised (which fences the one before it)."""
    return initialised(producer_configuration(bootstrap, transactional_id, timeout_ms=timeout_ms), give_up_s)


def producer_configuration(bootstrap: str, transactional_id: str, *, timeout_ms: int) -> dict[str, object]:
    """As librdkafka names it. Its own log is dropped: a fenced producer is expected here, and every error is handled."""
    return {
        "bootstrap.servers": bootstrap,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout_ms,
        "linger.ms": 0,
        "logger": _UNHEARD,
    }


def produce(
    producer: Producer, topic_partitions: Iterable[TopicPartition], records: int, *, timestamp_ms: int | None = None
) -> None:
    """Write so many records to each partition, and wait until the brokers have them."""
    create_time_ms = 0 if timestamp_ms is None else timestamp_ms  # 0 means now to librdkafka
    for (topic, partition), number in itertools.product(topic_partitions, range(records)):
        producer.produce(topic, value=str(number).encode(), partition=partition, timestamp=create_time_ms)
    unwritten = producer.flush(TIMEOUT_S)
    if unwritten:
        raise TimeoutError(f"{unwritten} records were not written within {TIMEOUT_S:.0f} s")


def end_transaction(producer: Producer, outcome: Decision) -> None:
    if outcome == "commit":
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)
