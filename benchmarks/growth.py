"""How whole cycles grow: with partitions, and with producers on each of ten. The cluster is one that replays."""

from __future__ import annotations

import statistics
from typing import Any, Final

from benchmarks.contestants import contestants
from benchmarks.peers import PYTHON
from benchmarks.replaying import replaying

ROUNDS: Final = 11
WARM_UP_ROUNDS: Final = 3
PARTITIONS: Final = ((10, 100), (100, 100), (1_000, 100))
PRODUCERS: Final = (1, 100, 1_000, 20_000)


def measure() -> dict[str, Any]:
    """A row for each size."""
    return {
        "rounds": ROUNDS,
        "partitions": [_row(topics, each, 1) for topics, each in PARTITIONS],
        "producers": [_row(1, 10, producers) for producers in PRODUCERS],
    }


def _row(topics: int, partitions: int, producers: int) -> dict[str, float]:
    with replaying(topics, partitions, producers) as address:
        command = {"cycle": [*PYTHON, "benchmarks.cycle_exporter", address]}
        with contestants(command) as (exporter,):
            for number in range(WARM_UP_ROUNDS + ROUNDS):
                exporter.scan(counts=number >= WARM_UP_ROUNDS)
            return {
                "partitions": topics * partitions,
                "producers": producers,
                "wall_ms": statistics.median(cost["wall_ms"] for cost in exporter.rounds),
                "cpu_ms": statistics.median(cost["cpu_ms"] for cost in exporter.rounds),
                "cpu_ms_min": min(cost["cpu_ms"] for cost in exporter.rounds),
                "peak_mb": exporter.peak_mb,
            }
