"""`docs/metrics.md` from the table; `make generate` writes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from exporter.publication.metrics.model import Metric
from exporter.publication.metrics.table import SECTIONS

_INTRODUCTION = """\
# Metrics

Generated from the rows in `exporter/publication/metrics/`: change those and run `make generate`.
A test compares the two.

All values are made once per cycle and cached: a scrape never asks Kafka. When the newest snapshot is too old, every
series of the first three sections vanishes and those of the others stay: alert on the absence and on
`time() - kafka_transaction_exporter_snapshot_timestamp_seconds`, never on the presence alone.
A partition that could not be read has no series: a missing series is unknown, a 0 is a statement.
*The transaction log* is there with `transaction_log.enabled` ([transactions.md](transactions.md)), *The history* with
`history.directory`, *The baseline* with `baseline.file` ([pipeline.md](pipeline.md)).
A fleet ([fleet.md](fleet.md)) puts the label `cluster` before those of every metric but what is of the program: the
reloading of its settings, the history, the baseline, and `process_*`.
"""

_CONCLUSION = """\
## The process

`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_virtual_memory_bytes`,
`process_start_time_seconds`, `process_open_fds` and `process_max_fds` as every Prometheus client has them, on systems
with `/proc`; they, too, are of the last cycle.
"""


def metrics_document() -> str:
    """The whole document."""
    sections = [f"## {title}\n\n{_table(metrics)}" for title, metrics in SECTIONS]
    return "\n".join((_INTRODUCTION, *sections, _CONCLUSION))


def _table(metrics: Iterable[Metric[Any]]) -> str:
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    lines += [f"| `{it.name}` | {it.kind} | {', '.join(it.labels) or 'none'} | {it.help} |" for it in metrics]
    return "\n".join(lines) + "\n"
