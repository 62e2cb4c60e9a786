"""Snapshots and evidence in a line or two: everything that a test does not name is as in a healthy cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from exporter.evaluation.evidence import Evidence
from exporter.evaluation.memory import RememberedTransaction
from exporter.snapshot import (
    BrokerCoverage,
    CoordinatorCoverage,
    CoordinatorProof,
    CoordinatorTransaction,
    IdVisibility,
    MaxTimeout,
    OpenTransactions,
    Ownership,
    PartitionResult,
    Partitions,
    SecondRead,
    Snapshot,
    StatePartitionProof,
    StateTopic,
    TopicPartition,
    TransactionKey,
    TransactionState,
    ownership,
)

NOW_MS = 1_800_000_000_000
"""2027-01-15 08:00:00 UTC."""
MINUTE_MS = 60_000
TOPIC = "orders"


def transaction(state: str = "Ongoing", **fields: Any) -> CoordinatorTransaction:
    """A described transaction of producer 7 at epoch 3 that began a second ago and holds orders-0."""
    known: dict[str, Any] = {
        "transactional_id": "app-1",
        "producer_id": 7,
        "state": TransactionState.of(state),
        "coordinator": 1,
        "producer_epoch": 3,
        "timeout_ms": MINUTE_MS,
        "start_ms": NOW_MS - 1000,
        "partitions": frozenset({(TOPIC, 0)}),
    }
    return CoordinatorTransaction(**{**known, **fields})


def listed(state: str = "Ongoing", **fields: Any) -> CoordinatorTransaction:
    """The same, only listed."""
    return transaction(state, producer_epoch=-1, timeout_ms=-1, start_ms=None, partitions=None, **fields)


MONOTONIC_MS = 100 * MINUTE_MS
"""By the monotonic clock of the process, when a snapshot is taken."""


def evidence(listed: CoordinatorTransaction | None, **fields: Any) -> Evidence:
    """An entry of producer 7 at epoch 3 on orders-0, for which a coordinator shows `listed`, fully proved."""
    epoch = fields.get("producer_epoch", 3)
    owned = ownership(listed, (TOPIC, 0), epoch)
    is_unverified = owned not in {Ownership.OWNED, Ownership.COMPLETING, Ownership.LISTED_ACTIVE}
    age = None if listed is None or listed.start_ms is None else NOW_MS - listed.start_ms
    known: dict[str, Any] = {
        "key": TransactionKey(TOPIC, 0, 7, 100),
        "producer_epoch": 3,
        "ownership": owned,
        "transaction": listed,
        "coordinator_age_ms": age,
        "is_clock_sure": True,
        "is_clock_behind": False,
        "was_seen_before": False,
        "watched_ms": 0,
        "completing_ms": 0,
        "was_asked": is_unverified,
        "second_read": SecondRead.UNCHANGED if is_unverified else SecondRead.NOT_ASKED,
        "proof_failure": None,
        "is_unclear": False,
        "is_topic_hidden": False,
        "id_visibility": IdVisibility.ALL,
        "diverged_replicas": (),
        "silent_replicas": (),
        "unaware_replicas": (),
        "unconfirmed": None,
        "last_timestamp_ms": NOW_MS - 500,
        "end_markers": (),
        "was_searched": True,
        "unsearched": (),
        "lost": (),
        "remembered": None,
        "logged": None,
    }
    return Evidence(**{**known, **fields})


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One open transaction on `orders`."""

    partition: int = 0
    producer_id: int = 7
    producer_epoch: int = 3
    start_offset: int = 100
    last_sequence: int = 0
    coordinator_epoch: int = -1
    last_timestamp_ms: int = NOW_MS - 500
    second_read: SecondRead = SecondRead.NOT_ASKED
    high_watermark: int = 150
    last_stable_offset: int = 100


def proof(**fields: Any) -> CoordinatorProof:
    """A complete proof by one coordinator that knows none of the producer ids in doubt."""
    known: dict[str, Any] = {
        "state_topic": StateTopic.PRESENT,
        "state_partitions": (StatePartitionProof(partition=0, leader=1, failure=None),),
        "listing_failures": (),
        "transactions": (),
        "unclear_producer_ids": frozenset(),
        "hidden_topics": frozenset(),
        "id_visibility": IdVisibility.ALL,
    }
    return CoordinatorProof(**{**known, **fields})


def snapshot(
    entries: Sequence[Entry] = (),
    *,
    partitions: int = 3,
    unread: Sequence[int] = (),
    taken_at_ms: int = NOW_MS,
    max_timeout_ms: int | None = 15 * MINUTE_MS,
    **fields: Any,
) -> Snapshot:
    """A snapshot of the topic `orders`, read in full but for the partitions `unread`."""
    known: dict[str, Any] = {
        "cluster_id": "cluster-1",
        "taken_at_ms": taken_at_ms,
        "monotonic_ms": MONOTONIC_MS + taken_at_ms - NOW_MS,
        "finished_at_ms": taken_at_ms + 40,
        "partitions": partitions_of(
            [(TOPIC, number) for number in range(partitions)],
            dict.fromkeys(unread, (PartitionResult.UNAVAILABLE, "timed_out")),
            producers=np.zeros(partitions, dtype=np.int32),
        ),
        "open_transactions": _columns(entries),
        "transactions": (),
        "proof": None,
        "brokers": (BrokerCoverage(broker=1, host="kafka-1", port=9092, partitions=partitions, failure=None),),
        "coordinators": (CoordinatorCoverage(broker=1, failure=None),),
        "max_timeout": MaxTimeout(timeout_ms=max_timeout_ms, timeout_ms_min=max_timeout_ms, unread=()),
    }
    return Snapshot(**{**known, **fields})


def partitions_of(
    names: Sequence[TopicPartition],
    unread: Mapping[int, tuple[PartitionResult, str]] = MappingProxyType({}),
    **columns: Any,
) -> Partitions:
    """These partitions, read but for the rows `unread`, led by broker 1, with one producer each."""
    topics = tuple(dict.fromkeys(topic for topic, _ in names))
    reasons = tuple(dict.fromkeys(reason for _, reason in unread.values()))
    answer, reason = np.full(len(names), PartitionResult.READ, np.int8), np.full(len(names), -1, np.int16)
    for row, (why, text) in unread.items():
        answer[row], reason[row] = why, reasons.index(text)
    known: dict[str, Any] = {
        "topics": topics,
        "topic": np.array([topics.index(topic) for topic, _ in names], np.int32),
        "partition": np.array([number for _, number in names], np.int32),
        "leader": np.ones(len(names), np.int32),
        "answer": answer,
        "reasons": reasons,
        "reason": reason,
        "producers": np.ones(len(names), np.int32),
    }
    return Partitions(**{**known, **columns})


def _columns(entries: Sequence[Entry]) -> OpenTransactions:
    def column(name: str, dtype: type[np.integer[Any]]) -> Any:
        return np.array([getattr(entry, name) for entry in entries], dtype=dtype)

    return OpenTransactions(
        partition_row=column("partition", np.int32),
        producer_id=column("producer_id", np.int64),
        producer_epoch=column("producer_epoch", np.int32),
        last_sequence=column("last_sequence", np.int32),
        last_timestamp=column("last_timestamp_ms", np.int64),
        coordinator_epoch=column("coordinator_epoch", np.int32),
        current_txn_start_offset=column("start_offset", np.int64),
        second_read=column("second_read", np.int8),
        high_watermark=column("high_watermark", np.int64),
        last_stable_offset=column("last_stable_offset", np.int64),
    )


def remembered(**fields: Any) -> RememberedTransaction:
    """First and last seen a minute ago at epoch 3; no coordinator shows its start."""
    known: dict[str, Any] = {
        "first_seen_ms": NOW_MS - MINUTE_MS,
        "last_seen_ms": NOW_MS - MINUTE_MS,
        "producer_epoch": 3,
    }
    return RememberedTransaction(**{**known, **fields})


def without_examination(taken: Snapshot) -> Snapshot:
    """The same, with its open transactions beyond the limit of what is examined."""
    open_ = taken.open_transactions
    return replace(
        taken,
        open_transactions=replace(
            open_,
            second_read=np.empty(0, dtype=np.int8),
            high_watermark=np.empty(0, dtype=np.int64),
            last_stable_offset=np.empty(0, dtype=np.int64),
            needs_examination=np.ones(len(open_), dtype=np.bool_),
            is_completing=np.zeros(len(open_), dtype=np.bool_),
        ),
    )
