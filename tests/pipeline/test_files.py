"""A file of the history that does not match its name: a phrase says why, and no exception is raised."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from exporter.history.schema import CYCLES, OBSERVATIONS
from exporter.pipeline.compact import compact_history
from exporter.pipeline.files import (
    AHEAD_MS,
    BEGINNING_MS,
    HistoryFile,
    batch_of,
    damage_of,
    damaged_among,
    history_files,
    implausible_name,
    left_out,
    plausible,
)
from exporter.pipeline.hours import update_hours
from exporter.pipeline.tables import DamagedFile, Tables, TablesState
from tests.pipeline import cases


@pytest.fixture
def cycles(tmp_path: Path) -> HistoryFile:
    """One file, as the daemon writes it."""
    cases.write_file(tmp_path, "c", "w", [{"at": 30, "open": []}])
    (file,) = (file for file in history_files(tmp_path) if file.table == CYCLES)
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


def test_a_column_whose_name_is_not_text_is_damage(cycles: HistoryFile) -> None:
    """The reader raises what is none of its own exceptions."""
    table = pq.read_table(cycles.path, partitioning=None).append_column("stranger", pa.array([1]))
    pq.write_table(table, cycles.path, store_schema=False)
    cycles.path.write_bytes(cycles.path.read_bytes().replace(b"stranger", b"str\xe2nger"))
    assert "codec can't decode" in (damage_of(cycles, to_its_end=False) or "")


def test_a_footer_whose_row_group_has_lost_a_column_s_name_is_read_from_its_rows(cycles: HistoryFile) -> None:
    """The instants stand in no statistics that could be found, so the rows tell them."""
    before, after = cycles.path.read_bytes().rsplit(b"taken_at", 1)
    cycles.path.write_bytes(before + b"taken_up" + after)
    assert damage_of(cycles, to_its_end=False) is None
    assert "which its name does not say" in (
        damage_of(replace(cycles, last_ms=cycles.first_ms - 1), to_its_end=False) or ""
    )


def test_a_day_with_a_file_that_breaks_off_inside_is_left_for_an_operator(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that went bad after they were taken: nothing is joined, nothing goes, and the run does not end."""
    for at in (30, 90):
        cases.write_file(tmp_path, "c", f"w{at}", [{"at": at, "open": [{}]}])
    cases.write_file(tmp_path, "c", "newer", [{"at": 10 * 86_400, "open": []}])
    tables = Tables(tmp_path / "tables")
    files = history_files(tmp_path)
    state = TablesState(taken=frozenset(file.key for file in files))
    current = tables.begin(spark, tables.current())
    tables.commit(current, state, spark.createDataFrame([], tables.transactions.columns))
    update_hours(lambda: spark, tmp_path, tables)
    damaged = next(file for file in files if file.table == CYCLES)
    content = bytearray(damaged.path.read_bytes())
    content[4:40] = bytes(36)
    damaged.path.write_bytes(content)
    assert damage_of(damaged, to_its_end=False) is None
    assert compact_history(spark, tmp_path, tables, now_ms=cases.NOW_MS) == 0
    assert history_files(tmp_path) == files


NOW_MS = cases.NOW_MS


def named(first_ms: int, last_ms: int) -> HistoryFile:
    return HistoryFile(Path("c/d/n"), CYCLES, "c", "2026-11-01", first_ms, last_ms)


@pytest.mark.parametrize("table", [CYCLES, OBSERVATIONS])
def test_a_name_that_no_exporter_gives_is_left_out(tmp_path: Path, table: str) -> None:
    """One with bytes that are not UTF-8, and a link that leads nowhere: both with the reason, whatever else there is."""
    cases.write_file(tmp_path, "c", "w", [{"at": 30, "open": [{}]}])
    good = next(file for file in history_files(tmp_path) if file.table == table)
    assert isinstance(good.path, Path)
    strange, link = (
        f"{os.fsdecode(name)}.parquet"
        for name in (b"1793491230000-1793491230000-\xff", b"1793491230000-1793491230000-link")
    )
    os.link(good.path, good.path.with_name(strange))
    good.path.with_name(link).symlink_to(tmp_path / "nowhere")
    files = history_files(tmp_path)
    sane = [file for file in plausible(files, NOW_MS) if file.table == table]
    damaged = {file.key: file.why for file in damaged_among(sane, ())}

    assert list(damaged.values()) == ["is a link that leads nowhere"]
    assert [file.path.name for file in sane if file.key not in damaged] == [good.path.name]
    whys = dict(left_out(files, (), NOW_MS))
    assert [why for key, why in whys.items() if "udcff" in key] == ["has a name that is not UTF-8"]
    json.dumps(whys).encode()


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "why"),
    [
        (BEGINNING_MS, NOW_MS + AHEAD_MS, None),
        (
            NOW_MS,
            NOW_MS + AHEAD_MS + 1,
            "has a cycle of 2026-12-01T01:00:00Z, which is later than this run by more than",
        ),
        (NOW_MS + AHEAD_MS + 1, NOW_MS, "has a cycle of 2026-12-01T01:00:00Z"),
        (NOW_MS, 10**18, "has a cycle of 1000000000000000000 ms"),
        (BEGINNING_MS - 1, NOW_MS, "has a cycle of 2017-06-27T23:59:59Z, which is before Kafka had transactions"),
        (0, 60_000, "has a cycle of 1970-01-01T00:00:00Z"),
    ],
)
def test_a_time_that_no_right_clock_gave_is_implausible(first_ms: int, last_ms: int, why: str | None) -> None:
    """An hour after the run's own clock is the limit on one side, Kafka's first transactions on the other."""
    found = implausible_name(named(first_ms, last_ms), NOW_MS)

    assert (found is None) == (why is None)
    assert (found or "").startswith(why or "")


def test_what_is_left_out_is_named_with_its_reason() -> None:
    """Damaged files and those of a wrong clock in one list; what is in order is not in it."""
    early = named(0, 0)
    damaged = DamagedFile("cycles/a", 1, 1, "no footer")
    listed = left_out((early, named(NOW_MS, NOW_MS)), (damaged,), NOW_MS)
    assert listed == (("cycles/a", "no footer"), (early.key, implausible_name(early, NOW_MS)))


def test_cycles_that_the_name_does_not_say_are_damage(tmp_path: Path) -> None:
    """A name of today hides no row of 2099, whether the footer says so or the rows alone."""
    cases.write_file(tmp_path, "c", "w", [{"at": 10**9, "open": [{}]}])
    found = "2058-07-10T01:46:40Z"
    for file in history_files(tmp_path):
        renamed = HistoryFile(file.path, file.table, "c", file.day, cases.BEGIN_MS, cases.BEGIN_MS + 60_000)
        for has_statistics in (True, False):
            pq.write_table(pq.read_table(file.path, partitioning=None), file.path, write_statistics=has_statistics)
            why = damage_of(renamed, to_its_end=False)
            assert why == f"has cycles from {found} to {found}, which its name does not say"


@pytest.mark.parametrize(("rows_max", "taken"), [(100, 3), (92, 3), (91, 2), (51, 1), (1, 1)])
def test_a_small_rest_is_taken_with_the_batch_before_it(
    monkeypatch: pytest.MonkeyPatch, rows_max: int, taken: int
) -> None:
    """101 observations: a tenth above the limit is no second batch, which would cost as much as a million rows."""
    rows = {Path(f"{number}.parquet"): count for number, count in enumerate((50, 41, 10))}
    files = [HistoryFile(path, OBSERVATIONS, "c", "2026-09-01", number, number) for number, path in enumerate(rows)]
    monkeypatch.setattr("exporter.pipeline.files.rows_in", rows.__getitem__)

    batch, count = batch_of(files, rows_max)

    assert batch == tuple(files[:taken])
    assert count == sum(list(rows.values())[:taken])
