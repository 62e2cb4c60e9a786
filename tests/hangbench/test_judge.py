"""Tests that HangBench notices each kind of wrong response, and of wrong truth."""

from __future__ import annotations

import pytest

from hangbench.detector import Response, Row, Says
from hangbench.judge import Judgement, score
from hangbench.situations.words import UNREADABLE, Expected, Key, Lacking, Truth

A: Key = ("topic", 0, 1)
B: Key = ("topic", 1, 2)
FOREIGN: Key = ("another topic", 0, 9)
RIGHT, WEAK, MISSED, FALSE, CRASHED = Judgement


def expected(truth: Truth, key: Key = A, lacking: frozenset[Lacking] = frozenset()) -> Expected:
    return Expected(key=key, truth=truth, producer_epoch=0, transactional_id="id", lacking=lacking)


def judged(truths: list[Expected], *looks: dict[Row, Says], complete: bool = True) -> Judgement:
    responses = [Response(rows=rows, is_complete=complete) for rows in looks]
    return score(responses, truths, {"topic"}).judgement


@pytest.mark.parametrize(
    ("truth", "says", "judgement"),
    [
        (Truth.HANGING, Says.HANGING, RIGHT),
        (Truth.HANGING, Says.ATTENTION, WEAK),
        (Truth.HANGING, Says.UNKNOWN, WEAK),
        (Truth.HANGING, Says.OPEN, MISSED),
        (Truth.HANGING, None, MISSED),
        (Truth.STUCK, Says.ATTENTION, RIGHT),
        (Truth.STUCK, Says.HANGING, FALSE),
        (Truth.OVERDUE, Says.OPEN, MISSED),
        (Truth.OVERDUE, None, MISSED),
        (Truth.LIVE, Says.OPEN, RIGHT),
        (Truth.LIVE, None, RIGHT),
        (Truth.LIVE, Says.ATTENTION, WEAK),
        (Truth.LIVE, Says.UNKNOWN, WEAK),
        (Truth.COMPLETING, Says.HANGING, FALSE),
        (Truth.FENCED, Says.HANGING, FALSE),
        (Truth.CLOSED, Says.HANGING, FALSE),
        (Truth.CLOSED, None, RIGHT),
    ],
)
def test_each_answer_has_its_judgement(truth: Truth, says: Says | None, judgement: Judgement) -> None:
    """Only a hang may be called one; whoever says less than can be known is weak."""
    assert judged([expected(truth)], {} if says is None else {A: says}) is judgement


def test_a_false_hang_in_any_look_is_false() -> None:
    """It does not help that the last look takes it back."""
    assert judged([expected(Truth.LIVE)], {A: Says.HANGING}, {A: Says.OPEN}) is FALSE
    assert judged([], {B: Says.HANGING}, {}) is FALSE


def test_what_nobody_can_know_may_be_called_unknown() -> None:
    """A hang among it may be guessed; not a word about it is missed."""
    hidden = [expected(Truth.HANGING, lacking=frozenset({Lacking.TRANSACTIONAL_IDS_HIDDEN}))]

    assert judged(hidden, {A: Says.UNKNOWN}) is RIGHT
    assert judged(hidden, {A: Says.HANGING}) is RIGHT
    assert judged(hidden, {}) is MISSED


@pytest.mark.parametrize("lacking", [each for each in Lacking if each in UNREADABLE])
def test_what_cannot_be_read_must_be_said(lacking: Lacking) -> None:
    """But nobody can say anything about a topic whose existence is hidden."""
    unreadable = [expected(Truth.HANGING, lacking=frozenset({lacking}))]

    assert judged(unreadable, {}, complete=False) is RIGHT
    assert judged(unreadable, {}, complete=True) is (RIGHT if lacking is Lacking.TOPIC_HIDDEN else MISSED)


def test_rows_of_other_situations_are_not_its_concern() -> None:
    """They share brokers."""
    assert judged([expected(Truth.HANGING)], {A: Says.HANGING, FOREIGN: Says.HANGING}) is RIGHT


def test_a_detector_may_know_the_partition_only() -> None:
    """It is right where one of the partition's transactions hangs, and false where none does."""
    assert judged([expected(Truth.HANGING)], {("topic", 0, None): Says.HANGING}) is RIGHT
    assert judged([expected(Truth.LIVE)], {("topic", 0, None): Says.HANGING}) is FALSE


def test_the_worst_counts_and_every_reason_is_named() -> None:
    """A false hang is worse than a crash after it."""
    truths = [expected(Truth.HANGING), expected(Truth.LIVE, B)]
    found = score([Response(rows={B: Says.HANGING})], truths, {"topic"})
    assert (found.judgement, found.words) == (FALSE, "FALSE HANGING: live, missed hanging")

    found = score([Response(rows={B: Says.HANGING}), Response(death="of thirst")], truths, {"topic"})
    assert (found.judgement, found.words) == (FALSE, "FALSE HANGING: live, crashed: of thirst")


def test_hidden_things_must_be_admitted() -> None:
    """A look that shows nothing because nothing may be seen must not look healthy."""
    for complete, judgement in ((True, WEAK), (False, RIGHT)):
        response = Response(is_complete=complete)
        assert score([response], [], {"topic"}, must_be_incomplete=True).judgement is judgement


def test_an_alarm_about_nothing_is_weak() -> None:
    """Unless transactions come and go."""
    response = Response(rows={B: Says.ATTENTION})

    assert score([response], [], {"topic"}).judgement is WEAK
    assert score([response], [], {"topic"}, transactions_come_and_go=True).judgement is RIGHT
