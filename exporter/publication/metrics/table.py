"""Lists all metrics in the order of publication; a file for each kind has its rows and their functions.

Values are made once per cycle, and a scrape never causes a request to Kafka. An unread part has no series: a missing
series is unknown, a 0 was measured. `docs/metrics.md` is generated from this table.
"""

from __future__ import annotations

from typing import Any, Final

from exporter.publication.metrics import (
    audit,
    baseline,
    blocking,
    coverage,
    disk,
    exporter,
    groups,
    history,
    partitions,
    pipeline,
    protection,
    transaction_log,
    transactions,
)
from exporter.publication.metrics.model import Metric

SECTIONS: Final[tuple[tuple[str, tuple[Metric[Any], ...]], ...]] = (
    ("Partitions", partitions.METRICS),
    ("Transactions", transactions.METRICS + audit.METRICS),
    ("Consumer groups", groups.METRICS + blocking.METRICS),
    ("Disk", disk.METRICS),
    ("Coverage", coverage.METRICS),
    ("Protection", protection.METRICS),
    ("The exporter", exporter.METRICS),
    ("The transaction log", transaction_log.METRICS),
    ("The history", history.METRICS),
    ("The baseline", baseline.METRICS),
    ("The pipeline", pipeline.METRICS),
)
METRICS: Final = tuple(metric for _, metrics in SECTIONS for metric in metrics)
