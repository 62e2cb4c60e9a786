"""Random histories (`worlds`) give the tables of an independent computation (`oracle`), row for row.

In one go; and in rounds: each file comes in a round of its own choice, observations and cycles apart, in batches of any
size, with compactions between them, and with kills at the steps of a run and of a compaction.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from exporter.history.schema import VERSION
from exporter.pipeline import compact, ingest, tables
from exporter.pipeline.compact import compact_history, compact_tables
from exporter.pipeline.delta import Table
from exporter.pipeline.hours import update_hours
from exporter.pipeline.ingest import ingest_batch
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.tables import Tables
from tests.pipeline import cases, oracle
from tests.pipeline.program import PATIENCE_S, Begin
from tests.pipeline.worlds import QUIRKS, quirks_of, write_world

Rows = Mapping[str, Sequence[Mapping[str, Any]]]

STEPS: Final = (
    (ingest, "write_identities"),
    (ingest, "placed"),
    (tables, "write_whole"),
    (Table, "commit"),
    (compact, "join"),
    (Path, "unlink"),
)
"""Of a run or a compaction: a kill comes before one of them, or after it."""
OUTCOME: Final = ("outcome", "exact_duration_ms", "marker_ms", "log_read_to")


class _KilledError(BaseException):
    """Nothing catches it."""


@contextmanager
def killed(draw: random.Random, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Break off one of the next steps."""
    owner, name = draw.choice(STEPS)
    left, is_after = draw.randrange(3), draw.random() < 0.5
    step: Callable[..., Any] = getattr(owner, name)

    def breaking(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0 and not is_after:
            raise _KilledError
        result = step(*arguments, **named)
        if left < 0:
            raise _KilledError
        return result

    with patch.context() as context:
        context.setattr(owner, name, breaking)
        with suppress(_KilledError):
            yield


def whole_history(seeds: Iterable[int], folder: Path) -> Path:
    """All in one history, so that a run of Spark serves many."""
    for seed in seeds:
        write_world(seed, folder)
    return folder


def work(spark: SparkSession, history: Path, folder: Path, draw: random.Random) -> None:
    """Take all waiting files, in batches of any size, and sometimes compact."""
    made = Tables(folder)
    while ingest_batch(lambda: spark, history, made, now_ms=cases.NOW_MS, batch_rows=draw.choice((2_000, 10**6))):
        pass
    if draw.random() < 0.7:
        update_hours(lambda: spark, history, made, batch_rows=draw.choice((100, 10**6)))
        compact_history(spark, history, made, now_ms=cases.NOW_MS)
        compact_tables(spark, made, retention_ms=10**12)


def in_rounds(
    spark: SparkSession, whole: Path, folder: Path, patch: pytest.MonkeyPatch, *, rounds: int, kills: int
) -> Tables:
    draw = random.Random(rounds)
    delivered: dict[int, list[Path]] = {}
    for file in sorted((whole / VERSION).rglob("*.parquet")):
        delivered.setdefault(draw.randrange(rounds), []).append(file)
    for files in delivered.values():
        for file in files:
            there = folder / "history" / file.relative_to(whole)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, there)
        for _ in range(kills):
            with killed(draw, patch):
                work(spark, folder / "history", folder / "tables", draw)
        work(spark, folder / "history", folder / "tables", draw)
    return Tables(folder / "tables")


def rows_of(table: Table) -> list[dict[str, Any]]:
    """As a reader without Spark has them, with instants in milliseconds."""
    found: list[dict[str, Any]] = in_milliseconds(pa.table(DeltaTable(str(table.folder)).scan().read_all()).to_pylist())
    return found


def in_milliseconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: in_milliseconds(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return list(map(in_milliseconds, value))
    return oracle.milliseconds(value) if isinstance(value, datetime) else value


def transactions(made: Tables) -> Rows:
    """By cluster, as the oracle has them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows_of(made.transactions):
        placed = {"was_suspect": row.pop("was_suspect"), "closed_in": row.pop("closed_in")}
        assert placed["was_suspect"] == any(map(oracle.is_suspect, row["verdicts"]))
        assert [row.pop(name) for name in OUTCOME] == [None] * len(OUTCOME)
        found.setdefault(row["cluster_id"], []).append(row)
    for rows in found.values():
        rows.sort(key=lambda row: (row["producer_id"], row["started_at"], oracle.order(row["partitions"][0])))
    return found


def differing(found: Rows, expected: Rows) -> list[str]:
    """Clusters, and their first rows that differ."""
    return [
        f"{name}: {len(found.get(name, ()))} rows, {len(expected.get(name, ()))} expected\n  "
        + "\n  ".join(map(str, next(_pairs(found.get(name, ()), expected.get(name, ())), ())))
        for name in sorted({*found, *expected})
        if found.get(name) != expected.get(name)
    ]


def _pairs(found: Sequence[Any], expected: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """What differs in the rows that do."""
    for one, other in zip(found, expected, strict=False):
        if one != other:
            yield one["producer_id"], *((key, one[key], other[key]) for key in other if one.get(key) != other[key])


def assert_true(
    spark: SparkSession, folder: Path, seeds: Iterable[int], patch: pytest.MonkeyPatch, rounds: int, kills: int
) -> None:
    whole = whole_history(seeds, folder / "whole")
    history = oracle.read(whole, cases.NOW_MS)
    expected = oracle.transactions(history)
    assert sum(map(len, expected.values())) > 20 * len(expected)
    at_once = Tables(folder / "at-once")
    jobs = Jobs(lambda: spark, whole, at_once, (), 10**12, lambda: cases.NOW_MS, lambda _: None)
    jobs.transactions()
    jobs.incidents()
    jobs.stalls()

    assert differing(transactions(at_once), expected) == []
    assert incidents(at_once) == oracle.incidents(expected)
    assert hours(at_once) == (oracle.coverage(history), oracle.stalls(history))
    cut = in_rounds(spark, whole, folder, patch, rounds=rounds, kills=kills)
    assert differing(transactions(cut), expected) == []
    update_hours(lambda: spark, folder / "history", cut)
    assert hours(cut) == hours(at_once)


def hours(made: Tables) -> tuple[Any, Any]:
    """Returns coverage and stalls, as the oracle has them."""
    known = ("cluster_id", "hour", "writer", "cycles", "interval_ms", "cycles_incomplete")
    names = (*known, "partitions_read_min", "partitions_unread_max")
    coverage = [{name: row[name] for name in names} for row in rows_of(made.coverage)]
    stalls = [{name: value for name, value in row.items() if name != "date"} for row in rows_of(made.stalls)]
    return sorted(coverage, key=lambda row: (row["cluster_id"], row["hour"], row["writer"])), sorted(
        stalls, key=oracle.order_of_stall
    )


def incidents(made: Tables) -> list[dict[str, Any]]:
    found = [{key: value for key, value in row.items() if key != "incident"} for row in rows_of(made.incidents)]
    return sorted(found, key=lambda row: (row["cluster_id"], row["started_at"]))


def test_each_quirk_is_met_in_the_slow_test() -> None:
    """Each alone, and together with any other in many histories."""
    together = [quirks_of(seed) for seed in range(len(QUIRKS), 200)]

    assert {quirk for seed in range(len(QUIRKS)) for quirk in quirks_of(seed)} == set(QUIRKS)
    for one in QUIRKS:
        for other in QUIRKS:
            assert any({one, other} <= quirks for quirks in together), (one, other)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 25))
def test_many_random_histories_give_the_tables_of_the_oracle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """Two hundred."""
    assert_true(spark, tmp_path, range(first, first + 25), monkeypatch, 2 + first % 2, 2)


@pytest.mark.slow
@pytest.mark.spark
def test_a_process_that_is_killed_gives_the_tables_of_the_oracle(tmp_path: Path, begin: Begin) -> None:
    """`kill -9` of it alone, or with Spark, at a random instant of each of six runs."""
    draw = random.Random(3)
    whole = whole_history(range(200, 220), tmp_path / "whole")
    files = sorted((whole / VERSION).rglob("*.parquet"))
    arguments = ["transactions", f"--history={tmp_path / 'history'}", f"--tables={tmp_path / 'tables'}"]
    for number in range(6):
        for file in files[number::6]:
            there = tmp_path / "history" / file.relative_to(whole)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, there)
        program = begin([*arguments, f"--temporary={tmp_path}"])
        time.sleep(draw.uniform(5, 25))
        program.kill(with_spark=number % 2 == 0)
    assert begin([*arguments, f"--temporary={tmp_path}"]).is_over_within(PATIENCE_S)
    # The program's clock is the machine's, for which no cycle is far ahead.
    expected = oracle.transactions(oracle.read(whole, round(time.time() * 1000)))

    assert differing(transactions(Tables(tmp_path / "tables")), expected) == []
