"""Collects, evaluates and remembers, for the commands that show or change open transactions."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from exporter.commands.progress import Progress
from exporter.config.settings import Settings
from exporter.cycle import EvaluationInput, run_cycle
from exporter.daemon.wiring import policy_of
from exporter.doctor.diagnose import diagnose
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy, Verdict
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.consumer_groups import GROUPS_REFUSED, are_groups_refused_here
from exporter.kafka.collect.preconditions import preconditions
from exporter.kafka.collect.scan import Progress as Report
from exporter.kafka.collect.scope import EVERYTHING, Scope
from exporter.kafka.errors import ClusterUnavailableError
from exporter.kafka.visibility.topics import what_hides_topics_here
from exporter.snapshot import CompletingId, RememberedCompletions, Snapshot, TransactionKey

REREAD_SECONDS = 1.0


class SnapshotSource(Protocol):
    """The part of a Collector that is needed here."""

    def collect(
        self,
        *,
        seen_before: None,
        completing: RememberedCompletions,
        scope: Scope,
        progress: Report,
        search_logs: bool,
    ) -> Snapshot: ...


def policy(settings: Settings, *, stuck_after_ms: int | None = None, overdue_slack_ms: int | None = None) -> Policy:
    """The settings' policy, so that command and status page agree, with what the command's options change.

    With a `stuck_after_ms` of 0 nothing is ever stuck.
    """
    known = policy_of(settings)
    if stuck_after_ms is not None:
        known = replace(known, stuck_after_ms=stuck_after_ms or sys.maxsize)
    return known if overdue_slack_ms is None else replace(known, overdue_slack_ms=overdue_slack_ms)


class Examiner:
    """Examines partitions repeatedly and remembers them: one that was completing can be stuck in the next cycle."""

    def __init__(
        self,
        collector: SnapshotSource,
        known: Policy,
        *,
        search_logs: bool = True,
        shows_progress: bool = True,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collector = collector
        self._policy = known
        self._memory = Memory()
        self._search_logs = search_logs
        self._progress_to = sys.stderr if shows_progress else io.StringIO()
        self._sleep = sleep
        self._clock = clock

    def look(self, scope: Scope = EVERYTHING) -> Evaluation:
        """One whole cycle over `scope`, which describes every transaction. Raises ClusterUnavailableError."""
        with Progress(self._progress_to) as progress:
            evaluation = run_cycle(
                lambda memory: self._collector.collect(
                    seen_before=None,
                    completing=memory.completing,
                    scope=scope,
                    progress=progress,
                    search_logs=self._search_logs,
                ),
                EvaluationInput(memory=self._memory, policy=self._policy),
            )
        self._memory = evaluation.memory
        return evaluation

    def look_again(self, scope: Scope) -> Evaluation:
        """One more cycle over `scope` after a second, which compares the markers of what still completes."""
        self._sleep(REREAD_SECONDS)
        return self.look(scope)

    def judge(self, scope: Scope) -> Evaluation:
        """Runs cycles while a transaction that was completing in the first one may turn out to be stuck.

        It does not wait for transactions that begin to complete later. So the last cycle begins at most `stuck_after_ms`
        plus one second after the end of the first one, with one more cycle if that took longer. Raises
        ClusterUnavailableError.
        """
        evaluation = self.look(scope)
        if self._policy.stuck_after_ms == sys.maxsize:
            return evaluation
        stuck_after_s = self._policy.stuck_after_ms / 1000
        last_look_at = self._clock() + stuck_after_s + REREAD_SECONDS
        awaited = completing(evaluation)
        while awaited and self._clock() < last_look_at:
            self._sleep(min(REREAD_SECONDS, stuck_after_s, max(last_look_at - self._clock(), 0)))
            evaluation = self.look(scope)
            awaited &= completing(evaluation)
        return evaluation


def for_output(evaluation: Evaluation, collector: Collector, output: str | None, scope: Scope) -> Evaluation:
    """`evaluation` with what a cycle does not ask: for JSON the level of proof, and why topics or groups may be hidden.

    Brokers leave topics out without a word, which is of no account where one is asked for. The level of proof takes the
    requests of `doctor`; an address of a broker that has left the cluster is not waited for.
    """
    taken, hidden, are_groups_refused = evaluation.snapshot, "", False
    try:
        if output == "json":
            read = collector.query(partial(preconditions, bootstrap=False))
            taken, hidden = replace(taken, proof_level=diagnose(taken, read).level), read.hidden_topics
            are_groups_refused = read.are_groups_refused
        else:
            hidden = collector.query(what_hides_topics_here) if scope.topic is None else ""
            are_groups_refused = taken.impact is not None and collector.query(are_groups_refused_here)
    except ClusterUnavailableError as error:
        hidden = f"some topics may not be visible: {error}"
    if taken.impact is not None and are_groups_refused:
        taken = replace(taken, impact=replace(taken.impact, failures=(*taken.impact.failures, GROUPS_REFUSED)))
    may_hide = hidden if scope.topic is None else ""
    return replace(evaluation, snapshot=replace(taken, visibility=replace(taken.visibility, may_hide=may_hide)))


def completing(evaluation: Evaluation) -> frozenset[TransactionKey | CompletingId]:
    """The transactions that are completing and not stuck yet, on partitions and at coordinators."""
    stuck = {each.identity for each in evaluation.stuck}
    return frozenset(
        evidence.key for evidence, verdict in evaluation.examined_verdicts() if verdict is Verdict.COMPLETING
    ) | frozenset(each.identity for each in evaluation.snapshot.completing.lasting if each.identity not in stuck)
