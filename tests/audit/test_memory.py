"""Memory of a worker: all transactions of one producer id that a run compares are in one process."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from exporter.audit.data_source import TRANSACTION, transactions_of
from exporter.audit.decision_rows import _decision_of, decision_rows
from exporter.audit.judge import judge
from exporter.audit.verdicts import AuditVerdict, Horizon, PartitionRead
from exporter.pipeline import schemas
from exporter.pipeline.transaction_log import arrow_schema, dicts_of

TRANSACTIONS = 3000
PARTITIONS = 3
BYTES_MAX = 2600
"""A transaction takes 2.4 kB, and 3 kB where equal sets of partitions are several objects."""
BEGAN = datetime(2026, 11, 1, tzinfo=timezone.utc)
EVERY_MS = 100
STATUSES = ("ONGOING", "PREPARE_COMMIT", "COMPLETE_COMMIT")


def state_rows() -> pa.Table:
    """Commits of one id every 100 ms, as of Kafka Streams; all have one epoch."""
    rows: list[dict[str, Any]] = []
    for number in range(TRANSACTIONS):
        start = BEGAN + timedelta(milliseconds=number * EVERY_MS)
        for at, status in enumerate(STATUSES):
            written = start + timedelta(milliseconds=20 * at)
            rows.append(
                {
                    "cluster_id": "c",
                    "log_partition": 7,
                    "offset": len(rows),
                    "written_at": written,
                    "kind": "state",
                    "transactional_id": "app",
                    "producer_id": 42,
                    "producer_epoch": 5,
                    "timeout_ms": 60_000,
                    "status": status,
                    "partitions": [f"orders-{each}" for each in range(PARTITIONS)] if at < 2 else [],
                    "last_update_ms": _ms(written),
                    "start_ms": _ms(start),
                    "client_transaction_version": 0,
                }
            )
    return pa.Table.from_pylist(rows, schema=arrow_schema(schemas.RECORDS))


def marker_rows() -> pa.Table:
    rows: list[dict[str, Any]] = []
    for partition in range(PARTITIONS):
        for number in range(TRANSACTIONS):
            at_ms = _ms(BEGAN) + number * EVERY_MS
            usual: dict[str, Any] = {each.name: 0 for each in TRANSACTION}
            rows.append(
                usual
                | {"topic": "orders", "topic_id": "x", "partition": partition, "producer_id": 42, "replica": None}
                | {"first_epoch": 5, "last_epoch": 5, "first_offset": 3 * number, "last_offset": 3 * number + 1}
                | {"records": 2, "first_timestamp_ms": at_ms + 5, "last_timestamp_ms": at_ms + 10}
                | {"marker": "commit", "marker_offset": 3 * number + 2, "marker_epoch": 5}
                | {"marker_timestamp_ms": at_ms + 30}
            )
    return pa.Table.from_pylist(rows, schema=TRANSACTION)


def _ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)


def test_a_transaction_takes_little_memory_while_it_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pipeline.transaction_log", "audit.decision_rows"):
        monkeypatch.setattr(f"exporter.{module}.ROWS_AT_ONCE", 300)
    records, markers = state_rows(), marker_rows()
    read = {("orders", each): PartitionRead(topic_id="x", judged={}) for each in range(PARTITIONS)}
    horizon = Horizon(settled={7: len(records)}, log_read_to_ms=_ms(BEGAN) + 86_400_000, log_complete_from_ms=0)
    tracemalloc.start()
    try:
        rows = decision_rows(records)
        judgement = judge([_decision_of(row) for row in dicts_of(rows)], transactions_of(markers), read, horizon)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert judgement.transactions == Counter({AuditVerdict.AS_DECIDED: TRANSACTIONS})
    assert peak / TRANSACTIONS < BYTES_MAX
