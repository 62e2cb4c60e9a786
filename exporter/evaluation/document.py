"""Makes one JSON object of an evaluation, which `--format json` prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from exporter.evaluation.blocked import group_failures
from exporter.evaluation.field_types import Output
from exporter.evaluation.fields import fields_of, project
from exporter.evaluation.gaps import gaps
from exporter.evaluation.stuck import stuck_in_words
from exporter.evaluation.stuck_transaction import StuckTransaction
from exporter.evaluation.verdicts import Evaluation, TransactionRow
from exporter.snapshot import PartitionResult, Snapshot


def document(
    evaluation: Evaluation, rows: Iterable[TransactionRow], *, cluster_name: str | None = None
) -> dict[str, Any]:
    """`evaluation` with the open transactions `rows`. Instants and durations are in milliseconds."""
    snapshot = evaluation.snapshot
    return {
        "cluster_id": snapshot.cluster_id,
        "cluster_name": cluster_name,
        "taken_at_ms": snapshot.taken_at_ms,
        "coverage": coverage(snapshot),
        "transaction_max_timeout_ms": evaluation.max_timeout_ms,
        "transaction_max_timeout_is_fallback": evaluation.max_timeout_is_fallback,
        "transactions": [transaction(row) for row in rows],
        "stuck_transactions": [stuck_transaction(each) for each in evaluation.stuck],
    }


def stuck_transaction(stuck: StuckTransaction) -> dict[str, Any]:
    """Returns a transaction that its coordinator cannot complete, under the documented names."""
    return {
        "transactional_id": stuck.transactional_id,
        "producer_id": stuck.producer_id,
        "producer_epoch": stuck.producer_epoch,
        "coordinator": stuck.coordinator,
        "coordinator_epoch": stuck.coordinator_epoch,
        "state": stuck.state.value,
        "start_ms": stuck.start_ms,
        "stuck_ms": stuck.stuck_ms,
        "markers": stuck.markers_state.value,
        "partitions": [
            {
                "topic": marker.topic,
                "partition": marker.partition,
                "marker": marker.finding.value,
                "offset": marker.offset,
                "timestamp_ms": marker.timestamp_ms,
                "coordinator_epoch": marker.coordinator_epoch,
                "detail": marker.detail,
            }
            for marker in stuck.markers
        ],
        "reason": stuck_in_words(stuck),
    }


def coverage(snapshot: Snapshot) -> dict[str, Any]:
    """Requests, responses, and missing responses with the reason."""
    partitions = snapshot.partitions
    return {
        "complete": snapshot.is_complete,
        "partitions": {
            answer.label: int(np.count_nonzero(partitions.answer == int(answer))) for answer in PartitionResult
        },
        "unread_partitions": [
            {
                "topic": partitions.name(int(row))[0],
                "partition": partitions.name(int(row))[1],
                "answer": PartitionResult(int(partitions.answer[row])).label,
                "reason": partitions.reasons[partitions.reason[row]],
            }
            for row in np.flatnonzero(partitions.is_unread)
        ],
        "brokers": [
            {"broker": b.broker, "host": b.host, "port": b.port, "partitions": b.partitions, "failure": b.failure}
            for b in snapshot.brokers
        ],
        "coordinators": [{"broker": c.broker, "failure": c.failure} for c in snapshot.coordinators],
        "group_failures": None if snapshot.impact is None else list(group_failures(snapshot.impact)),
        "log_dir_failures": None if snapshot.disk is None else list(snapshot.disk.failures),
        "gaps": list(gaps(snapshot)),
        "hidden_topics": list(snapshot.visibility.hidden_topics),
        "clock_source": snapshot.clock_source.value,
        "proof_level": None if snapshot.proof_level is None else snapshot.proof_level.value,
        "proof_failure": None if snapshot.proof is None else snapshot.proof.failure,
    }


def transaction(row: TransactionRow) -> dict[str, Any]:
    """Returns an open transaction under the documented names."""
    return project(row, Output.JSON)


TRANSACTION_KEYS = tuple(field.name_in(Output.JSON) for field in fields_of(Output.JSON))
"""The keys of `transaction`, in their order: the columns of CSV, also without rows."""
