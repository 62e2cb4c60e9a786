"""Transactions that survive what happens to them: the recovery template of KIP-588 for confluent-kafka. Made to be copied.

KIP-588 and KIP-691 sort the errors of a transactional producer by what is left to do. librdkafka says it like this:

    error.retriable()             the same call again: it goes on where it was, nothing is sent twice
    error.txn_requires_abort()    abort, and repeat the whole transaction with the same producer
    else, `fatal()` among them    this producer can do nothing more: fenced, out of order

To librdkafka a missing authorization is one more reason to abort. The KIPs call it fatal: repeated, it fails again.
What is fatal to a producer need not be fatal to its application. librdkafka says `_FENCED` both when a newer producer has
the transactional id and when the coordinator timed the transaction out, where KIP-588 has the same producer go on. So the
application decides: the one legitimate owner of the id makes a new producer and initialises it, which also ends what was
left open, and repeats the transaction. Whoever may have been replaced ends: two owners would fence each other for ever.

No delivery callbacks here: a failed delivery fails the commit, and a callback that runs beside a fatal error fails itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

CALL_TIMEOUT_S: Final = 5.0
RETRY_PAUSE_S: Final = 0.1

NOT_AUTHORIZED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)

Decision = Literal["commit", "abort"]
Result = TypeVar("Result")


class GaveUp(Exception):
    """An error that passes by itself did not pass in the time allowed."""


class Remedy(Enum):
    """What an error leaves to do."""

    RETRY = "the same call again"
    ABORT = "abort, and repeat the transaction"
    REPLACE = "a new producer, or the end"
    END = "not allowed: trying again changes nothing"


class Ended(Enum):
    """How one attempt at a transaction ended, as far as its producer knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    LOST = "lost"
    """The producer is of no more use; what became of the transaction is the coordinator's secret."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is written: `value` to one partition."""

    topic: str
    partition: int
    value: bytes


def remedy_of(error: KafkaError) -> Remedy:
    """The template's table. An error that is none of librdkafka's three kinds counts as fatal."""
    if error.code() in NOT_AUTHORIZED:
        return Remedy.END
    if error.fatal():
        return Remedy.REPLACE
    if error.txn_requires_abort():
        return Remedy.ABORT
    return Remedy.RETRY if error.retriable() else Remedy.REPLACE


def is_retriable(error: KafkaError) -> bool:
    return remedy_of(error) is Remedy.RETRY


def persist(
    call: Callable[[float], Result], give_up_s: float, *, passes: Callable[[KafkaError], bool] = is_retriable
) -> Result:
    """Repeat `call(timeout in seconds)` while its error passes by itself; GaveUp after `give_up_s`.

    Made for init, commit, abort and send_offsets: repeated, each goes on where it was. A commit must be answered, however
    long that takes: until then nobody knows whether the records count.
    """
    deadline = time.monotonic() + give_up_s
    while True:
        try:
            return call(CALL_TIMEOUT_S)
        except KafkaException as failure:
            error = failure.args[0]
            if not passes(error):
                raise
            if time.monotonic() > deadline:
                raise GaveUp(f"after {give_up_s:g} s still: {error.str()}") from failure
        time.sleep(RETRY_PAUSE_S)


def initialised(configuration: Mapping[str, object], give_up_s: float) -> Producer:
    """A producer that has its id; the one before it is fenced, and what that left open is aborted."""
    producer = Producer(dict(configuration))
    persist(producer.init_transactions, give_up_s)
    return producer


class Transactions:
    """The transactions of one transactional id, on one producer after the other.

    `connect` makes an initialised producer. Give it to the one legitimate owner of the id: it is called again whenever
    a producer is lost.
    """

    def __init__(self, connect: Callable[[], Producer], *, give_up_s: float) -> None:
        self._connect = connect
        self._give_up_s = give_up_s
        self._producer: Producer | None = None

    def run(
        self, write: Callable[[Producer], Decision], *, failed: Callable[[KafkaError], None] = lambda _: None
    ) -> Ended:
        """One transaction: begin, `write(producer)`, and what that decides. Repeat it until it is COMMITTED.

        `failed` hears of an error before anything is done about it. Raised after an abort: KafkaException where something
        is not allowed, and whatever else `write` raises.
        """
        producer = self._producer = self._producer or self._connect()
        try:
            producer.begin_transaction()
            decision = write(producer)
            if decision == "commit":
                persist(producer.commit_transaction, self._give_up_s)
                return Ended.COMMITTED
        except KafkaException as failure:
            error = failure.args[0]
            failed(error)
            if error.fatal() or remedy_of(error) is Remedy.REPLACE:
                self._producer = None
                return Ended.LOST
            if remedy_of(error) is Remedy.END:
                self._abort(failed)
                raise
        except GaveUp:
            self._producer = None  # an abort would wait for the same brokers: who comes next ends it
            raise
        except BaseException:
            self._abort(failed)
            raise
        return self._abort(failed)

    def replace(self, producer: Producer | None = None) -> None:
        """Go on with this one; None makes a new one when the next transaction begins."""
        self._producer = producer

    def _abort(self, failed: Callable[[KafkaError], None]) -> Ended:
        assert self._producer is not None
        try:
            persist(self._producer.abort_transaction, self._give_up_s)
        except KafkaException as failure:
            failed(failure.args[0])
            self._producer = None
            return Ended.LOST
        return Ended.ABORTED


def send(producer: Producer, records: Iterable[Record]) -> None:
    """Hand over all records; a full queue is waited for."""
    for record in records:
        while True:
            try:
                producer.produce(record.topic, record.value, partition=record.partition)
                break
            except BufferError:
                producer.poll(RETRY_PAUSE_S)


def write_all(producer: Producer, records: Iterable[Record], give_up_s: float) -> None:
    """Hand over all records, and wait until they are in the log or have failed: the commit will tell.

    A commit waits for them by itself: this is for whoever wants them written before.
    """
    send(producer, records)
    deadline = time.monotonic() + give_up_s
    while unwritten := producer.flush(CALL_TIMEOUT_S):
        if time.monotonic() > deadline:
            raise GaveUp(f"after {give_up_s:g} s still {unwritten} records are not written")


# Consume, transform, produce: read a batch; in one transaction write its result and send_offsets; rewind unless COMMITTED.


def read_batch(consumer: Consumer, size: int, timeout_s: float) -> tuple[list[Message], frozenset[tuple[str, int]]]:
    """Up to so many messages, and the partitions whose end was met (told with `enable.partition.eof`).

    Other errors of a consumer are for information, unless they are fatal: it goes on by itself.
    """
    messages: list[Message] = []
    ended: set[tuple[str, int]] = set()
    for message in consumer.consume(size, timeout_s):
        error = message.error()
        if error is None:
            messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - that is its public name
            ended.add(_place(message))
        elif error.fatal():
            raise KafkaException(error)
    return messages, frozenset(ended)


def send_offsets(producer: Producer, consumer: Consumer, batch: Iterable[Message], give_up_s: float) -> None:
    """Commit the batch's offsets with the transaction; by the metadata, the group fences an old member (KIP-447)."""
    offsets, group = next_offsets(batch), consumer.consumer_group_metadata()
    persist(lambda timeout_s: producer.send_offsets_to_transaction(offsets, group, timeout_s), give_up_s)


def next_offsets(batch: Iterable[Message]) -> list[TopicPartition]:
    """Where reading goes on after the batch: one past the last message of each partition."""
    following: dict[tuple[str, int], int] = {}
    for message in batch:
        place, offset = _place(message), message.offset()
        assert offset is not None
        following[place] = max(offset + 1, following.get(place, 0))
    return [TopicPartition(*place, offset) for place, offset in following.items()]


def rewind(consumer: Consumer, give_up_s: float) -> None:
    """Back to the committed offsets: what was read since then has no result that counts."""
    for place in committed(consumer, consumer.assignment(), give_up_s):
        consumer.seek(place)


def committed(consumer: Consumer, partitions: list[TopicPartition], give_up_s: float) -> list[TopicPartition]:
    """Where the group's reading goes on: its committed offsets, else the beginning.

    Assign these where partitions are assigned by hand: a consumer that looks for itself while its coordinator is
    not to be found (NOT_COORDINATOR) was seen not to look again.
    """

    def ask(timeout_s: float) -> list[TopicPartition]:
        places = consumer.committed(partitions, timeout_s)
        for place in places:
            if place.error is not None:
                raise KafkaException(place.error)
        return places

    places = persist(ask, give_up_s, passes=lambda error: not error.fatal())
    return [
        TopicPartition(place.topic, place.partition, place.offset if place.offset >= 0 else OFFSET_BEGINNING)
        for place in places
    ]


def _place(message: Message) -> tuple[str, int]:
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return topic, partition
