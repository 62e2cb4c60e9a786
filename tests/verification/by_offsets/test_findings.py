"""The judge of busy runs: what it calls false, late and calm, from a journal and cycles that are written here."""

from __future__ import annotations

from typing import Final

from tests.verification.by_offsets.findings import Claim, Delay, Findings, calm, delay_of, rate
from tests.verification.by_offsets.hangs import Hang, Hangs
from tests.verification.by_offsets.producers import JournalEntry

PLANTED_MS: Final = 10_000


def hang(*cycles: int, is_proved: bool = True, healed_ms: int | None = None) -> Hang:
    """On partition 0 from offset 7; every second cycle is whole."""
    whole = [number % 2 == 0 for number in range(len(cycles))]
    return Hang(0, 7, 1, 0, PLANTED_MS, cycles=list(cycles), whole=whole, is_proved=is_proved, healed_ms=healed_ms)


def test_a_line_of_the_journal() -> None:
    """Partitions are bits; only ids that stay are busy."""
    entry = JournalEntry.of("busy-3 100 140 5 committed")

    assert entry == JournalEntry("busy-3", 100, 140, frozenset({0, 2}), "committed")
    assert (entry.is_busy, JournalEntry.of("visitor-3 100 140 5 lost").is_busy) == (True, False)


def test_cycles_are_counted_from_the_completion_of_the_last_candidate() -> None:
    """A candidate was in a transaction on the partition while the hang was open; its first completion counts."""
    journal = [
        JournalEntry.of("busy-0 9000 9900 1 committed"),
        JournalEntry.of("busy-1 9900 12500 1 committed"),
        JournalEntry.of("busy-1 12600 19000 1 committed"),
        JournalEntry.of("visitor-1 12000 13500 1 committed"),
        JournalEntry.of("busy-2 9900 14500 2 committed"),
        JournalEntry.of("visitor-2 15500 16500 1 committed"),
    ]

    delay = delay_of(hang(11_000, 12_000, 13_000, 14_000, 15_000), journal)

    assert delay == Delay(
        is_proved=True,
        sights=(),
        since_planted=5,
        since_overlapping=3,
        since_candidates=2,
        whole_since_candidates=1,
    )
    assert delay.is_soon


def test_a_hang_is_late_after_three_cycles_and_not_due_before() -> None:
    """What is aborted before that counts for nothing."""
    cycles = (11_000, 12_000, 13_000, 14_000)

    late, early = delay_of(hang(*cycles), []), delay_of(hang(*cycles[:2], is_proved=False), [])
    unproved = delay_of(hang(*cycles, is_proved=False), [])

    assert (late.is_soon, late.was_due) == (False, True)
    assert (early.is_soon, early.was_due) == (False, False)
    assert (unproved.is_soon, unproved.was_due) == (False, True)


def test_false_is_what_was_not_planted_or_had_been_aborted() -> None:
    """A hang may be known after its verdict, and a cycle that began before the abort may name it."""
    hangs = Hangs("nowhere:1", "busy", 3)
    hangs.every[0, 7] = hang(healed_ms=50_000)
    findings = Findings(
        claims=[
            Claim(0, 7, 49_000, "named in time"),
            Claim(0, 7, 51_000, "named after its abort"),
            Claim(0, 8, 49_000, "never planted"),
        ]
    )

    assert findings.false(hangs) == ["named after its abort", "never planted"]


def test_calm_is_what_is_five_seconds_after_a_fault() -> None:
    """Until the next one begins; only transactions of ids that stay count, in the spans alone."""
    spans = calm((0, 60_000), [(12_000, 20_000), (23_000, 30_000), (50_000, 58_000)])
    ended = [f"busy-0 0 {at} 1 committed" for at in range(0, 60_000, 500)]
    others = ["visitor-0 0 1000 1 committed", "busy-1 0 1000 2 committed"]

    assert spans == [(0, 12_000), (35_000, 50_000)]
    assert rate(map(JournalEntry.of, [*ended, *others]), 0, spans) == 2.0
