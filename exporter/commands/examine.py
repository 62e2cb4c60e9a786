"""Judging what is open now, once, for commands that answer and go."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

from exporter.commands.progress import Progress
from exporter.config.settings import Settings
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Verdict
from exporter.kafka.collect import Collector
from exporter.kafka.scope import Scope
from exporter.wiring import policy_of

REREAD_SECONDS = 1.0


def examine(
    settings: Settings,
    collector: Collector,
    scope: Scope,
    *,
    stuck_after_ms: int = 0,
    overdue_slack_ms: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Evaluation:
    """A whole cycle over `scope`, and more of them while something is completing and not yet stuck.

    A transaction is stuck when it was seen completing for longer than `stuck_after_ms`; 0 does not wait. Raises
    ClusterUnavailableError.
    """
    policy = replace(policy_of(settings), stuck_after_ms=stuck_after_ms)
    if overdue_slack_ms is not None:
        policy = replace(policy, overdue_slack_ms=overdue_slack_ms)
    memory = Memory()
    while True:
        with Progress(sys.stderr) as progress:
            snapshot = collector.collect(seen_before=None, scope=scope, progress=progress)
        evaluation = evaluate(snapshot, memory, policy)
        if stuck_after_ms == 0 or Verdict.COMPLETING not in evaluation.transactions.verdict:
            return evaluation
        memory = evaluation.memory
        sleep(min(REREAD_SECONDS, stuck_after_ms / 1000))
