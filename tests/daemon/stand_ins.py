"""Stands in for the clock, the readers and the reloads of a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from prometheus_client.parser import text_string_to_metric_families

from exporter.config.loading import load
from exporter.config.settings import Settings
from exporter.cycle import EvaluationInput, JournalOf, collect_with, run_cycle
from exporter.daemon.daemon import Daemon
from exporter.daemon.reload import Reloaded
from exporter.daemon.watched_cluster import Recorder
from exporter.evaluation.verdicts import Evaluation
from exporter.kafka.collect.collector import Collector
from exporter.kafka.errors import ClusterUnavailableError
from exporter.snapshot import (
    UNKNOWN_CLUSTER,
    ClusterIdentity,
    Preconditions,
    RememberedCompletions,
    SecondRead,
    Snapshot,
    TransactionKeys,
)
from exporter.status import ApiStatistics, ReloadStatus
from exporter.web.routes import Request
from tests.evaluation.builders import NOW_MS, Entry, proof, snapshot, transaction

FLAGS = {"kafka.bootstrap.servers": "a:1", "scan.interval": "10s", "scan.deadline": "9s"}


class Clock:
    """A clock that is set by hand, in seconds."""

    def __init__(self) -> None:
        self.now = NOW_MS / 1000

    def __call__(self) -> float:
        return self.now


class Script:
    """A reader that returns the next scripted snapshot, or raises the next scripted error."""

    def __init__(self, *results: Snapshot | Exception) -> None:
        self.results = list(results)
        self.seen_before: list[list[tuple[str, int, int, int, str]]] = []
        self.preconditions: Preconditions | None = None
        self.queries = 0
        self.phases = (("producers", 0.25),)
        self.used: list[bool] = []
        self.unusable: list[ClusterUnavailableError] = []
        self.recalled = UNKNOWN_CLUSTER, True

    def recall(self, cluster: ClusterIdentity, *, is_required: bool = True) -> None:
        self.recalled = cluster, is_required

    def collect(self, *, seen_before: TransactionKeys, completing: RememberedCompletions) -> Snapshot:
        del completing
        self.seen_before.append(list(seen_before.rows()))
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    def cycle(self, known: EvaluationInput, journal_of: JournalOf) -> Evaluation:
        return run_cycle(collect_with(cast("Collector", self)), known, journal_of)

    def query(self, question: Any, *, deadline_s: float) -> Any:
        assert deadline_s > 0
        if question.__qualname__ != "preconditions":
            raise ClusterUnavailableError("this one has no logs")
        self.queries += 1
        return self.preconditions

    def use(self, *_: Any, reconnect: bool) -> None:
        self.used.append(reconnect)
        if self.unusable:
            raise self.unusable.pop(0)

    def statistics(self) -> tuple[ApiStatistics, ...]:
        return ()

    def close(self) -> None:
        pass


def healthy(at_s: float = 0) -> Snapshot:
    return snapshot([Entry()], transactions=(transaction(),), taken_at_ms=NOW_MS + int(at_s * 1000))


def hang() -> Snapshot:
    return snapshot([Entry(second_read=SecondRead.UNCHANGED)], proof=proof())


def down() -> ClusterUnavailableError:
    return ClusterUnavailableError("no broker responded: broker at a:1 cannot be connected to (unreachable)")


def daemon_on(script: Script, clock: Clock, state: Path | None = None, history: Recorder | None = None) -> Daemon:
    settings = load(file=None, environment={}, flags=FLAGS).settings
    return Daemon(
        settings, lambda _: script, state_path_of=lambda _: state, wall_clock=clock, clock=clock, history=history
    )


def cycle(daemon: Daemon) -> None:
    """One cycle of each cluster, as the schedule begins it."""
    for job in daemon.jobs.values():
        daemon.scheduler._cycle(job)


def get(daemon: Daemon, path: str) -> tuple[int, str]:
    answer = daemon.routes.answer(Request(method="GET", path=path, headers={}))
    return answer.status, b"".join(answer.chunks).decode()


def values(daemon: Daemon) -> dict[str, float]:
    """Metric -> value, of those without labels or with one series."""
    families = text_string_to_metric_families(get(daemon, "/metrics")[1])
    return {sample.name: sample.value for family in families for sample in family.samples}


class Reloads:
    """A Reloader that returns scripted values, and counts."""

    def __init__(self, *results: Reloaded | None) -> None:
        self.results = list(results)
        self.calls: list[str] = []
        self.taken_back = 0
        self.status = ReloadStatus(succeeded=True, last_success_at_ms=NOW_MS)

    def now(self) -> Reloaded | None:
        self.calls.append("now")
        return self._next()

    def if_changed(self) -> Reloaded | None:
        self.calls.append("if changed")
        return self._next() if self.results else None

    def take_back(self) -> None:
        self.taken_back += 1

    def _next(self) -> Reloaded | None:
        result = self.results.pop(0)
        self.status = ReloadStatus(succeeded=result is not None, last_success_at_ms=NOW_MS + len(self.calls))
        return result


def settings_with(**flags: str) -> Settings:
    named = {name.replace("__", "."): value for name, value in flags.items()}
    return load(file=None, environment={}, flags={**FLAGS, **named}).settings
