"""Spark's tables of a generated history: rows a second, peak memory, the next hour's cost, beside DuckDB on the same files.

PIPELINE_ROWS (observations, comma-separated; 1 and 10 million by default) gives the lengths of history, each made anew.
After each the next hour is appended, and taken by itself: its time must not grow with what is before it. DuckDB makes the
same legs and transactions and their percentiles in one query, without files of its own and without ends.
Ends with status 1 when a rate is below a sixth of DuckDB's.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb

from benchmarks.pipeline_history import CYCLES_A_FILE, Workload, write
from exporter.history_schema import VERSION
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.manifest import Tables
from exporter.pipeline.session import open_session

FOLDER: Final = Path("build/benchmarks/pipeline")
RESULT: Final = Path("build/benchmarks/pipeline.json")
CORES: Final = 2
MEMORY: Final = "2g"
SLOWER_MAX: Final = 6
FILES_AN_HOUR: Final = 4
DAY_MS: Final = 86_400_000
QUERY: Final = """
with legs as (
  select cluster_id, topic, partition, producer_id, start_offset, max(producer_epoch) as producer_epoch,
    max(transactional_id) as transactional_id, min(taken_at) as first_seen, max(taken_at) as last_seen,
    max(idle_ms) as idle_ms, max(duration_ms) as duration_ms, min(started_at) as started_at,
    list(distinct verdict) as verdicts
  from read_parquet(?, hive_partitioning = true) group by all),
transactions as (
  select cluster_id, producer_id, producer_epoch, started_at, max(transactional_id) as transactional_id,
    max(duration_ms) as duration_ms, list(struct_pack(topic, partition, first_seen, last_seen, idle_ms, verdicts)) as legs
  from legs group by all)
select cluster_id, transactional_id, sum(len(legs)), quantile_cont(duration_ms, [0.5, 0.95, 0.99])
from transactions group by all
"""


def main() -> int:
    """Every length of history; the exit status says whether Spark keeps up."""
    sizes = [int(it) for it in os.environ.get("PIPELINE_ROWS", "1000000,10000000").split(",")]
    FOLDER.mkdir(parents=True, exist_ok=True)
    results = [_measured(size) for size in sizes]
    shutil.rmtree(FOLDER)
    RESULT.write_text(json.dumps(results, indent=2))
    slower = max(it["transactions_s"] / it["duckdb_s"] for it in results[-1:])
    print(
        f"\nat the largest, Spark takes {slower:.1f} times as long as DuckDB (at most {SLOWER_MAX}); kept in {RESULT}"
    )
    return 0 if slower <= SLOWER_MAX else 1


def _measured(size: int) -> dict[str, Any]:
    """A session of its own for each size, so that its peak memory is its own."""
    history, tables = FOLDER / "history", FOLDER / "tables"
    for folder in (history, tables):
        shutil.rmtree(folder, ignore_errors=True)
    workload = Workload()
    rows, cycle = write(history, size, workload=workload)
    duckdb_s = _seconds(lambda: _ask_duckdb(history))
    spark = open_session(f"local[{CORES}]", str(FOLDER / "temporary"), memory=MEMORY)
    try:
        jobs = Jobs(spark, history, Tables(tables), (), 365 * DAY_MS, lambda: int(time.time() * 1000), print)
        result = {
            "rows": rows,
            "duckdb_s": duckdb_s,
            "transactions_s": _seconds(jobs.transactions),
            "baselines_s": _seconds(jobs.baselines),
        }
        hour_rows = 0
        for number in range(FILES_AN_HOUR):
            hour_rows += write(history, 1, first_cycle=cycle + CYCLES_A_FILE * number, workload=workload)[0]
        result |= {"hour_rows": hour_rows, "hour_s": _seconds(jobs.transactions), "peak_mb": _peak_mb(spark)}
    finally:
        spark.stop()
        shutil.rmtree(FOLDER / "temporary", ignore_errors=True)
    print(
        f"{rows:,} rows: transactions {result['transactions_s']:.1f} s ({rows / result['transactions_s']:,.0f} rows/s), "
        f"baselines {result['baselines_s']:.1f} s, DuckDB {duckdb_s:.1f} s ({rows / duckdb_s:,.0f} rows/s), "
        f"the next hour of {hour_rows:,} rows {result['hour_s']:.1f} s, peak {result['peak_mb']:.0f} MB",
        flush=True,
    )
    return result


def _ask_duckdb(history: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"set threads = {CORES}")
        connection.execute(QUERY, [str(history / VERSION / "observations" / "*" / "*" / "*.parquet")]).fetchall()


def _seconds(work: Callable[[], None]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def _peak_mb(spark: Any) -> float:
    """Of Spark's process."""
    status = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/status").read_text(encoding="ascii")  # noqa: SLF001
    (line,) = (it for it in status.splitlines() if it.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    sys.exit(main())
