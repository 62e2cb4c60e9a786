"""Metrics of the history; without `history.directory` there are no series."""

from __future__ import annotations

from typing import Any

from exporter.publication.metrics.model import HISTORY, Metric, seconds

METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name="kafka_transaction_exporter_history_writing",
        help="1 while the history can be written, 0 when the last attempt failed, "
        "and while two clusters have one cluster id, of which only one is recorded.",
        of=HISTORY,
        values=lambda history: history.failure is None,
    ),
    Metric(
        name="kafka_transaction_exporter_history_rows_total",
        help="Observations that were written to the history.",
        kind="counter",
        of=HISTORY,
        values=lambda history: history.rows,
    ),
    Metric(
        name="kafka_transaction_exporter_history_rows_lost_total",
        help="Observations, and cycles without any, that were dropped because too many waited to be written.",
        kind="counter",
        of=HISTORY,
        values=lambda history: history.rows_lost,
    ),
    Metric(
        name="kafka_transaction_exporter_history_rows_waiting",
        help="Observations in memory, to be written with the next file; a cycle without any counts as one.",
        of=HISTORY,
        values=lambda history: history.rows_waiting,
    ),
    Metric(
        name="kafka_transaction_exporter_history_size_bytes",
        help="Size of all files of the history.",
        of=HISTORY,
        values=lambda history: history.size_bytes,
    ),
    Metric(
        name="kafka_transaction_exporter_history_newest_timestamp_seconds",
        help="When the newest cycle in the history was taken; no series before the first file.",
        of=HISTORY,
        values=lambda history: seconds(history.newest_ms),
    ),
)
