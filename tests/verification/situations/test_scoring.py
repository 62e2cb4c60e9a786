"""Tests the scoring: it notices each kind of wrong response, and of wrong truth."""

from __future__ import annotations

from exporter.evaluation.verdicts import InconclusiveReason, Verdict
from hangbench.adapters import ktx
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import PlantedTransaction
from hangbench.situations.scene import Scene
from hangbench.situations.stages import STAGES
from hangbench.situations.words import UNREADABLE, Key, Lacking, Situation, Truth
from tests.verification.situations.exporter import IMPATIENT_IN, says_of
from tests.verification.situations.scoring import Judged, Sight, score
from tests.verification.situations.words import MAY_SHOW, UNREAD, VERDICTS_IN

A: Key = ("topic", 0, 1)
B: Key = ("topic", 1, 2)
LIVE: Judged = (Verdict.OPEN_WITHIN_TIMEOUT, None)
UNKNOWN_ID: Judged = (Verdict.HANGING_NO_TRANSACTIONAL_ID, None)
HANGING: Judged = (Verdict.HANGING_NOT_IN_TRANSACTION, None)
COMPLETING: Judged = (Verdict.COMPLETING, None)
STUCK: Judged = (Verdict.STUCK_COMPLETING, None)
HIDDEN: Judged = (Verdict.INCONCLUSIVE, InconclusiveReason.TRANSACTIONAL_IDS_HIDDEN)
OFFLINE: Judged = (Verdict.INCONCLUSIVE, InconclusiveReason.STATE_PARTITION_OFFLINE)
NO_CLUSTER: KafkaCluster = None  # type: ignore[assignment]  # scoring asks no broker


def planted(key: Key, *, epoch: int = 0) -> PlantedTransaction:
    topic, partition, producer_id = key
    return PlantedTransaction(
        topic=topic,
        partition=partition,
        producer_id=producer_id,
        producer_epoch=epoch,
        start_offset=0,
        timestamp_ms=0,
        transactional_id=None,
    )


def scene(name: str = "name") -> Scene:
    """A scene with nothing written down yet."""
    made = Scene(Situation("stage", name, "sentence", lambda _: None, since="", before="", is_racy=False), NO_CLUSTER)
    made.own("topic")
    return made


def sights(*cycles: dict[Key, Judged], unread: dict[tuple[str, int], str] | None = None) -> list[Sight]:
    return [
        Sight(by_offsets={}, verdicts=verdicts, unread=unread or {}, topics=frozenset({"topic"}), is_complete=True)
        for verdicts in cycles
    ]


def is_right(scored: Scene, *cycles: dict[Key, Judged]) -> bool:
    return score(scored, sights(*cycles)).is_right


def test_a_false_hanging_in_any_cycle_is_wrong() -> None:
    """It does not help that the last cycle takes it back."""
    taken_back = scene()
    taken_back.live(planted(A))

    assert score(taken_back, sights({A: HANGING}, {A: LIVE})).words == "FALSE hanging_not_in_transaction"
    assert not is_right(scene(), {B: HANGING}, {})


def test_a_missed_hang_is_wrong() -> None:
    """No row, and a healthy row, are both misses."""
    missed = scene()
    missed.hanging(planted(A))

    assert not is_right(missed, {})
    assert not is_right(missed, {A: LIVE})
    assert is_right(missed, {A: UNKNOWN_ID})


def test_an_inconclusive_verdict_needs_the_right_reason() -> None:
    """Another reason would send the operator to the wrong place."""
    doubted = scene()
    doubted.expect(planted(A), Truth.LIVE, [Lacking.TRANSACTIONAL_IDS_HIDDEN])

    assert [is_right(doubted, {A: verdict}) for verdict in (HIDDEN, OFFLINE, LIVE)] == [True, False, False]


def test_what_is_open_and_not_written_down_is_wrong() -> None:
    """Unless the situation says that transactions come and go."""
    for name, expected in (("name", False), ("rapid commits", True)):
        surprised = scene(name)
        surprised.live(planted(A))
        assert is_right(surprised, {A: LIVE, B: LIVE}, {A: LIVE}) is expected


def test_what_is_closed_may_not_be_shown() -> None:
    """Neither as live nor as anything else."""
    shown = scene()
    shown.closed(planted(A))

    assert not is_right(shown, {A: LIVE})


def test_a_verdict_that_must_come_second_may_not_come_first() -> None:
    """Stuck at first sight is a guess."""
    stuck = scene()
    stuck.expect(planted(A), Truth.STUCK)

    assert is_right(stuck, {A: COMPLETING}, {A: STUCK})
    assert not is_right(stuck, {A: STUCK}, {A: STUCK})


def test_a_partition_must_be_unread_for_its_reason() -> None:
    """Unread counts only with the reason that is true; a topic that is shown is not invisible."""
    for unread, expected in (({("topic", 0): "no_leader"}, True), ({("topic", 0): "timed_out"}, False), ({}, False)):
        away = scene()
        away.expect(planted(A), Truth.HANGING, [Lacking.NO_LEADER])

        assert score(away, sights({}, unread=unread)).is_right is expected
    shown = scene()
    shown.expect(planted(A), Truth.HANGING, [Lacking.TOPIC_HIDDEN])
    assert not is_right(shown, {})


def test_every_lack_has_a_reason_of_the_exporter() -> None:
    """A new member of Lacking needs a reason of the exporter."""
    reasons = {reason.name for reason in InconclusiveReason}

    assert {lacking for lacking in Lacking if lacking not in UNREAD and lacking.name not in reasons} == set()
    assert set(UNREAD) == UNREADABLE


def test_every_exception_is_of_a_situation_that_exists() -> None:
    """A situation that is renamed would lose its own expectation."""
    names = {situation.name for stage in STAGES for situation in stage.situations}

    assert {*VERDICTS_IN, *MAY_SHOW, IMPATIENT_IN} <= names


def test_hangbench_hears_the_same_of_the_program_and_of_the_evaluation() -> None:
    """Each verdict has one meaning in HangBench's words."""
    for verdict in Verdict:
        row = {"topic": "t", "partition": 0, "producer_id": 1, "verdict": verdict.label}
        assert ktx.said(row)[3] == says_of(verdict).value
