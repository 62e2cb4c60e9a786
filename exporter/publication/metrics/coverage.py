"""Metrics of coverage: read and unread parts, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from exporter.evaluation.verdicts import Evaluation, InconclusiveReason
from exporter.publication.metrics.model import CLUSTER, SHOWN, Metric, Sample
from exporter.publication.metrics.partitions import is_series_limited
from exporter.snapshot import BrokerCoverage, ClockSource, CoordinatorCoverage, PartitionResult


def inconclusive_by_reason(evaluation: Evaluation) -> Iterable[Sample]:
    """Every reason always has a series: they are few, and a 0 rules a reason out."""
    counts = Counter(row.inconclusive_reason for row in evaluation.suspects)
    counts[InconclusiveReason.NOT_EXAMINED] += evaluation.not_examined_count
    return tuple(Sample((reason.value,), counts[reason]) for reason in InconclusiveReason)


def partitions_by_answer(evaluation: Evaluation) -> Iterable[Sample]:
    counts = np.bincount(evaluation.snapshot.partitions.answer, minlength=len(PartitionResult)).tolist()
    return tuple(Sample((answer.label,), counts[answer]) for answer in PartitionResult)


def unread_by_reason(evaluation: Evaluation) -> Sequence[Sample]:
    """Returns the reasons that occur, in alphabetical order: some names come from brokers, so the list is open."""
    partitions = evaluation.snapshot.partitions
    reasons = partitions.reason[partitions.is_unread].astype(np.int64)
    counts = np.bincount(reasons + 1, minlength=len(partitions.reasons) + 1).tolist()
    by_reason = zip(("unknown", *partitions.reasons), counts, strict=True)
    return tuple(Sample((reason,), count) for reason, count in sorted(by_reason) if count)


def _by_answer(asked: Sequence[BrokerCoverage] | Sequence[CoordinatorCoverage]) -> Iterable[Sample]:
    failed = sum(one.failure is not None for one in asked)
    return Sample(("answered",), len(asked) - failed), Sample(("failed",), failed)


def max_timeout_difference_seconds(evaluation: Evaluation) -> float | None:
    """Largest - smallest `transaction.max.timeout.ms` of the brokers that responded; None when none did."""
    limits = evaluation.snapshot.max_timeout
    if limits.timeout_ms is None or limits.timeout_ms_min is None:
        return None
    return (limits.timeout_ms - limits.timeout_ms_min) / 1000


CLUSTER_INFO: Final = "kafka_transaction_exporter_cluster_info"
"""`doctor` queries it."""

METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name=CLUSTER_INFO,
        help="Value 1, labelled with the id of the cluster that was read.",
        labels=("cluster_id",),
        of=CLUSTER,
        values=lambda evaluation: (Sample((evaluation.snapshot.cluster_id,), 1),),
    ),
    Metric(
        name="kafka_transaction_exporter_partitions",
        help="Partitions by the result of the request to their leader; unless read or by_offsets, unknown, not healthy.",
        labels=("answer",),
        of=CLUSTER,
        values=partitions_by_answer,
    ),
    Metric(
        name="kafka_transaction_exporter_unread_partitions",
        help="Partitions that could not be read, by reason; only reasons that occur.",
        labels=("reason",),
        of=CLUSTER,
        values=unread_by_reason,
    ),
    Metric(
        name="kafka_transaction_exporter_brokers",
        help="Brokers that lead partitions, by whether they responded to every request.",
        labels=("answer",),
        of=CLUSTER,
        values=lambda evaluation: _by_answer(evaluation.snapshot.brokers),
    ),
    Metric(
        name="kafka_transaction_exporter_coordinators",
        help="Transaction coordinators that were needed, by whether they responded; both 0 when nothing was open.",
        labels=("answer",),
        of=CLUSTER,
        values=lambda evaluation: _by_answer(evaluation.snapshot.coordinators),
    ),
    Metric(
        name="kafka_transaction_exporter_coverage_complete",
        help="1 when all that this principal sees was read (hidden topics: `doctor`); at 0 the absence of suspects "
        "proves nothing.",
        of=CLUSTER,
        values=lambda evaluation: evaluation.snapshot.is_complete,
    ),
    Metric(
        name="kafka_transaction_exporter_visible_topics",
        help="Topics that the brokers show to this principal; 0 without DESCRIBE on any.",
        of=CLUSTER,
        values=lambda evaluation: len(evaluation.snapshot.partitions.topics),
    ),
    Metric(
        name="kafka_transaction_exporter_hidden_topics",
        help="Topics that were visible to this principal and are not any more; deleted topics do not count.",
        of=CLUSTER,
        values=lambda evaluation: len(evaluation.snapshot.visibility.hidden_topics),
    ),
    Metric(
        name="kafka_transaction_exporter_cluster_clock_known",
        help="1 when ages are measured by the active controller's clock, 0 when by the exporter's own.",
        of=CLUSTER,
        values=lambda evaluation: evaluation.snapshot.clock_source is ClockSource.CONTROLLER,
    ),
    Metric(
        name="kafka_transaction_exporter_inconclusive_transactions",
        help="Inconclusive transactions, by the missing part of the proof.",
        labels=("reason",),
        of=CLUSTER,
        values=inconclusive_by_reason,
    ),
    Metric(
        name="kafka_transaction_exporter_max_timeout_fallback",
        help="1 when transaction.max.timeout.ms could not be read from any broker and the configured fallback is used.",
        of=CLUSTER,
        values=lambda evaluation: evaluation.max_timeout_is_fallback,
    ),
    Metric(
        name="kafka_transaction_exporter_max_timeout_difference_seconds",
        help="Largest minus smallest transaction.max.timeout.ms of the brokers that responded; above 0 they differ.",
        of=CLUSTER,
        values=max_timeout_difference_seconds,
    ),
    Metric(
        name="kafka_transaction_exporter_partition_series_limited",
        help="1 when there are more partitions than publish.partition_series_limit: idle ones have no duration series.",
        of=SHOWN,
        values=lambda shown: is_series_limited(shown.evaluation, shown.publication.options),
    ),
)
