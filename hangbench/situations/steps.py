"""A transactional producer that sends single requests, so that a situation can omit any of them."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from confluent_kafka import Producer
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

from hangbench.kafka.coordinators import GROUP
from hangbench.kafka.planting import (
    PlantedTransaction,
    init_producer_id,
    init_producer_id_of,
    plant_hang_without_id,
    write_marker,
)
from hangbench.kafka.wire import COORDINATOR_ERRORS, BrokerRefused, Wire, until_answered
from hangbench.situations.ground import coordinator_address, described, leader_ids, open_entries, until

TIMEOUT_S: Final = 30.0
STATE_TOPIC: Final = "__transaction_state"
STATE_RECORDS_MAX: Final = 1_000_000
LONG_MS: Final = 600_000
"""A time-out that no test outlives."""
SHORT_GRACE_MS: Final = 200
"""After which a detector may say that a coordinator fails, in situations that cannot wait."""
HIGHER_COORDINATOR_EPOCH: Final = 1000
"""Higher than any coordinator of a test reaches."""
WAITS_AFTER: Final = 20
"""Looks at a coordinator that is prepared at each: it waits with the marker."""
EPOCH_BUMPING_VERSION: Final = 5
"""Of EndTxn: from it on, the client is one of TransactionVersion 2 and ends its transaction one epoch later."""


@dataclass(frozen=True, slots=True)
class Client:
    """A transactional id with the producer id and epoch that its coordinator gave."""

    bootstrap: str
    transactional_id: str
    producer_id: int
    producer_epoch: int

    @classmethod
    def begin(cls, bootstrap: str, transactional_id: str, *, timeout_ms: int = LONG_MS) -> Client:
        return cls(bootstrap, transactional_id, *init_producer_id(bootstrap, transactional_id, timeout_ms=timeout_ms))

    def add(self, topic: str, partitions: Iterable[int]) -> None:
        """Tell the coordinator that the transaction includes these partitions."""
        added = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))

        def attempt() -> None:
            answer = self._ask_coordinator(
                AddPartitionsToTxnRequest,
                AddPartitionsToTxnResponse,
                version_cap=3,
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.producer_epoch,
                v3_and_below_topics=[added],
            )
            for result in answer.results_by_topic_v3_and_below[0].results_by_partition:
                if result.partition_error_code:
                    raise BrokerRefused("AddPartitionsToTxn", result.partition_error_code)

        until_answered(attempt, COORDINATOR_ERRORS)

    def write(
        self, topic: str, partition: int, *, timestamp_ms: int | None = None, sequence: int = 0
    ) -> PlantedTransaction:
        """One record, whether the coordinator knows the partition or not; `sequence` counts those before it."""
        return plant_hang_without_id(
            self.bootstrap,
            topic,
            partition,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            timestamp_ms=timestamp_ms,
            sequence=sequence,
            transactional_id=self.transactional_id,
        )

    def open(self, topic: str, partition: int, *, timestamp_ms: int | None = None) -> PlantedTransaction:
        """Like a normal client: add the partition at the coordinator, then write."""
        self.add(topic, [partition])
        return self.write(topic, partition, timestamp_ms=timestamp_ms)

    def end(self, *, commit: bool, version_cap: int = EPOCH_BUMPING_VERSION - 1) -> None:
        """Ask the coordinator to commit or abort; its markers follow after the answer."""
        self._end(commit=commit, version_cap=version_cap)

    def _end(self, *, commit: bool, version_cap: int) -> Any:
        def attempt() -> Any:
            answer = self._ask_coordinator(
                EndTxnRequest,
                EndTxnResponse,
                version_cap=version_cap,
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                committed=commit,
            )
            if answer.error_code:
                raise BrokerRefused("EndTxn", answer.error_code)
            return answer

        return until_answered(attempt, COORDINATOR_ERRORS)

    def ended(self, *, commit: bool) -> Client:
        """The client as its coordinator's response to EndTxn makes it, with TransactionVersion 2."""
        answer = self._end(commit=commit, version_cap=EPOCH_BUMPING_VERSION)
        return replace(self, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)

    def one_epoch_later(self) -> Client:
        """The same client as TransactionVersion 2 lets it go on after its transaction ended."""
        return replace(self, producer_epoch=self.producer_epoch + 1)

    def make_its_marker_unwelcome(self, topic: str, partition: int) -> None:
        """Have the partition remember a higher coordinator epoch: the coordinator's own marker will be refused."""
        write_marker(
            self.bootstrap,
            topic,
            partition,
            self.producer_id,
            self.producer_epoch,
            coordinator_epoch=HIGHER_COORDINATOR_EPOCH,
        )

    def commit_offset_unheard(self, group: str, topic: str) -> PlantedTransaction:
        """Commit a group's offset in the transaction without AddOffsetsToTxn before: it opens on the group's partition."""
        offsets, partition = "__consumer_offsets", partition_of(group)
        topic_type = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        offset = topic_type.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=""
        )

        def attempt() -> None:
            with Wire(*coordinator_address(self.bootstrap, group, GROUP)) as wire:
                answer = wire.ask(
                    TxnOffsetCommitRequest,
                    TxnOffsetCommitResponse,
                    version_cap=3,
                    transactional_id=self.transactional_id,
                    group_id=group,
                    producer_id=self.producer_id,
                    producer_epoch=self.producer_epoch,
                    topics=[topic_type(name=topic, partitions=[offset])],
                )
            code = answer.topics[0].partitions[0].error_code
            if code:
                raise BrokerRefused("TxnOffsetCommit", code)

        until_answered(attempt, COORDINATOR_ERRORS)
        return opened(self.bootstrap, offsets, partition, self.producer_id, self.transactional_id)

    def _ask_coordinator(self, request: Any, response: Any, **fields: Any) -> Any:
        with Wire(*coordinator_address(self.bootstrap, self.transactional_id)) as wire:
            return wire.ask(request, response, **fields)


def opened(bootstrap: str, topic: str, partition: int, producer_id: int, transactional_id: str) -> PlantedTransaction:
    """What another client opened on a partition, as its leader shows it."""
    entry = open_entries(bootstrap, topic, partition)[producer_id]
    return PlantedTransaction(
        topic=topic,
        partition=partition,
        producer_id=producer_id,
        producer_epoch=entry.producer_epoch,
        start_offset=entry.start_offset,
        timestamp_ms=0,
        transactional_id=transactional_id,
    )


def prepared_client(bootstrap: str, transactional_id: str) -> Client:
    """A client of two-phase commit (KIP-939): its transactions have no time-out."""
    ids = init_producer_id(bootstrap, transactional_id, timeout_ms=LONG_MS, two_phase_commit=True)
    return Client(bootstrap, transactional_id, *ids)


def init_without_waiting(bootstrap: str, transactional_id: str) -> None:
    """A new producer asks for the id once; whether its coordinator can write that is another matter."""
    with contextlib.suppress(BrokerRefused, OSError), Wire(*coordinator_address(bootstrap, transactional_id)) as wire:
        wire.timeout(2)
        init_producer_id_of(wire, transactional_id, timeout_ms=LONG_MS)


def partition_of(name: str, partitions: int = 5) -> int:
    """The partition that keeps a group (`__consumer_offsets`) or an id (`__transaction_state`): Java's hash, for ASCII."""
    code = 0
    for character in name:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return abs(code - (code >> 31 << 32)) % partitions


def state_once_clear(bootstrap: str, transactional_id: str) -> str:
    """The state of a decided transaction: complete, or prepared in so many looks that its coordinator waits."""
    states: list[str] = []

    def is_clear() -> bool:
        listed = described(bootstrap, transactional_id)
        states.append("" if listed is None else listed.state)
        return states[-1].startswith("Complete") or (
            states[-1].startswith("Prepare") and states[-WAITS_AFTER:] == [states[-1]] * WAITS_AFTER
        )

    until(is_clear, f"{transactional_id} is complete, or waits")
    return states[-1]


@contextmanager
def state_writer(bootstrap: str, transactional_id: str) -> Iterator[Callable[[str, bytes | None], None]]:
    """Writes records of ids, by id and value, to the partition of `__transaction_state` that has `transactional_id`."""
    partition = partition_of(transactional_id, len(leader_ids(bootstrap, STATE_TOPIC)))
    producer = Producer(
        {"bootstrap.servers": bootstrap, "client.id": "__admin_client", "linger.ms": 50, "log_level": 0}
        | {"queue.buffering.max.messages": STATE_RECORDS_MAX, "compression.type": "lz4"}
    )

    def write(name: str, value: bytes | None) -> None:
        key = name.encode()
        producer.produce(STATE_TOPIC, key=struct.pack(">hh", 0, len(key)) + key, value=value, partition=partition)

    yield write
    assert producer.flush(TIMEOUT_S) == 0


def write_state_record(bootstrap: str, transactional_id: str, value: bytes) -> None:
    """What a coordinator reads of the id when it loads its partition next."""
    with state_writer(bootstrap, transactional_id) as write:
        write(transactional_id, value)


DYING_PRODUCER = """
import os, signal, sys
from confluent_kafka import Producer

bootstrap, transactional_id, topic = sys.argv[1:]
names = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
producer = Producer({**names, "transaction.timeout.ms": 600000, "log_level": 0})
producer.init_transactions(30)
producer.begin_transaction()
producer.produce(topic, b"unfinished", partition=0)
producer.flush(30)
os.kill(os.getpid(), signal.SIGKILL)
"""


def run_and_die(bootstrap: str, transactional_id: str, topic: str) -> None:
    """A producer process that dies by SIGKILL in the middle of its transaction."""
    run = subprocess.run(
        [sys.executable, "-c", DYING_PRODUCER, bootstrap, transactional_id, topic],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == -9, run.stderr


class Transactions:
    """One transaction after another of librdkafka's producer, with records on each partition."""

    def __init__(
        self,
        bootstrap: str,
        transactional_id: str,
        topic_partitions: Iterable[tuple[str, int]] = (),
        *,
        timeout_ms: int = 60_000,
    ) -> None:
        """Initializes the id, which aborts what another producer has left open, and fences it."""
        names = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
        self.producer = Producer({**names, "transaction.timeout.ms": timeout_ms, "linger.ms": 0, "log_level": 0})
        self.producer.init_transactions(TIMEOUT_S)
        self._topic_partitions = tuple(topic_partitions)

    def begin(self, records: int = 1) -> None:
        """Opens a transaction; its records are in the log on return."""
        self.producer.begin_transaction()
        self.write(records)

    def write(self, records: int = 1) -> None:
        """Writes more records to each partition; they are in the log on return."""
        for topic, partition in self._topic_partitions * records:
            self.producer.produce(topic, b"record", partition=partition)
        assert self.producer.flush(TIMEOUT_S) == 0

    def end(self, *, commit: bool) -> None:
        if commit:
            self.producer.commit_transaction(TIMEOUT_S)
        else:
            self.producer.abort_transaction(TIMEOUT_S)

    def run(self, *, commit: bool, records: int = 1) -> None:
        """One whole transaction."""
        self.begin(records)
        self.end(commit=commit)


def run_transaction(
    bootstrap: str, transactional_id: str, topic_partitions: Iterable[tuple[str, int]], *, commit: bool
) -> None:
    """A new producer, with one transaction."""
    Transactions(bootstrap, transactional_id, topic_partitions).run(commit=commit)
