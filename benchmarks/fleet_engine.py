"""Cycles over a fleet of clusters without a daemon. `fleet_engine ENGINE ADDRESS...`: `embedded`, or a master of Spark's.

`embedded` is the daemon's own engine, one cluster after the other; a round for each line, like every contestant.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from benchmarks.listed import collector_at
from exporter.baseline import NO_BASELINE
from exporter.config.fleet import Sources, load_fleet
from exporter.config.settings import Settings
from exporter.daemon.wiring import policy_of
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.fleet.clients import CLIENTS
from exporter.fleet.engine import Known, SparkEngine
from exporter.fleet.scan import Budget, plan
from exporter.pipeline.session import open_session
from exporter.snapshot import Answer, Snapshot

PLANS = 5
Cycle = Callable[[], list[Snapshot]]
MORE = {"spark.executor.memory": "1g", "spark.executor.cores": "1"}


def settings_for(addresses: list[str]) -> Settings:
    """A fleet of these."""
    lines = [
        f"  cluster-{number}: {{kafka: {{bootstrap.servers: '{address}'}}}}" for number, address in enumerate(addresses)
    ]
    return load_fleet(Sources(clusters=("fleet.yaml", "\n".join(["clusters:", *lines, ""])))).settings


def embedded(settings: Settings, addresses: list[str]) -> Cycle:
    """Each cluster as its own daemon reads and evaluates it."""
    collectors = [collector_at(address) for address in addresses]
    policy = policy_of(settings)

    def cycle() -> list[Snapshot]:
        snapshots = (collector.collect() for collector in collectors)
        return [evaluate(snapshot, Memory(), policy, baseline=NO_BASELINE).snapshot for snapshot in snapshots]

    return cycle


def on_spark(settings: Settings, engine: SparkEngine) -> Cycle:
    """All clusters in one job."""
    known = Known(policy=policy_of(settings), memories={})

    def cycle() -> list[Snapshot]:
        cycles = engine.cycle(settings, known)
        failures = [cycle.failure for cycle in cycles if cycle.failure is not None]
        assert not failures, failures
        return [cycle.evaluation.snapshot for cycle in cycles if cycle.evaluation is not None]

    return cycle


def rounds(cycle: Cycle, plan_s: float) -> None:
    """One for each line."""
    for _ in sys.stdin:
        began = time.perf_counter()
        snapshots = cycle()
        wall_ms = (time.perf_counter() - began) * 1000
        assert all((snapshot.partitions.answer == Answer.READ).all() for snapshot in snapshots)
        rows = sum(len(snapshot.partitions.partition) for snapshot in snapshots)
        entries = sum(int(snapshot.partitions.producers.sum()) for snapshot in snapshots)
        print(json.dumps({"wall_ms": wall_ms, "rows": rows, "entries": entries, "plan_s": plan_s}), flush=True)


def planned_s(settings: Settings) -> float:
    """Seconds that the driver of Spark takes alone, connections standing."""
    took = []
    for _ in range(PLANS):
        began = time.perf_counter()
        plan(settings.clusters, Budget.of_cycle(settings.scan), CLIENTS)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def main(engine: str, addresses: list[str]) -> None:
    """A round for each line."""
    settings = settings_for(addresses)
    if engine == "embedded":
        rounds(embedded(settings, addresses), 0.0)
        return
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    with tempfile.TemporaryDirectory() as temporary:
        spark = SparkEngine(open_session(engine, temporary, more=MORE))
        rounds(on_spark(settings, spark), planned_s(settings))
        spark.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
