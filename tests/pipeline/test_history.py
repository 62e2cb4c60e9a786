"""Rows of the history: the same ones whether Arrow or Spark reads the files."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from exporter.history.schema import CYCLES, OBSERVATIONS
from exporter.pipeline import history as module
from exporter.pipeline.files import HistoryFile, history_files
from exporter.pipeline.history import MANY_FILES, read_history
from tests.pipeline import cases


def read(spark: SparkSession, history: Path, table: str) -> list[Row]:
    files: list[HistoryFile] = [file for file in history_files(history) if file.table == table]
    assert len(files) >= MANY_FILES
    frame = read_history(spark, history, table, files)
    return sorted(frame.collect(), key=str)


@pytest.mark.parametrize("table", [OBSERVATIONS, CYCLES])
def test_many_small_files_are_read_by_arrow(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """Every row: of an id beyond ASCII, without a column that came later, of files without rows; many rows by Spark."""
    for number in range(MANY_FILES):
        rows = [{"start_offset": number, "topic_id": "one", "groups": ["a"]}] if number % 3 else []
        cases.write_file(tmp_path, ("c", "b\u00fccher +%/")[number % 2], f"w{number}", [{"at": number, "open": rows}])
    for path in sorted(tmp_path.rglob("observations/*/*/*.parquet"))[::4]:
        pq.write_table(pq.ParquetFile(path).read().drop_columns(["topic_id"]), path)
    by_arrow = read(spark, tmp_path, table)
    monkeypatch.setattr(module, "FEW_ROWS", 10)

    assert by_arrow == read(spark, tmp_path, table)
    assert len(by_arrow) == {OBSERVATIONS: 21, CYCLES: 32}[table]
