"""Metrics from the transaction log; without `transaction_log.enabled` there are no series."""

from __future__ import annotations

from typing import Any, Final

from exporter.publication.metrics.model import LOG, Distribution, Metric, MetricSource, Sample, Samples
from exporter.publication.publication import Publication
from exporter.transaction_log.counts import DURATION_BUCKETS_SECONDS, MARKER_BUCKETS_SECONDS, Counted
from exporter.transaction_log.report import LogReport


def _counted(publication: Publication) -> Counted | None:
    report = publication.status.transaction_log
    return None if report is None else report.counted


_COUNTED: Final[MetricSource[Counted]] = MetricSource(_counted)


def _durations(counted: Counted) -> Samples:
    return tuple(
        Distribution((name, outcome.value), DURATION_BUCKETS_SECONDS, histogram.counts, histogram.total)
        for name, outcome, histogram in counted.durations
    )


def _markers(counted: Counted) -> Samples:
    return tuple(
        Distribution((name,), MARKER_BUCKETS_SECONDS, histogram.counts, histogram.total)
        for name, histogram in counted.markers
    )


def _partitions(report: LogReport) -> Samples:
    """Partitions of the log by state: current, behind, unread."""
    return (
        Sample(("current",), report.partitions_current),
        Sample(("behind",), report.partitions_behind),
        Sample(("unread",), report.partitions_unread),
    )


METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name="kafka_transactions_completed_total",
        help="Completed transactions by group of transactional ids and outcome, from the transaction log; "
        "only with transaction_log.enabled.",
        kind="counter",
        labels=("group", "outcome"),
        of=_COUNTED,
        values=lambda counted: tuple(
            Sample((name, outcome.value), count) for name, outcome, count in counted.completed
        ),
    ),
    Metric(
        name="kafka_transactional_clients",
        help="Transactional ids by group and by the transaction version of their last transaction, 2 with KIP-890; "
        "only with transaction_log.enabled.",
        labels=("group", "transaction_version"),
        of=_COUNTED,
        values=lambda counted: tuple(Sample((name, str(version)), count) for name, version, count in counted.clients),
    ),
    Metric(
        name="kafka_transactional_ids_without_group",
        help="Transactional ids that count as other: transaction_log.groups is empty, and their prefixes are too many; "
        "only with transaction_log.enabled.",
        of=_COUNTED,
        values=lambda counted: (Sample((), counted.ids_without_group),),
    ),
    Metric(
        name="kafka_transaction_duration_seconds",
        help="Time from the start of a transaction to the decision on its outcome; only with transaction_log.enabled.",
        kind="histogram",
        labels=("group", "outcome"),
        of=_COUNTED,
        values=_durations,
    ),
    Metric(
        name="kafka_transaction_marker_seconds",
        help="Time from the decision on a transaction to its last marker; only with transaction_log.enabled.",
        kind="histogram",
        labels=("group",),
        of=_COUNTED,
        values=_markers,
    ),
    Metric(
        name="kafka_transactional_id_initializations_total",
        help="Initializations of transactional ids by producers (InitProducerId); only with transaction_log.enabled.",
        kind="counter",
        labels=("group",),
        of=_COUNTED,
        values=lambda counted: tuple(Sample((name,), count) for name, count in counted.initialized),
    ),
    Metric(
        name="kafka_transaction_exporter_transaction_log_records_total",
        help="Records of the transaction log that were read.",
        kind="counter",
        of=LOG,
        values=lambda report: report.records,
    ),
    Metric(
        name="kafka_transaction_exporter_transaction_log_decode_failures_total",
        help="Records of the transaction log that could not be decoded, by reason.",
        kind="counter",
        labels=("reason",),
        of=LOG,
        values=lambda report: (
            Sample(("malformed",), report.malformed),
            Sample(("unknown_version",), report.unknown_versions),
        ),
    ),
    Metric(
        name="kafka_transaction_exporter_transaction_log_lag_records",
        help="Unread records of the transaction log; no series while no end offset is known.",
        of=LOG,
        values=lambda report: report.lag_records,
    ),
    Metric(
        name="kafka_transaction_exporter_transaction_log_partitions",
        help="Partitions of the transaction log: current ones are read to their end, behind ones not yet, "
        "unread ones have no responding leader.",
        labels=("answer",),
        of=LOG,
        values=_partitions,
    ),
    Metric(
        name="kafka_transaction_exporter_transaction_log_reading",
        help="1 while all of the transaction log can be read.",
        of=LOG,
        values=lambda report: report.failure is None,
    ),
    Metric(
        name="kafka_transaction_exporter_transaction_log_transactional_ids",
        help="Transactional ids in memory from the transaction log.",
        of=LOG,
        values=lambda report: report.transactional_ids,
    ),
)
