"""Two weeks of one cluster, for the questions of docs/queries.md: four transactional ids, two hangs.

Healthy transactions hold back records for a while, as all do. The first hang is healthy for an hour, and the second one
began before the exporter was started again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from exporter.pipeline.jobs import Jobs
from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.log_records import COMMITTED, ONGOING, PREPARE_ABORT, PREPARE_COMMIT, write_log
from tests.transaction_log.builders import value

CLUSTER: Final = "east"
HOUR_S: Final = 3_600
DAY_S: Final = 24 * HOUR_S
APPLICATIONS: Final = ("payments-1", "payments-2", "orders-7", "audit-1")


def write_history(history: Path) -> None:
    """Every twelve hours a transaction of each application; one of payments hangs on the third day, and on the tenth."""
    for number in range(28):
        at = 12 * HOUR_S * number
        rows = [_row(application, number, at) for application in range(3)]
        last = [_row(3, number, at)] if number == 27 else []
        cases.write_file(history, CLUSTER, f"w{number}", [{"at": at + 30, "open": rows}, {"at": at + 60, "open": last}])
    for number, (day, hours, lag, before_s) in enumerate(((2, 3, 4_200, 0), (9, 5, 61_000, 7 * HOUR_S))):
        begun = DAY_S * day + 5 * HOUR_S
        hang = {
            **_row(0, 100 + number, begun - before_s),
            "verdict": "hanging_not_in_transaction",
            "groups": ["billing", "ledger"][: number + 1],
            "last_stable_offset_lag": lag,
            "cause": ("late_write", "coordinator_log_lost")[number],
        }
        before = {**hang, "verdict": "open_within_timeout", "groups": [], "cause": None}
        healthy = 6 * (1 - number)  # the first one is healthy for an hour
        later = [
            {"at": begun + 60 + 600 * cycle, "open": [before if cycle < healthy else hang]}
            for cycle in range(6 * hours)
        ]
        end = {"at": begun + 60 + HOUR_S * hours, "open": []}
        cases.write_file(history, CLUSTER, f"h{number}", [{"at": begun + 30, "open": [before]}, *later, end])


def _row(application: int, number: int, at: int) -> dict[str, Any]:
    return {
        "topic": APPLICATIONS[application].rpartition("-")[0],
        "partition": application,
        "producer_id": 10 + application,
        "start_offset": 1000 * (number + 1),
        "started": at,
        "transactional_id": APPLICATIONS[application],
        "last_stable_offset_lag": 5 + application,
    }


def _log() -> Iterator[tuple[str, bytes, float]]:
    """Each ordinary transaction is decided after 40 s, and its markers are there 20 ms later, or 400 on the first day."""
    for number in range(28):
        at = 12 * HOUR_S * number
        start_ms = cases.milliseconds(at)
        for application, name in enumerate(APPLICATIONS[:3]):
            producer = {"producer_id": 10 + application}
            aborts = application == 2 and number % 7 == 0
            decision = PREPARE_ABORT if aborts else PREPARE_COMMIT
            marker_ms = 400 if number < 2 else 20
            yield name, value(ONGOING, start_ms, **producer), at
            yield name, value(decision, start_ms, updated_ms=start_ms + 40_000, **producer), at + 40
            if not aborts:
                done_ms = start_ms + 40_000 + marker_ms
                done_at = at + 40 + marker_ms / 1000
                yield name, value(COMMITTED, start_ms, updated_ms=done_ms, **producer), done_at


def jobs_in(spark: SparkSession, folder: Path) -> Jobs:
    """The jobs on the history in a folder, with tables beside it."""
    tables = Tables(folder / "tables")
    return Jobs(lambda: spark, folder / "history", tables, (), 10**12, lambda: cases.NOW_MS, lambda _: None)


def make_tables(spark: SparkSession, folder: Path) -> Tables:
    """The tables of it, with their outcomes."""
    write_history(folder / "history")
    jobs = jobs_in(spark, folder)
    jobs.transactions()
    tables = jobs.tables
    write_log(spark, tables, _log(), read_to_s=20 * DAY_S, cluster_id=CLUSTER)
    for job in (jobs.outcomes, jobs.stalls, jobs.incidents):
        job()
    return tables
