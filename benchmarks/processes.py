"""Whole processes: `once` beside `kafka-transactions.sh find-hanging`, interpreter or JVM started anew each time."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.peers import java_command
from benchmarks.shapes import KAFKA, SHAPES, planted
from examples.workload.producers import run_transaction

ROUNDS: Final = 11
WARM_UP_ROUNDS: Final = 1


def measure() -> dict[str, Any]:
    """Seconds of each, in turn in every round, on the second shape."""
    (shape,) = (shape for shape in SHAPES if shape.name == "S2")
    with planted(shape) as cluster:
        address = cluster.bootstrap
        run_transaction(address, "bench", [(shape.topic_names[0], 0)])  # without a coordinator `once` is incomplete
        program = str(Path(sys.executable).with_name("kafka-transaction-exporter"))
        tool = java_command(KAFKA, "org.apache.kafka.tools.TransactionsCommand")
        commands = {
            "once": [program, "once", "--bootstrap-server", address],
            "kafka-transactions.sh find-hanging": [
                *(*tool, "--bootstrap-server", address, "find-hanging"),
                *("--broker-id", "1", "--max-transaction-timeout", "0"),
            ],
            "python, importing nothing": [sys.executable, "-c", "pass"],
        }
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
        for number in range(WARM_UP_ROUNDS + ROUNDS):
            for name, command in commands.items():
                cost = _run(command)
                if number >= WARM_UP_ROUNDS:
                    rounds[name].append(cost)
    ours, theirs, _ = rounds.values()
    ratio = statistics.median(their["wall_s"] / our["wall_s"] for their, our in zip(theirs, ours, strict=True))
    return {
        "shape": shape.title,
        "rounds": ROUNDS,
        "ratio": ratio,
        "rows": [{"name": name, **_summary(costs)} for name, costs in rounds.items()],
    }


def _run(command: list[str]) -> dict[str, float]:
    """Wall and CPU of one process."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return {"wall_s": wall_s, "cpu_s": usage.ru_utime + usage.ru_stime}


def _summary(costs: list[dict[str, float]]) -> dict[str, float]:
    return {
        "wall_s": statistics.median(cost["wall_s"] for cost in costs),
        "wall_s_min": min(cost["wall_s"] for cost in costs),
        "cpu_s": statistics.median(cost["cpu_s"] for cost in costs),
    }
