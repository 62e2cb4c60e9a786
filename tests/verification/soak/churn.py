"""Writes transactions to a topic that is deleted and created again: after any failure a new producer continues."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaException, Producer

from examples.workload.producers import transactional_producer
from tests.verification.background import Background

RECORDS: Final = 3
TIMEOUT_MS: Final = 5_000
STEP_S: Final = 5.0


class Churn(Background):
    """Commits on a thread of its own, from its making until `close`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self.committed = 0
        self.failed = 0
        super().__init__(joined_within_s=60)

    def run(self) -> None:
        while not self.is_ending():
            try:
                producer = transactional_producer(self._bootstrap, "churn", timeout_ms=TIMEOUT_MS)
                while not self.is_ending():
                    self._commit_one(producer)
            except (KafkaException, TimeoutError, AssertionError):
                # Its transaction is fenced by the next producer of the id, or timed out: what comes late is refused.
                self.failed += 1
                self.pause(0.2)

    def _commit_one(self, producer: Producer) -> None:
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.produce(self._topic, str(number))
        producer.flush(STEP_S)
        producer.commit_transaction(STEP_S)
        self.committed += 1
        self.pause(0.02)
