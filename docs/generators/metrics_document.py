"""Makes `docs/metrics.md` from the table of metrics; `make generate` writes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from exporter.publication.metrics.model import Metric
from exporter.publication.metrics.table import SECTIONS

_INTRODUCTION = """\
# Metrics

All values are made once per cycle and cached: a scrape never causes a request to Kafka. When the newest snapshot is too
old, the series of the first five sections end and those of the others stay: alert on missing series and on
`time() - kafka_transaction_exporter_snapshot_timestamp_seconds`, too.
A missing series is unknown, a 0 was measured.
Histograms are marked.
*The transaction log* needs `transaction_log.enabled` ([transactions.md](transactions.md)), *The history* needs
`history.directory`, *The baseline* needs `baseline.file` ([pipeline.md](pipeline.md)),
`kafka_transactions_audited` and the next two the [audit](audit.md#in-prometheus).
In a fleet ([fleet.md](fleet.md)), every metric has `cluster` as its first label, except those about the process: the
reload of its settings, the history, the baseline, and `process_*`.
"""

_SAID_ONCE = "; only with transaction_log.enabled"
"""A part of HELP texts that the introduction says for a section."""

_CONCLUSION = """\
## The process

`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_virtual_memory_bytes`,
`process_start_time_seconds`, `process_open_fds` and `process_max_fds` as in every Prometheus client, on systems
with `/proc`.
"""


def metrics_document() -> str:
    sections = [f"## {title}\n\n{_table(metrics)}" for title, metrics in SECTIONS]
    return "\n".join((_INTRODUCTION, *sections, _CONCLUSION))


def _table(metrics: Iterable[Metric[Any]]) -> str:
    lines = ["| metric and labels | meaning |", "|---|---|"]
    lines += [f"| `{metric.name}`{_labels(metric)} | {_meaning(metric)} |" for metric in metrics]
    return "\n".join(lines) + "\n"


def _labels(metric: Metric[Any]) -> str:
    return f" {{{', '.join(metric.labels)}}}" if metric.labels else ""


def _meaning(metric: Metric[Any]) -> str:
    """Its HELP, without what the introduction says, and its type where the name does not show it."""
    text = metric.help.replace(_SAID_ONCE, "")
    return f"Histogram: {text[0].lower()}{text[1:]}" if metric.kind == "histogram" else text
