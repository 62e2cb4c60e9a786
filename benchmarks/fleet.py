"""The fleet's engine on Spark, with one executor and with two, beside the daemon's own: partitions a second and a core.

Clusters replay. CPU is that of all processes of an engine, as they stand: Spark's driver, its executors, their Python.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from typing import Any, Final

from benchmarks.contestants import Contestant, contestants
from benchmarks.peers import PYTHON
from benchmarks.replaying import replaying

ROUNDS: Final = 7
WARM_UP_ROUNDS: Final = 3
CLUSTERS: Final = 4
SIZES: Final = {"small": (10, 25), "large": (250, 100)}
"""Topics and partitions of each cluster, one producer on every partition."""
ONE_EXECUTOR: Final = "Spark, one executor"
ENGINES: Final = {
    "embedded": "embedded",
    ONE_EXECUTOR: "local-cluster[1,1,1024]",
    "Spark, two executors": "local-cluster[2,1,1024]",
}


def measure() -> dict[str, Any]:
    """A row for each engine and size."""
    return {
        "rounds": ROUNDS,
        "clusters": CLUSTERS,
        "rows": [row for size, (topics, partitions) in SIZES.items() for row in _size(size, topics, partitions)],
    }


def _size(size: str, topics: int, partitions: int) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        addresses = [stack.enter_context(replaying(topics, partitions, 1)) for _ in range(CLUSTERS)]
        commands = {name: [*PYTHON, "benchmarks.fleet_engine", engine, *addresses] for name, engine in ENGINES.items()}
        rows = []
        for name, command in commands.items():  # one after the other: idle JVMs are not idle
            with contestants({name: command}, with_children=True) as (engine,):
                for number in range(WARM_UP_ROUNDS + ROUNDS):
                    engine.scan(counts=number >= WARM_UP_ROUNDS)
                rows.append({"size": size, **_row(engine)})
    return rows


def _row(engine: Contestant) -> dict[str, Any]:
    wall_s = statistics.median(cost["wall_ms"] for cost in engine.rounds) / 1000
    cpu_s = statistics.median(cost["cpu_ms"] for cost in engine.rounds) / 1000
    partitions = int(engine.rounds[0]["rows"])
    return {
        "name": engine.name,
        "partitions": partitions,
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "plan_s": engine.rounds[0]["plan_s"],
        "partitions_per_second": partitions / wall_s,
        "partitions_per_cpu_second": partitions / cpu_s,
    }
