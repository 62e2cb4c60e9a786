"""docs/queries.md and other readers: each query gives the answer that stands below it, and readers see whole versions."""

from __future__ import annotations

import re
import shutil
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.days import taken
from tests.pipeline.queries import DUCKDB, PLACE, QUESTIONS, SPARK, TEXT, Question, as_table
from tests.pipeline.sample import make_tables

HOUR = datetime(2026, 11, 9, 3, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return make_tables(spark, tmp_path_factory.mktemp("sample"))


@pytest.fixture(scope="module")
def connection(tables: Tables) -> Any:
    """As the page says, on these tables."""
    names: dict[str, Any] = {}
    exec(DUCKDB.replace(PLACE, str(tables.root)), names)  # noqa: S102 - the page's own code
    return names["connection"]


def test_each_section_is_a_question_with_its_answer() -> None:
    """The page says how many there are."""
    assert len(QUESTIONS) == len(re.findall("^## ", TEXT, re.MULTILINE)) == 10
    assert "Ten queries" in TEXT


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_duckdb_gives_the_answer(connection: Any, question: Question) -> None:
    """By way of Arrow."""
    result = connection.sql(question.sql)

    assert as_table(result.columns, result.fetchall()) == question.answer


def answers(name: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
    """The rows that the query of a section returns of these tables."""
    connection = duckdb.connect()
    connection.sql("SET TimeZone = 'UTC'")
    for table, rows in tables.items():
        connection.register(table, rows)
    (sql,) = (question.sql for question in QUESTIONS if question.name.startswith(name))
    return connection.sql(sql).fetchall()


def test_waits_of_one_group_on_several_partitions_at_once_count_once() -> None:
    """One transaction hangs on twelve partitions for ten minutes; on one of them another one held the group before."""
    hung = {
        "cluster_id": "c",
        "hour": HOUR,
        "topic": "orders",
        "transactional_id": "app",
        "waiting_group": "billing",
        "verdict": "hanging_stale_epoch",
        "stalled_ms": 600_000,
        "records_max": 7,
        "cause": "late_write",
    }
    rows = [{**hung, "partition": number} for number in range(12)]
    before = {"partition": 3, "transactional_id": "other", "verdict": "open_within_timeout", "stalled_ms": 120_000}
    stalls = pa.Table.from_pylist([*rows, {**hung, **before, "cause": None}, {**rows[0], "waiting_group": None}])

    assert answers("How long did each consumer group wait", stalls=stalls) == [
        ("billing", "late_write", 10, 7),
        ("billing", None, 2, 7),
    ]
    assert [row[1:] for row in answers("Is it getting worse", stalls=stalls)] == [(12, 10)]
    assert [(row[0], row[3]) for row in answers("Which application uses up", stalls=stalls)] == [
        ("app", 0.23),
        ("other", 0.05),
    ]


def test_cycles_of_all_exporters_are_compared_with_those_of_one() -> None:
    """In one cluster an exporter was started again at half past, in another both were down for half an hour."""
    one = {
        "date": HOUR.date(),
        "hour": HOUR,
        "cycles": 60,
        "interval_ms": 30_000,
        "cycles_incomplete": 0,
        "partitions_unread_max": 0,
    }
    unwatched = {"restarted": 0, "down": 1_800_000}
    rows = [{**one, "cluster_id": name, "unwatched_ms": ms} for name, ms in unwatched.items() for _ in range(2)]
    found = answers("Was the cluster watched", coverage=pa.Table.from_pylist(rows))

    assert [(row[0], *row[2:5]) for row in found] == [("down", 120, 120, 30), ("restarted", 120, 120, 0)]


def test_hangs_that_are_not_over_are_counted_apart() -> None:
    """They have no duration, so that the average leaves them out."""
    over = {"started_at": HOUR, "noticed_delay_ms": 60_000, "proof_delay_ms": 0, "worst_verdict": "hanging_stale_epoch"}
    rows = [{**over, "duration_ms": 120_000, "is_over": True}, {**over, "duration_ms": None, "is_over": False}]
    (month,) = answers("How long until hangs were", incidents=pa.Table.from_pylist(rows))

    assert month[1:] == (2, 1, 1, 2, 1)


def test_the_session_of_spark_has_the_zone_of_the_answers() -> None:
    """By default Spark has that of its machine."""
    session = Mock()
    exec(SPARK, {"spark": session, "tables": ""})  # noqa: S102 - the page's own code

    assert session.mock_calls[0] == call.conf.set("spark.sql.session.timeZone", "UTC")


def test_tables_of_the_demo_are_enough(tables: Tables, tmp_path: Path) -> None:
    """`make demo-pipeline`, and any `pipeline run`, makes no transaction log; with an audit its tables are there too."""
    shutil.copytree(str(tables.root), tmp_path / "v1", ignore=shutil.ignore_patterns("transaction_log"))
    shutil.copytree(str(tables.stalls.folder), tmp_path / "v1" / "audit_coverage")
    names: dict[str, Any] = {}
    exec(DUCKDB.replace(PLACE, str(tmp_path / "v1")), names)  # noqa: S102 - the page's own code

    for question in QUESTIONS:
        assert names["connection"].sql(question.sql).fetchall()
    assert names["connection"].sql("SELECT * FROM audit_coverage").fetchall()


@pytest.mark.slow
def test_spark_gives_the_same_answers(spark: SparkSession, tables: Tables) -> None:
    """Spark reads the tables with Delta's own library here."""
    exec(SPARK, {"spark": spark, "tables": str(tables.root)})  # noqa: S102 - the page's own code
    for question in QUESTIONS:
        result = spark.sql(question.sql)
        assert as_table(result.columns, result.collect()) == question.answer


def test_polars_reads_them(tables: Tables) -> None:
    """Suspects by the partition of the table."""
    import polars as pl  # noqa: PLC0415 - half a second to import

    frame = pl.scan_delta(str(tables.transactions.folder))
    suspects = frame.filter(pl.col("was_suspect")).select("transactional_id", "marker_ms").collect()

    assert suspects["transactional_id"].to_list() == ["payments-1", "payments-1"]


def test_a_reader_sees_whole_versions_while_the_pipeline_writes(spark: SparkSession, tmp_path: Path) -> None:
    """A transaction is in each hour's file, which each of many runs writes again: never missing, never twice."""
    history, tables = tmp_path / "history", Tables(tmp_path / "tables")
    cases.write_file(history, "c", "w0", [{"at": 30, "open": [{"start_offset": 1}]}, {"at": 60}])
    taken(spark, history, tables)
    seen: list[list[int]] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            rows = DeltaTable(str(tables.transactions.folder)).scan(columns=["partitions"]).read_all()
            seen.append(sorted(row["start_offset"] for rows_ in rows["partitions"].to_pylist() for row in rows_))
            is_over.wait(0.02)  # without it the reader takes a processor, and the pipeline waits for it

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(2, 4):
            cases.write_file(
                history,
                "c",
                f"w{number}",
                [{"at": 60 * number, "open": [{"start_offset": number}]}, {"at": 60 * number + 30}],
            )
            taken(spark, history, tables)
    finally:
        is_over.set()
        reader.join()

    assert {tuple(offsets) for offsets in seen} <= {tuple(range(1, end)) for end in range(2, 5)}
    assert len({tuple(offsets) for offsets in seen}) > 1
