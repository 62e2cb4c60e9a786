"""Tables of version 0.1.0 become Delta tables: the same rows, and the next run takes only what is new."""

from __future__ import annotations

import fcntl
import os
import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from exporter.pipeline import migration
from exporter.pipeline.delta import TableError
from exporter.pipeline.ingest import ingest_batch
from exporter.pipeline.migration import take_over
from exporter.pipeline.outcomes import join_outcomes
from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.test_outcomes import joined_rows
from tests.pipeline.test_transactions import rows, taken

WRITTEN_BY_0_1 = Path(__file__).with_name("tables_of_0_1.tar.gz")
"""Two clusters; in each a commit, a hang that was closed, a suspect and another transaction that are open; a log of one."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(WRITTEN_BY_0_1) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_all_rows_are_those_that_the_history_gives_anew(spark: SparkSession, old: Path) -> None:
    """Nothing is read again; suspects are found by their partition of the table; outcomes are joined anew."""
    tables = Tables(old / "tables")
    assert take_over(tables) == 8
    anew = Tables(old / "anew")
    taken(spark, old / "history", anew)

    assert rows(spark, tables) == rows(spark, anew)
    assert ingest_batch(lambda: spark, old / "history", tables, now_ms=cases.NOW_MS) is None
    assert sum(file.rows for file in tables.current().files if file.parts["was_suspect"]) == 4
    assert join_outcomes(lambda: spark, tables)
    assert [row for row in joined_rows(spark, tables) if row[2]] == [(0, "closed", "commit", 40_000)]
    assert take_over(tables) is None


def test_what_comes_later_is_merged_as_before(spark: SparkSession, old: Path) -> None:
    """The open ones are closed by the next file."""
    tables = Tables(old / "tables")
    take_over(tables)
    for name in ("b\u00fccher", "c"):
        cases.write_file(old / "history", name, "w3", [{"at": 7300}])
    taken(spark, old / "history", tables)
    anew = Tables(old / "anew")
    taken(spark, old / "history", anew)

    assert rows(spark, tables) == rows(spark, anew)
    assert {row["end"] for row in rows(spark, tables)["c"]} == {"closed"}


@pytest.mark.parametrize("step", ["_link_transactions", "_split", "_state", "_link_log"])
def test_a_migration_that_breaks_begins_again(
    spark: SparkSession, old: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """With the manifest there until all is done."""
    tables = Tables(old / "tables")
    with monkeypatch.context() as patch:
        patch.setattr(migration, step, None)
        with pytest.raises(TypeError):
            take_over(tables)
    assert (tables.root / "manifest.json").exists()
    assert take_over(tables) == 8
    join_outcomes(lambda: spark, tables)
    assert [row for row in joined_rows(spark, tables) if row[2]] == [(0, "closed", "commit", 40_000)]


def test_without_links_files_are_copied(spark: SparkSession, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have none."""

    def no_links(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", no_links)
    assert take_over(Tables(old / "tables")) == 8
    assert len(rows(spark, Tables(old / "tables"))["c"]) == 4


def test_tables_on_which_version_0_1_works_are_left_alone(old: Path) -> None:
    """It holds its lock."""
    with (old / "tables" / "v1" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TableError, match="another pipeline is at work"):
            take_over(Tables(old / "tables"))


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "x", "version": 1}'])
def test_a_foreign_manifest_is_refused(tmp_path: Path, text: str) -> None:
    """With its path, and not overwritten."""
    tables = Tables(tmp_path)
    tables.root.mkdir()
    (tables.root / "manifest.json").write_text(text)

    with pytest.raises(TableError, match=r"manifest\.json"):
        take_over(tables)
    assert (tables.root / "manifest.json").read_text() == text
