"""One marker at most, and a true report about it, whatever the partition does."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.kafka.errors import BrokerFault, ClusterUnavailableError, FaultReason
from exporter.kafka.lookups import KafkaRequestError
from exporter.kafka.markers import MarkerOutcome, MarkerResponse
from exporter.recovery.audit import AuditError, AuditLog
from exporter.recovery.carry_out import CHECK_SECONDS, EXPLANATIONS, RecoveryOutcome, RecoveryResult, carry_out
from exporter.recovery.partition import DecidingCoordinator
from exporter.recovery.plan import Action, plan_for
from tests.recovery.stand_in import OPEN, WRITTEN, PartitionStandIn, Seen, row

LOST = MarkerResponse(MarkerOutcome.UNCLEAR, "broker 1 did not answer in time")
FAULTS: Sequence[Exception] = (
    BrokerFault(FaultReason.CONNECTION_LOST, "broker 1 hung up"),
    KafkaRequestError("LEADER_NOT_AVAILABLE", "orders-0 has no leader"),
    ClusterUnavailableError("no broker responded"),
)
NEWER = replace(OPEN, producer_epoch=4)
ON = replace(OPEN, last_sequence=1, last_timestamp=1)
"""Its producer goes on."""


class Log(AuditLog):
    """A real log in a file; `fails_from` counts the steps that still go well."""

    def __init__(self, path: Path, *, fails_from: int = 99) -> None:
        super().__init__(path, wall_clock=lambda: 1_800_000_000.0)
        self.path = path
        self._left = fails_from

    def step(self, step: str, **facts: object) -> None:
        self._left -= 1
        if self._left < 0:
            raise AuditError("the disk is full")
        super().step(step, **facts)

    def steps(self) -> list[str]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [json.loads(line)["step"] for line in lines]


class Clock:
    """Goes on by what is slept, and by a little at each look at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.01
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "audit.jsonl")


def run(partition: PartitionStandIn, log: AuditLog, action: Action = Action.ABORT) -> RecoveryResult:
    clock = Clock()
    state = "PrepareCommit" if action is Action.COMPLETE else "Empty"
    plan = plan_for(action, row(coordinator_state=state))
    return carry_out(plan, partition, log, clock=clock, sleep=clock.sleep)


def test_one_marker_and_the_offset_that_it_freed(log: Log) -> None:
    """Done is said only after the partition was seen without it."""
    partition = PartitionStandIn(after=[(OPEN,), (OPEN,), ()])

    result = run(partition, log)

    assert result == RecoveryResult(
        RecoveryOutcome.DONE, "the transaction is closed; the last stable offset went from 100 to 150"
    )
    assert (result.is_done, len(partition.written), partition.looks) == (True, 1, 5)
    assert log.steps() == ["sending", "answered", "ended"]


def test_a_completion_says_what_the_coordinator_still_shows(log: Log) -> None:
    """Its Prepare state outlives the marker."""
    result = run(PartitionStandIn(), log, Action.COMPLETE)

    assert (
        "coordinator 1 continues to show PrepareCommit, and the producer cannot start: why --producer-id"
        in result.sentence
    )


@pytest.mark.parametrize(
    ("look", "outcome", "sentence"),
    [
        ((ON,), RecoveryOutcome.UNTOUCHED, "nothing was written: the transaction has changed since it was judged"),
        ((), RecoveryOutcome.GONE, "nothing was written: the transaction has ended since it was judged"),
        ((NEWER,), RecoveryOutcome.UNTOUCHED, "nothing was written: the transaction has changed since it was judged"),
        *((fault, RecoveryOutcome.UNTOUCHED, f"nothing was written: {fault}") for fault in FAULTS),
        (KeyboardInterrupt(), None, ""),
    ],
)
def test_nothing_is_sent_when_the_last_look_differs(
    look: Seen, outcome: RecoveryOutcome | None, sentence: str, log: Log
) -> None:
    """Gone, changed, unreadable or interrupted: no marker, and no `sending` in the log."""
    partition = PartitionStandIn(before=[look])

    if outcome is None:
        with pytest.raises(KeyboardInterrupt):
            run(partition, log)
    else:
        assert run(partition, log) == RecoveryResult(outcome, sentence)
    assert partition.written == []
    assert "sending" not in log.steps()


@pytest.mark.parametrize(
    ("look", "outcome"),
    [
        ((), RecoveryOutcome.GONE),
        ((ON,), RecoveryOutcome.UNTOUCHED),
        ((NEWER,), RecoveryOutcome.UNTOUCHED),
        *((fault, RecoveryOutcome.UNTOUCHED) for fault in FAULTS),
    ],
)
def test_nothing_is_sent_when_the_partition_differs_at_the_last_moment(
    look: Seen, outcome: RecoveryOutcome, log: Log
) -> None:
    """After `sending` is on disk the same broker is looked at once more, just before the marker."""
    partition = PartitionStandIn(before=[(OPEN,), look])

    assert run(partition, log).outcome is outcome
    assert (partition.written, log.steps()) == ([], ["sending", "ended"])


@pytest.mark.parametrize(
    ("stable", "log_start", "outcome"),
    [
        (100, 0, RecoveryOutcome.DONE),
        (101, 0, RecoveryOutcome.GONE),
        (101, 100, RecoveryOutcome.GONE),
        (120, 120, RecoveryOutcome.DONE),
    ],
)
def test_a_stable_offset_past_the_transaction_means_that_it_is_closed(
    stable: int, log_start: int, outcome: RecoveryOutcome, log: Log
) -> None:
    """Somebody else's marker: nothing is written. Only deleting its records moves the offset and closes nothing."""
    assert run(PartitionStandIn(stable=(stable, 150), log_start=log_start), log).outcome is outcome


def test_a_topic_of_the_same_name_is_another_topic(log: Log) -> None:
    """It was deleted and created again, with a transaction of the same producer at the same offset."""
    partition = PartitionStandIn(topic_id="another")

    assert run(partition, log) == RecoveryResult(
        RecoveryOutcome.UNTOUCHED, "nothing was written: the topic was deleted and created again since the proof"
    )
    assert partition.written == []


def test_a_completion_has_its_coordinator_confirmed(log: Log) -> None:
    """At each look; an abort is the operator's own decision."""
    completed, aborted = PartitionStandIn(), PartitionStandIn()
    run(completed, log, Action.COMPLETE)
    run(aborted, log)

    assert set(completed.coordinated) == {DecidingCoordinator(transactional_id="billing-1", coordinator=1)}
    assert set(aborted.coordinated) == {None}


@pytest.mark.parametrize("code", [*EXPLANATIONS, "KAFKA_STORAGE_ERROR"])
def test_a_refusal_is_explained(code: str, log: Log) -> None:
    """The broker's own word, and what to do."""
    partition = PartitionStandIn(answer=MarkerResponse(MarkerOutcome.REFUSED, code))

    result = run(partition, log)

    why = EXPLANATIONS.get(code, "run find-hanging again")
    assert result == RecoveryResult(RecoveryOutcome.REFUSED, f"the broker refused the marker ({code}): {why}")
    assert log.steps()[-1] == "ended"


def test_a_lost_response_is_settled_by_reading(log: Log) -> None:
    """Gone: done, without the broker's response. Still open: reported with the lost response, and not sent again."""
    gone = PartitionStandIn(answer=LOST)
    still = PartitionStandIn(answer=LOST, after=[(OPEN,)])

    assert run(gone, log).outcome is RecoveryOutcome.DONE
    assert run(still, log) == RecoveryResult(
        RecoveryOutcome.STILL_OPEN,
        f"the marker may have been written or not ({LOST.detail}), and the transaction is still open after 10 s: "
        "run find-hanging before you write anything else",
    )
    assert (len(gone.written), len(still.written)) == (1, 1)
    assert still.looks > 40


def test_a_transaction_at_a_newer_epoch_is_still_open(log: Log) -> None:
    """Same producer and start offset: it has not ended, whatever was written since."""
    assert run(PartitionStandIn(after=[(NEWER,)]), log).outcome is RecoveryOutcome.STILL_OPEN


@pytest.mark.parametrize("fault", FAULTS)
def test_a_partition_that_cannot_be_read_afterwards_is_not_called_open(fault: Exception, log: Log) -> None:
    """It was not seen to end: that is all that is known."""
    result = run(PartitionStandIn(after=[fault]), log)

    assert result.outcome is RecoveryOutcome.STILL_OPEN
    assert f"was not seen to end within {CHECK_SECONDS:.0f} s (the last read failed: {fault})" in result.sentence


@pytest.mark.parametrize("answer", [WRITTEN, LOST])
def test_a_marker_that_replicas_lack_is_no_success(answer: MarkerResponse, log: Log) -> None:
    """A leader closes the transaction as soon as it has the marker, which it may lose; the last stable offset waits."""
    result = run(PartitionStandIn(answer=answer, stable=(100, 100)), log)

    assert result == RecoveryResult(
        RecoveryOutcome.STILL_OPEN,
        "the marker is on the leader, and after 10 s not on all in-sync replicas: "
        "run find-hanging before you write anything else",
    )


EARLIER = replace(OPEN, producer_id=4001, current_txn_start_offset=90)
"""The transaction of another producer."""


@pytest.mark.parametrize(
    ("stable", "freed"),
    [
        ((90, 90), "the last stable offset is 90: another transaction holds it, why --topic names it"),
        ((100, -1), "the last stable offset could not be read"),
        ((-1, 150), "the last stable offset is 150; the previous one could not be read"),
        ((0, 1), "the last stable offset went from 0 to 1"),
    ],
)
def test_the_last_stable_offset_is_reported_as_it_is(stable: tuple[int, int], freed: str, log: Log) -> None:
    """A closed transaction need not have been the only one."""
    partition = PartitionStandIn([(EARLIER, OPEN)], [(EARLIER,)], stable=stable)

    assert run(partition, log).sentence == f"the transaction is closed; {freed}"


def test_nothing_is_sent_without_a_log(tmp_path: Path) -> None:
    """The step `sending` is on disk first; a log that cannot even be opened stops it earlier."""
    partition = PartitionStandIn()
    (tmp_path / "file").write_text("")

    with pytest.raises(AuditError, match="disk is full"):
        run(partition, Log(tmp_path / "audit.jsonl", fails_from=0))
    with pytest.raises(AuditError, match="so nothing was done"):
        run(partition, Log(tmp_path / "file" / "audit.jsonl"))

    assert partition.written == []


@pytest.mark.parametrize("fails_from", [1, 2])
def test_a_log_that_fails_after_the_marker_is_reported_and_changes_nothing(fails_from: int, tmp_path: Path) -> None:
    """The marker is written: that is reported all the same."""
    result = run(PartitionStandIn(), Log(tmp_path / "audit.jsonl", fails_from=fails_from))

    assert result.outcome is RecoveryOutcome.DONE
    assert result.sentence.endswith("(not logged: the disk is full)")


@pytest.mark.parametrize(
    "partition", [PartitionStandIn(answer=KeyboardInterrupt()), PartitionStandIn(after=[KeyboardInterrupt()])]
)
def test_leaving_after_the_marker_reports_that_it_may_be_written(partition: PartitionStandIn, log: Log) -> None:
    """Ctrl-C while the answer or the effect is awaited is logged, and never followed by another marker."""
    result = run(partition, log)

    assert result.outcome is RecoveryOutcome.INTERRUPTED
    assert "may have been written: run find-hanging" in result.sentence
    assert (len(partition.written), log.steps()[-1]) == (1, "ended")


def test_there_is_never_a_second_marker(tmp_path: Path) -> None:
    """Every first look, response, later look, offset and failure of the log, in every combination."""
    looks: list[Seen] = [(OPEN,), (), (NEWER,), *FAULTS, KeyboardInterrupt()]
    answers: list[MarkerResponse | BaseException] = [
        WRITTEN,
        LOST,
        KeyboardInterrupt(),
        *(MarkerResponse(MarkerOutcome.REFUSED, code) for code in EXPLANATIONS),
    ]
    ran = 0
    for before, answer, after, stable, fails_from in itertools.product(
        looks, answers, itertools.product(looks, repeat=2), [(100, 150), (100, -1)], [0, 1, 99]
    ):
        partition = PartitionStandIn([before], list(after), answer=answer, stable=stable)
        result = None
        try:
            result = run(partition, Unwritten(tmp_path, fails_from))
        except (AuditError, KeyboardInterrupt):
            assert partition.written == []
        ran += 1
        may_be_sent = before == (OPEN,) and fails_from > 0
        assert len(partition.written) == int(may_be_sent)
        assert result is None or result.is_done == (result.outcome is RecoveryOutcome.DONE)
        if result is not None and result.is_done:
            assert may_be_sent
            assert () in after

    assert ran > 10_000 / 2


class Unwritten(Log):
    """Counts steps, without a disk."""

    def __init__(self, folder: Path, fails_from: int) -> None:
        super().__init__(folder / "audit.jsonl", fails_from=fails_from)

    def step(self, step: str, **_: object) -> None:
        self._left -= 1
        if self._left < 0:
            raise AuditError(f"{step}: the disk is full")
