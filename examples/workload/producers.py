"""Ordinary transactional producers: what a healthy cluster looks like beside a hang."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from confluent_kafka import Producer

Outcome = Literal["commit", "abort"]
TopicPartition = tuple[str, int]

TIMEOUT_S: Final = 30.0


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

    def close(self, outcome: Outcome) -> None:
        """Commit or abort; nothing to do where it is closed."""
        if self._open:
            self._open = False
            end_transaction(self._producer, outcome)


class Workload:
    """Producers on threads, each repeating transactions of its own rhythm until `stop`.

    A rhythm is how it ends and how long it stays open: `Workload(bootstrap, topics).add("orders", "commit", 0.1)`.
    """

    def __init__(self, bootstrap: str, topic_partitions: Sequence[TopicPartition]) -> None:
        self._bootstrap = bootstrap
        self._topic_partitions = topic_partitions
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._finished: Counter[tuple[str, Outcome]] = Counter()

    @property
    def finished(self) -> dict[tuple[str, Outcome], int]:
        """How many transactions each transactional id has ended, and how."""
        with self._lock:
            return dict(self._finished)

    def add(self, transactional_id: str, outcome: Outcome, hold_s: float, *, records: int = 3) -> Workload:
        """Start one more producer; its transactions stay open for `hold_s` seconds."""
        name = f"workload-{transactional_id}"
        arguments = (transactional_id, outcome, hold_s, records)
        thread = threading.Thread(target=self._repeat, args=arguments, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return self

    def stop(self) -> None:
        """End all producers; each ends its transaction in the way it would have."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)

    def __enter__(self) -> Workload:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _repeat(self, transactional_id: str, outcome: Outcome, hold_s: float, records: int) -> None:
        producer = transactional_producer(self._bootstrap, transactional_id)
        start = len(self._threads) % len(self._topic_partitions)
        for turn in itertools.count(start):
            if self._stopping.is_set():
                return
            partition = self._topic_partitions[turn % len(self._topic_partitions)]
            producer.begin_transaction()
            produce(producer, [partition], records)
            self._stopping.wait(hold_s)
            end_transaction(producer, outcome)
            with self._lock:
                self._finished[transactional_id, outcome] += 1


def run_transaction(
    bootstrap: str,
    transactional_id: str,
    topic_partitions: Iterable[TopicPartition],
    *,
    records: int = 1,
    outcome: Outcome = "commit",
) -> None:
    """One whole transaction, `records` to each partition."""
    transaction = OpenTransaction(bootstrap, transactional_id, topic_partitions, records=records)
    with transaction:
        transaction.close(outcome)


def transactional_producer(bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000) -> Producer:
    """A producer whose transactional id is initialised (which fences the one before it)."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


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


def end_transaction(producer: Producer, outcome: Outcome) -> None:
    if outcome == "commit":
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)
