"""A transactional producer that sends single requests, so that a situation can omit any of them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

from examples.workload.planting import (
    PlantedTransaction,
    init_producer_id,
    init_producer_id_of,
    plant_hang_without_id,
    write_marker,
)
from examples.workload.wire import COORDINATOR_ERRORS, BrokerRefused, Wire, until_answered
from tests.verification.situations.ground import GROUP, coordinator_address, open_entries

LONG_MS: Final = 600_000
"""A time-out that no test outlives."""
HIGHER_COORDINATOR_EPOCH: Final = 1000
"""Higher than any coordinator of a test reaches."""
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
        planted = plant_hang_without_id(
            self.bootstrap,
            topic,
            partition,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            timestamp_ms=timestamp_ms,
            sequence=sequence,
        )
        return replace(planted, transactional_id=self.transactional_id)

    def open(self, topic: str, partition: int, *, timestamp_ms: int | None = None) -> PlantedTransaction:
        """Like a normal client: add the partition at the coordinator, then write."""
        self.add(topic, [partition])
        return self.write(topic, partition, timestamp_ms=timestamp_ms)

    def end(self, *, commit: bool, version_cap: int = EPOCH_BUMPING_VERSION - 1) -> None:
        """Ask the coordinator to commit or abort; its markers follow after the answer."""

        def attempt() -> None:
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

        until_answered(attempt, COORDINATOR_ERRORS)

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
