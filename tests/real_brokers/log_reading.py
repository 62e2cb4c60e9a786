"""Runs a reader of the transaction log in this process, and waits for its results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from exporter.config.loading import load
from exporter.daemon.log_follower import LogFollower
from exporter.transaction_log.report import LogPosition, LogReport
from hangbench.kafka.cluster import Properties
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED
from tests.real_brokers.exporting import Exporter, Series, serving

PATIENCE_S = 60
MINE = "mine"
QUICK: Properties = {
    **HANGS_CAN_BE_PLANTED,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "transactional.id.expiration.ms": 6000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 300,
}


def counting(bootstrap: str, folder: Path, prefix: str) -> AbstractContextManager[Exporter]:
    """`serve` with the transaction log; ids that begin with `prefix-` are the group `mine`."""
    groups = f'[{{"name": "{MINE}", "match": "{prefix}-.*"}}]'
    return serving(bootstrap, folder, transaction_log__enabled="true", transaction_log__groups=groups)


def completed(metrics: dict[str, Series]) -> dict[str, float]:
    """Outcome -> how many transactions of the group `mine` ended so, where any did."""
    found = metrics.get("kafka_transactions_completed_total", {})
    return {outcome: value for (group, outcome), value in found.items() if group == MINE and value}


@contextmanager
def reading(
    bootstrap: str, prefix: str = "", *, counted_before: LogPosition | None = None, **kafka: str
) -> Iterator[LogFollower]:
    """The log of that cluster, read until the block ends; ids with that prefix are the group `mine`.

    `kafka` are settings of that section, with two underscores for a dot.
    """
    lines = [f"kafka.bootstrap.servers: '{bootstrap}'", "transaction_log.enabled: true"]
    lines.append(f"transaction_log.groups: [{{name: {MINE}, match: '{prefix}.*'}}]")
    lines += [f"kafka.{name.replace('__', '.')}: '{value}'" for name, value in kafka.items()]
    settings = load(file=("test.yaml", "\n".join(lines)), environment={}, flags={}).settings
    reader = LogFollower(settings.kafka, settings.transaction_log, counted_before=counted_before or LogPosition())
    reader.start()
    try:
        yield reader
    finally:
        reader.close()


def outcomes(report: LogReport) -> dict[str, int]:
    """Outcome -> how many transactions of the group `mine` ended so, where any did."""
    completed = () if report.counted is None else report.counted.completed
    return {outcome.value: number for group, outcome, number in completed if group == MINE and number}
