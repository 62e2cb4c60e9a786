"""The plan of the workload, and the outcome of a transaction as derived from its coordinator's state."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from unittest.mock import Mock

import pytest

from examples.workload.coordinator import Standing
from examples.workload.crashing import Scene, crash, line_of, scene_of
from examples.workload.rhythm import Rhythm, Step, steps
from examples.workload.template import GaveUp
from examples.workload.truth import Attempt, Fate, Ledger, Seen, fate_of
from examples.workload.workload import Workload
from hangbench.waiting import until

BEGAN_MS = 1_000_000
TIMEOUT_MS = 5_000
IN_TIME_MS, LATE_MS = BEGAN_MS + 100, BEGAN_MS + TIMEOUT_MS + 100
EPOCH = 3


def seen(state: str, epoch: int = EPOCH, *, start_ms: int = BEGAN_MS + 1, at_ms: int = IN_TIME_MS) -> Seen:
    standing = Standing(state=state, producer_epoch=epoch, start_ms=start_ms, timeout_ms=TIMEOUT_MS)
    return Seen(standing=standing, at_ms=at_ms)


BEFORE_OURS = seen("CompleteCommit", start_ms=BEGAN_MS - 1)
NONE_KEPT = seen("Empty", EPOCH + 2, start_ms=-1)
ONGOING = seen("Ongoing")


@pytest.mark.parametrize(
    ("before", "after", "is_lost", "fate"),
    [
        # the coordinator timed it out, and says so before and after, or only after
        (seen("CompleteAbort", EPOCH + 1, at_ms=LATE_MS), seen("CompleteAbort", EPOCH + 1), True, Fate.TIMED_OUT),
        (ONGOING, seen("PrepareAbort", EPOCH + 1, at_ms=LATE_MS), True, Fate.TIMED_OUT),
        # somebody took the id while the transaction was open and had time left
        (ONGOING, NONE_KEPT, True, Fate.FENCED),
        (seen("PrepareAbort", EPOCH + 1), seen("CompleteAbort", EPOCH + 1), True, Fate.FENCED),
        # 3.9 keeps the start of the transaction that was fenced
        (ONGOING, seen("Empty", EPOCH + 2), True, Fate.FENCED),
        (ONGOING, seen("Empty", EPOCH + 2, at_ms=LATE_MS), True, Fate.UNRESOLVED),
        # its own client aborted it, or committed it although it had no answer
        (ONGOING, seen("CompleteAbort"), False, Fate.ABORTED),
        (seen("PrepareCommit"), seen("CompleteCommit"), True, Fate.COMMITTED),
        # no partition was ever added: the coordinator shows the transaction before
        (BEFORE_OURS, BEFORE_OURS, False, Fate.NEVER_BEGUN),
        (NONE_KEPT, NONE_KEPT, True, Fate.NEVER_BEGUN),
        # a partition was added after the first look
        (BEFORE_OURS, seen("CompleteAbort"), False, Fate.ABORTED),
        # still open; or ended past its time with its end no longer shown
        (ONGOING, ONGOING, True, Fate.UNRESOLVED),
        (ONGOING, replace(NONE_KEPT, at_ms=LATE_MS), False, Fate.UNRESOLVED),
        (ONGOING, seen("CompleteAbort", EPOCH + 1, at_ms=LATE_MS), False, Fate.UNRESOLVED),
    ],
)
def test_the_end_comes_from_what_the_coordinator_said(before: Seen, after: Seen, is_lost: bool, fate: Fate) -> None:  # noqa: FBT001 - a column of the table
    """By epoch, state and time; where that does not decide, the end is unknown."""
    attempt = Attempt(began_ms=BEGAN_MS, epoch=EPOCH, before=before, after=after, is_lost=is_lost)

    assert fate_of(attempt) is fate


def test_a_rhythm_is_the_same_for_the_same_seed() -> None:
    """Troubles come by number, the first of two that meet; aborts by chance, which another seed changes."""
    rhythm = Rhythm(abort_share=0.5, stall_every=4, zombie_every=6, crash_every=5)
    first = list(islice(steps(rhythm, "a"), 120))

    assert first == list(islice(steps(rhythm, "a"), 120))
    assert first != list(islice(steps(rhythm, "b"), 120))
    assert [first[number - 1] for number in (4, 5, 6, 12, 20, 30)] == [
        Step.STALL,
        Step.CRASH,
        Step.ZOMBIE,
        Step.STALL,
        Step.STALL,
        Step.ZOMBIE,
    ]
    counts = Counter(first)
    assert (counts[Step.STALL], counts[Step.ZOMBIE], counts[Step.CRASH]) == (30, 10, 16)
    assert 15 < counts[Step.ABORT] < 49


def test_what_never_began_is_not_counted() -> None:
    """Neither as begun nor as a crash; a crash is counted as well as its end, records only where committed."""
    ledger = Ledger()
    ledger.enter("a", Fate.NEVER_BEGUN, records=5, crashed=True)
    ledger.enter("a", Fate.TIMED_OUT, records=5, crashed=True)
    ledger.enter("b", Fate.COMMITTED, records=5)
    total = ledger.total()

    assert (total.begun, total.crashed, total.timed_out, total.committed, total.records) == (2, 1, 1, 1, 5)
    assert [ledger.counts()[name].begun for name in ("a", "b")] == [1, 1]


def test_a_transaction_of_any_records_can_crash() -> None:
    """They may be no text, and larger than an argument of a program; without a broker nothing is opened."""
    records = (("orders", 0, b"\xff\x00" * 100_000),)
    scene = Scene(bootstrap="127.0.0.1:1", transactional_id="a", timeout_ms=1000, give_up_s=0.1, records=records)

    assert scene_of(line_of(scene)).records == records
    with pytest.raises(GaveUp, match="without opening its transaction"):
        crash(scene)


def test_an_id_that_cannot_go_on_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the reason: the command ends with status 1."""
    monkeypatch.setattr("examples.workload.worker.crash", Mock(side_effect=OSError("no more processes")))
    with Workload("127.0.0.1:1", [("orders", 0)]) as workload:
        workload.add("a", Rhythm(crash_every=1, transactions=1))
        until(lambda: workload.is_done)

    assert workload.failures == ["a: OSError: no more processes"]
