"""What the workload writes: numbered records, or what it reads from another topic."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from examples.workload.template import GaveUp, Record, next_offsets, read_batch, rewind, send_offsets
from examples.workload.template import committed as committed_offsets

READ_TIMEOUT_S: Final = 0.2  # a batch that is not full is not waited for
FETCH_WAIT_MS: Final = 50  # going back waits for the fetch that is under way


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The records of one transaction, and the messages that they were made of."""

    records: tuple[Record, ...]
    read: tuple[Message, ...] = ()

    @property
    def offsets(self) -> tuple[tuple[str, int, int], ...]:
        """Topic, partition, offset to go on from."""
        return tuple((place.topic, place.partition, place.offset) for place in next_offsets(self.read))


class Source(Protocol):
    """Gives the records of one transaction after the other; the same again after one that was not committed."""

    def take(self, count: int) -> Batch | None:
        """So many records at most; None where there will be no more."""

    def send_offsets(self, producer: Producer, batch: Batch) -> None:
        """Make what was read part of the transaction."""

    def settle(self, *, committed: bool) -> None:
        """What was taken counts from now on, or is to be taken again."""

    def close(self) -> None: ...


class Numbers:
    """Records named `id/0`, `id/1` and so on, padded with dots to `size` bytes; each transaction in the next partition."""

    def __init__(
        self, transactional_id: str, topic_partitions: Sequence[tuple[str, int]], *, size: int, first_partition: int
    ) -> None:
        self._transactional_id = transactional_id
        self._topic_partitions = topic_partitions
        self._size = size
        self._next = 0
        self._taken = 0
        self._turn = first_partition

    def take(self, count: int) -> Batch:
        topic, partition = self._topic_partitions[self._turn % len(self._topic_partitions)]
        self._turn += 1
        self._taken = count
        names = [f"{self._transactional_id}/{number}" for number in range(self._next, self._next + count)]
        return Batch(records=tuple(Record(topic, partition, name.ljust(self._size, ".").encode()) for name in names))

    def send_offsets(self, producer: Producer, batch: Batch) -> None:
        """Nothing was read."""

    def settle(self, *, committed: bool) -> None:
        self._next += self._taken if committed else 0

    def close(self) -> None:
        """Nothing is open."""


class Input:
    """Copies partitions of another topic, to their end; the group is named as the transactional id.

    The partitions are assigned, not subscribed to: the transactional id alone says whose they are, and fences who had
    them before. With a subscription, end the transaction before partitions are given back.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        inputs: Sequence[tuple[str, int]],
        outputs: Sequence[tuple[str, int]],
        *,
        give_up_s: float,
    ) -> None:
        self._outputs = outputs
        self._inputs = [TopicPartition(*place) for place in inputs]
        self._ended: frozenset[tuple[str, int]] = frozenset()
        self._give_up_s = give_up_s
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": FETCH_WAIT_MS,
            }
        )

    def take(self, count: int) -> Batch | None:
        deadline = time.monotonic() + self._give_up_s
        if not self._consumer.assignment():
            self._consumer.assign(committed_offsets(self._consumer, self._inputs, self._give_up_s))
        while len(self._ended) < len(self._inputs):
            read, ended = read_batch(self._consumer, count, READ_TIMEOUT_S)
            self._ended |= ended
            if read:
                return Batch(records=tuple(map(self._copied, read)), read=tuple(read))
            if time.monotonic() > deadline:
                raise GaveUp(f"after {self._give_up_s:g} s still nothing could be read")
        return None

    def send_offsets(self, producer: Producer, batch: Batch) -> None:
        send_offsets(producer, self._consumer, batch.read, self._give_up_s)

    def settle(self, *, committed: bool) -> None:
        if not committed:
            rewind(self._consumer, self._give_up_s)
            self._ended = frozenset()

    def close(self) -> None:
        self._consumer.close()

    def _copied(self, message: Message) -> Record:
        partition, value = message.partition(), message.value()
        assert partition is not None
        topic, partition = self._outputs[partition % len(self._outputs)]
        return Record(topic, partition, value if isinstance(value, bytes) else b"")
