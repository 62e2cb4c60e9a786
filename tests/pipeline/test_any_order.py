"""The same files in any order and any batches give the same tables: random histories, in one go against random rounds."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from exporter.history.schema import VERSION
from exporter.pipeline.ingest import ingest_batch
from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.test_transactions import Rows, rows, taken

CYCLES: Final = 36
HOUR_S: Final = 3_600
SOURCES: Final = ("first_seen", "last_write", "transaction_log", "coordinator")
VERDICTS: Final = ("open_within_timeout", "overdue_at_coordinator", "hanging_not_in_transaction", "inconclusive")


def instants(draw: random.Random) -> list[int]:
    """Cycles seconds, minutes or many hours apart."""
    at, found = 0, []
    for _ in range(CYCLES):
        at += draw.choice((30, 60, 400, HOUR_S, 8 * HOUR_S))
        found.append(at)
    return found


def open_rows(draw: random.Random, end: int) -> list[tuple[int, int, dict[str, Any]]]:
    """(from, to, row) of each partition transaction: producers one after the other, on up to three partitions."""
    found, offset = [], 0
    for producer_id in range(4):
        at = draw.randrange(0, end // 3)
        while at < end:
            length = draw.choice((60, 1_000, 3 * HOUR_S, 40 * HOUR_S))
            for partition in draw.sample(range(3), draw.randint(1, 3)):
                offset += 1
                row = {"producer_id": producer_id, "partition": partition, "start_offset": offset, "started": at}
                found.append((at, at + draw.choice((length, length // 2)), row))
            at += length + draw.choice((1, 500, 10 * HOUR_S))
    return found


def seen(draw: random.Random, row: dict[str, Any], at: int) -> dict[str, Any]:
    """One observation of it: its columns differ from cycle to cycle, and are true in each."""
    source = draw.choice(SOURCES)
    return {
        **row,
        "start_source": source,
        "started": row["started"] if source in SOURCES[2:] else at - draw.choice((0, 30)),
        "transactional_id": draw.choice((None, None, None, f"app-{row['producer_id']}")),
        "verdict": draw.choice(VERDICTS),
        "groups": draw.choice(([], ["one"], ["two", "one"])),
        "idle_ms": draw.randrange(1_000),
    }


def write_world(seed: int, history: Path) -> None:
    """A cluster by one or two exporters, which do not read every partition, and forget rows where none is missed."""
    draw = random.Random(seed)
    when = instants(draw)
    transactions = open_rows(draw, when[-1])
    for writer in range(draw.randint(1, 2)):
        cycles = []
        for at in when if writer == 0 else (seconds + draw.choice((0, 20)) for seconds in when[::2]):
            unread = {number for number in range(3) if draw.random() < 0.2}
            visible = [row for since, to, row in transactions if since <= at < to and row["partition"] not in unread]
            shown = [seen(draw, row, at) for row in visible if draw.random() < 0.9]
            cycles.append({"at": at, "open": shown, "unread": [f"orders-{number}" for number in sorted(unread)]})
        while cycles:
            number = draw.randint(1, 5)
            # One cluster's id is beyond ASCII.
            cases.write_file(history, f"w{seed}" if seed else "w\u00fc", f"{writer}-{len(cycles)}", cycles[:number])
            cycles = cycles[number:]


def worlds(seeds: Iterable[int], folder: Path) -> Path:
    """All in one history, so that a run of Spark serves many."""
    for seed in seeds:
        write_world(seed, folder)
    return folder


def in_rounds(spark: SparkSession, whole: Path, folder: Path, rounds: int, seed: int) -> Rows:
    """Each file comes in a round of its own choice, observations and cycles apart, and batches have any size."""
    draw = random.Random(seed)
    files = sorted((whole / VERSION).rglob("*.parquet"))
    delivered: dict[int, list[Path]] = {}
    for file in files:
        delivered.setdefault(draw.randrange(rounds), []).append(file)
    tables = Tables(folder / "tables")
    for number in range(rounds):
        for file in delivered.get(number, ()):
            there = folder / "history" / file.relative_to(whole)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, there)
        while ingest_batch(
            spark, folder / "history", tables, now_ms=cases.NOW_MS, batch_rows=draw.choice((200, 10**6))
        ):
            pass
    return rows(spark, tables)


def differing(one: Rows, other: Rows) -> Sequence[str]:
    """Clusters, and their first rows that differ."""
    return [
        f"{name}:\n  {next(filter(lambda pair: pair[0] != pair[1], zip(one[name], other.get(name, ()))), 'number')}"  # noqa: B905
        for name in one
        if one[name] != other.get(name)
    ]


def assert_alike(spark: SparkSession, folder: Path, seeds: Iterable[int], rounds: int) -> None:
    whole = worlds(seeds, folder / "whole")
    taken(spark, whole, Tables(folder / "tables"))
    at_once = rows(spark, Tables(folder / "tables"))
    assert differing(at_once, in_rounds(spark, whole, folder, rounds, seed=rounds)) == []
    assert sum(map(len, at_once.values())) > 10


def test_any_order_and_any_batches_give_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Some clusters in three rounds."""
    assert_alike(spark, tmp_path, range(4), 3)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [2, 4, 9])
def test_any_order_of_many_histories_gives_the_same_tables(spark: SparkSession, tmp_path: Path, rounds: int) -> None:
    """More clusters, fewer and more rounds."""
    assert_alike(spark, tmp_path, range(100 * rounds, 100 * rounds + 20), rounds)
