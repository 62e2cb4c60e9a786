"""Metrics of partitions: one series per partition that was read, or per partition with an open transaction."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from exporter.evaluation.verdicts import Evaluation
from exporter.publication.metrics.model import (
    CLUSTER,
    PARTITION,
    SHOWN,
    LimitedEvaluation,
    Metric,
    PartitionSeries,
    Samples,
)
from exporter.publication.publication import PublishOptions
from exporter.snapshot import Int64Column

Rows = npt.NDArray[np.intp]


def is_series_limited(evaluation: Evaluation, options: PublishOptions) -> bool:
    """True when the setting is `all` and there are too many partitions for it."""
    read = evaluation.snapshot.partitions.covered_count
    return options.partition_series == "all" and read > options.partition_series_limit


def partition_durations(shown: LimitedEvaluation) -> Samples:
    """Longest duration by partition: a 0 only if the leader responded and no transaction is open."""
    evaluation, options = shown.evaluation, shown.publication.options
    if options.partition_series == "open" or is_series_limited(evaluation, options):
        rows = _rows_with_open(evaluation)
    else:
        rows = np.flatnonzero(evaluation.snapshot.partitions.is_covered)
    return _series(evaluation, rows, evaluation.partitions.duration_ms_max, divisor=1000)


def partition_idle(evaluation: Evaluation) -> Samples:
    """Longest idle time: no series where producers are unknown, or wrote no timestamp."""
    idle = evaluation.partitions.idle_ms_max
    return _series(
        evaluation, np.flatnonzero((idle >= 0) & evaluation.snapshot.partitions.is_covered), idle, divisor=1000
    )


def partition_open(evaluation: Evaluation) -> Samples:
    return _series(evaluation, _rows_with_open(evaluation), evaluation.partitions.open_transactions)


def partition_late(evaluation: Evaluation) -> Samples:
    return _series(evaluation, _rows_with_open(evaluation), evaluation.partitions.late_transactions)


def partition_late_prepared(evaluation: Evaluation) -> Samples:
    late = evaluation.partitions.late_prepared_transactions
    return _series(evaluation, np.flatnonzero((late > 0) & evaluation.snapshot.partitions.is_covered), late)


def partition_unusually_long(evaluation: Evaluation) -> Samples:
    """Returns no series without a baseline."""
    if not evaluation.has_baseline:
        return ()
    return _series(evaluation, _rows_with_open(evaluation), evaluation.partitions.unusually_long_transactions)


def partition_lag(evaluation: Evaluation) -> Samples:
    """High watermark - last stable offset: no series if either is unknown."""
    lag = evaluation.partitions.last_stable_offset_lag
    rows = _rows_with_open(evaluation)
    return _series(evaluation, rows[lag[rows] >= 0], lag)


def _rows_with_open(evaluation: Evaluation) -> Rows:
    return np.flatnonzero((evaluation.partitions.open_transactions > 0) & evaluation.snapshot.partitions.is_covered)


def _series(evaluation: Evaluation, rows: Rows, column: npt.NDArray[np.integer], divisor: int = 1) -> PartitionSeries:
    values: Int64Column = column[rows].astype(np.int64)
    return PartitionSeries(partitions=evaluation.snapshot.partitions, rows=rows, values=values, divisor=divisor)


METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name="kafka_partition_max_active_transaction_duration_seconds",
        help="Longest duration of any transaction open on the partition, 0 when none is open, or its "
        "start is unknown and this cycle saw it first; no series where the partition could not be read.",
        labels=PARTITION,
        of=SHOWN,
        values=partition_durations,
    ),
    Metric(
        name="kafka_partition_max_transaction_idle_seconds",
        help="Longest time since the last write of any open transaction, by the client's clock; "
        "only where it is known.",
        labels=PARTITION,
        of=CLUSTER,
        values=partition_idle,
    ),
    Metric(
        name="kafka_partition_open_transactions",
        help="Open transactions on the partition; only partitions with one.",
        labels=PARTITION,
        of=CLUSTER,
        values=partition_open,
    ),
    Metric(
        name="kafka_partition_late_transactions",
        help="Open transactions older than transaction.max.timeout.ms plus padding; "
        "only partitions with an open transaction.",
        labels=PARTITION,
        of=CLUSTER,
        values=partition_late,
    ),
    Metric(
        name="kafka_partition_late_prepared_transactions",
        help="Late transactions that are prepared for two-phase commit, which no time-out ends; "
        "only partitions with one.",
        labels=PARTITION,
        of=CLUSTER,
        values=partition_late_prepared,
    ),
    Metric(
        name="kafka_partition_unusually_long_transactions",
        help="Open transactions that are longer than their usual duration; "
        "only partitions with an open transaction, and only with a baseline.",
        labels=PARTITION,
        of=CLUSTER,
        values=partition_unusually_long,
    ),
    Metric(
        name="kafka_partition_last_stable_offset_lag",
        help="High watermark minus last stable offset: records and end markers that read_committed consumers cannot see; "
        "only partitions with an open transaction.",
        labels=PARTITION,
        of=CLUSTER,
        values=partition_lag,
    ),
)
