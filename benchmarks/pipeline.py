"""Spark's tables of a generated history: rows a second, peak memory, the next hour's cost, beside DuckDB on the same files.

PIPELINE_ROWS (observations, comma-separated; 1 and 10 million by default) gives the lengths of history, each made anew.
DuckDB makes the same transactions (`benchmarks/pipeline_duckdb.py`), and the rows of both are held against each other; a
bare group-by of the same rows, which makes nothing of it, is asked beside. After that the next hour is appended, and taken
by itself: its time must not grow with what is before it. Before these a fleet: 220 small clusters with thousands of small
files, and a run that finds nothing new. Other work on the machine lengthens times, seconds of processors less.
Ends with status 1 when the rows differ, or when Spark takes more than 3.5 times DuckDB's processor time for 10 million
rows or more.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import pipeline_duckdb
from benchmarks.contestants import cpu_ms, peak_mb
from benchmarks.pipeline_history import CYCLES_A_FILE, FLEET_CLUSTERS, Workload, write, write_fleet
from exporter.pipeline.connectors import DELTA, DELTA_SETTINGS, jars_of
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.session import open_session
from exporter.pipeline.tables import Tables
from tests.brokers.jars import spark_jars

FOLDER: Final = Path("build/benchmarks/pipeline")
RESULT: Final = Path("build/benchmarks/pipeline.json")
CORES: Final = 2
MEMORY: Final = "2g"
DUCKDB_MEMORY: Final = "8GB"
"""With Spark's 2 GB it would end for want of memory where there are many rows."""
MANY_ROWS: Final = 10_000_000
"""Java's compilers take most of Spark's time where there are fewer."""
PROCESSORS_MAX: Final = 3.5
"""Spark's processor time for many rows, as a multiple of DuckDB's."""
FILES_AN_HOUR: Final = 4
DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a piece of work, in seconds."""

    wall_s: float
    processors_s: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.wall_s + other.wall_s, self.processors_s + other.processors_s)

    def __str__(self) -> str:
        return f"{self.wall_s:.1f} s ({self.processors_s:.1f} s of processors)"


def main() -> int:
    """Every length of history; the exit status says whether Spark keeps up, with the same rows."""
    sizes = [int(size) for size in os.environ.get("PIPELINE_ROWS", "1000000,10000000").split(",") if size]
    FOLDER.mkdir(parents=True, exist_ok=True)
    _measure_fleet()
    results = [_measured(size) for size in sizes]
    shutil.rmtree(FOLDER)
    RESULT.write_text(json.dumps(results, indent=2))
    if not results:
        return 0
    largest = results[-1]
    ratio = largest["spark_processors_s"] / largest["duckdb_processors_s"]
    is_slow = largest["rows"] >= MANY_ROWS and ratio > PROCESSORS_MAX
    print(
        f"\nat the largest, Spark takes {ratio:.1f} times DuckDB's processor time (from {MANY_ROWS:,} rows on at most "
        f"{PROCESSORS_MAX}); kept in {RESULT}"
    )
    return 0 if not is_slow and all(result["is_equal"] for result in results) else 1


def _measure_fleet() -> None:
    """In a session of its own, whose start is part of a run."""
    history, tables = FOLDER / "history", Tables(FOLDER / "tables")
    for folder in (history, FOLDER / "tables"):
        shutil.rmtree(folder, ignore_errors=True)
    rows = write_fleet(history)
    files = sum(1 for _ in history.rglob("*.parquet"))
    begun = time.monotonic()
    spark = opened()
    start_s = time.monotonic() - begun
    try:
        jobs = Jobs(lambda: spark, history, tables, (), 365 * DAY_MS, lambda: int(time.time() * 1000), print)
        transactions, nothing = (cost(jobs.transactions, lambda: both_processors_s(spark)) for _ in range(2))
    finally:
        spark.stop()
        shutil.rmtree(FOLDER / "temporary", ignore_errors=True)
    print(
        f"{FLEET_CLUSTERS} clusters, {rows:,} rows in {files:,} files: Spark's start {start_s:.1f} s, "
        f"transactions {transactions}, a run that finds nothing new {nothing}",
        flush=True,
    )


def opened(memory: str = MEMORY) -> Any:
    """A session with a temporary folder of its own."""
    (FOLDER / "temporary").mkdir()
    more = {**jars_of(spark_jars(), (DELTA,)), **DELTA_SETTINGS}
    return open_session(f"local[{CORES}]", str(FOLDER / "temporary"), memory=memory, more=more)


def both_processors_s(spark: Any) -> float:
    """Of Spark's process and of this one, which reads small files."""
    return _processors_s(spark) + sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def _measured(size: int) -> dict[str, Any]:
    """A session of its own for each size, so that its peak memory is its own."""
    history, tables, peer = FOLDER / "history", Tables(FOLDER / "tables"), FOLDER / "duckdb"
    for folder in (history, FOLDER / "tables", peer):
        shutil.rmtree(folder, ignore_errors=True)
    workload = Workload()
    rows, cycle = write(history, size, workload=workload)
    bare = _own_cost(lambda: pipeline_duckdb.ask_bare(history, cores=CORES, memory=DUCKDB_MEMORY))
    duckdb = _own_cost(lambda: pipeline_duckdb.make_tables(history, peer, rows=rows, cores=CORES, memory=DUCKDB_MEMORY))
    duckdb += _own_cost(lambda: pipeline_duckdb.ask_percentiles(peer, cores=CORES, memory=DUCKDB_MEMORY))
    expected = pipeline_duckdb.digest(peer.rglob("*.parquet"))
    shutil.rmtree(peer)
    spark = opened()
    try:
        jobs = Jobs(lambda: spark, history, tables, (), 365 * DAY_MS, lambda: int(time.time() * 1000), print)
        transactions = cost(jobs.transactions, lambda: _processors_s(spark))
        made = pipeline_duckdb.digest(_files(tables))
        stalls = cost(jobs.stalls, lambda: _processors_s(spark))
        baselines = cost(jobs.baselines, lambda: _processors_s(spark))
        hour_rows = 0
        for number in range(FILES_AN_HOUR):
            hour_rows += write(history, 1, first_cycle=cycle + CYCLES_A_FILE * number, workload=workload)[0]
        hour = cost(jobs.transactions, lambda: _processors_s(spark))
        hour_stalls = cost(jobs.stalls, lambda: _processors_s(spark))
        most_mb = peak_mb(pid_of(spark))
    finally:
        spark.stop()
        shutil.rmtree(FOLDER / "temporary", ignore_errors=True)
    total = transactions + baselines
    print(
        f"{rows:,} rows: transactions {transactions} ({rows / transactions.wall_s:,.0f} rows/s), stalls {stalls}, "
        f"baselines {baselines}; "
        f"DuckDB {duckdb} ({rows / duckdb.wall_s:,.0f} rows/s), a bare group-by {bare}; "
        f"Spark / DuckDB {total.wall_s / duckdb.wall_s:.1f} "
        f"({total.processors_s / duckdb.processors_s:.1f} of processors); "
        f"{made[0]:,} transactions, {'equal' if made == expected else f'DIFFERENT: {made} and DuckDB {expected}'}; "
        f"the next hour of {hour_rows:,} rows {hour}, its stalls {hour_stalls}; peak {most_mb:.0f} MB",
        flush=True,
    )
    return {
        "rows": rows,
        "is_equal": made == expected,
        "spark_s": total.wall_s,
        "spark_processors_s": total.processors_s,
        "duckdb_s": duckdb.wall_s,
        "duckdb_processors_s": duckdb.processors_s,
        "bare_s": bare.wall_s,
        "baselines_s": baselines.wall_s,
        "stalls_processors_s": stalls.processors_s,
        "hour_stalls_processors_s": hour_stalls.processors_s,
        "hour_rows": hour_rows,
        "hour_s": hour.wall_s,
        "hour_processors_s": hour.processors_s,
        "peak_mb": most_mb,
    }


def _files(tables: Tables) -> list[Path]:
    """Of all transactions."""
    return [tables.transactions.folder / file["path"] for file in tables.transactions.files()]


def _own_cost(work: Callable[[], object]) -> Cost:
    """Of what this process does."""
    return cost(work, lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))


def cost(work: Callable[[], object], processors_s: Callable[[], float]) -> Cost:
    begun, before_s = time.monotonic(), processors_s()
    work()
    return Cost(time.monotonic() - begun, processors_s() - before_s)


def _processors_s(spark: Any) -> float:
    """That Spark's process has had."""
    return cpu_ms(pid_of(spark)) / 1000


def pid_of(spark: Any) -> int:
    """Returns the number of Spark's process."""
    return int(spark.sparkContext._gateway.proc.pid)  # noqa: SLF001 - PySpark has no other access to it


if __name__ == "__main__":
    sys.exit(main())
