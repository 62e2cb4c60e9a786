"""The soak's judge notices what it is there for: each lie is made once, in an exposition of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.soak.watcher import Seen, Truth, Watcher, seen_in

HANG = ("hung", 0, 7)
NOW_S = 1_000.0


def seen(cycles: int = 1, **more: object) -> Seen:
    it = Seen(at=float(cycles), cycles=cycles, snapshot_s=NOW_S, succeeded=True, hanging={}, read=5, series=5, gaps=0)
    return replace(it, **more)  # type: ignore[arg-type]


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    made = Watcher("it", "http://127.0.0.1:1", Truth(), is_up=lambda: False)
    yield made
    made.close()


def judged(watcher: Watcher, *scrapes: Seen) -> list[str]:
    for it in scrapes:
        watcher._judge(it, NOW_S)
        watcher.latest = it
    return watcher.violations


def test_what_is_true_is_no_violation(watcher: Watcher) -> None:
    """A hang that was planted and is told, and one that is told late because a cycle was not clean."""
    watcher._truth.places.add(HANG[:2])
    watcher._truth.planted[HANG] = 0.5
    told = {"hanging": {HANG: 1.0}}
    assert judged(watcher, seen(1), seen(2, gaps=1), seen(3), seen(4), seen(5, **told), seen(6, **told)) == []


@pytest.mark.parametrize(
    ("scrape", "words"),
    [
        (seen(hanging={("live", 0, 9): 1.0}), "calls hanging what is not"),
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
kafka_suspect_transaction_start_timestamp_seconds{topic="hung",partition="0",producer_id="7",verdict="hanging_x"} 5
"""
    assert seen_in(text, 1.0) == Seen(
        at=1.0, cycles=4, snapshot_s=12.5, succeeded=True, hanging={HANG: 5.0}, read=2, series=1, gaps=6
    )
    assert seen_in("kafka_transaction_exporter_cycles_total 4\n", time.monotonic()) is None
