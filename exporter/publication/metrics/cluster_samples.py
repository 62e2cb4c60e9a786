"""What the metrics about the cluster say, computed from an evaluation.

Law of this file: functions from data to samples, no metric name, and no row for what was not read: a missing series is
unknown, a 0 is a statement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from exporter.evaluation.verdicts import Evaluation, InconclusiveReason, TransactionRow, Verdict
from exporter.publication.facts import Publication, PublishOptions
from exporter.publication.metrics.model import PartitionSeries, Sample, Samples
from exporter.snapshot import Answer, Int64Column, Partitions

Rows = npt.NDArray[np.intp]


def of_cluster(samples: Callable[[Evaluation], Samples]) -> Callable[[Publication], Samples]:
    """The function for a metric of the cluster: no samples at all without an evaluation."""

    def guarded(publication: Publication) -> Samples:
        return () if publication.evaluation is None else samples(publication.evaluation)

    return guarded


def one(value: Callable[[Evaluation], float | None]) -> Callable[[Publication], Samples]:
    """The function for a metric of the cluster without labels: no sample where the value is None."""

    def single(evaluation: Evaluation) -> Samples:
        number = value(evaluation)
        return () if number is None else (Sample((), number),)

    return of_cluster(single)


# Partitions


def is_read(partitions: Partitions) -> npt.NDArray[np.bool_]:
    """(P,) true where the leader answered."""
    read: npt.NDArray[np.bool_] = partitions.answer == Answer.READ
    return read


def is_series_limited(evaluation: Evaluation, options: PublishOptions) -> bool:
    """True when `all` was asked for and there are too many partitions for it."""
    read = int(np.count_nonzero(is_read(evaluation.snapshot.partitions)))
    return options.partition_series == "all" and read > options.partition_series_limit


def partition_durations(publication: Publication) -> Samples:
    """Longest duration by partition: a 0 only where the leader answered that nothing is open."""
    evaluation, options = publication.evaluation, publication.options
    if evaluation is None:
        return ()
    if options.partition_series == "open" or is_series_limited(evaluation, options):
        rows = _rows_with_open(evaluation)
    else:
        rows = np.flatnonzero(is_read(evaluation.snapshot.partitions))
    return _series(evaluation, rows, evaluation.partitions.duration_ms_max, divisor=1000)


def partition_idle(evaluation: Evaluation) -> Samples:
    return _series(evaluation, _rows_with_open(evaluation), evaluation.partitions.idle_ms_max, divisor=1000)


def partition_open(evaluation: Evaluation) -> Samples:
    return _series(evaluation, _rows_with_open(evaluation), evaluation.partitions.open_transactions)


def partition_late(evaluation: Evaluation) -> Samples:
    return _series(evaluation, _rows_with_open(evaluation), evaluation.partitions.late_transactions)


def partition_unusually_long(evaluation: Evaluation) -> Samples:
    """No series at all where it is not known what is usual."""
    if not evaluation.has_baseline:
        return ()
    return _series(evaluation, _rows_with_open(evaluation), evaluation.partitions.unusually_long_transactions)


def partition_lag(evaluation: Evaluation) -> Samples:
    """High watermark - last stable offset: no series where either is unknown."""
    lag = evaluation.partitions.last_stable_offset_lag
    rows = _rows_with_open(evaluation)
    return _series(evaluation, rows[lag[rows] >= 0], lag)


def _rows_with_open(evaluation: Evaluation) -> Rows:
    return np.flatnonzero((evaluation.partitions.open_transactions > 0) & is_read(evaluation.snapshot.partitions))


def _series(evaluation: Evaluation, rows: Rows, column: npt.NDArray[np.integer], divisor: int = 1) -> PartitionSeries:
    values: Int64Column = column[rows].astype(np.int64)
    return PartitionSeries(partitions=evaluation.snapshot.partitions, rows=rows, values=values, divisor=divisor)


# Transactions


def late_transactions(evaluation: Evaluation) -> int:
    return evaluation.late_count


def partitions_with_late(evaluation: Evaluation) -> int:
    return int(np.count_nonzero(evaluation.partitions.late_transactions))


def open_by_verdict(evaluation: Evaluation) -> Sequence[Sample]:
    """Every verdict, always: a verdict that nobody has is a 0."""
    counts = evaluation.verdict_counts()
    return tuple(Sample((verdict.label,), counts[verdict]) for verdict in Verdict)


def suspects(publication: Publication) -> Samples:
    """The worst suspects, up to the limit; the value is the start, so that an age grows while we are down."""
    if publication.evaluation is None:
        return ()
    shown = publication.suspects[: publication.options.suspects_limit]
    return tuple(Sample(_suspect_labels(row), row.start_timestamp_ms / 1000) for row in shown)


def _suspect_labels(row: TransactionRow) -> tuple[str, ...]:
    return (
        row.topic,
        str(row.partition),
        str(row.producer_id),
        str(row.producer_epoch),
        str(row.start_offset),
        row.transactional_id or "",
        row.verdict.label,
    )


def suspects_hidden(publication: Publication) -> Samples:
    if publication.evaluation is None:
        return ()
    shown = min(len(publication.evaluation.suspects), publication.options.suspects_limit)
    return (Sample((), publication.evaluation.suspect_count - shown),)


def inconclusive_by_reason(evaluation: Evaluation) -> Iterable[Sample]:
    """Every reason, always: they are few, and a 0 says that this is not what stands in the way."""
    counts = Counter(row.inconclusive_reason for row in evaluation.suspects)
    counts[InconclusiveReason.NOT_EXAMINED] += evaluation.not_examined_count
    return tuple(Sample((reason.value,), counts[reason]) for reason in InconclusiveReason)


# Coverage


def partitions_by_answer(evaluation: Evaluation) -> Iterable[Sample]:
    counts = np.bincount(evaluation.snapshot.partitions.answer, minlength=len(Answer)).tolist()
    return tuple(Sample((answer.label,), counts[answer]) for answer in Answer)


def unread_by_reason(evaluation: Evaluation) -> Sequence[Sample]:
    """Reasons that occur, in alphabetical order: their names come from brokers and are not known beforehand."""
    partitions = evaluation.snapshot.partitions
    reasons = partitions.reason[~is_read(partitions)].astype(np.int64)
    counts = np.bincount(reasons + 1, minlength=len(partitions.reasons) + 1).tolist()
    told = zip(("unknown", *partitions.reasons), counts, strict=True)
    return tuple(Sample((reason,), count) for reason, count in sorted(told) if count)


def brokers_by_answer(evaluation: Evaluation) -> Iterable[Sample]:
    return _by_answer([broker.failure for broker in evaluation.snapshot.brokers])


def coordinators_by_answer(evaluation: Evaluation) -> Iterable[Sample]:
    return _by_answer([coordinator.failure for coordinator in evaluation.snapshot.coordinators])


def _by_answer(failures: Sequence[str | None]) -> Iterable[Sample]:
    failed = sum(failure is not None for failure in failures)
    return Sample(("answered",), len(failures) - failed), Sample(("failed",), failed)


def max_timeout_difference_seconds(evaluation: Evaluation) -> float | None:
    """Largest - smallest `transaction.max.timeout.ms` of the brokers that told; None when none did."""
    limits = evaluation.snapshot.max_timeout
    if limits.timeout_ms is None or limits.timeout_ms_min is None:
        return None
    return (limits.timeout_ms - limits.timeout_ms_min) / 1000
