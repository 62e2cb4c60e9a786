"""Bytes on disk behind a transaction: the first estimate, the growth, and what is unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from exporter.evaluation.disk import HeldBytes, estimate
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.humanize import humanize_bytes
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy
from exporter.snapshot import DiskSpace, LogDir, RememberedBytes, ReplicaSize
from tests.evaluation.builders import MINUTE_MS, NOW_MS, TOPIC, Entry, snapshot, transaction

DIR = LogDir(broker=1, path="/data", total_bytes=10_000, usable_bytes=6000)
ORDERS = (TOPIC, 0)


def replica(size_bytes: int, **fields: Any) -> ReplicaSize:
    return replace(ReplicaSize(log_dir=DIR, size_bytes=size_bytes, log_start_offset=0), **fields)


def look(*sizes: int, memory: Memory | None = None, later_ms: int = 0, **fields: Any) -> Evaluation:
    """A cycle with a transaction at offset 100 of 150 on each partition of these sizes."""
    replicas = {(TOPIC, partition): replica(size, **fields) for partition, size in enumerate(sizes)}
    at_ms = NOW_MS + later_ms
    disk = DiskSpace(at_ms=at_ms, requested=frozenset(replicas), sizes=replicas, log_dirs=(DIR,), failures=())
    entries = [Entry(partition=partition, producer_id=7 + partition) for partition in range(max(len(sizes), 1))]
    live = tuple(
        transaction(producer_id=entry.producer_id, partitions=frozenset({(TOPIC, entry.partition)}))
        for entry in entries
    )
    taken = snapshot(entries, transactions=live, disk=disk, taken_at_ms=at_ms)
    return evaluate(taken, memory or Memory(), Policy())


@pytest.mark.parametrize(
    ("sentence", "log_start_offset", "expected"),
    [
        ("a third of the offsets is behind it", 0, 1000),
        ("the log begins later", 50, 1500),
        ("retention has deleted its first record", 120, 3000),
        ("the log start is unknown", None, 0),
        ("the log start is newer than the high watermark", 150, 0),
        ("no such log", -1, 0),
    ],
)
def test_the_first_estimate_is_the_part_of_the_offsets(
    sentence: str, log_start_offset: int | None, expected: int
) -> None:
    evaluation = look(3000, log_start_offset=log_start_offset)

    assert evaluation.held == {ORDERS: HeldBytes(bytes=expected, bytes_per_second=None, log_dir_full_ms=None)}, sentence
    assert [row.held_bytes for row in all_rows(evaluation)] == [expected]


def test_every_byte_that_a_compacted_log_grows_by_is_behind_it() -> None:
    """A million offsets before it may be fifty records; the cleaner takes bytes from before it only."""
    start, high_watermark, held = 1_000_000, 1_000_010, []
    seen = None
    for size in (9000, 2000, 7000, 5000, 12_000):
        seen = estimate(seen, replica(size), NOW_MS, start, high_watermark)
        held.append(seen.held_bytes)

    assert held == [0, 0, 5000, 5000, 12_000]


def test_a_log_never_holds_more_than_it_has() -> None:
    before = RememberedBytes(broker=1, size_bytes=900, held_bytes=800, first_held_bytes=10, first_at_ms=NOW_MS)

    assert estimate(before, replica(300), NOW_MS, 100, 150).held_bytes == 300


def test_another_leader_with_a_larger_log_is_not_growth() -> None:
    """Its cleaner may not have run yet; from then on its own growth counts."""
    before = RememberedBytes(broker=2, size_bytes=900, held_bytes=500, first_held_bytes=10, first_at_ms=NOW_MS)
    moved = estimate(before, replica(5000), NOW_MS, 100, 150)

    assert (moved.held_bytes, moved.broker) == (500, 1)
    assert estimate(moved, replica(5100), NOW_MS, 100, 150).held_bytes == 600


def test_growth_and_the_time_until_the_log_directory_is_full() -> None:
    """Both partitions grow by 100 bytes a second together: 6000 usable bytes last for a minute."""
    first = look(3000, 3000)
    second = look(6000, 6000, memory=first.memory, later_ms=MINUTE_MS)
    again = look(6000, 6000, memory=second.memory, later_ms=MINUTE_MS)

    assert second.held == {
        (TOPIC, partition): HeldBytes(bytes=4000, bytes_per_second=50.0, log_dir_full_ms=MINUTE_MS)
        for partition in (0, 1)
    }
    assert again.held == second.held, "the same reading in a later cycle"


@pytest.mark.parametrize(
    ("sentence", "size", "log_dir"),
    [
        ("nothing is written", 3000, DIR),
        ("a broker before Kafka 3.3", 6000, replace(DIR, usable_bytes=None, total_bytes=None)),
    ],
)
def test_the_time_until_it_is_full_is_not_known(sentence: str, size: int, log_dir: LogDir) -> None:
    first = look(3000, log_dir=log_dir)
    second = look(size, memory=first.memory, later_ms=MINUTE_MS, log_dir=log_dir)

    assert second.held[ORDERS].bytes_per_second == (size - 3000) / 60, sentence
    assert second.held[ORDERS].log_dir_full_ms is None, sentence


def test_without_a_size_nothing_is_said_and_the_estimate_is_kept() -> None:
    """DESCRIBE on the cluster may be missing for a while."""
    first = look(3000)
    refused = look(memory=first.memory, later_ms=MINUTE_MS)
    second = look(9000, memory=refused.memory, later_ms=2 * MINUTE_MS)

    assert (refused.held, [row.held_bytes for row in all_rows(refused)]) == ({}, [None])
    assert second.held[ORDERS].bytes == 7000


def test_an_unread_partition_is_remembered_and_an_ended_transaction_is_not() -> None:
    first = look(3000)
    unread = evaluate(snapshot(unread=[0]), first.memory, Policy())
    ended = evaluate(snapshot(), unread.memory, Policy())

    assert unread.memory.held == first.memory.held != {}
    assert ended.memory.held == {}


def test_another_cluster_has_other_bytes() -> None:
    first = look(3000)
    other = replace(first.memory, cluster_id="cluster-2")

    assert look(9000, memory=other, later_ms=MINUTE_MS).held[ORDERS].bytes == 3000


def test_only_the_transaction_at_the_last_stable_offset_holds_bytes() -> None:
    behind = [Entry(), Entry(producer_id=8, start_offset=120)]
    disk = DiskSpace(
        at_ms=NOW_MS, requested=frozenset({ORDERS}), sizes={ORDERS: replica(3000)}, log_dirs=(DIR,), failures=()
    )

    evaluation = evaluate(snapshot(behind, disk=disk), Memory(), Policy())

    assert [row.held_bytes for row in all_rows(evaluation)] == [1000, None]


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (9_949, "9.9 kB"),
        (17_000_000, "17 MB"),
        (1_234_000_000, "1.2 GB"),
        (2_500 * 10**12, "2,500 TB"),
    ],
)
def test_bytes_in_words(count: int, words: str) -> None:
    assert humanize_bytes(count) == words
