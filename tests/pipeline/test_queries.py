"""docs/queries.md and other readers: each query gives the answer that stands below it, and readers see whole versions."""

from __future__ import annotations

import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.days import taken
from tests.pipeline.queries import DUCKDB, PLACE, QUESTIONS, SPARK, TEXT, Question, as_table
from tests.pipeline.sample import make_tables


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
