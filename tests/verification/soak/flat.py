"""Ten thousand cycles on a cluster in which nothing changes: memory, threads and descriptors stay where they are.

The second part of `make soak` (SOAK_CYCLES for another number). Status 1 when anything grows.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Final

import numpy as np

from exporter.config.loading import load
from exporter.cycle import EmbeddedReader
from exporter.daemon.daemon import Daemon
from exporter.web.routes import Request
from hangbench.kafka.cluster import MeasuredCluster
from hangbench.kafka.maven import BrokersUnavailable
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang, plant_producers
from tests.verification.soak.resources import Resources

KAFKA: Final = "4.3.1"
CYCLES: Final = int(os.environ.get("SOAK_CYCLES", "10000"))
WARM_UP: Final = max(CYCLES // 10, 100)
SAMPLES: Final = 60
GROWTH_MB_MAX: Final = 2.0
"""Of all measured cycles together: what the allocator's own rounding may come to."""


def main() -> int:
    """Cycle, measure, print; the exit status."""
    argparse.ArgumentParser(prog="python -m tests.verification.soak.flat", description=__doc__).parse_args()
    try:
        with MeasuredCluster(KAFKA, properties=HANGS_CAN_BE_PLANTED) as cluster:
            cluster.topics.create("resting", partitions=200)
            plant_producers(cluster.bootstrap, "resting", range(200), range(9_000_000_000, 9_000_000_005))
            cluster.topics.create("hung", partitions=1)
            plant_hang(cluster.bootstrap, "hung", 0, "app")
            return _run(cluster.bootstrap)
    except BrokersUnavailable as failure:
        print(f"flat: {failure}", file=sys.stderr)
        return 1


def _run(bootstrap: str) -> int:
    settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": bootstrap}).settings
    reader = EmbeddedReader.opened(settings.kafka, settings.scan)
    daemon = Daemon(settings, lambda _: reader)
    try:
        for _ in range(WARM_UP):
            daemon.jobs[None].cycle()
        first, began = Resources.of(os.getpid()), time.monotonic()
        memory_mb = []
        for number in range(CYCLES - WARM_UP):
            daemon.jobs[None].cycle()
            if number % max((CYCLES - WARM_UP) // SAMPLES, 1) == 0:
                memory_mb.append(Resources.of(os.getpid()).memory_mb)
        last = Resources.of(os.getpid())
        published = b"".join(daemon.routes.answer(Request(method="GET", path="/metrics", headers={})).chunks).decode()
    finally:
        reader.close()
    failed = (
        f"kafka_transaction_exporter_cycles_total {CYCLES}\n" not in published or "_failed_total 0" not in published
    )
    growth_mb = float(np.polyfit(np.arange(len(memory_mb)), memory_mb, 1)[0]) * len(memory_mb)
    print(f"{CYCLES} cycles, the first {WARM_UP} not measured, {time.monotonic() - began:.0f} s: {first} -> {last}")
    print(
        f"memory along the line that fits best: {growth_mb:+.2f} MB over all of them ({GROWTH_MB_MAX} MB are allowed)"
    )
    grew = growth_mb > GROWTH_MB_MAX or last.threads > first.threads or last.descriptors > first.descriptors
    print("cycles failed" if failed else "it grew" if grew else "flat")
    return 1 if failed or grew else 0


if __name__ == "__main__":
    sys.exit(main())
