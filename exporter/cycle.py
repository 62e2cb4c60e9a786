"""Runs one cycle of one cluster: collect, then evaluate. Daemon, commands and Spark's executors all call this function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from exporter.baseline import NO_BASELINE, Baseline
from exporter.config.kafka_section import KafkaSettings
from exporter.config.settings import ScanSettings
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.collector import Collector
from exporter.snapshot import ClusterIdentity, Snapshot
from exporter.status import ApiStatistics
from exporter.transaction_log.journal import NO_JOURNAL, Journal

T = TypeVar("T")
Question = Callable[[ClusterClient], Coroutine[Any, Any, T]]
JournalOf = Callable[[Collection[int]], Journal]
"""The transaction log's data on these producer ids."""
Collect = Callable[[Memory], Snapshot]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationInput:
    """The input of an evaluation besides the snapshot."""

    memory: Memory = field(default_factory=Memory)
    policy: Policy
    baseline: Baseline = NO_BASELINE


def run_cycle(collect: Collect, known: EvaluationInput, journal_of: JournalOf = lambda _: NO_JOURNAL) -> Evaluation:
    """Collects a snapshot and evaluates it; the result has the memory for the next cycle. Raises what `collect` raises."""
    snapshot = collect(known.memory)
    open_ = snapshot.open_transactions
    # How a transaction ended that is not open any more says whether its owner's silence was usual.
    were_open = {each.producer_id for each in known.memory.silences.of_ids.values() if each.is_open}
    journal = journal_of({*open_.producer_id[: open_.examined_count].tolist(), *were_open})
    return evaluate(snapshot, known.memory, known.policy, journal, known.baseline)


class Reader(Protocol):
    """Reads one cluster: in this process, or on an executor of Spark (`exporter.fleet.engine`)."""

    @property
    def phases(self) -> tuple[tuple[str, float], ...]:
        """(phase, seconds) of the latest cycle."""

    def cycle(self, known: EvaluationInput, journal_of: JournalOf) -> Evaluation:
        """Runs one cycle. Raises ClusterUnavailableError and ClientClosedError."""

    def query(self, question: Question[T], *, deadline_s: float) -> T:
        """Runs `question` with a client. Raises what it raises, and ClientClosedError."""

    def use(self, kafka: KafkaSettings, scan: ScanSettings, *, reconnect: bool) -> None:
        """Uses these settings from the next cycle on."""

    def recall(self, cluster: ClusterIdentity, *, is_required: bool = True) -> None:
        """Sets the topics that were visible before a restart. `is_required`: no other cluster is read."""

    def statistics(self) -> tuple[ApiStatistics, ...]:
        """Requests so far, by API."""

    def close(self) -> None:
        """Ends a running cycle, and the connections."""


class EmbeddedReader(Collector):
    """Reads a cluster in this process."""

    def cycle(self, known: EvaluationInput, journal_of: JournalOf) -> Evaluation:
        """Runs one cycle. Raises ClusterUnavailableError and ClientClosedError."""
        return run_cycle(collect_with(self), known, journal_of)


def collect_with(collector: Collector) -> Collect:
    """Describes only transactions that the memory knows, so that short ones cost no request."""
    return lambda memory: collector.collect(seen_before=memory.seen, completing=memory.completing)
