"""Judging what is open now, for commands that answer a person."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from exporter.commands.progress import Progress
from exporter.config.settings import Settings
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy, Verdict
from exporter.kafka.leaders import Progress as Report
from exporter.kafka.scope import Scope
from exporter.snapshot import Snapshot
from exporter.wiring import policy_of

REREAD_SECONDS = 1.0


class Collects(Protocol):
    """What is needed of a Collector."""

    def collect(self, *, seen_before: None, scope: Scope, progress: Report, search_logs: bool) -> Snapshot: ...


def policy(settings: Settings, *, stuck_after_ms: int, overdue_slack_ms: int | None = None) -> Policy:
    """The settings' policy with what the command was told; with 0 nothing is ever stuck."""
    known = replace(policy_of(settings), stuck_after_ms=stuck_after_ms or sys.maxsize)
    return known if overdue_slack_ms is None else replace(known, overdue_slack_ms=overdue_slack_ms)


class Judge:
    """Looks at partitions again and again, and remembers: who has waited once need not wait again."""

    def __init__(
        self,
        collector: Collects,
        known: Policy,
        *,
        memory: Memory | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._collector = collector
        self._policy = known
        self._memory = Memory() if memory is None else memory
        self._sleep = sleep

    def look(self, scope: Scope) -> Evaluation:
        """One whole cycle over `scope`. Raises ClusterUnavailableError."""
        with Progress(sys.stderr) as progress:
            snapshot = self._collector.collect(seen_before=None, scope=scope, progress=progress, search_logs=True)
        evaluation = evaluate(snapshot, self._memory, self._policy)
        self._memory = evaluation.memory
        return evaluation

    def judge(self, scope: Scope) -> Evaluation:
        """Looks while something is completing that is not yet stuck, for as long as makes it so."""
        while True:
            evaluation = self.look(scope)
            if self._policy.stuck_after_ms == sys.maxsize or Verdict.COMPLETING not in evaluation.transactions.verdict:
                return evaluation
            self._sleep(min(REREAD_SECONDS, self._policy.stuck_after_ms / 1000))
