"""The document and the program name the same metrics, and only the table names any."""

from __future__ import annotations

import re
from pathlib import Path

from exporter.publication.metrics.table import METRICS

ROOT = Path(__file__).parents[2]
PROMISED = {
    "kafka_partition_max_active_transaction_duration_seconds",
    "kafka_partition_max_transaction_idle_seconds",
    "kafka_partition_open_transactions",
    "kafka_partition_late_transactions",
    "kafka_late_transactions",
    "kafka_partitions_with_late_transactions",
    "kafka_open_transactions",
    "kafka_suspect_transaction_start_timestamp_seconds",
    "kafka_suspect_transactions_hidden",
    "kafka_partition_last_stable_offset_lag",
    "kafka_transaction_max_timeout_seconds",
    "kafka_transaction_exporter_snapshot_timestamp_seconds",
    "kafka_transaction_exporter_build_info",
    "kafka_transaction_exporter_partitions",
}


def test_every_promised_name_is_in_the_table_once() -> None:
    """Alerts and dashboards of users rest on these names."""
    names = [metric.name for metric in METRICS]
    assert set(names) >= PROMISED
    assert len(names) == len(set(names))


def test_only_the_table_contains_a_metric_name() -> None:
    """A name in a second place of the program would be a second truth."""
    names = re.compile("|".join(rf"\b{metric.name}\b" for metric in METRICS))
    table = ROOT / "exporter/publication/metrics"
    found = [
        path
        for path in (ROOT / "exporter").rglob("*.py")
        if not path.is_relative_to(table) and names.search(path.read_text())
    ]
    assert found == []


def test_every_help_text_can_be_read_alone() -> None:
    """Prometheus shows it without the metric before it, and what holds for all metrics is in the document once."""
    assert [metric.name for metric in METRICS if re.match(r"The same|As above|Those", metric.help)] == []
    assert [metric.name for metric in METRICS if "cached" in metric.help.lower()] == []
