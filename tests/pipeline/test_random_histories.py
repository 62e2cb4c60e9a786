"""Random histories (`worlds`) give the tables of an independent computation (`oracle`), row for row.

In one go; and in rounds: each file comes in a round of its own choice, observations and cycles apart, in batches of any
size, with compactions between them, and with kills at the steps of a run and of a compaction.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
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
from tests.pipeline.compared import differing, hours, incidents, transactions, whole_history
from tests.pipeline.program import PATIENCE_S, Begin
from tests.pipeline.worlds import QUIRKS, quirks_of

STEPS: Final = (
    (ingest, "write_identities"),
    (ingest, "placed"),
    (tables, "write_whole"),
    (Table, "commit"),
    (compact, "join"),
    (Path, "unlink"),
)
"""Of a run or a compaction: a kill comes before one of them, or after it."""


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
    jobs.stalls()
    jobs.incidents()

    assert differing(transactions(at_once), expected) == []
    stood = oracle.stalls(history)
    assert incidents(at_once) == oracle.incidents(expected, stood)
    assert hours(at_once) == (oracle.coverage(history), stood)
    cut = in_rounds(spark, whole, folder, patch, rounds=rounds, kills=kills)
    assert differing(transactions(cut), expected) == []
    update_hours(lambda: spark, folder / "history", cut)
    assert hours(cut) == hours(at_once)


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
