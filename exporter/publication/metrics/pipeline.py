"""The metric of the pipeline; without `publish.report` there are no series."""

from __future__ import annotations

from typing import Any

from exporter.publication.metrics.model import PROCESS, Metric, seconds

METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name="kafka_transaction_exporter_pipeline_last_success_timestamp_seconds",
        help="When the newest run of the pipeline without a failure ended; no series while none is known.",
        of=PROCESS,
        values=lambda process: seconds(process.pipeline_succeeded_at_ms),
    ),
)
