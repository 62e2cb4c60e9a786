"""Plants states in a broker that a well-behaved client never leaves behind: real hanging transactions above all.

A hang is made as a late or buggy producer makes one: a transactional record batch reaches the partition leader,
but the coordinator never heard AddPartitionsToTxn, so no marker will ever come. The broker lets it in only with
`transaction.partition.verification.enable=false`; otherwise it answers INVALID_TXN_STATE (48).
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka.record.default_records import DefaultRecordBatchBuilder

from hangbench.kafka.coordinators import coordinator_address
from hangbench.kafka.wire import (
    COORDINATOR_ERRORS,
    LEADER_ERRORS,
    BrokerRefused,
    Wire,
    leaders,
    until_answered,
)

HANGS_CAN_BE_PLANTED: Final = {"transaction.partition.verification.enable": "false"}
"""A property of brokers; the default refuses raw transactional batches. Unknown, and not needed, before 3.6."""
PRODUCE_VERSION_CAP: Final = 9  # from 12 on the broker adds the partition to the transaction by itself (KIP-890)
ACKS_ALL: Final = -1
PRODUCE_TIMEOUT_MS: Final = 10_000
UNALLOCATED_PRODUCER_ID: Final = 9_000_000_000  # brokers hand out blocks of 1,000 from 0: never reached in a test


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedTransaction:
    """An open transaction that nothing will close, as DescribeProducers should show it."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    timestamp_ms: int  # CreateTime of its only record
    transactional_id: str | None  # None: no coordinator knows the producer id


def plant_hang(
    bootstrap: str,
    topic: str,
    partition: int,
    transactional_id: str,
    *,
    timestamp_ms: int | None = None,
    timeout_ms: int = 60_000,
) -> PlantedTransaction:
    """A hang whose transactional id its coordinator knows, in state Empty.

    `timestamp_ms` is the record's CreateTime (now when left out): older than any timeout, or in the future.
    `timeout_ms` is the transaction timeout that the coordinator is told.
    """
    producer_id, producer_epoch = init_producer_id(bootstrap, transactional_id, timeout_ms=timeout_ms)
    return _plant(bootstrap, topic, partition, producer_id, producer_epoch, transactional_id, timestamp_ms)


def plant_hang_without_id(
    bootstrap: str,
    topic: str,
    partition: int,
    *,
    producer_id: int = UNALLOCATED_PRODUCER_ID,
    producer_epoch: int = 0,
    timestamp_ms: int | None = None,
    sequence: int = 0,
    transactional_id: str | None = None,
) -> PlantedTransaction:
    """A hang of a producer id that no coordinator ever handed out; `sequence` counts its records on the partition.

    With a `transactional_id`: one more record of the producer that has it.
    """
    return _plant(bootstrap, topic, partition, producer_id, producer_epoch, transactional_id, timestamp_ms, sequence)


def plant_producers(
    bootstrap: str,
    topic: str,
    partitions: Iterable[int],
    producer_ids: Iterable[int],
    *,
    open_transactions: bool = False,
    timestamp_ms: int | None = None,
) -> int:
    """Make every producer id write one record into every partition; return the number of entries made.

    The entries are those of idle idempotent producers, or of hanging transactions with `open_transactions`.
    A request carries one batch for each partition (the broker takes no more), so many partitions go faster.
    """
    by_leader: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    addresses = until_answered(lambda: leaders(bootstrap, topic), LEADER_ERRORS)
    for partition in partitions:
        by_leader[addresses[partition]].append(partition)
    ids = list(producer_ids)
    transactional_id = "planted" if open_transactions else None
    for address, led in by_leader.items():
        with Wire(*address) as wire:
            for producer_id in ids:
                batch = record_batch(producer_id, 0, open_transaction=open_transactions, timestamp_ms=timestamp_ms)
                write = functools.partial(_produce, wire, topic, dict.fromkeys(led, batch), transactional_id)
                until_answered(write, LEADER_ERRORS)  # a batch that came twice is told by its sequence and kept once
    return len(ids) * sum(map(len, by_leader.values()))


def write_marker(
    bootstrap: str,
    topic: str,
    partition: int,
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool = False,
    coordinator_epoch: int = -1,
    transaction_version: int = 0,
) -> None:
    """Have the partition's leader write an ABORT (or COMMIT) marker, as a coordinator would."""
    marker_class = WriteTxnMarkersRequest.WritableTxnMarker
    marked = marker_class.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])
    marker = marker_class(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=commit,
        topics=[marked],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )

    def attempt() -> None:
        with Wire(*leaders(bootstrap, topic)[partition]) as wire:
            answer = wire.ask(WriteTxnMarkersRequest, WriteTxnMarkersResponse, version_cap=2, markers=[marker])
        error_code = answer.markers[0].topics[0].partitions[0].error_code
        if error_code:
            raise BrokerRefused("WriteTxnMarkers", error_code)

    until_answered(attempt, LEADER_ERRORS)  # a topic just made is known to its leader a moment later


def init_producer_id(
    bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000, two_phase_commit: bool = False
) -> tuple[int, int]:
    """The producer id and epoch that the coordinator gives to this transactional id now.

    `two_phase_commit` (KIP-939): its transactions have no time-out.
    """

    def attempt() -> tuple[int, int]:
        with Wire(*coordinator_address(bootstrap, transactional_id)) as wire:
            return init_producer_id_of(wire, transactional_id, timeout_ms=timeout_ms, two_phase_commit=two_phase_commit)

    return until_answered(attempt, COORDINATOR_ERRORS)


def init_producer_id_of(
    coordinator: Wire, transactional_id: str, *, timeout_ms: int, two_phase_commit: bool = False
) -> tuple[int, int]:
    """The same, of the coordinator at the other end; BrokerRefused where it is not, or not yet."""
    more = {"enable2_pc": True, "keep_prepared_txn": False} if two_phase_commit else {}
    answer = coordinator.ask(
        InitProducerIdRequest,
        InitProducerIdResponse,
        version_cap=6 if two_phase_commit else 4,
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
        **more,
    )
    if answer.error_code:
        raise BrokerRefused("InitProducerId", answer.error_code)
    return answer.producer_id, answer.producer_epoch


def record_batch(
    producer_id: int,
    producer_epoch: int,
    *,
    open_transaction: bool,
    timestamp_ms: int | None = None,
    sequence: int = 0,
) -> bytes:
    """A batch of one record, its producer's `sequence`th on the partition, transactional or only idempotent."""
    batch = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=open_transaction,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        batch_size=1024,
    )
    batch.append(0, now_ms() if timestamp_ms is None else timestamp_ms, None, b"planted", [])
    return bytes(batch.build())


def _plant(
    bootstrap: str,
    topic: str,
    partition: int,
    producer_id: int,
    producer_epoch: int,
    transactional_id: str | None,
    timestamp_ms: int | None,
    sequence: int = 0,
) -> PlantedTransaction:
    written_ms = now_ms() if timestamp_ms is None else timestamp_ms
    batch = record_batch(producer_id, producer_epoch, open_transaction=True, timestamp_ms=written_ms, sequence=sequence)

    def attempt() -> int:
        with Wire(*leaders(bootstrap, topic)[partition]) as wire:
            return _produce(wire, topic, {partition: batch}, transactional_id or "never-initialised")[partition]

    return PlantedTransaction(
        topic=topic,
        partition=partition,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        start_offset=until_answered(attempt, LEADER_ERRORS),
        timestamp_ms=written_ms,
        transactional_id=transactional_id,
    )


def _produce(wire: Wire, topic: str, batches: dict[int, bytes], transactional_id: str | None) -> dict[int, int]:
    """Produce one batch to each partition, return the offsets that they got."""
    topic_class = ProduceRequest.TopicProduceData
    data = [topic_class.PartitionProduceData(index=index, records=batch) for index, batch in batches.items()]
    answer = wire.ask(
        ProduceRequest,
        ProduceResponse,
        version_cap=PRODUCE_VERSION_CAP,
        transactional_id=transactional_id,
        acks=ACKS_ALL,
        timeout_ms=PRODUCE_TIMEOUT_MS,
        topic_data=[topic_class(name=topic, partition_data=data)],
    )
    partitions: list[Any] = answer.responses[0].partition_responses
    for partition in partitions:
        if partition.error_code:
            raise BrokerRefused("Produce", partition.error_code)
    return {partition.index: partition.base_offset for partition in partitions}


def now_ms() -> int:
    return time.time_ns() // 1_000_000
