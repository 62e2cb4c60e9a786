"""Baselines of 60 clusters with 5,000 transactional ids each: time and memory of the pipeline, and of the exporter.

PIPELINE_CLUSTERS, PIPELINE_IDS (of each cluster) and PIPELINE_SAMPLES (transactions of each id, over more than a day) give
other sizes. Ends with status 1 when a cluster has no baselines, or the exporter does not use the file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.contestants import peak_mb
from benchmarks.pipeline import FOLDER, both_processors_s, cost, opened, pid_of
from benchmarks.pipeline_history import TOPICS, Numbers, Workload, write
from exporter.daemon.baseline_file import BaselineFile
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.session import MEMORY
from exporter.pipeline.tables import Tables

CLUSTERS, IDS, SAMPLES = (
    int(os.environ.get(f"PIPELINE_{name}", default))
    for name, default in (("CLUSTERS", "60"), ("IDS", "5000"), ("SAMPLES", "22"))
)
CYCLES_BETWEEN: Final = 200
"""From a transaction of an id to its next one: 22 of them are within 37 hours, and thresholds need a day."""
READ: Final = "import sys; from benchmarks.pipeline_ids import read; read(sys.argv[1])"


class EveryId(Workload):
    """A transaction of each id in one cycle, of which the next one shows that it is closed."""

    def cycle(self, at_ms: int) -> dict[str, Numbers]:
        self._cycles += 1
        which = np.arange(self._producers if self._cycles % 2 else 0)
        started_ms = at_ms - self._random.integers(1, 60_000, len(which))
        return {
            "taken_at": np.full(len(which), at_ms),
            "which": which,
            "topic": which % len(TOPICS),
            "partition": which // len(TOPICS) % 12,
            "start_offset": self._cycles * self._producers + which,
            "started_at": started_ms,
            "duration_ms": at_ms - started_ms,
            "idle_ms": self._random.integers(0, 5_000, len(which)),
        }


def main() -> int:
    """The exit status says whether every cluster has baselines."""
    history, tables = FOLDER / "history", Tables(FOLDER / "tables")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    rows = 0
    for number in range(CLUSTERS):
        workload, cluster_id = EveryId(IDS, seed=number), f"cluster-{number:03d}"
        for sample in range(SAMPLES):
            first = sample * CYCLES_BETWEEN
            rows += write(history, 1, first_cycle=first, workload=workload, cluster_id=cluster_id, cycles=2)[0]
    spark = opened(MEMORY)
    try:
        jobs = Jobs(lambda: spark, history, tables, (), 10**12, lambda: int(time.time() * 1000), print)
        transactions, baselines = (
            cost(job, lambda: both_processors_s(spark)) for job in (jobs.transactions, jobs.baselines)
        )
        peak = peak_mb(pid_of(spark))
    finally:
        spark.stop()
    print(
        f"{rows:,} rows: transactions {transactions}, baselines {baselines}; peak {peak:.0f} MB of Java, {MEMORY} of heap"
    )
    path = Path(str(tables.baselines))
    text = path.read_text(encoding="utf-8")
    found = Counter(entry["cluster_id"] for entry in json.loads(text)["thresholds"]["transactional_ids"])
    print(
        f"{len(text) / 1e6:.1f} MB: {len(found)} clusters with {min(found.values()):,} to {max(found.values()):,} ids each"
    )
    read = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    print(f"read by the exporter: {read.stdout.strip()}")
    shutil.rmtree(FOLDER)
    return 0 if len(found) == CLUSTERS and f"{CLUSTERS} clusters" in read.stdout else 1


def read(path: str) -> None:
    """Prints what one exporter for all clusters reads, and what this costs it."""
    before_mb, begun = peak_mb("self"), time.monotonic()
    file = BaselineFile(Path(path), (), age_ms_max=10**12, wall_clock=time.time)
    found = file.current()
    elapsed_s = time.monotonic() - begun
    grown_mb = peak_mb("self") - before_mb
    clusters = {cluster_id for cluster_id, _ in found.transactional_ids}
    thresholds = len(found.transactional_ids)
    print(
        f"{len(clusters)} clusters, {thresholds:,} ids with a threshold, {elapsed_s:.1f} s, {grown_mb:.0f} MB more at most"
    )


if __name__ == "__main__":
    sys.exit(main())
