"""Compares what was seen with what is true, without a broker: who is missing, who is extra, and the rows of the table."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from hangbench.parties.scene import Scene
from hangbench.parties.scenes import SITUATIONS
from hangbench.parties.scenes.nobody import NOBODY_HELD
from hangbench.parties.words import Cause, Situation, Standstill
from tests.verification.standstill import play
from tests.verification.standstill.play import CYCLES, Act
from tests.verification.standstill.table import DOCUMENT
from tests.verification.standstill.view import of_why

PLACE = ("orders", 0)
HELD = Standstill("readers", PLACE, Cause.OWNER_SILENT, "owner")


def made_act(monkeypatch: pytest.MonkeyPatch, *, limit_s: float = 90) -> Act:
    """An act in its first phase: the group `readers` stands still behind a silent owner."""

    def make(scene: Scene) -> Generator[None, None, None]:
        scene.groups["readers"] = False
        scene.places.add(PLACE)
        scene.stand_still(("readers", PLACE, Cause.OWNER_SILENT, "owner"))
        yield

    monkeypatch.setattr(play, "LIMIT_S", limit_s)
    monkeypatch.setattr(play, "WATCHED_S", 0)
    flags: dict[str, Any] = dict.fromkeys(("quick", "alone", "patient", "late"), False)
    situation = Situation(name="held", sentence="A group waits.", make=make, versions=None, not_offered="", **flags)
    probe = Mock(contradiction=Mock(return_value=None))
    act = Act(Scene(situation, Mock(), Mock()), probe, Path())
    act.go_on()
    return act


def test_the_truth_in_some_cycles_one_after_the_other_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another party on another partition belongs to another scene."""
    act = made_act(monkeypatch)
    for _ in range(CYCLES):
        assert not act.is_settled
        act.see(frozenset({HELD, Standstill("others", ("payments", 0), Cause.HANGING, None)}))

    assert act.is_settled
    assert act.result.wrong == []


def test_another_cause_is_waited_for_and_then_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that is not silent yet may become silent; after the limit the exporter is wrong."""
    act = made_act(monkeypatch, limit_s=0)
    act.see(frozenset({Standstill("readers", PLACE, Cause.LIVE, "owner")}))

    assert act.is_over
    assert [words.partition(":")[0] for words in act.result.wrong] == ["missing", "extra"]


def test_one_cycle_with_an_extra_party_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    act = made_act(monkeypatch)
    act.see(frozenset({HELD, Standstill("healthy", PLACE, Cause.OWNER_SILENT, "owner")}))
    for _ in range(CYCLES):
        act.see(frozenset({HELD}))

    assert act.result.wrong == ["extra: healthy on orders-0, owner_silent behind owner"]


def test_an_answer_about_a_producer_names_no_group() -> None:
    """The transactions that `why --transactional-id` shows hold others up; only what is stuck holds the producer."""
    hold = {"topic": "orders", "partition": 0, "verdict": "open_within_timeout", "transactional_id": "owner"}
    stuck = {"transactional_id": "other", "partitions": [{"topic": "orders", "partition": 1}]}
    answer = {"lag": None, "holds": [{"transaction": hold, "is_young": False}], "stuck": [stuck]}

    assert of_why("owner", answer) == {Standstill("owner", ("orders", 1), Cause.STUCK_AT_COORDINATOR, None)}
    assert of_why("readers", {**answer, "lag": 3, "stuck": []}) == {
        Standstill("readers", PLACE, Cause.WITHIN_TIMEOUT, "owner")
    }
    assert of_why("readers", {"lag": 3, "holds": [{"transaction": hold, "is_young": True}], "stuck": []}) == set()


def test_a_group_behind_what_is_stuck_stands_still_at_the_coordinator() -> None:
    """The hold says `completing`, which a second look calls stuck."""
    hold = {"topic": "orders", "partition": 0, "verdict": "completing", "transactional_id": "owner"}
    stuck = {"transactional_id": "owner", "partitions": [{"topic": "orders", "partition": 0}]}
    answer = {"lag": 3, "holds": [{"transaction": hold, "is_young": False}], "stuck": [stuck]}

    assert of_why("readers", answer) == {Standstill("readers", PLACE, Cause.STUCK_AT_COORDINATOR, "owner")}


def test_the_table_has_every_situation() -> None:
    """There are enough of them, and enough in which no transaction holds anybody."""
    names = re.findall(r"^\| \*\*([^*]+)\*\*:", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)

    assert names == [situation.name for situation in SITUATIONS]
    assert len(names) >= 30
    assert len(NOBODY_HELD.situations) >= 10
