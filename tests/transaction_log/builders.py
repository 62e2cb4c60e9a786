"""Records of billing-7: producer 7 at epoch 3, time-out a minute, whose transaction began at START_MS on orders-0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
