"""Whole cycles, phase by phase: quiet ones of 10,000 partitions, busy ones with 5,000 transactional ids, 100,000 series.

Quiet and busy ones are read from a real broker, 100,000 partitions from one that replays. Each phase's CPU is that of all
threads of the process.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from benchmarks.busy import begin_transactions
from benchmarks.listed import collector_at, publication
from benchmarks.replaying import replaying
from benchmarks.shapes import KAFKA, PROPERTIES
from exporter.config.settings import HistorySettings
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.history.writer import History
from exporter.publication.exposition import Renderer
from exporter.publication.page.page import render_page
from exporter.publication.publication import PublishOptions
from hangbench.kafka.cluster import MeasuredCluster

ROUNDS: Final = 21
WARM_UP_ROUNDS: Final = 4
TOPICS: Final = 100
PARTITIONS: Final = 100
ACTIVE: Final = 5_000
WRITING: Final = 500
T = TypeVar("T")


def measure() -> dict[str, Any]:
    """Each kind of cycle."""
    with MeasuredCluster(KAFKA, properties=PROPERTIES) as cluster:
        topics = [cluster.topics.create(f"c-{number:03d}", partitions=PARTITIONS) for number in range(TOPICS)]
        quiet = _cycles(cluster.bootstrap)
        begin_transactions(cluster.bootstrap, topics, active=ACTIVE, writing=WRITING)
        busy = _cycles(cluster.bootstrap)
    with replaying(999, 100) as address:
        large = _cycles(address)
    return {"rounds": ROUNDS, "kinds": [_kind("quiet", quiet), _kind("busy", busy), _kind("large", large)]}


class _Phases:
    """CPU and wall of each phase of one cycle, in ms."""

    def __init__(self) -> None:
        self.cpu_ms: dict[str, float] = {}
        self.wall_ms: dict[str, float] = {}

    def take(self, name: str, do: Callable[[], T]) -> T:
        cpu, wall = time.process_time(), time.perf_counter()
        result = do()
        self.cpu_ms[name] = (time.process_time() - cpu) * 1000
        self.wall_ms[name] = (time.perf_counter() - wall) * 1000
        return result


def _cycles(address: str) -> tuple[dict[str, int], list[_Phases]]:
    """What was there, and the phases of every round that counts."""
    collector = collector_at(address)
    renderer = Renderer()
    memory = Memory()
    rounds = []
    there: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = HistorySettings(
            directory=folder, rotate_interval_ms=900_000, retention_age_ms=10**9, retention_bytes=10**9
        )
        history = History(settings)
        for number in range(WARM_UP_ROUNDS + ROUNDS):
            phases = _Phases()
            known = memory.seen
            snapshot = phases.take("collect", lambda known=known: collector.collect(seen_before=known))  # type: ignore[misc]
            told = phases.take("evaluate", lambda s=snapshot, m=memory: evaluate(s, m, Policy()))  # type: ignore[misc]
            memory = told.memory
            phases.take("history", lambda told=told: history.record(told, 30_000))  # type: ignore[misc]
            published = publication(told, PublishOptions())
            exposition = phases.take("render", lambda published=published: renderer.render(published))  # type: ignore[misc]
            phases.take("page", lambda published=published: render_page(published))  # type: ignore[misc]
            there = {
                "partitions": len(snapshot.partitions),
                "open_transactions": len(snapshot.open_transactions),
                "transactional_ids": len(snapshot.transactions),
                "suspects": len(told.suspects),
                "text_bytes": len(exposition.text.body),
            }
            if number >= WARM_UP_ROUNDS:
                rounds.append(phases)
    collector.close()
    return there, rounds


def _kind(name: str, measured: tuple[dict[str, int], list[_Phases]]) -> dict[str, Any]:
    there, rounds = measured
    names = rounds[0].cpu_ms
    phases = {
        phase: {
            "cpu_ms": statistics.median(measured.cpu_ms[phase] for measured in rounds),
            "cpu_ms_min": min(measured.cpu_ms[phase] for measured in rounds),
            "wall_ms": statistics.median(measured.wall_ms[phase] for measured in rounds),
        }
        for phase in names
    }
    total = [sum(measured.cpu_ms.values()) for measured in rounds]
    return {"name": name, **there, "phases": phases, "cpu_ms": statistics.median(total), "cpu_ms_min": min(total)}
