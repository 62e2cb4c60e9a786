"""Metrics of live transactions that block a consumer group: when they end, and whether their owner is silent."""

from __future__ import annotations

import math
from typing import Any

from exporter.evaluation.verdicts import OwnerState, TransactionRow
from exporter.publication.metrics.model import SHOWN, LimitedEvaluation, Metric, Sample, Samples
from exporter.publication.metrics.transactions import TRANSACTION, transaction_labels


def ends(shown: LimitedEvaluation) -> Samples:
    return tuple(
        Sample(transaction_labels(row), math.inf if row.ends_at_ms is None else row.ends_at_ms / 1000)
        for row in _shown(shown)
    )


def silences(shown: LimitedEvaluation) -> Samples:
    return tuple(
        Sample(transaction_labels(row), (row.silent_ms or 0) / 1000 if row.owner is OwnerState.SILENT else 0)
        for row in _shown(shown)
        if row.owner is not None
    )


def _shown(shown: LimitedEvaluation) -> tuple[TransactionRow, ...]:
    return shown.publication.blocking[: shown.publication.options.suspects_limit]


METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name="kafka_blocking_transaction_ends_timestamp_seconds",
        help="Time by which its coordinator aborts a live transaction that blocks a visible consumer group; +Inf where no "
        "time-out is known. Suspects have series of their own.",
        labels=TRANSACTION,
        of=SHOWN,
        values=ends,
    ),
    Metric(
        name="kafka_blocking_transaction_owner_silent_seconds",
        help="Time for which the owner of such a transaction has written nothing, by the exporter's clock; 0 while it is "
        "not silent for longer than is usual, no series until it was watched for long enough.",
        labels=TRANSACTION,
        of=SHOWN,
        values=silences,
    ),
)
