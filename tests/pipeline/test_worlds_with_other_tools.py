"""Random histories in rounds, with another tool at work on the tables between two runs. What must hold was written first:

- OPTIMIZE, VACUUM, properties, deletion vectors, column mapping, a new column: no row changes.
- RESTORE of any table to any version: the runs after it make what it took back again, so in the end no row differs.
- DELETE: the rows stay deleted, whatever comes later for other transactions; no other row changes, none is there twice.
- Rows that another writer appends stay as they are, and change no other row.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from exporter.history.schema import VERSION
from exporter.pipeline.connectors import spark_path
from exporter.pipeline.hours import update_hours
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.tables import Tables
from tests.pipeline import cases, oracle
from tests.pipeline.compared import differing, hours, incidents, transactions, whole_history

ROUNDS: Final = 4
FOREIGN: Final = "foreign"
COLUMN: Final = "added_"
SETTINGS: Final = (
    "OPTIMIZE {}",
    "VACUUM {}",
    "ALTER TABLE {} SET TBLPROPERTIES (delta.enableDeletionVectors = true)",
    "ALTER TABLE {} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)",
    "ALTER TABLE {} SET TBLPROPERTIES (delta.columnMapping.mode = 'name')",
    "ALTER TABLE {} SET TBLPROPERTIES (delta.deletedFileRetentionDuration = 'interval 14 days')",
)


class OtherTool:
    """Works on the tables of one pipeline; remembers what it has erased and added."""

    def __init__(self, spark: SparkSession, tables: Tables, draw: random.Random) -> None:
        self.spark, self.tables, self.draw = spark, tables, draw
        self.is_erased: Callable[[str, Mapping[str, Any]], bool] = lambda _cluster, _row: False
        self.has_added = False
        self.columns = 0

    def sql(self, statement: str, folder: Any) -> list[Any]:
        return self.spark.sql(statement.format(f"delta.`{spark_path(folder)}`")).collect()

    def change_settings(self) -> None:
        """Any of these, and sometimes a column, on any table."""
        for _ in range(3):
            table = self.draw.choice(self.tables.every)
            if table.exists:
                self.sql(self.draw.choice(SETTINGS), table.folder)
        self.columns += 1
        self.sql(f"ALTER TABLE {{}} ADD COLUMNS ({COLUMN}{self.columns} STRING)", self.tables.transactions.folder)

    def restore(self) -> None:
        """Each table by itself."""
        for table in (self.tables.transactions, self.tables.incidents, self.tables.coverage, self.tables.stalls):
            if table.exists and self.draw.random() < 0.5:
                newest = table.snapshot().number
                self.sql(f"RESTORE {{}} TO VERSION AS OF {self.draw.randint(0, newest)}", table.folder)

    def erase(self, cluster_id: str) -> None:
        """Every other producer of a cluster of which no file is to come."""
        chosen = f"cluster_id = '{cluster_id}' AND producer_id % 2 = 0"
        self.sql(f"DELETE FROM {{}} WHERE {chosen}", self.tables.transactions.folder)  # noqa: S608 - names of worlds
        self.is_erased = lambda cluster, row: cluster == cluster_id and row["producer_id"] % 2 == 0

    def add(self) -> None:
        """Closed transactions of a cluster that no exporter watches."""
        own = self.tables.transactions.read(self.spark).where("end = 'closed'")
        one = min(row[0] for row in own.select("cluster_id").collect())  # of two clusters there may be equal keys
        rows = (
            own.where(f.col("cluster_id") == one).limit(20).withColumn("cluster_id", f.lit(FOREIGN)).localCheckpoint()
        )
        rows.write.format("delta").mode("append").save(spark_path(self.tables.transactions.folder))
        self.added = sorted(map(str, rows.collect()))
        self.has_added = bool(self.added)


def assert_true(spark: SparkSession, folder: Path, seeds: range) -> None:
    """Files come in rounds; those of the cluster that is erased come before the last one."""
    draw = random.Random(seeds.start)
    whole = whole_history(seeds, folder / "whole")
    history, tables = folder / "history", Tables(folder / "tables")
    watched = oracle.read(whole, cases.NOW_MS)
    expected = oracle.transactions(watched)
    erased = draw.choice(sorted(name for name in expected if name.isascii()))
    tool = OtherTool(spark, tables, draw)
    jobs = Jobs(lambda: spark, history, tables, (), 10**12, lambda: cases.NOW_MS, lambda _: None, batch_rows=2_000)
    files = sorted((whole / VERSION).rglob("*.parquet"))
    last = {file: draw.randrange(ROUNDS - 1 if f"cluster_id={erased}" in file.parts else ROUNDS) for file in files}
    for number in range(ROUNDS):
        for file in (file for file in files if last[file] == number):
            there = history / file.relative_to(whole)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, there)
        jobs.transactions()
        jobs.stalls()
        jobs.incidents()
        if number < ROUNDS - 2:
            draw.choice((tool.restore, tool.change_settings))()
            tool.restore()
        elif number == ROUNDS - 2:
            jobs.transactions()  # what was restored last is taken again before it is erased
            tool.erase(erased)
            tool.add()
            tool.change_settings()

    left = {cluster: [row for row in rows if not tool.is_erased(cluster, row)] for cluster, rows in expected.items()}
    assert sum(map(len, left.values())) < sum(map(len, expected.values()))
    assert tool.has_added
    added = tables.transactions.read(spark).where(f.col("cluster_id") == FOREIGN)
    found = sorted(map(str, added.collect()))
    assert [(one, other) for one, other in zip(found, tool.added, strict=True) if one != other] == []
    own = {
        cluster: [{name: value for name, value in row.items() if not name.startswith(COLUMN)} for row in rows]
        for cluster, rows in transactions(tables).items()
        if cluster != FOREIGN
    }
    assert differing(own, {cluster: rows for cluster, rows in left.items() if rows}) == []
    ours = [row for row in incidents(tables) if row["cluster_id"] != FOREIGN]
    assert ours == oracle.incidents(left, oracle.stalls(watched))
    undisturbed = Tables(folder / "undisturbed")
    Jobs(lambda: spark, history, undisturbed, (), 10**12, lambda: cases.NOW_MS, lambda _: None).transactions()
    update_hours(lambda: spark, history, undisturbed)
    assert hours(tables) == hours(undisturbed)


def test_another_tool_between_two_runs_changes_what_it_says_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A few worlds."""
    assert_true(spark, tmp_path, range(300, 303))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(310, 410, 10))
def test_another_tool_in_many_worlds(spark: SparkSession, tmp_path: Path, first: int) -> None:
    """A hundred."""
    assert_true(spark, tmp_path, range(first, first + 10))
