"""Records of billing-7, and their bytes: producer 7 at epoch 3, time-out a minute, whose transaction began at START_MS."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

from exporter.primitives import uvarint
from exporter.snapshot import TransactionState as State
from exporter.transaction_log.records import TransactionRecord

START_MS = 1_800_000_000_000
TIMEOUT_MS = 60_000
ORDERS = ("orders", 0)


def record(status: State, **fields: Any) -> TransactionRecord:
    """One record; `fields` say in what it differs."""
    known: dict[str, Any] = {
        "transactional_id": "billing-7",
        "producer_id": 7,
        "producer_epoch": 3,
        "timeout_ms": TIMEOUT_MS,
        "status": status,
        "partitions": frozenset({ORDERS}),
        "last_update_ms": START_MS,
        "start_ms": START_MS,
    }
    return TransactionRecord(**{**known, **fields})


EMPTY = record(State.EMPTY, start_ms=-1, partitions=frozenset())
ONGOING = record(State.ONGOING)
COMMITTING = record(State.PREPARE_COMMIT, last_update_ms=START_MS + 20)
COMMITTED = replace(COMMITTING, status=State.COMPLETE_COMMIT, partitions=frozenset(), last_update_ms=START_MS + 40)
ABORTING = record(State.PREPARE_ABORT, last_update_ms=START_MS + 20)
ABORTED = replace(ABORTING, status=State.COMPLETE_ABORT, partitions=frozenset(), last_update_ms=START_MS + 40)
NUMBERS = {State.numbered(number): number for number in range(8)}


def key_of(transactional_id: str, version: int = 0) -> bytes:
    name = transactional_id.encode()
    return struct.pack(">hh", version, len(name)) + name


def value_of(record: TransactionRecord, *, flexible: bool, more_tags: dict[int, bytes] | None = None) -> bytes:
    """As a coordinator writes it; topics in any order, one after another."""
    topics: dict[str, list[int]] = {}
    for topic, partition in record.partitions:
        topics.setdefault(topic, []).append(partition)
    head = struct.pack(
        ">hqhib",
        1 if flexible else 0,
        record.producer_id,
        record.producer_epoch,
        record.timeout_ms,
        NUMBERS[record.status],
    )
    parts = [head, uvarint(len(topics) + 1) if flexible else struct.pack(">i", len(topics))]
    for topic, partitions in topics.items():
        name = topic.encode()
        parts += [uvarint(len(name) + 1) if flexible else struct.pack(">h", len(name)), name]
        parts += [uvarint(len(partitions) + 1) if flexible else struct.pack(">i", len(partitions))]
        parts += [struct.pack(f">{len(partitions)}i", *partitions), b"\0" if flexible else b""]
    parts.append(struct.pack(">qq", record.last_update_ms, record.start_ms))
    if flexible:
        tags = {
            0: struct.pack(">q", record.previous_producer_id),
            1: struct.pack(">q", record.next_producer_id),
            2: struct.pack(">h", record.client_transaction_version),
            3: struct.pack(">h", record.next_producer_epoch),
            **(more_tags or {}),
        }
        parts.append(uvarint(len(tags)))
        for tag, data in sorted(tags.items()):
            parts += [uvarint(tag), uvarint(len(data)), data]
    return b"".join(parts)


def value(status: int, start_ms: int, *, epoch: int = 0, updated_ms: int | None = None, producer_id: int = 7) -> bytes:
    """Version 0, no partition, time-out a second."""
    written = record(
        State.numbered(status),
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=1000,
        partitions=frozenset(),
        last_update_ms=start_ms if updated_ms is None else updated_ms,
        start_ms=start_ms,
    )
    return value_of(written, flexible=False)
