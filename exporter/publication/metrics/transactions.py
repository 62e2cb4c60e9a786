"""Metrics of transactions: open ones by verdict, late ones, and one series per suspect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from exporter.evaluation.verdicts import Evaluation, StartSource, TransactionRow, Verdict
from exporter.publication.metrics.model import CLUSTER, PARTITION, SHOWN, LimitedEvaluation, Metric, Sample, Samples

UNKNOWN: Final = "unknown"
"""Label of a producer where only the offset of its transaction is known."""
TRANSACTION: Final = (*PARTITION, "producer_id", "producer_epoch", "start_offset", "transactional_id", "verdict")


def open_by_verdict(evaluation: Evaluation) -> Sequence[Sample]:
    """Every verdict always has a series, with 0 if no transaction has it."""
    counts = evaluation.verdict_counts()
    return tuple(Sample((verdict.label,), counts[verdict]) for verdict in Verdict)


def suspects(shown: LimitedEvaluation) -> Samples:
    """The worst suspects, up to the limit; the value is the start, so that ages also grow without the exporter."""
    rows = shown.publication.suspects[: shown.publication.options.suspects_limit]
    return tuple(Sample(transaction_labels(row), row.start_ms / 1000) for row in rows)


def transaction_labels(row: TransactionRow) -> tuple[str, ...]:
    return (
        row.topic,
        str(row.partition),
        str(row.producer_id) if row.has_producer else UNKNOWN,
        str(row.producer_epoch) if row.has_producer else UNKNOWN,
        str(row.start_offset),
        row.transactional_id or "",
        row.verdict.label,
    )


def starts_by_client_clock(shown: LimitedEvaluation) -> Samples:
    """Returns the suspects shown whose start is the timestamp of a client."""
    rows = shown.publication.suspects[: shown.publication.options.suspects_limit]
    return tuple(
        Sample((row.topic, str(row.partition), str(row.producer_id), str(row.start_offset)), 1)
        for row in rows
        if row.start_source is StartSource.LAST_WRITE
    )


def stuck(shown: LimitedEvaluation) -> Samples:
    """The worst of those that are stuck, up to the limit of suspects; the value is the start of the transaction."""
    return tuple(
        Sample(
            (
                each.transactional_id,
                str(each.producer_id),
                str(each.producer_epoch),
                str(each.coordinator),
                each.state.value,
                each.markers_state.value,
            ),
            each.start_ms / 1000,
        )
        for each in shown.publication.stuck[: shown.publication.options.suspects_limit]
    )


def suspects_hidden(shown: LimitedEvaluation) -> int:
    evaluation = shown.evaluation
    return evaluation.suspect_count - min(len(evaluation.suspects), shown.publication.options.suspects_limit)


METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name="kafka_late_transactions",
        help="Open transactions older than transaction.max.timeout.ms plus padding, on all read partitions.",
        of=CLUSTER,
        values=lambda evaluation: evaluation.late_count,
    ),
    Metric(
        name="kafka_partitions_with_late_transactions",
        help="Partitions with at least one late transaction, on all read partitions.",
        of=CLUSTER,
        values=lambda evaluation: int(np.count_nonzero(evaluation.partitions.late_transactions)),
    ),
    Metric(
        name="kafka_open_transactions",
        help="Open transactions by verdict, every verdict always present; hanging_* are proofs.",
        labels=("verdict",),
        of=CLUSTER,
        values=open_by_verdict,
    ),
    Metric(
        name="kafka_suspect_transaction_start_timestamp_seconds",
        help="Start of each transaction that needs attention, worst first up to a limit; "
        "transactional_id is empty when unknown.",
        labels=TRANSACTION,
        of=SHOWN,
        values=suspects,
    ),
    Metric(
        name="kafka_suspect_transaction_start_by_client_clock",
        help="Value 1 for each suspect whose start is its last write by the client's clock, which may be wrong.",
        labels=(*PARTITION, "producer_id", "start_offset"),
        of=SHOWN,
        values=starts_by_client_clock,
    ),
    Metric(
        name="kafka_stuck_transaction_start_timestamp_seconds",
        help="Start of each transaction that its coordinator has decided and cannot complete, up to the limit of suspects; "
        "markers: contradicted, missing, unknown or as_decided.",
        labels=("transactional_id", "producer_id", "producer_epoch", "coordinator", "state", "markers"),
        of=SHOWN,
        values=stuck,
    ),
    Metric(
        name="kafka_suspect_transactions_hidden",
        help="Suspects without a series because of the limit.",
        of=SHOWN,
        values=suspects_hidden,
    ),
    Metric(
        name="kafka_transaction_max_timeout_seconds",
        help="Limit used for late, without padding: the largest transaction.max.timeout.ms of all brokers, "
        "or the fallback when none could be read.",
        of=CLUSTER,
        values=lambda evaluation: evaluation.max_timeout_ms / 1000,
    ),
)
