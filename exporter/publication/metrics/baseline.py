"""Metrics of the file of baselines: no series where none is configured."""

from __future__ import annotations

from typing import Any

from exporter.publication.metrics.model import BASELINE, Metric, seconds

METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name="kafka_transaction_exporter_baseline_used",
        help="1 while the file of baselines is used, 0 when it is missing, damaged, too old or of other clusters.",
        kind="gauge",
        labels=(),
        of=BASELINE,
        values=lambda baseline: baseline.failure is None,
    ),
    Metric(
        name="kafka_transaction_exporter_baseline_timestamp_seconds",
        help="When the file of baselines was made; no series where it cannot be read.",
        kind="gauge",
        labels=(),
        of=BASELINE,
        values=lambda baseline: seconds(baseline.made_at_ms),
    ),
)
