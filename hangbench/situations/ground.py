"""Reads the truth independently: raw requests to leaders and coordinators, as a super user, one broker at a time.

Nothing here is shared with the exporter but kafka-python's codec of single messages; the workload asks the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

from hangbench import waiting
from hangbench.kafka import coordinators
from hangbench.kafka.coordinators import TRANSACTION
from hangbench.kafka.planting import now_ms
from hangbench.kafka.wire import (
    COORDINATOR_ERRORS,
    LEADER_ERRORS,
    BrokerRefused,
    Wire,
    leaders,
    metadata,
    open_wire,
    until_answered,
)
from hangbench.situations.words import Expected, Truth

PATIENCE_S = 30.0
POLL_PAUSE_S = 0.05
CLOCKS_APART_MS = 10_100
"""Brokers' clocks may differ by ten seconds."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """A producer with an open transaction, as the partition's leader shows it."""

    producer_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class Described:
    """A transaction as its coordinator shows it."""

    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: frozenset[tuple[str, int]]


def open_entries(bootstrap: str, topic: str, partition: int) -> dict[int, Entry]:
    """Producer id -> its open transaction."""

    def attempt() -> dict[int, Entry]:
        return {
            producer.producer_id: Entry(producer.producer_epoch, producer.current_txn_start_offset)
            for producer in _active_producers(leaders(bootstrap, topic)[partition], topic, partition)
            if producer.current_txn_start_offset >= 0
        }

    return until_answered(attempt, LEADER_ERRORS)


def producers_at(bootstrap: str, topic: str, partition: int, node_id: int) -> set[int]:
    """The producers that one replica knows, open or not."""
    with open_wire(bootstrap) as wire:
        brokers = {broker.node_id: (broker.host, broker.port) for broker in metadata(wire, []).brokers}
    return {producer.producer_id for producer in _active_producers(brokers[node_id], topic, partition)}


def _active_producers(broker: Address, topic: str, partition: int) -> Any:
    wanted = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
    with Wire(*broker) as wire:
        answer = wire.ask(DescribeProducersRequest, DescribeProducersResponse, version_cap=0, topics=[wanted])
    row = answer.topics[0].partitions[0]
    if row.error_code:
        raise BrokerRefused("DescribeProducers", row.error_code)
    return row.active_producers


def coordinator_address(bootstrap: str, key: str, key_type: int = TRANSACTION) -> Address:
    """Where the coordinator of a transactional id, or of a group, listens."""
    return until_answered(lambda: coordinators.coordinator_address(bootstrap, key, key_type), COORDINATOR_ERRORS)


def wait_past_clocks(began: Described) -> None:
    """Waits until a marker of now is surely not of the transaction before, though brokers' clocks differ."""
    waiting.until(lambda: now_ms() > began.start_ms + CLOCKS_APART_MS)


def described(bootstrap: str, transactional_id: str) -> Described | None:
    """What the coordinator says of a transactional id; None when it does not know it."""
    listed = until_answered(lambda: coordinators.described(bootstrap, transactional_id), COORDINATOR_ERRORS)
    if listed is None:
        return None
    return Described(
        state=listed.transaction_state,
        producer_id=listed.producer_id,
        producer_epoch=listed.producer_epoch,
        timeout_ms=listed.transaction_timeout_ms,
        start_ms=listed.transaction_start_time_ms,
        partitions=frozenset((topic.topic, partition) for topic in listed.topics for partition in topic.partitions),
    )


def known_producer_ids(bootstrap: str) -> set[int]:
    """Every producer id that any broker lists as a transaction's, in any state."""
    with open_wire(bootstrap) as wire:
        live = [(broker.host, broker.port) for broker in metadata(wire, []).brokers]
    known: set[int] = set()
    for address in live:
        with Wire(*address) as wire:
            answer = wire.ask(
                ListTransactionsRequest,
                ListTransactionsResponse,
                version_cap=0,
                state_filters=[],
                producer_id_filters=[],
            )
        if answer.error_code:
            raise BrokerRefused("ListTransactions", answer.error_code)
        known |= {listed.producer_id for listed in answer.transaction_states}
    return known


def leader_ids(bootstrap: str, topic: str) -> dict[int, int]:
    """Partition -> the broker that leads it, -1 for none, as the first live broker knows."""
    with open_wire(bootstrap) as wire:
        return {
            partition.partition_index: partition.leader_id for partition in metadata(wire, [topic]).topics[0].partitions
        }


def in_sync_ids(bootstrap: str, topic: str) -> dict[int, set[int]]:
    """Partition -> the brokers that are in sync, as the first live broker knows."""
    with open_wire(bootstrap) as wire:
        return {
            partition.partition_index: set(partition.isr_nodes)
            for partition in metadata(wire, [topic]).topics[0].partitions
        }


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until `holds`; `what` names it where it never does."""
    waiting.until(holds, patience_s=PATIENCE_S, pause_s=POLL_PAUSE_S, status=lambda: what)


def until_closed(bootstrap: str, topic: str, partition: int) -> None:
    """Wait until nothing is open on a partition: markers come a moment after the client was answered."""
    until(lambda: not open_entries(bootstrap, topic, partition), f"{topic}-{partition} is closed")


def contradiction(bootstrap: str, expected: Expected) -> str | None:
    """What the cluster says against the truth that was written down; None when it agrees."""
    topic, partition, producer_id = expected.key
    entry = open_entries(bootstrap, topic, partition).get(producer_id)
    if expected.truth is Truth.CLOSED:
        return None if entry is None else f"{expected.key} is open: {entry}"
    if entry is None:
        return f"{expected.key} is not open"
    if entry.producer_epoch != expected.producer_epoch:
        return f"{expected.key} is open at epoch {entry.producer_epoch}, not {expected.producer_epoch}"
    listed = None if expected.transactional_id is None else described(bootstrap, expected.transactional_id)
    if listed is None and producer_id in known_producer_ids(bootstrap):
        return f"a coordinator knows producer id {producer_id}"
    owes = listed is not None and listed.producer_id == producer_id and (topic, partition) in listed.partitions
    if _agrees(expected, listed if owes else None):
        return None
    return f"{expected.key} should be {expected.truth.value}, but its coordinator says {listed}"


def _agrees(expected: Expected, owing: Described | None) -> bool:
    """`owing` is the coordinator's transaction of this producer where it lists this partition."""
    if owing is None:
        return expected.truth is Truth.HANGING
    if expected.truth in {Truth.COMPLETING, Truth.STUCK}:
        return owing.state in {"PrepareCommit", "PrepareAbort"}
    if owing.state != "Ongoing":
        return False
    if expected.truth is Truth.FENCED:
        return owing.producer_epoch == expected.producer_epoch + 1
    if expected.truth is Truth.HANGING:
        return owing.producer_epoch > expected.producer_epoch
    age_ms = now_ms() - owing.start_ms
    is_past_timeout = age_ms > owing.timeout_ms
    may_be_past = expected.truth in {Truth.OVERDUE, Truth.JUST_PAST}
    return owing.producer_epoch == expected.producer_epoch and is_past_timeout == may_be_past
