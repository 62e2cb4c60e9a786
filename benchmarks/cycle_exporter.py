"""A whole cycle of the exporter for each line: collected, evaluated, rendered. `cycle_exporter ADDRESS [SERIES_MAX]`."""

from __future__ import annotations

import json
import sys
import time

from benchmarks.listed import collector_at, publication
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.publication.exposition import Renderer
from exporter.publication.publication import PublishOptions


def main(address: str, series_max: int = 1_000_000) -> None:
    """Tells what a cycle took and how many partitions it had."""
    collector, renderer, memory = collector_at(address), Renderer(), Memory()
    for _ in sys.stdin:
        began = time.perf_counter()
        snapshot = collector.collect(seen_before=memory.seen)
        evaluation = evaluate(snapshot, memory, Policy())
        memory = evaluation.memory
        options = PublishOptions(partition_series_limit=series_max)
        renderer.render(publication(evaluation, options))
        wall_ms = (time.perf_counter() - began) * 1000
        print(json.dumps({"wall_ms": wall_ms, "entries": len(snapshot.partitions)}), flush=True)
    collector.close()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
