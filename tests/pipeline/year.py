"""Plays many days of the pipeline, with the real jobs, Spark and Delta, and counts what is kept after each.

The clock is simulated: every file and folder of the tables grows older by a day while the clock of the jobs goes on by one.
Reduced, because a run that takes files costs some seconds, and a year has 8,760 of them:

- a day has one run that takes files and compacts, and three that find nothing new, in place of 24;
- bounds of days to months are bounds of one to four days, so that each is reached several times;
- Delta's checkpoints, with which it removes old log files, are every 10 commits for all writers: `deltalake` has every 100;
- Delta keeps replaced files for no time: it reads their age in its log, which cannot be made older.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from exporter.history.schema import VERSION, day_of
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.days import DAY_MS, DAY_S
from tests.pipeline.log_records import COMMITTED, write_log
from tests.transaction_log.builders import value

RETENTION_DAYS: Final = 3
HISTORY_DAYS: Final = 4
"""Age at which the exporter removes files of its history."""
PROPERTIES: Final = {
    "delta.deletedFileRetentionDuration": "interval 0 hours",
    "delta.logRetentionDuration": "interval 1 day",
    "delta.checkpointInterval": "10",
}
QUIET_RUNS: Final = 3
CLUSTER_DAYS: Final = 3
"""Days after which a cluster is replaced by one with another id."""


@dataclass(frozen=True, slots=True)
class StoredAmounts:
    """Amounts of what is stored after a day."""

    day: int
    files: int
    """Of tables, their logs and the state, and of the history."""
    folders: int
    rows: int
    """Of all tables."""
    state_bytes: int
    log_bytes: int
    """Of the logs of the tables."""
    quiet_s: float
    """Seconds of the fastest run that found nothing new."""


class Year:
    """A history that grows from day to day, and its tables."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.history = folder / "history"
        self.root = folder / "tables"
        self.tables = Tables(self.root)
        self.now_ms = cases.BEGIN_MS
        retention_ms = RETENTION_DAYS * DAY_MS
        self.jobs = Jobs(
            lambda: spark, self.history, self.tables, (), retention_ms, lambda: self.now_ms, lambda _: None
        )

    def days(self, number: int) -> Iterator[StoredAmounts]:
        """Plays them, one after the other."""
        for day in range(number):
            self._write(day)
            self.now_ms = cases.milliseconds((day + 1) * DAY_S)
            grow_older(self.root)
            self.jobs.run()
            quiet_s = min(self._quiet_s() for _ in range(QUIET_RUNS))
            yield self._kept(day, quiet_s)

    def _quiet_s(self) -> float:
        began = time.perf_counter()
        self.jobs.run()
        return time.perf_counter() - began

    def _write(self, day: int) -> None:
        """Of a cluster that stays and one that does not: transactions of new producers and partitions, and a hang."""
        for cluster_id in ("stays", f"cluster-{day // CLUSTER_DAYS}"):
            for hour in (5, 17):
                cases.write_file(self.history, cluster_id, f"w{hour}", _cycles(day, hour))
            at_ms = cases.milliseconds(day * DAY_S)
            record = ("app-1", value(COMMITTED, at_ms, updated_ms=at_ms, producer_id=day), float(day * DAY_S))
            write_log(self.spark, self.tables, [record], read_to_s=(day + 1) * DAY_S, cluster_id=cluster_id)
        kept_from = day_of(cases.milliseconds((day - HISTORY_DAYS) * DAY_S))
        for folder in (self.history / VERSION).glob("*/*/date=*"):
            if folder.name < f"date={kept_from}":
                shutil.rmtree(folder)

    def _kept(self, day: int, quiet_s: float) -> StoredAmounts:
        found = [*self.root.rglob("*"), *self.history.rglob("*")]
        files = [path for path in found if path.is_file()]
        of_state, of_logs = (
            sum(path.stat().st_size for path in files if folder in path.parts) for folder in ("state", "_delta_log")
        )
        rows = sum(int(file["num_records"]) for table in self.tables.every for file in table.files())
        return StoredAmounts(day, len(files), len(found) - len(files), rows, of_state, of_logs, quiet_s)


def _cycles(day: int, hour: int) -> list[dict[str, Any]]:
    """Transactions of producers and partitions that no other day has; of each hour one hangs, and one is lost from view."""
    at = day * DAY_S + hour * 3600
    rows = [
        {"producer_id": 100 * day + hour + number, "partition": 10 * day + number, "start_offset": at, "started": at}
        for number in range(10)
    ]
    hang = {
        **rows[0],
        "topic": f"topic-{day}",
        "verdict": "hanging_not_in_transaction",
        "groups": ["billing"],
        "last_stable_offset_lag": 3,
    }
    lost = {**rows[1], "topic": "lost"}
    unread = [f"lost-{10 * each + 1}" for each in range(day + 1)]
    return [
        {"at": at + 30, "open": [*rows, hang, lost]},
        {"at": at + 60, "open": [hang], "unread": unread},
        {"at": at + 90, "unread": unread},
    ]


def grow_older(root: Path) -> None:
    """Makes all that is there older by a day."""
    for path in sorted(root.rglob("*"), reverse=True):
        status = path.stat()
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - DAY_MS * 1_000_000))
