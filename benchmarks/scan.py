"""Scans of the four shapes: the floor, the exporter, kafka-python, Java's AdminClient and kadm, in turn in every round."""

from __future__ import annotations

import statistics
from typing import Any, Final

from benchmarks.contestants import Contestant, contestants
from benchmarks.peers import HERE, PYTHON, java_command, kadm
from benchmarks.shapes import KAFKA, SHAPES, Shape, planted

ROUNDS: Final = 11
WARM_UP_ROUNDS: Final = 3
FLOOR: Final = "floor"
EXPORTER: Final = "exporter"


def measure() -> dict[str, Any]:
    """Rows for each shape; a broker of its own for each."""
    return {"rounds": ROUNDS, "shapes": [_shape(shape) for shape in SHAPES]}


def _shape(shape: Shape) -> dict[str, Any]:
    with planted(shape) as cluster:
        broker_pid = cluster.brokers[0].process_id
        commands = _commands(cluster.bootstrap, shape.topic_names)
        with contestants(commands, broker_pid=broker_pid) as all_of_them:
            for number in range(WARM_UP_ROUNDS + ROUNDS):
                for contestant in all_of_them:
                    contestant.scan(counts=number >= WARM_UP_ROUNDS)
            rows = [_row(contestant, all_of_them[0]) for contestant in all_of_them]
            wire = {key: int(all_of_them[0].rounds[0][key]) for key in ("entries", "wire_bytes", "requests")}
    return {"name": shape.name, "title": shape.title, **wire, "rows": rows}


def _commands(address: str, topics: tuple[str, ...]) -> dict[str, list[str]]:
    asked = [address, *topics]
    commands = {
        FLOOR: [*PYTHON, "benchmarks.scan_floor", *asked],
        "floor, one request": [*PYTHON, "benchmarks.scan_floor", *asked, "--whole"],
        EXPORTER: [*PYTHON, "benchmarks.scan_exporter", *asked],
        "kafka-python": [*PYTHON, "benchmarks.scan_kafka_python", *asked],
        "Java AdminClient": [*java_command(KAFKA, str(HERE / "ScanJavaAdmin.java")), *asked],
    }
    program = kadm()
    return commands if program is None else {**commands, "kadm": [str(program), *asked]}


def _row(contestant: Contestant, floor: Contestant) -> dict[str, float | str]:
    pairs = zip(contestant.rounds, floor.rounds, strict=True)
    return {
        "name": contestant.name,
        "wall_ms": statistics.median(cost["wall_ms"] for cost in contestant.rounds),
        "wall_ms_min": min(cost["wall_ms"] for cost in contestant.rounds),
        "floor_ratio": statistics.median(mine["wall_ms"] / floors["wall_ms"] for mine, floors in pairs),
        "cpu_ms": statistics.median(cost["cpu_ms"] for cost in contestant.rounds),
        "cpu_ms_min": min(cost["cpu_ms"] for cost in contestant.rounds),
        "broker_cpu_ms": statistics.median(cost["broker_cpu_ms"] for cost in contestant.rounds),
        "broker_cpu_ms_min": min(cost["broker_cpu_ms"] for cost in contestant.rounds),
        "peak_mb": contestant.peak_mb,
    }
