"""An evaluation as one JSON object: the shape that `--format json` prints (design: `find-hanging --all --format json`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from exporter.evaluation.verdicts import Evaluation, TransactionRow
from exporter.snapshot import Answer, Snapshot


def document(evaluation: Evaluation, rows: Iterable[TransactionRow]) -> dict[str, Any]:
    """`evaluation` with the open transactions `rows`. Instants and durations are in milliseconds."""
    snapshot = evaluation.snapshot
    return {
        "cluster_id": snapshot.cluster_id,
        "taken_at_ms": snapshot.taken_at_ms,
        "coverage": coverage(snapshot),
        "transaction_max_timeout_ms": evaluation.max_timeout_ms,
        "transaction_max_timeout_is_fallback": evaluation.max_timeout_is_fallback,
        "transactions": [_transaction(row) for row in rows],
    }


def coverage(snapshot: Snapshot) -> dict[str, Any]:
    """What was asked, what answered, and what did not, with the reason."""
    partitions = snapshot.partitions
    return {
        "complete": snapshot.is_complete,
        "partitions": {answer.label: int(np.count_nonzero(partitions.answer == answer)) for answer in Answer},
        "unread_partitions": [
            {
                "topic": partitions.name(int(row))[0],
                "partition": partitions.name(int(row))[1],
                "answer": Answer(int(partitions.answer[row])).label,
                "reason": partitions.reasons[partitions.reason[row]],
            }
            for row in np.flatnonzero(partitions.answer != Answer.READ)
        ],
        "brokers": [
            {"broker": b.broker, "host": b.host, "port": b.port, "partitions": b.partitions, "failure": b.failure}
            for b in snapshot.brokers
        ],
        "coordinators": [{"broker": c.broker, "failure": c.failure} for c in snapshot.coordinators],
        "proof_failure": None if snapshot.proof is None else snapshot.proof.failure,
    }


def gaps(snapshot: Snapshot) -> list[str]:
    """What is missing from the answer, a sentence each; empty when nothing is."""
    partitions = snapshot.partitions
    unread = partitions.answer != Answer.READ
    sentences = []
    for index, reason in enumerate(partitions.reasons):
        rows = np.flatnonzero(unread & (partitions.reason == index))
        if len(rows):
            topic, partition = partitions.name(int(rows[0]))
            sentences.append(f"{len(rows)} partitions are unread ({reason}), the first is {topic}-{partition}")
    sentences += [broker.failure for broker in snapshot.brokers if broker.failure is not None]
    sentences += [coordinator.failure for coordinator in snapshot.coordinators if coordinator.failure is not None]
    if snapshot.proof is not None and snapshot.proof.failure is not None:
        sentences.append(f"nothing can be proved to hang: {snapshot.proof.failure}")
    return list(dict.fromkeys(sentences))


def _transaction(row: TransactionRow) -> dict[str, Any]:
    return {
        "topic": row.topic,
        "partition": row.partition,
        "producer_id": row.producer_id,
        "producer_epoch": row.producer_epoch,
        "coordinator_epoch": row.coordinator_epoch,
        "start_offset": row.start_offset,
        "last_sequence": row.last_sequence,
        "last_timestamp_ms": row.last_timestamp_ms,
        "start_timestamp_ms": row.start_timestamp_ms,
        "start_source": row.start_source.label,
        "duration_ms": row.duration_ms,
        "idle_ms": row.idle_ms,
        "late": row.is_late,
        "transactional_id": row.transactional_id,
        "coordinator": row.coordinator,
        "coordinator_state": row.coordinator_state,
        "coordinator_producer_epoch": row.coordinator_producer_epoch,
        "timeout_ms": row.timeout_ms,
        "last_stable_offset_lag": row.last_stable_offset_lag,
        "outcome_evidence": row.outcome_evidence.value,
        "verdict": row.verdict.label,
        "inconclusive_reason": None if row.inconclusive_reason is None else row.inconclusive_reason.value,
        "reason": row.reason,
    }
