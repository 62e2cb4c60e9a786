"""A collector and its memory, cycle after cycle, as the daemon would run them."""

from __future__ import annotations

import time
from contextlib import nullcontext
from unittest.mock import patch

from exporter.capsules.cycle import RecordedCycle
from exporter.capsules.file import expected_of
from exporter.capsules.recording import RecordingReader
from exporter.config.loading import environment_name, load
from exporter.config.settings import Settings
from exporter.cycle import EvaluationInput
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy, TransactionRow
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.scan import LeaderScan
from exporter.kafka.collect.scan_requests import Rows
from exporter.kafka.errors import ErrorCode
from exporter.transaction_log.journal import NO_JOURNAL
from hangbench.kafka.second_door import PASSWORD

REQUEST_TIMEOUT_MS = 5000


def settings_at(bootstrap: str, *, user: str | None = None, request_timeout_ms: int = REQUEST_TIMEOUT_MS) -> Settings:
    """Returns the settings for these brokers; `user` logs in by password."""
    flags = {"kafka.bootstrap.servers": bootstrap, "kafka.request.timeout.ms": str(request_timeout_ms)}
    environment: dict[str, str] = {}
    if user is not None:
        flags |= {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": user,
        }
        environment[environment_name("kafka.sasl.password")] = PASSWORD
    return load(file=None, environment=environment, flags=flags).settings


class Watch:
    """`with Watch(bootstrap) as watch: watch.cycle()`."""

    def __init__(
        self,
        bootstrap: str,
        *,
        user: str | None = None,
        policy: Policy | None = None,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        clock_ahead_s: float = 0.0,
        may_read: bool = True,
        is_recorded: bool = False,
    ) -> None:
        """`user` logs in by password; `clock_ahead_s`: how far the wall clock is ahead of the brokers'.

        Without `may_read` every leader refuses DescribeProducers, as it does to a user with DESCRIBE and without READ.
        """
        settings = settings_at(bootstrap, user=user, request_timeout_ms=request_timeout_ms)
        kind = RecordingReader if is_recorded else Collector
        self.collector: Collector = kind.opened(
            settings.kafka, settings.scan, wall_clock=lambda: time.time() + clock_ahead_s
        )
        self.recorded: list[tuple[RecordedCycle, bytes]] = []
        """Cycles with what they must give again, where they are recorded."""
        self.memory, self.policy = Memory(), policy or Policy()
        self._may_read = may_read

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.collector.close()

    def cycle(self, *, describe_all: bool = False) -> Evaluation:
        """One cycle with what earlier ones left in memory."""
        with nullcontext() if self._may_read else patch.object(LeaderScan, "add", _refused):
            if isinstance(self.collector, RecordingReader):
                known = EvaluationInput(memory=self.memory, policy=self.policy)
                evaluation = self.collector.cycle(known, lambda _: NO_JOURNAL)
                self.recorded.append((self.collector.ring[-1].recorded(()), expected_of(evaluation)))
            else:
                seen_before = None if describe_all else self.memory.seen
                evaluation = evaluate(self.collector.collect(seen_before=seen_before), self.memory, self.policy)
        self.memory = evaluation.memory
        return evaluation


def _refused(scan: LeaderScan, rows: Rows, _answer: object) -> None:
    scan.refuse(rows, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def rows_on(evaluation: Evaluation, topic: str) -> dict[int, TransactionRow]:
    """Partition -> its open transaction, for a topic with at most one open on each."""
    return {row.partition: row for row in all_rows(evaluation) if row.topic == topic}
