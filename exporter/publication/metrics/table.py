"""The table of all metrics: one row each. Metrics are named here and in `exporter_metrics.py`, its second half, only.

Law of this file: a row says name, help, type, labels and the function that computes it; nothing is computed here.
Values are cached: they are made once per cycle, and a scrape never asks Kafka.
`docs/metrics.md` is generated from this table (`python -m exporter.publication.metrics.document`).
"""

from __future__ import annotations

from exporter.evaluation.verdicts import Evaluation
from exporter.publication.metrics import cluster_samples as cluster
from exporter.publication.metrics import exporter_samples as exporter
from exporter.publication.metrics.cluster_samples import of_cluster, one
from exporter.publication.metrics.exporter_table import (
    BASELINE_METRICS,
    EXPORTER_METRICS,
    HISTORY_METRICS,
    TRANSACTION_LOG_METRICS,
)
from exporter.publication.metrics.model import Metric, Sample, Samples
from exporter.snapshot import ClockSource

_PARTITION = ("topic", "partition")
_SUSPECT = (*_PARTITION, "producer_id", "producer_epoch", "start_offset", "transactional_id", "verdict")
_CACHED = "Cached once per cycle."


def _cluster_info(evaluation: Evaluation) -> Samples:
    return (Sample((evaluation.snapshot.cluster_id,), 1),)


PARTITION_METRICS = (
    Metric(
        name="kafka_partition_max_active_transaction_duration_seconds",
        help="Longest duration of any transaction open on the partition, 0 when none is open; "
        f"no series where the partition could not be read. {_CACHED}",
        kind="gauge",
        labels=_PARTITION,
        samples=cluster.partition_durations,
    ),
    Metric(
        name="kafka_partition_max_transaction_idle_seconds",
        help="Longest time since the last write of any open transaction, by the client's clock; "
        f"only partitions with one. {_CACHED}",
        kind="gauge",
        labels=_PARTITION,
        samples=of_cluster(cluster.partition_idle),
    ),
    Metric(
        name="kafka_partition_open_transactions",
        help=f"Open transactions on the partition; only partitions with one. {_CACHED}",
        kind="gauge",
        labels=_PARTITION,
        samples=of_cluster(cluster.partition_open),
    ),
    Metric(
        name="kafka_partition_late_transactions",
        help="Open transactions older than transaction.max.timeout.ms plus padding; "
        f"only partitions with an open transaction. {_CACHED}",
        kind="gauge",
        labels=_PARTITION,
        samples=of_cluster(cluster.partition_late),
    ),
    Metric(
        name="kafka_partition_unusually_long_transactions",
        help="Open transactions that are longer than what is usual for them; "
        f"only partitions with an open transaction, and only with a baseline. {_CACHED}",
        kind="gauge",
        labels=_PARTITION,
        samples=of_cluster(cluster.partition_unusually_long),
    ),
    Metric(
        name="kafka_partition_last_stable_offset_lag",
        help="High watermark minus last stable offset: records that read_committed consumers cannot see; "
        f"only partitions with an open transaction. {_CACHED}",
        kind="gauge",
        labels=_PARTITION,
        samples=of_cluster(cluster.partition_lag),
    ),
)

TRANSACTION_METRICS = (
    Metric(
        name="kafka_late_transactions",
        help=f"Open transactions older than transaction.max.timeout.ms plus padding, in all that was read. {_CACHED}",
        kind="gauge",
        labels=(),
        samples=one(cluster.late_transactions),
    ),
    Metric(
        name="kafka_partitions_with_late_transactions",
        help=f"Partitions with at least one late transaction, in all that was read. {_CACHED}",
        kind="gauge",
        labels=(),
        samples=one(cluster.partitions_with_late),
    ),
    Metric(
        name="kafka_open_transactions",
        help=f"Open transactions by verdict, every verdict always present; hanging_* are proofs. {_CACHED}",
        kind="gauge",
        labels=("verdict",),
        samples=of_cluster(cluster.open_by_verdict),
    ),
    Metric(
        name="kafka_suspect_transaction_start_timestamp_seconds",
        help="Start of each transaction that wants a person, worst first up to a limit; "
        f"transactional_id is empty when unknown. {_CACHED}",
        kind="gauge",
        labels=_SUSPECT,
        samples=cluster.suspects,
    ),
    Metric(
        name="kafka_suspect_transactions_hidden",
        help=f"Suspect transactions without a series of their own because of the limit. {_CACHED}",
        kind="gauge",
        labels=(),
        samples=cluster.suspects_hidden,
    ),
    Metric(
        name="kafka_transaction_max_timeout_seconds",
        help="Limit used for late, without padding: the largest transaction.max.timeout.ms of all brokers, "
        f"or the fallback when none could be read. {_CACHED}",
        kind="gauge",
        labels=(),
        samples=one(lambda evaluation: evaluation.max_timeout_ms / 1000),
    ),
)

COVERAGE_METRICS = (
    Metric(
        name="kafka_transaction_exporter_cluster_info",
        help="Value 1, labelled with the id of the cluster that was read.",
        kind="gauge",
        labels=("cluster_id",),
        samples=of_cluster(_cluster_info),
    ),
    Metric(
        name="kafka_transaction_exporter_partitions",
        help="Partitions by what became of the question to their leader; all but read are unknown, not fine.",
        kind="gauge",
        labels=("answer",),
        samples=of_cluster(cluster.partitions_by_answer),
    ),
    Metric(
        name="kafka_transaction_exporter_unread_partitions",
        help="Partitions that could not be read, by reason; only reasons that occur.",
        kind="gauge",
        labels=("reason",),
        samples=of_cluster(cluster.unread_by_reason),
    ),
    Metric(
        name="kafka_transaction_exporter_brokers",
        help="Brokers that had to be asked as partition leaders, by whether every request was answered.",
        kind="gauge",
        labels=("answer",),
        samples=of_cluster(cluster.brokers_by_answer),
    ),
    Metric(
        name="kafka_transaction_exporter_coordinators",
        help="Transaction coordinators that had to be asked; both 0 when nothing was open.",
        kind="gauge",
        labels=("answer",),
        samples=of_cluster(cluster.coordinators_by_answer),
    ),
    Metric(
        name="kafka_transaction_exporter_coverage_complete",
        help="1 when everything was visible and responded; at 0 the absence of suspects proves nothing.",
        kind="gauge",
        labels=(),
        samples=one(lambda evaluation: evaluation.snapshot.is_complete),
    ),
    Metric(
        name="kafka_transaction_exporter_visible_topics",
        help="Topics that the brokers show to this principal; 0 without DESCRIBE on any.",
        kind="gauge",
        labels=(),
        samples=one(lambda evaluation: len(evaluation.snapshot.partitions.topics)),
    ),
    Metric(
        name="kafka_transaction_exporter_hidden_topics",
        help="Topics that were visible to this principal and are not any more; 0 where brokers say that they are deleted.",
        kind="gauge",
        labels=(),
        samples=one(lambda evaluation: len(evaluation.snapshot.visibility.hidden_topics)),
    ),
    Metric(
        name="kafka_transaction_exporter_cluster_clock_known",
        help="1 when ages are measured by the active controller's clock, 0 when the exporter's own stands in for it.",
        kind="gauge",
        labels=(),
        samples=one(lambda evaluation: evaluation.snapshot.clock_source is ClockSource.CONTROLLER),
    ),
    Metric(
        name="kafka_transaction_exporter_inconclusive_transactions",
        help="Open transactions without a verdict, by the missing part of the proof; every reason always present.",
        kind="gauge",
        labels=("reason",),
        samples=of_cluster(cluster.inconclusive_by_reason),
    ),
    Metric(
        name="kafka_transaction_exporter_max_timeout_fallback",
        help="1 when no broker let us read transaction.max.timeout.ms and the configured fallback is used.",
        kind="gauge",
        labels=(),
        samples=one(lambda evaluation: evaluation.max_timeout_is_fallback),
    ),
    Metric(
        name="kafka_transaction_exporter_max_timeout_difference_seconds",
        help="Largest minus smallest transaction.max.timeout.ms of the brokers that told; above 0 they disagree.",
        kind="gauge",
        labels=(),
        samples=one(cluster.max_timeout_difference_seconds),
    ),
    Metric(
        name="kafka_transaction_exporter_partition_series_limited",
        help="1 when there are too many partitions and idle ones have no duration series although asked for.",
        kind="gauge",
        labels=(),
        samples=exporter.series_limited,
    ),
)

METRICS = (
    PARTITION_METRICS
    + TRANSACTION_METRICS
    + COVERAGE_METRICS
    + EXPORTER_METRICS
    + TRANSACTION_LOG_METRICS
    + HISTORY_METRICS
    + BASELINE_METRICS
)
