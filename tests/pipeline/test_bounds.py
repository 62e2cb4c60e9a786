"""What the pipeline keeps has a bound: what is too old leaves the tables, and then the state too."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from exporter.pipeline.compact import compact, obsolete
from exporter.pipeline.identities import read_identities
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.tables import Tables
from exporter.pipeline.transaction_log import logs_read_to_ms
from tests.pipeline import cases
from tests.pipeline.days import DAY_MS, DAY_S, rows
from tests.pipeline.log_records import COMMITTED, write_log
from tests.transaction_log.builders import value

RETENTION_MS: Final = 6 * DAY_MS


def jobs_on(spark: SparkSession, folder: Path) -> Jobs:
    tables = Tables(folder / "tables")
    return Jobs(lambda: spark, folder / "history", tables, (), RETENTION_MS, lambda: cases.NOW_MS, lambda _: None)


def of_day(day: int, **row: Any) -> list[dict[str, Any]]:
    """Two cycles: a transaction of a producer and a partition that no other day has, and its end."""
    at = day * DAY_S
    known = {"producer_id": 100 + day, "partition": day, "start_offset": 0, "started": at, **row}
    return [{"at": at + 30, "open": [known]}, {"at": at + 60}]


def known_in_state(spark: SparkSession, tables: Tables) -> tuple[list[int], list[int]]:
    """(producers, partitions) that the next run compares its rows with."""
    name = tables.current().state.identities
    assert name is not None
    known = read_identities(spark, tables.states / name)
    producers, partitions = known.producers.select("producer_id"), known.partitions.select("partition")
    return sorted(row[0] for row in producers.collect()), sorted(row[0] for row in partitions.collect())


def test_the_state_forgets_producers_partitions_and_clusters_without_a_row(spark: SparkSession, tmp_path: Path) -> None:
    """A name that comes late still reaches the rows that are left."""
    jobs = jobs_on(spark, tmp_path)
    cases.write_file(tmp_path / "history", "gone", "w", of_day(0))
    for day in (0, 8, 12):
        cases.write_file(tmp_path / "history", "c", f"w{day}", of_day(day, transactional_id=""))
    cases.write_file(tmp_path / "history", "c", "w11", [{"at": 11 * DAY_S}])
    jobs.transactions()
    jobs.stalls()
    assert known_in_state(spark, jobs.tables) == ([100, 100, 108, 112], [0, 0, 8, 12])
    jobs.compact()

    assert known_in_state(spark, jobs.tables) == ([108, 112], [8, 12])
    state = jobs.tables.current().state
    assert state.newest_ms.keys() == {"c"}
    assert state.identities_from_ms == state.newest_ms["c"], "the whole table is not read again in the next days"
    assert jobs.tables.coverage.read(spark).where("cluster_id = 'gone'").isEmpty()
    late = {"producer_id": 108, "partition": 8, "started": 8 * DAY_S, "start_offset": 0, "transactional_id": "late"}
    cases.write_file(tmp_path / "history", "c", "late", [{"at": 8 * DAY_S + 45, "open": [late]}])
    jobs.transactions()
    assert [row["transactional_id"] for row in rows(spark, jobs.tables)["c"]] == ["late", ""]


def test_a_transaction_that_was_lost_from_view_goes_when_it_is_too_old(spark: SparkSession, tmp_path: Path) -> None:
    """No cycle will ever close it: its topic may be gone, or the right to read it."""
    jobs = jobs_on(spark, tmp_path)
    unread = [{"at": day * DAY_S, "unread": ["orders-7"], "open": []} for day in range(1, 8)]
    lost = {"partition": 7, "start_offset": 700}
    cases.write_file(tmp_path / "history", "c", "w0", [{"at": 30, "open": [lost]}, *unread[:3]])
    jobs.transactions()
    jobs.compact()
    (row,) = rows(spark, jobs.tables)["c"]
    assert row["end"] == "lost_from_view"
    cases.write_file(tmp_path / "history", "c", "w1", unread[3:])
    jobs.transactions()
    jobs.stalls()
    jobs.compact()

    assert rows(spark, jobs.tables) == {}


def test_the_log_of_a_cluster_that_nobody_reads_goes(spark: SparkSession, tmp_path: Path) -> None:
    """When another one is ahead by the retention; so do its rows of transactions."""
    tables = Tables(tmp_path)
    for cluster_id, day in (("gone", 0), ("live", 20)):
        at_ms = cases.milliseconds(day * DAY_S)
        record = ("app-1", value(COMMITTED, at_ms, updated_ms=at_ms, producer_id=1), float(day * DAY_S))
        write_log(spark, tables, [record], read_to_s=day * DAY_S, cluster_id=cluster_id)
    table = tables.transaction_log
    compact(spark, table, obsolete(logs_read_to_ms(table), RETENTION_MS, "written_at"))

    assert logs_read_to_ms(table).keys() == {"live"}
