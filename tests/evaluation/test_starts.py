"""The start of a hang never becomes later, whatever happens to its proof, to a clock, or to the exporter."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from exporter.daemon import state_file
from exporter.daemon.state_file import SavedState
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy, StartSource, Verdict
from exporter.snapshot import IdVisibility, Snapshot, Visibility
from tests.evaluation.builders import MINUTE_MS, NOW_MS, proof, snapshot, transaction, without_examination
from tests.incidents.cycles import hang

DAY_MS = 24 * 60 * MINUTE_MS
OLD_MS = NOW_MS - 3 * DAY_MS
UNPROVED = proof(id_visibility=IdVisibility.ACLS_UNREAD)


class Clocks:
    """Cycles half a minute apart, by a cluster's clock that can be set, and by a monotonic one."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.snapshot: Snapshot = snapshot()
        self._at_ms = NOW_MS
        self.ahead_ms = 0

    def taken(self, *entries: Any, **fields: Any) -> Snapshot:
        self._at_ms += MINUTE_MS // 2
        return snapshot(
            entries, taken_at_ms=self._at_ms, **{"proof": proof(), "clock_offset_ms": self.ahead_ms, **fields}
        )

    def cycle(self, *entries: Any, **fields: Any) -> Evaluation:
        self.snapshot = self.taken(*entries, **fields)
        evaluation = evaluate(self.snapshot, self.memory, Policy())
        self.memory = evaluation.memory
        return evaluation

    def restart(self) -> None:
        """With what the state file keeps."""
        cluster = self.snapshot.identity
        kept = json.loads(json.dumps(state_file.document_of(SavedState(self.memory, cluster=cluster))))
        self.memory = state_file.state_of(kept).memory


def start_of(evaluation: Evaluation) -> tuple[Verdict, int, StartSource, bool]:
    (row,) = evaluation.suspects
    return row.verdict, row.start_ms, row.start_source, row.is_late


@pytest.mark.parametrize("restarts", [False, True])
def test_a_proved_start_stays_when_the_proof_goes_missing(*, restarts: bool) -> None:
    """It was late, and a missing grant does not make it young."""
    clocks = Clocks()
    old = hang(last_timestamp_ms=OLD_MS)
    proved = start_of(clocks.cycle(old))
    assert proved == (Verdict.HANGING_NO_TRANSACTIONAL_ID, OLD_MS, StartSource.LAST_WRITE, True)
    if restarts:
        clocks.restart()
    for _ in range(2):
        assert start_of(clocks.cycle(old, proof=UNPROVED)) == (Verdict.INCONCLUSIVE, *proved[1:])
    assert start_of(clocks.cycle(old)) == proved


def test_a_start_survives_a_cycle_that_cannot_read_the_partition() -> None:
    clocks = Clocks()
    old = hang(last_timestamp_ms=OLD_MS)
    clocks.cycle(old)
    clocks.cycle(unread=[0])
    clocks.restart()
    assert start_of(clocks.cycle(old, proof=UNPROVED))[1:3] == (OLD_MS, StartSource.LAST_WRITE)


def test_a_proved_start_stays_when_the_client_writes_on() -> None:
    """A late write moves the last write, not the start."""
    clocks = Clocks()
    clocks.cycle(hang(last_timestamp_ms=OLD_MS))
    assert start_of(clocks.cycle(hang(last_timestamp_ms=NOW_MS)))[1] == OLD_MS


def test_a_transaction_that_took_over_old_records_and_hangs_began_with_these() -> None:
    """While its coordinator owns it, it is as old as the coordinator says."""
    clocks = Clocks()
    seen_ms = start_of(clocks.cycle(hang(last_timestamp_ms=NOW_MS + DAY_MS)))[1]
    owned = clocks.cycle(hang(), transactions=(transaction(start_ms=NOW_MS + MINUTE_MS),), proof=None)
    assert owned.transactions.start_ms.tolist() == [NOW_MS + MINUTE_MS]
    assert start_of(clocks.cycle(hang(last_timestamp_ms=NOW_MS + DAY_MS)))[1:3] == (seen_ms, StartSource.FIRST_SEEN)


def test_a_first_sight_by_a_clock_that_was_ahead_does_not_stop_the_duration() -> None:
    """The cluster's clock was a day ahead, and the client's 40 minutes: the duration grows from the first sight on."""
    clocks = Clocks()
    clocks.ahead_ms = DAY_MS
    ahead = hang(last_timestamp_ms=NOW_MS + 40 * MINUTE_MS)
    first = clocks.cycle(ahead)
    clocks.ahead_ms = 0
    durations = [clocks.cycle(ahead).transactions.duration_ms.tolist() for _ in range(3)]
    assert durations == [[30_000], [60_000], [90_000]]
    clocks.restart()
    durations = [clocks.cycle(ahead).transactions.duration_ms.tolist() for _ in range(3)]
    assert durations == [[120_000], [150_000], [180_000]]
    assert first.transactions.start_ms[0] > NOW_MS


def test_a_state_file_from_the_future_does_not_stop_the_duration() -> None:
    clocks = Clocks()
    clocks.ahead_ms = DAY_MS
    clocks.cycle(hang(last_timestamp_ms=NOW_MS + 2 * DAY_MS))
    clocks.restart()
    clocks.ahead_ms = 0
    durations = [
        clocks.cycle(hang(last_timestamp_ms=NOW_MS + 2 * DAY_MS)).transactions.duration_ms.tolist() for _ in range(3)
    ]
    assert durations == [[0], [30_000], [60_000]]


def test_a_clock_that_is_set_back_for_a_while_makes_no_start_earlier() -> None:
    clocks = Clocks()
    ahead = hang(last_timestamp_ms=NOW_MS + 2 * DAY_MS)
    before = start_of(clocks.cycle(ahead))[1]
    clocks.ahead_ms = -DAY_MS
    assert clocks.cycle(ahead).transactions.duration_ms.tolist() == [30_000]
    clocks.ahead_ms = 0
    assert start_of(clocks.cycle(ahead))[1] == before


def test_starts_are_in_a_part_of_the_state_file_that_older_versions_do_not_read() -> None:
    """They read what they know, and files without it are read."""
    clocks = Clocks()
    clocks.cycle(hang(last_timestamp_ms=OLD_MS))
    document = state_file.document_of(SavedState(clocks.memory))
    assert [len(entry) for entry in document["transactions"]] == [10]
    (key,) = clocks.memory.transactions
    del document["starts"]
    (known,) = state_file.state_of(document).memory.transactions.values()
    assert known == replace(
        clocks.memory.transactions[key],
        start_ms=None,
        start_source=None,
        open_at_ms=None,
        watched_from_ms=None,
        clock_offset_ms=0,
        last_sequence=None,
        last_timestamp_ms=None,
        unchanged_from_ms=None,
    )


@pytest.mark.parametrize("restarts", [False, True])
def test_a_hang_of_now_with_an_old_timestamp_began_after_the_cycle_that_did_not_show_it(*, restarts: bool) -> None:
    """Its client wrote a timestamp of ten years ago. It is not late, and the row says by which clock."""
    clocks = Clocks()
    read_ms = clocks.cycle().snapshot.cluster_time_ms
    if restarts:
        clocks.restart()
    backdated = hang(last_timestamp_ms=NOW_MS - 3650 * DAY_MS)
    wanted = (Verdict.HANGING_NO_TRANSACTIONAL_ID, read_ms, StartSource.NOT_OPEN_BEFORE, False)
    assert start_of(clocks.cycle(backdated)) == wanted
    clocks.restart()
    assert start_of(clocks.cycle(backdated)) == wanted
    assert start_of(clocks.cycle(backdated, proof=UNPROVED))[1:] == wanted[1:]


@pytest.mark.parametrize(
    "before",
    [
        {"unread": [0]},
        {"partitions": 1, "moved": 2},
        {"visibility": Visibility(gaps=("the metadata may be old",))},
    ],
    ids=["unread", "a partition that was not there", "a view with gaps"],
)
def test_a_cycle_that_did_not_read_the_partition_bounds_nothing(before: dict[str, Any]) -> None:
    clocks = Clocks()
    partition = before.pop("moved", 0)
    clocks.cycle(**before)
    old = hang(partition, last_timestamp_ms=OLD_MS)
    assert start_of(clocks.cycle(old))[1:3] == (OLD_MS, StartSource.LAST_WRITE)


def test_a_transaction_that_was_not_examined_is_not_bounded_after_a_restart() -> None:
    """The state file has examined transactions only."""
    clocks = Clocks()
    taken = clocks.taken(hang(last_timestamp_ms=OLD_MS))
    clocks.snapshot = without_examination(taken)
    clocks.memory = evaluate(clocks.snapshot, clocks.memory, Policy()).memory
    clocks.restart()
    assert start_of(clocks.cycle(hang(last_timestamp_ms=OLD_MS)))[1:3] == (OLD_MS, StartSource.LAST_WRITE)


@pytest.mark.parametrize(
    ("in_log_ms", "start_ms", "source"),
    [
        (NOW_MS - MINUTE_MS, NOW_MS - MINUTE_MS, StartSource.NOT_OPEN_BEFORE),
        (OLD_MS - DAY_MS, OLD_MS, StartSource.LAST_WRITE),
        (-1, OLD_MS, StartSource.LAST_WRITE),
        (NOW_MS + DAY_MS, NOW_MS + MINUTE_MS // 2, StartSource.FIRST_SEEN),
    ],
    ids=["a marker of a minute ago", "an older marker", "no marker", "a marker from the future"],
)
def test_what_brokers_wrote_before_it_bounds_the_start_of_a_hang(
    in_log_ms: int, start_ms: int, source: StartSource
) -> None:
    """Also in a process without memory, and when the log is read in a later cycle only."""
    clocks = Clocks()
    for restarts in (False, True):
        taken = clocks.taken(hang(last_timestamp_ms=OLD_MS))
        if not restarts:
            taken = replace(taken, open_transactions=replace(taken.open_transactions, not_open_at_ms=(in_log_ms,)))
        clocks.snapshot = taken
        evaluation = evaluate(taken, clocks.memory, Policy())
        assert start_of(evaluation)[1:3] == (start_ms, source)
        clocks.memory = evaluation.memory
        clocks.restart()


def test_a_log_that_is_read_later_corrects_the_start() -> None:
    clocks = Clocks()
    assert start_of(clocks.cycle(hang(last_timestamp_ms=OLD_MS)))[1] == OLD_MS
    taken = clocks.taken(hang(last_timestamp_ms=OLD_MS))
    taken = replace(taken, open_transactions=replace(taken.open_transactions, not_open_at_ms=(NOW_MS - 5,)))
    evaluation = evaluate(taken, clocks.memory, Policy())
    assert start_of(evaluation)[1:3] == (NOW_MS - 5, StartSource.NOT_OPEN_BEFORE)
    clocks.memory = evaluation.memory
    assert start_of(clocks.cycle(hang(last_timestamp_ms=OLD_MS)))[1:3] == (NOW_MS - 5, StartSource.NOT_OPEN_BEFORE)


def test_no_bound_changes_the_start_of_a_live_transaction() -> None:
    """A coordinator's start may be older than the transaction's first record on a partition."""
    clocks = Clocks()
    clocks.cycle()
    owned = clocks.cycle(hang(), transactions=(transaction(start_ms=NOW_MS - MINUTE_MS),), proof=None)
    assert owned.transactions.start_ms.tolist() == [NOW_MS - MINUTE_MS]
