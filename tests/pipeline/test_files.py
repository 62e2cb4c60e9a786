"""A file of the history that is not what its name says: why, in a phrase, and never an exception."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.history.schema import CYCLES
from exporter.pipeline.compact import compact_history
from exporter.pipeline.files import HistoryFile, damage_of, history_files
from exporter.pipeline.manifest import Tables
from tests.pipeline import cases


@pytest.fixture
def cycles(tmp_path: Path) -> HistoryFile:
    """One file, as the daemon writes it."""
    cases.write_file(tmp_path, "c", "w", [{"at": 30, "open": []}])
    (file,) = (it for it in history_files(tmp_path) if it.table == CYCLES)
    assert damage_of(file, to_its_end=True) is None
    return file


def rewritten(file: HistoryFile, table: pa.Table) -> str | None:
    pq.write_table(table, file.path)
    return damage_of(file, to_its_end=True)


def test_a_column_that_is_there_twice_is_damage(cycles: HistoryFile) -> None:
    """Nobody knows which of them is meant."""
    table = pq.read_table(cycles.path, partitioning=None)
    twice = table.append_column("writer", table["writer"])
    assert rewritten(cycles, twice) == "has column writer 2 times"


def test_a_column_that_is_missing_or_of_another_kind_is_damage(cycles: HistoryFile) -> None:
    """By its name."""
    table = pq.read_table(cycles.path, partitioning=None)
    assert rewritten(cycles, table.drop_columns(["writer"])) == "has no column writer"
    other = table.set_column(table.schema.get_field_index("writer"), "writer", pa.array([1]))
    assert rewritten(cycles, other) == "column writer holds int64"


def test_a_column_whose_name_is_no_text_is_damage(cycles: HistoryFile) -> None:
    """The reader raises what is none of its own exceptions."""
    table = pq.read_table(cycles.path, partitioning=None).append_column("stranger", pa.array([1]))
    pq.write_table(table, cycles.path, store_schema=False)
    cycles.path.write_bytes(cycles.path.read_bytes().replace(b"stranger", b"str\xe2nger"))
    assert "codec can't decode" in (damage_of(cycles, to_its_end=False) or "")


def test_a_day_with_a_file_that_breaks_off_inside_is_left_for_a_person(tmp_path: Path) -> None:
    """Rows that went bad after they were taken: nothing is joined, nothing goes, and the run does not end."""
    for at in (30, 90):
        cases.write_file(tmp_path, "c", f"w{at}", [{"at": at, "open": [{}]}])
    cases.write_file(tmp_path, "c", "newer", [{"at": 10 * 86_400, "open": []}])
    tables = Tables(tmp_path / "tables")
    files = history_files(tmp_path)
    with tables.locked():
        tables.commit(tables.load().succeeded_by(1, consumed=frozenset(it.key for it in files)))
        damaged = next(it for it in files if it.table == CYCLES)
        content = bytearray(damaged.path.read_bytes())
        content[4:40] = bytes(36)
        damaged.path.write_bytes(content)
        assert damage_of(damaged, to_its_end=False) is None
        assert compact_history(tmp_path, tables) == 0
    assert history_files(tmp_path) == files
