"""A collector and its memory, cycle after cycle, as the daemon would run them."""

from __future__ import annotations

from exporter.config.loading import load
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy, TransactionRow
from exporter.kafka.collect.collector import Collector
from tests.real_brokers.exporting import Series

REQUEST_TIMEOUT_MS = 5000
SUSPECTS = "kafka_suspect_transaction_start_timestamp_seconds"


class Watch:
    """`with Watch(bootstrap) as watch: watch.cycle()`."""

    def __init__(
        self, bootstrap: str, *, request_timeout_ms: int = REQUEST_TIMEOUT_MS, policy: Policy | None = None
    ) -> None:
        flags = {"kafka.bootstrap.servers": bootstrap, "kafka.request.timeout.ms": str(request_timeout_ms)}
        settings = load(file=None, environment={}, flags=flags).settings
        self.collector: Collector = Collector.opened(settings.kafka, settings.scan)
        self.memory, self.policy = Memory(), policy or Policy()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.collector.close()

    def cycle(self, *, describe_all: bool = False) -> Evaluation:
        """One cycle with what earlier ones left in memory."""
        seen_before = None if describe_all else self.memory.seen
        evaluation = evaluate(self.collector.collect(seen_before=seen_before), self.memory, self.policy)
        self.memory = evaluation.memory
        return evaluation


def rows_on(evaluation: Evaluation, topic: str) -> dict[int, TransactionRow]:
    """Partition -> its open transaction, for a topic with at most one open on each."""
    return {row.partition: row for row in all_rows(evaluation) if row.topic == topic}


def suspects_on(metrics: dict[str, Series], topic: str) -> list[tuple[str, ...]]:
    return [labels for labels in metrics.get(SUSPECTS, {}) if labels[0] == topic]
