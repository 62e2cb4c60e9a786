"""Many clusters: in one process, and on Spark with one executor and with two; and two hundred clusters in a real `serve`.

Clusters replay. CPU is that of all processes of an engine, as they stand: Spark's driver, its executors, their Python.
"""

from __future__ import annotations

import statistics
from typing import Any, Final

from benchmarks import fleet_serve
from benchmarks.contestants import Contestant, contestants
from benchmarks.fleet_serve import brokers
from benchmarks.peers import PYTHON

ROUNDS: Final = 5
WARM_UP_ROUNDS: Final = 3
SIZES: Final = ((1, 25_000), (4, 25_000), (20, 1_000), (100, 250), (1_000, 5))
"""(clusters, partitions of each)."""
ON_SPARK_MAX: Final = 100
"""Clusters: each is a job."""
ENGINES: Final = {
    "embedded": "embedded",
    "Spark, one executor": "local-cluster[1,1,1024]",
    "Spark, two executors": "local-cluster[2,1,1024]",
}


def measure() -> dict[str, Any]:
    """A row for each engine and size."""
    rows = [row for clusters, partitions in SIZES for row in _size(clusters, partitions)]
    return {"rounds": ROUNDS, "rows": rows, "serve": fleet_serve.measure()}


def _size(clusters: int, partitions: int) -> list[dict[str, Any]]:
    rows = []
    with brokers([partitions] * clusters) as addresses:
        for name, engine in ENGINES.items():  # one after the other: idle JVMs are not idle
            if engine != "embedded" and clusters > ON_SPARK_MAX:
                continue
            command = [*PYTHON, "benchmarks.fleet_engine", engine, *addresses]
            with contestants({name: command}, with_children=True) as (contestant,):
                for number in range(WARM_UP_ROUNDS + ROUNDS):
                    contestant.scan(counts=number >= WARM_UP_ROUNDS)
                rows.append(_row(contestant, clusters))
    return rows


def _row(engine: Contestant, clusters: int) -> dict[str, Any]:
    walls_s = [cost["wall_ms"] / 1000 for cost in engine.rounds]
    cpus_s = [cost["cpu_ms"] / 1000 for cost in engine.rounds]
    return {
        "name": engine.name,
        "clusters": clusters,
        "partitions": int(engine.rounds[0]["rows"]),
        "wall_s": statistics.median(walls_s),
        "wall_s_min": min(walls_s),
        "wall_s_max": max(walls_s),
        "cpu_s": statistics.median(cpus_s),
    }
