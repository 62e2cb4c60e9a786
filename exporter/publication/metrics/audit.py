"""Metrics of the audit of exactly-once; without `publish.report` and `pipeline audit` there are no series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter.publication.metrics.model import AUDIT, Metric, Sample, Samples, seconds


def _by_verdict(counts: Mapping[str, int] | None) -> Samples | None:
    return None if counts is None else [Sample((verdict,), count) for verdict, count in counts.items()]


METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name="kafka_transactions_audited",
        help="Decided transactions in audits of the last day, by verdict; no series if the newest is older.",
        labels=("verdict",),
        of=AUDIT,
        values=lambda audit: _by_verdict(audit.transactions),
    ),
    Metric(
        name="kafka_transaction_audit_findings",
        help="Findings on single partitions in audits of the last day, by verdict.",
        labels=("verdict",),
        of=AUDIT,
        values=lambda audit: _by_verdict(audit.findings),
    ),
    Metric(
        name="kafka_transaction_exporter_audit_timestamp_seconds",
        help="When the newest audit asked for the ends of the logs.",
        of=AUDIT,
        values=lambda audit: seconds(audit.audited_at_ms),
    ),
)
