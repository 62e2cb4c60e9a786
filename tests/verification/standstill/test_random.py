"""The judges of random groups and plans accept what is true and find what is not; short runs on real brokers are right."""

from __future__ import annotations

from typing import Any

import pytest

from hangbench.parties.scenes import VERSIONS
from tests.verification.standstill.random_groups import (
    differences,
    falsehoods,
    play,
    wrong_about_hangs,
    wrong_about_owner,
    wrong_about_topic,
)
from tests.verification.standstill.random_logs import Log
from tests.verification.standstill.random_plans import Numbers, Start, numbers_in
from tests.verification.standstill.random_plans import differences as wrong_numbers
from tests.verification.standstill.random_plans import play as play_plans

PLACE = ("orders", 0)
PLANS_MIN = 10
LOG = Log(begins_at=2, last_stable_offset=9, high_watermark=12, committed=(3, 4))
"""A record at 4, a marker at 5, an aborted transaction from 6 to 8, an open one at 9."""


def answer(
    *stands: str, is_held: bool = False, unknown: tuple[str, ...] = (), lag: int = 7, **more: Any
) -> dict[str, Any]:
    transaction = {"topic": "orders", "partition": 0}
    holds = [{"transaction": transaction, "stands": each} for each in stands]
    known = {"holds": holds, "later": [], "is_held": is_held, "unknown": unknown, "lag": lag}
    return {**known, "hides_topics": False, "partitions": 1, **more}


@pytest.mark.parametrize(
    ("offset", "stand"), [(2, "before"), (4, "before"), (5, "at"), (9, "at"), (10, "beyond"), (12, None)]
)
def test_where_a_group_stands_follows_from_the_records_that_a_consumer_gets(offset: int, stand: str | None) -> None:
    assert LOG.stand(offset) == stand


def test_a_login_that_sees_everything_says_exactly_what_is() -> None:
    at_5 = {PLACE: 5}

    assert list(differences(answer("at", is_held=True), at_5, {PLACE: LOG})) == []
    for wrong in (
        answer(),
        answer("before"),
        answer("at", is_held=True, lag=6),
        answer("at", is_held=True, unknown=("x",)),
    ):
        assert list(differences(wrong, at_5, {PLACE: LOG})) != [], wrong


def test_one_that_sees_a_part_may_know_less_but_says_nothing_false() -> None:
    true = answer("at", is_held=True), answer(unknown=("not read",)), answer(hides_topics=True)
    false = answer(), answer("before"), answer("beyond", unknown=("not read",)), answer(partitions=0)

    assert [list(falsehoods(each, {PLACE: 5}, {PLACE: LOG})) for each in true] == [[], [], []]
    assert all(list(falsehoods(each, {PLACE: 5}, {PLACE: LOG})) for each in false)
    assert list(falsehoods(answer("at", is_held=True), {PLACE: 4}, {PLACE: LOG})) != []
    assumed = answer("at", is_held=True, unknown=("on orders-0 … is taken for an end marker",))
    record_at_8 = Log(begins_at=2, last_stable_offset=9, high_watermark=12, committed=(8,))
    assert list(falsehoods(assumed, {PLACE: 8}, {PLACE: record_at_8})) == []
    assert list(falsehoods(assumed, {PLACE: 4}, {PLACE: LOG})) != [], "further away than one offset"


def test_of_a_topic_each_held_partition_is_named_or_not_known() -> None:
    assert list(wrong_about_topic(answer("at"), "orders", {PLACE: LOG})) == []
    assert list(wrong_about_topic(answer(unknown=("not read",)), "orders", {PLACE: LOG})) == []
    assert list(wrong_about_topic(answer(), "orders", {PLACE: LOG})) != []
    free = Log(begins_at=2, last_stable_offset=12, high_watermark=12, committed=(3, 4))
    assert list(wrong_about_topic(answer("at", unknown=("x",)), "orders", {PLACE: free})) != []


def test_what_hangs_is_named_or_the_answer_is_incomplete() -> None:
    """A live transaction is never called a hang."""
    hang = Log(begins_at=2, last_stable_offset=9, high_watermark=12, committed=(3, 4), of_hang=(9,))
    row = {"topic": "orders", "partition": 0, "verdict": "hanging_by_offsets"}
    named, nothing = {"transactions": [row]}, {"transactions": [{**row, "verdict": "inconclusive"}]}

    assert list(wrong_about_hangs(named, {PLACE: hang}, is_complete=True)) == []
    assert list(wrong_about_hangs(nothing, {PLACE: hang}, is_complete=False)) == []
    assert list(wrong_about_hangs(nothing, {PLACE: hang}, is_complete=True)) != []
    assert list(wrong_about_hangs(named, {PLACE: LOG}, is_complete=False)) != []


def test_of_an_owner_all_partitions_are_named_or_not_known() -> None:
    """A login that sees everything knows all; one that does not names no other."""
    other = ("orders", 1)

    assert list(wrong_about_owner(answer("at"), {PLACE}, sees_all=True)) == []
    assert list(wrong_about_owner(answer("at"), {PLACE, other}, sees_all=False)) != []
    assert list(wrong_about_owner(answer("at", hides_topics=True), {PLACE, other}, sees_all=False)) == []
    assert list(wrong_about_owner(answer("at", hides_topics=True), {other}, sees_all=False)) != []
    assert list(wrong_about_owner(answer("at", unknown=("x",)), {PLACE}, sees_all=True)) != []


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("version", VERSIONS)
def test_why_and_the_cycle_are_right_about_random_groups(version: str) -> None:
    outcome = play(version, seed=11, groups=16)

    assert outcome.wrong == []
    assert {"at", "before", "beyond", "free"} <= set(outcome.judged)


def test_the_numbers_of_a_plan_are_what_its_marker_does() -> None:
    """An owner at 9 with a hang at 10 behind it: one record waits behind both, and none behind the hang alone."""
    before = Log(
        begins_at=2, last_stable_offset=9, high_watermark=15, committed=(3, 4), of_owner=(9, 11), of_hang=(10,)
    )
    after = Log(begins_at=2, last_stable_offset=15, high_watermark=15, committed=(3, 4, 12))
    truth: dict[Start, Numbers | None] = {(PLACE, 9): (2, 1, 1), (PLACE, 10): (1, 1, 1)}

    assert list(wrong_numbers(truth, {PLACE: before}, {PLACE: after})) == []
    assert len(list(wrong_numbers({**truth, (PLACE, 9): (2, 2, 1)}, {PLACE: before}, {PLACE: after}))) == 1
    assert len(list(wrong_numbers({**truth, (PLACE, 10): None}, {PLACE: before}, {PLACE: after}))) == 1


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("records that are dropped: 1,003; records of others that wait: 12,039", (1003, 12039, 0)),
        ("records that are dropped: 3; records of others that wait: 9, and 1 of other open transactions", (3, 9, 1)),
        ("records that are dropped: not counted; offsets that wait: 42 in all", None),
    ],
)
def test_numbers_are_read_from_the_text_of_a_plan(text: str, numbers: Numbers | None) -> None:
    assert numbers_in(text) == numbers


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("version", VERSIONS)
def test_plans_about_random_logs_say_what_their_markers_do(version: str) -> None:
    count, wrong = play_plans(version, seed=12, rounds=1)

    assert wrong == []
    assert count > PLANS_MIN
