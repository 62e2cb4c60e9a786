"""Tests the judge of the soak: it finds each kind of lie, made once in an exposition of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.verification.soak.watcher import Seen, Truth, Watcher, seen_in

HANG = ("hung", 0, 7)
NOW_S = 1_000.0


def seen(cycles: int = 1, **more: object) -> Seen:
    empty = Seen(
        at=float(cycles),
        cycles=cycles,
        snapshot_s=NOW_S,
        succeeded=True,
        hanging={},
        longest={},
        read=5,
        series=5,
        gaps=0,
    )
    return replace(empty, **more)  # type: ignore[arg-type]


def hanging_since(start_s: float, cycles: int = 1) -> Seen:
    """The hang is reported, and lasts from then until now."""
    return seen(cycles, hanging={HANG: start_s}, longest={HANG[:2]: NOW_S - start_s})


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    made = Watcher("it", "http://127.0.0.1:1", Truth(), is_up=lambda: False)
    yield made
    made.close()


def judged(watcher: Watcher, *scrapes: Seen) -> list[str]:
    for scrape in scrapes:
        watcher._judge(scrape, NOW_S)
        watcher.latest = scrape
    return watcher.violations


def test_what_is_true_is_not_a_violation(watcher: Watcher) -> None:
    """A hang that is reported, and one that is reported late because a cycle was not clean."""
    watcher._truth.places.add(HANG[:2])
    watcher._truth.planted[HANG] = 0.5
    reports = [hanging_since(1.0, cycles=5), hanging_since(1.0, cycles=6)]
    assert judged(watcher, seen(1), seen(2, gaps=1), seen(3), seen(4), *reports) == []


@pytest.mark.parametrize(
    ("scrape", "words"),
    [
        (seen(hanging={("live", 0, 9): NOW_S}), "calls hanging what is not"),
        (seen(series=6), "has 6 series of 5 partitions that were read"),
        (seen(snapshot_s=NOW_S + 60), "has a snapshot of"),
    ],
)
def test_a_lie_is_a_violation(watcher: Watcher, scrape: Seen, words: str) -> None:
    """Each by itself."""
    (violation,) = judged(watcher, scrape)
    assert words in violation


def test_a_snapshot_that_goes_back_is_a_violation(watcher: Watcher) -> None:
    """The newest is never replaced by an older one."""
    (violation,) = judged(watcher, seen(1), seen(2, snapshot_s=NOW_S - 5))
    assert "has a snapshot of" in violation


def test_a_hang_that_two_clean_cycles_do_not_find_is_a_violation(watcher: Watcher) -> None:
    """It was there before the first of them began."""
    watcher._truth.planted[HANG] = 0.5
    (violation,) = judged(watcher, seen(1), seen(2), seen(3))
    assert "has not found [('hung', 0, 7)] in 2 clean cycles" in violation


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (hanging_since(501.0), "began at 501.0, and said 500.0 before"),
        (replace(hanging_since(500.0), longest={HANG[:2]: 3.0}), "says 3.0 s of ('hung', 0)"),
    ],
)
def test_a_restart_that_forgets_when_a_hang_began_is_a_violation(watcher: Watcher, after: Seen, words: str) -> None:
    """In its start, or in how long it lasts; without a restart it would be the same."""
    watcher._truth.places.add(HANG[:2])
    judged(watcher, hanging_since(500.0), hanging_since(500.0, cycles=2))
    watcher.expect_restart()
    (violation,) = judged(watcher, after)
    assert words in violation


def test_a_start_that_only_one_cycle_returned_may_be_lost_by_a_restart(watcher: Watcher) -> None:
    """It is published before it is written down; from the second cycle on it counts."""
    watcher._truth.places.add(HANG[:2])
    judged(watcher, hanging_since(500.0), hanging_since(500.0))
    watcher.expect_restart()
    assert judged(watcher, hanging_since(501.0), hanging_since(501.0, cycles=2)) == []
    watcher.expect_restart()
    assert len(judged(watcher, hanging_since(502.0))) == 1


def test_a_scrape_is_read() -> None:
    """Gaps are partitions, brokers and coordinators without an answer, and transactions of which nothing is known."""
    text = """
kafka_late_transactions 0
kafka_transaction_exporter_cycles_total 4
kafka_transaction_exporter_snapshot_timestamp_seconds 12.5
kafka_transaction_exporter_last_cycle_success 1
kafka_transaction_exporter_partitions{answer="read"} 2
kafka_transaction_exporter_partitions{answer="unavailable"} 3
kafka_transaction_exporter_brokers{answer="failed"} 1
kafka_open_transactions{verdict="inconclusive"} 2
kafka_partition_max_active_transaction_duration_seconds{topic="a",partition="0"} 0
kafka_partition_max_active_transaction_duration_seconds{topic="hung",partition="0"} 7.5
kafka_suspect_transaction_start_timestamp_seconds{topic="hung",partition="0",producer_id="7",verdict="hanging_x"} 5
"""
    assert seen_in(text, 1.0) == Seen(
        at=1.0,
        cycles=4,
        snapshot_s=12.5,
        succeeded=True,
        hanging={HANG: 5.0},
        longest={HANG[:2]: 7.5},
        read=2,
        series=2,
        gaps=6,
    )
    assert seen_in("kafka_transaction_exporter_cycles_total 4\n", time.monotonic()) is None
