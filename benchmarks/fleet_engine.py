"""Cycles over a fleet of clusters. `fleet_engine ENGINE ADDRESS...`: `embedded`, or a master of Spark's.

All clusters at the same time, as a daemon does; a round for each line, like every contestant.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from exporter.commands.serve import embedded_reader
from exporter.config.fleet import load_fleet
from exporter.config.settings import Settings
from exporter.cycle import EvaluationInput, Reader
from exporter.daemon.wiring import policy_of
from exporter.fleet.engine import SparkEngine
from exporter.pipeline.session import open_session
from exporter.snapshot import PartitionResult
from exporter.transaction_log.journal import NO_JOURNAL

MORE = {"spark.executor.memory": "1g", "spark.executor.cores": "1"}


def settings_for(addresses: Sequence[str], **flags: str) -> Settings:
    """A fleet of these."""
    lines = [
        f"  cluster-{number}: {{kafka: {{bootstrap.servers: '{address}'}}}}" for number, address in enumerate(addresses)
    ]
    return load_fleet(("fleet.yaml", "\n".join(["clusters:", *lines, ""])), flags=flags).settings


def rounds(readers: Sequence[Reader], settings: Settings) -> None:
    """One for each line."""
    known = EvaluationInput(policy=policy_of(settings))
    with ThreadPoolExecutor(len(readers)) as pool:
        for _ in sys.stdin:
            began = time.perf_counter()
            evaluations = list(pool.map(lambda reader: reader.cycle(known, lambda _: NO_JOURNAL), readers))
            wall_ms = (time.perf_counter() - began) * 1000
            snapshots = [evaluation.snapshot for evaluation in evaluations]
            assert all((snapshot.partitions.answer == PartitionResult.READ).all() for snapshot in snapshots)
            rows = sum(len(snapshot.partitions.partition) for snapshot in snapshots)
            entries = sum(int(snapshot.partitions.producers.sum()) for snapshot in snapshots)
            print(json.dumps({"wall_ms": wall_ms, "rows": rows, "entries": entries}), flush=True)


def main(engine: str, addresses: list[str]) -> None:
    """A round for each line."""
    settings = settings_for(addresses, **{"scan.interval": "10m"})  # no job is too long
    if engine == "embedded":
        rounds([embedded_reader(cluster) for cluster in settings.clusters], settings)
        return
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    with tempfile.TemporaryDirectory() as temporary:
        spark = SparkEngine(partial(open_session, engine, temporary, more=MORE))
        spark.check()
        rounds([spark.reader(cluster) for cluster in settings.clusters], settings)
        spark.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
