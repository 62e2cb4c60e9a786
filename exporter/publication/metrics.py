"""The table of all metrics: one row each, and the only place of the program that contains a metric name.

Law of this file: a row says name, help, type, labels and the function that computes it; nothing is computed here.
Values are cached: they are made once per cycle, and a scrape never asks Kafka.
`docs/metrics.md` is generated from this table (`python -m exporter.publication.metrics_document`).
"""

from __future__ import annotations

from exporter.evaluation.verdicts import Evaluation
from exporter.publication import cluster_samples as cluster
from exporter.publication import exporter_samples as exporter
from exporter.publication import log_samples as log
from exporter.publication.cluster_samples import of_cluster, one
from exporter.publication.exporter_samples import fact, seconds
from exporter.publication.families import Metric, Sample, Samples
from exporter.publication.log_samples import of_log

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
        help="1 when everything that was asked was answered; at 0 the absence of suspects proves nothing.",
        kind="gauge",
        labels=(),
        samples=one(lambda evaluation: evaluation.snapshot.is_complete),
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

EXPORTER_METRICS = (
    Metric(
        name="kafka_transaction_exporter_build_info",
        help="Value 1, labelled with the versions of the exporter and of Python.",
        kind="gauge",
        labels=("version", "python_version"),
        samples=exporter.build_info,
    ),
    Metric(
        name="kafka_transaction_exporter_snapshot_timestamp_seconds",
        help="When reading of the newest snapshot began; it stays when the snapshot has become stale.",
        kind="gauge",
        labels=(),
        samples=fact(lambda facts: seconds(facts.snapshot_taken_at_ms)),
    ),
    Metric(
        name="kafka_transaction_exporter_snapshot_stale",
        help="1 when the newest snapshot is too old to be shown and all series of the cluster are dropped.",
        kind="gauge",
        labels=(),
        samples=fact(lambda facts: facts.is_stale),
    ),
    Metric(
        name="kafka_transaction_exporter_config_last_reload_successful",
        help="1 when the settings in use are those of the latest reading, 0 when that failed and older ones are kept.",
        kind="gauge",
        labels=(),
        samples=fact(lambda facts: facts.settings_reloaded),
    ),
    Metric(
        name="kafka_transaction_exporter_config_last_reload_success_timestamp_seconds",
        help="When the settings in use were read.",
        kind="gauge",
        labels=(),
        samples=fact(lambda facts: seconds(facts.settings_loaded_at_ms)),
    ),
    Metric(
        name="kafka_transaction_exporter_cycle_interval_seconds",
        help="Time from the start of one cycle to the start of the next, as configured.",
        kind="gauge",
        labels=(),
        samples=fact(lambda facts: facts.interval_ms / 1000),
    ),
    Metric(
        name="kafka_transaction_exporter_cycle_duration_seconds",
        help="Duration of the last cycle.",
        kind="gauge",
        labels=(),
        samples=fact(lambda facts: facts.last_cycle_duration_seconds),
    ),
    Metric(
        name="kafka_transaction_exporter_cycle_phase_duration_seconds",
        help="Duration of each phase of the last cycle.",
        kind="gauge",
        labels=("phase",),
        samples=exporter.phase_durations,
    ),
    Metric(
        name="kafka_transaction_exporter_cycles_total",
        help="Cycles that ended, failed ones included.",
        kind="counter",
        labels=(),
        samples=fact(lambda facts: facts.cycles),
    ),
    Metric(
        name="kafka_transaction_exporter_cycles_failed_total",
        help="Cycles that ended without a snapshot.",
        kind="counter",
        labels=(),
        samples=fact(lambda facts: facts.failed_cycles),
    ),
    Metric(
        name="kafka_transaction_exporter_cycles_missed_total",
        help="Cycles that could not begin because the one before was still running.",
        kind="counter",
        labels=(),
        samples=fact(lambda facts: facts.missed_cycles),
    ),
    Metric(
        name="kafka_transaction_exporter_last_cycle_success",
        help="1 when the last cycle gave a snapshot, 0 when it failed.",
        kind="gauge",
        labels=(),
        samples=fact(lambda facts: facts.last_cycle_succeeded),
    ),
    Metric(
        name="kafka_transaction_exporter_last_success_timestamp_seconds",
        help="When the last successful cycle ended.",
        kind="gauge",
        labels=(),
        samples=fact(lambda facts: seconds(facts.last_success_at_ms)),
    ),
    Metric(
        name="kafka_transaction_exporter_requests_total",
        help="Requests to Kafka by API.",
        kind="counter",
        labels=("api",),
        samples=exporter.requests,
    ),
    Metric(
        name="kafka_transaction_exporter_request_failures_total",
        help="Requests to Kafka without a usable answer, by API.",
        kind="counter",
        labels=("api",),
        samples=exporter.request_failures,
    ),
    Metric(
        name="kafka_transaction_exporter_request_duration_seconds",
        help="Latency of answered requests to Kafka, by API.",
        kind="histogram",
        labels=("api",),
        samples=exporter.request_durations,
    ),
)

TRANSACTION_LOG_METRICS = (
    Metric(
        name="kafka_transactions_completed_total",
        help="Transactions that ended, by group of transactional ids and outcome, as the transaction log tells; "
        "only with transaction_log.enabled.",
        kind="counter",
        labels=("group", "outcome"),
        samples=log.completed,
    ),
    Metric(
        name="kafka_transaction_duration_seconds",
        help="Time from the beginning of a transaction to the decision on its outcome; only with transaction_log.enabled.",
        kind="histogram",
        labels=("group", "outcome"),
        samples=log.durations,
    ),
    Metric(
        name="kafka_transaction_marker_seconds",
        help="Time from the decision on a transaction to the last of its markers; only with transaction_log.enabled.",
        kind="histogram",
        labels=("group",),
        samples=log.markers,
    ),
    Metric(
        name="kafka_transactional_id_initializations_total",
        help="Times that a producer took a transactional id, or took it over; only with transaction_log.enabled.",
        kind="counter",
        labels=("group",),
        samples=log.initialized,
    ),
    Metric(
        name="kafka_transaction_exporter_transaction_log_records_total",
        help="Records of the transaction log that were read.",
        kind="counter",
        labels=(),
        samples=of_log(lambda report: report.records),
    ),
    Metric(
        name="kafka_transaction_exporter_transaction_log_decode_failures_total",
        help="Records of the transaction log that could not be understood, by reason; every reason always present.",
        kind="counter",
        labels=("reason",),
        samples=log.decode_failures,
    ),
    Metric(
        name="kafka_transaction_exporter_transaction_log_lag_records",
        help="Records of the transaction log that are written and not read yet; no series where no end is known.",
        kind="gauge",
        labels=(),
        samples=of_log(lambda report: report.lag_records),
    ),
    Metric(
        name="kafka_transaction_exporter_transaction_log_partitions",
        help="Partitions of the transaction log: current are read to their end, behind are not yet, "
        "of unread ones nothing is known.",
        kind="gauge",
        labels=("answer",),
        samples=log.partitions,
    ),
    Metric(
        name="kafka_transaction_exporter_transaction_log_reading",
        help="1 while the transaction log is read, 0 when something is wrong with all of it or a part.",
        kind="gauge",
        labels=(),
        samples=of_log(lambda report: report.failure is None),
    ),
    Metric(
        name="kafka_transaction_exporter_transaction_log_transactional_ids",
        help="Transactional ids that are remembered from the transaction log.",
        kind="gauge",
        labels=(),
        samples=of_log(lambda report: report.transactional_ids),
    ),
)

METRICS = PARTITION_METRICS + TRANSACTION_METRICS + COVERAGE_METRICS + EXPORTER_METRICS + TRANSACTION_LOG_METRICS
