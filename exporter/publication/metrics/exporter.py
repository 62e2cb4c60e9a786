"""Metrics of the exporter itself: cycles, requests, settings. They stay when the series of the cluster end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from exporter.publication.metrics.model import PROCESS, STATUS, Distribution, Metric, MetricSource, Sample, seconds
from exporter.publication.paths import below
from exporter.publication.publication import Publication
from exporter.status import LATENCY_BUCKETS_SECONDS, ClusterStatus, ProcessStatus

_PROCESS_BY_CLUSTER: Final[MetricSource[ProcessStatus]] = MetricSource(lambda publication: publication.process)
"""Source of build information: in a fleet it also has the label `cluster`, because panels of a cluster use it."""


def _page_url(publication: Publication) -> str | None:
    external_url = publication.options.external_url
    return None if external_url is None else f"{external_url}{below(publication.cluster)}"


def request_durations(status: ClusterStatus) -> Iterable[Distribution]:
    return tuple(
        Distribution((statistics.api,), LATENCY_BUCKETS_SECONDS, statistics.latency_counts, statistics.seconds_total)
        for statistics in status.api_statistics
    )


SNAPSHOT_TIMESTAMP: Final = "kafka_transaction_exporter_snapshot_timestamp_seconds"
"""`doctor` queries it."""

METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name="kafka_transaction_exporter_page_info",
        help="Value 1, labelled with the address of the status page below publish.external_url; only where that is set.",
        labels=("url",),
        of=MetricSource(_page_url),
        values=lambda url: (Sample((url,), 1),),
    ),
    Metric(
        name="kafka_transaction_exporter_build_info",
        help="Value 1, labelled with the versions of the exporter and of Python.",
        labels=("version", "python_version"),
        of=_PROCESS_BY_CLUSTER,
        values=lambda process: (Sample((process.version, process.python_version), 1),),
    ),
    Metric(
        name=SNAPSHOT_TIMESTAMP,
        help="When reading of the newest snapshot began; it stays when the snapshot has become stale.",
        of=STATUS,
        values=lambda status: seconds(status.snapshot_taken_at_ms),
    ),
    Metric(
        name="kafka_transaction_exporter_snapshot_stale",
        help="1 when the newest snapshot is too old, and all series made from it are dropped.",
        of=STATUS,
        values=lambda status: status.is_stale,
    ),
    Metric(
        name="kafka_transaction_exporter_config_last_reload_successful",
        help="1 when the settings in use are those of the latest reading, 0 when that failed.",
        of=PROCESS,
        values=lambda process: process.settings_reloaded,
    ),
    Metric(
        name="kafka_transaction_exporter_config_last_reload_success_timestamp_seconds",
        help="When the settings in use were read.",
        of=PROCESS,
        values=lambda process: seconds(process.settings_loaded_at_ms),
    ),
    Metric(
        name="kafka_transaction_exporter_cycle_interval_seconds",
        help="Time from the start of one cycle to the start of the next, as configured.",
        of=STATUS,
        values=lambda status: status.interval_ms / 1000,
    ),
    Metric(
        name="kafka_transaction_exporter_cycle_duration_seconds",
        help="Duration of the last cycle.",
        of=STATUS,
        values=lambda status: status.last_cycle_duration_seconds,
    ),
    Metric(
        name="kafka_transaction_exporter_cycle_phase_duration_seconds",
        help="Duration of each phase of the last cycle; no series if it failed.",
        labels=("phase",),
        of=STATUS,
        values=lambda status: tuple(Sample((phase,), duration) for phase, duration in status.phase_durations),
    ),
    Metric(
        name="kafka_transaction_exporter_cycles_total",
        help="Cycles that ended, failed ones included.",
        kind="counter",
        of=STATUS,
        values=lambda status: status.cycles,
    ),
    Metric(
        name="kafka_transaction_exporter_cycles_failed_total",
        help="Cycles that ended without a snapshot.",
        kind="counter",
        of=STATUS,
        values=lambda status: status.failed_cycles,
    ),
    Metric(
        name="kafka_transaction_exporter_cycles_missed_total",
        help="Cycles that could not start because the previous one was still running.",
        kind="counter",
        of=STATUS,
        values=lambda status: status.missed_cycles,
    ),
    Metric(
        name="kafka_transaction_exporter_last_cycle_success",
        help="1 when the last cycle gave a snapshot.",
        of=STATUS,
        values=lambda status: status.last_cycle_succeeded,
    ),
    Metric(
        name="kafka_transaction_exporter_last_success_timestamp_seconds",
        help="When the last successful cycle ended.",
        of=STATUS,
        values=lambda status: seconds(status.last_success_at_ms),
    ),
    Metric(
        name="kafka_transaction_exporter_requests_total",
        help="Requests to Kafka by API.",
        kind="counter",
        labels=("api",),
        of=STATUS,
        values=lambda status: tuple(Sample((one.api,), one.requests) for one in status.api_statistics),
    ),
    Metric(
        name="kafka_transaction_exporter_request_failures_total",
        help="Requests to Kafka without a usable response, by API.",
        kind="counter",
        labels=("api",),
        of=STATUS,
        values=lambda status: tuple(Sample((one.api,), one.failures) for one in status.api_statistics),
    ),
    Metric(
        name="kafka_transaction_exporter_request_duration_seconds",
        help="Latency of requests to Kafka that got a response, by API.",
        kind="histogram",
        labels=("api",),
        of=STATUS,
        values=request_durations,
    ),
)
