"""Tests the scoring: it notices each kind of wrong response, and of wrong truth."""

from __future__ import annotations

import pytest

from examples.workload.planting import PlantedTransaction, plant_hang
from exporter.evaluation.verdicts import InconclusiveReason, Verdict
from tests.brokers.cluster import KafkaCluster
from tests.conftest import FreshName, MakeTopic
from tests.verification.situations import ground, java_tool
from tests.verification.situations.java_tool import JavaAnswer
from tests.verification.situations.scene import Judged, Scene, Sight, score_java, score_ours
from tests.verification.situations.steps import Client
from tests.verification.situations.words import INVISIBLE, Expected, Key, Situation, Truth

A: Key = ("topic", 0, 1)
B: Key = ("topic", 1, 2)
LIVE: Judged = (Verdict.OPEN_WITHIN_TIMEOUT, None)
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


def scene(*sights: dict[Key, Judged], unread: dict[tuple[str, int], str] | None = None) -> Scene:
    """A scene that was seen so, with nothing written down yet."""
    made = Scene(Situation("stage", "name", "sentence", lambda _: None, None, is_racy=False), NO_CLUSTER)
    made.own("topic")
    made.sights = [
        Sight(by_offsets={}, verdicts=verdicts, unread=unread or {}, topics=frozenset({"topic"}), is_complete=True)
        for verdicts in sights
    ]
    return made


def is_right(scored: Scene) -> bool:
    return score_ours(scored).is_right


def test_a_false_hanging_in_any_cycle_is_wrong() -> None:
    """It does not help that the last cycle takes it back."""
    taken_back = scene({A: HANGING}, {A: LIVE})
    taken_back.live(planted(A))

    assert score_ours(taken_back).words == "FALSE hanging_not_in_transaction"
    assert not is_right(taken_back)
    assert not is_right(scene({B: HANGING}, {}))


def test_a_missed_hang_is_wrong() -> None:
    """No row, and a healthy row, are both misses."""
    for seen in ({}, {A: LIVE}):
        missed = scene(seen)
        missed.hanging(planted(A))

        assert not is_right(missed)


def test_an_inconclusive_verdict_needs_the_right_reason() -> None:
    """Another reason would send the operator to the wrong place."""
    for verdict, expected in ((HIDDEN, True), (OFFLINE, False), (LIVE, False)):
        doubted = scene({A: verdict})
        doubted.expect(planted(A), Truth.LIVE, (), InconclusiveReason.TRANSACTIONAL_IDS_HIDDEN)

        assert is_right(doubted) is expected


def test_what_is_open_and_not_written_down_is_wrong() -> None:
    """Unless the situation says that transactions come and go."""
    surprised = scene({A: LIVE, B: LIVE}, {A: LIVE})
    surprised.live(planted(A))
    assert not is_right(surprised)

    surprised.may_show = frozenset({Verdict.OPEN_WITHIN_TIMEOUT})
    assert is_right(surprised)


def test_what_is_closed_may_not_be_shown() -> None:
    """Neither as live nor as anything else."""
    shown = scene({A: LIVE})
    shown.closed(planted(A))

    assert not is_right(shown)


def test_a_verdict_that_must_come_second_may_not_come_first() -> None:
    """Stuck at first sight is a guess."""
    for first, expected in ((COMPLETING, True), (STUCK, False)):
        stuck = scene({A: first}, {A: STUCK})
        stuck.expect(planted(A), Truth.STUCK, {Verdict.STUCK_COMPLETING}, first={Verdict.COMPLETING})

        assert is_right(stuck) is expected


def test_a_partition_must_be_unread_for_its_reason() -> None:
    """Unread counts only with the reason that is true; a topic that is shown is not invisible."""
    for unread, expected in (({("topic", 0): "no_leader"}, True), ({("topic", 0): "timed_out"}, False), ({}, False)):
        away = scene({}, unread=unread)
        away.expect(planted(A), Truth.HANGING, unread="no_leader")

        assert is_right(away) is expected
    shown = scene({})
    shown.expect(planted(A), Truth.HANGING, unread=INVISIBLE)
    assert not is_right(shown)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (JavaAnswer(frozenset({A}), None), "right"),
        (JavaAnswer(frozenset(), None), "missed hanging"),
        (JavaAnswer(frozenset({A, B}), None), "FALSE HANGING"),
        (JavaAnswer(frozenset({B}), None), "FALSE HANGING, missed hanging"),
        (JavaAnswer(frozenset({A, ("another topic", 0, 9)}), None), "right"),
        (JavaAnswer(frozenset(), "of thirst"), "died: of thirst"),
    ],
)
def test_kafka_s_tool_is_scored_by_what_it_names(answer: JavaAnswer, words: str) -> None:
    """Its rows on other scenes' topics are not this scene's concern."""
    scored = scene({})
    scored.hanging(planted(A))
    scored.live(planted(B))
    scored.java = answer

    assert score_java(scored).words == words
    assert score_java(scored).is_right == (words == "right")


def test_the_tool_s_table_and_its_deaths_are_understood() -> None:
    """Rows are read by the names of the columns, a death by its deepest cause."""
    table = "Topic\tPartition\tProducerId\tProducerEpoch\tStartOffset\ntopic\t0\t1\t3\t17\n"
    trace = "[main] WARN noise\nFailed\nCaused by: org.apache.kafka.common.errors.TimeoutException: too late\n\tat x"

    assert java_tool.rows(table) == [A]
    assert java_tool.sentence_of(trace) == "TimeoutException: too late"
    assert java_tool.sentence_of("[main] WARN noise\nIt failed\n") == "It failed"


def test_a_wrong_truth_is_noticed(kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """What is written down of a live and of a hanging transaction must be what the brokers say."""
    bootstrap, topic = kafka_4_3_1.bootstrap, make_topic(kafka_4_3_1, partitions=3)
    client = Client.begin(bootstrap, fresh_name("live"))
    live = client.open(topic, 0)
    hang = plant_hang(bootstrap, topic, 1, fresh_name("hang"))

    def contradicted(transaction: PlantedTransaction, truth: Truth) -> bool:
        expected = Expected(
            key=(topic, transaction.partition, transaction.producer_id),
            truth=truth,
            producer_epoch=transaction.producer_epoch,
            transactional_id=transaction.transactional_id,
            verdicts=frozenset(),
            first=frozenset(),
            reasons=frozenset(),
            unread=None,
        )
        return ground.contradiction(bootstrap, expected) is not None

    assert {truth for truth in Truth if not contradicted(live, truth)} == {Truth.LIVE}
    assert {truth for truth in Truth if not contradicted(hang, truth)} == {Truth.HANGING}
    client.end(commit=False)
    ground.until_closed(bootstrap, topic, 0)
    assert {truth for truth in Truth if not contradicted(live, truth)} == {Truth.CLOSED}
