"""The second half of the table of all metrics: the exporter's own, the transaction log's and the history's.

The laws are those of `metrics.py`.
"""

from __future__ import annotations

from exporter.publication.metrics import exporter_samples as exporter
from exporter.publication.metrics import log_samples as log
from exporter.publication.metrics.exporter_samples import fact, of_baseline, of_history, of_log, seconds
from exporter.publication.metrics.model import Metric

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
        is_of_process=True,
    ),
    Metric(
        name="kafka_transaction_exporter_config_last_reload_success_timestamp_seconds",
        help="When the settings in use were read.",
        kind="gauge",
        labels=(),
        samples=fact(lambda facts: seconds(facts.settings_loaded_at_ms)),
        is_of_process=True,
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

BASELINE_METRICS = (
    Metric(
        name="kafka_transaction_exporter_baseline_used",
        help="1 while the file of baselines is used, 0 when it is missing, damaged, too old or of other clusters.",
        kind="gauge",
        labels=(),
        samples=of_baseline(lambda baseline: baseline.failure is None),
        is_of_process=True,
    ),
    Metric(
        name="kafka_transaction_exporter_baseline_timestamp_seconds",
        help="When the file of baselines was made; no series where it cannot be read.",
        kind="gauge",
        labels=(),
        samples=of_baseline(lambda baseline: seconds(baseline.made_at_ms)),
        is_of_process=True,
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

HISTORY_METRICS = (
    Metric(
        name="kafka_transaction_exporter_history_writing",
        help="1 while the history is written, 0 when the last attempt failed: a full disk, a missing right.",
        kind="gauge",
        labels=(),
        samples=of_history(lambda history: history.failure is None),
        is_of_process=True,
    ),
    Metric(
        name="kafka_transaction_exporter_history_rows_total",
        help="Observations that were written to the history.",
        kind="counter",
        labels=(),
        samples=of_history(lambda history: history.rows),
        is_of_process=True,
    ),
    Metric(
        name="kafka_transaction_exporter_history_rows_lost_total",
        help="Observations that were given up because too many waited for a disk.",
        kind="counter",
        labels=(),
        samples=of_history(lambda history: history.rows_lost),
        is_of_process=True,
    ),
    Metric(
        name="kafka_transaction_exporter_history_rows_waiting",
        help="Observations in memory, to be written with the next file: what a kill would lose.",
        kind="gauge",
        labels=(),
        samples=of_history(lambda history: history.rows_waiting),
        is_of_process=True,
    ),
    Metric(
        name="kafka_transaction_exporter_history_size_bytes",
        help="Size of all files of the history.",
        kind="gauge",
        labels=(),
        samples=of_history(lambda history: history.size_bytes),
        is_of_process=True,
    ),
    Metric(
        name="kafka_transaction_exporter_history_newest_timestamp_seconds",
        help="The newest cycle that is in the history; no series before the first file.",
        kind="gauge",
        labels=(),
        samples=of_history(lambda history: seconds(history.newest_ms)),
        is_of_process=True,
    ),
)
