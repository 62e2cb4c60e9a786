"""Metrics of the baseline file; without `baseline.file` there are no series."""

from __future__ import annotations

from typing import Any

from exporter.publication.metrics.model import BASELINE, Metric, seconds

METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name="kafka_transaction_exporter_baseline_used",
        help="1 while the baseline file is used, 0 when it is missing, damaged, too old or of other clusters.",
        of=BASELINE,
        values=lambda baseline: baseline.failure is None,
    ),
    Metric(
        name="kafka_transaction_exporter_baseline_timestamp_seconds",
        help="When the baseline file was made; no series while it cannot be read.",
        of=BASELINE,
        values=lambda baseline: seconds(baseline.made_at_ms),
    ),
)
