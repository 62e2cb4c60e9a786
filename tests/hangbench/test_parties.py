"""The bench reads and judges the response about a party; a situation that cannot be made counts for nobody."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from hangbench.adapters import ktx_why
from hangbench.command import AnswerError
from hangbench.detector import Question
from hangbench.detectors import party_detectors_of
from hangbench.judge import Judgement
from hangbench.kafka.maven import BrokersUnavailable
from hangbench.parties import play
from hangbench.parties.detector import PartyAnswer, PartyDetector, held_in
from hangbench.parties.judge import opinions, worst_of
from hangbench.parties.play import PartyAct
from hangbench.parties.scene import Scene
from hangbench.parties.scenes import SITUATIONS
from hangbench.parties.words import Cause, Situation
from hangbench.run import NOT_JUDGED
from tests.hangbench.no_cluster import NoCluster

PLACE = ("orders", 0)
TRUTH: dict[tuple[str, int], str | None] = {PLACE: "owner"}


@pytest.mark.parametrize(
    ("answer", "judgement", "words"),
    [
        (PartyAnswer(held={PLACE: "owner"}), Judgement.RIGHT, "right"),
        (PartyAnswer(held={PLACE: "other"}), Judgement.WEAK, "another transaction"),
        (PartyAnswer(held={PLACE: None}), Judgement.WEAK, "no transaction named"),
        (PartyAnswer(held={}), Judgement.MISSED, "missed a party"),
        (PartyAnswer(held={}, is_complete=False), Judgement.WEAK, "unsure of a party"),
        (PartyAnswer(held={PLACE: "owner", ("orders", 1): None}), Judgement.FALSE, "FALSE PARTY"),
        (PartyAnswer(held={}, death="it is broken"), Judgement.CRASHED, "crashed: it is broken"),
    ],
)
def test_an_answer_is_judged_by_where_the_party_stands(answer: PartyAnswer, judgement: Judgement, words: str) -> None:
    found = worst_of(opinions(TRUTH, answer))
    assert (found.judgement, found.words) == (judgement, words)


def test_the_worst_of_all_parties_and_phases_counts() -> None:
    said = [*opinions(TRUTH, PartyAnswer(held={PLACE: "other"})), *opinions({}, PartyAnswer(held={PLACE: "owner"}))]
    assert worst_of(said).judgement is Judgement.FALSE


@pytest.mark.parametrize("row", [7, {}, {"topic": "t", "partition": "0"}, {"topic": "t", "partition": 0, "behind": 1}])
def test_an_answer_that_is_not_as_stated_is_refused(row: Any) -> None:
    with pytest.raises(AnswerError, match=r"its answer cannot be read: held\[0\] needs a topic"):
        held_in(json.dumps({"hangbench": 1, "held": [row]}))


def test_an_answer_that_contradicts_itself_is_refused() -> None:
    rows = [{"topic": "t", "partition": 0, "behind": behind} for behind in ("owner", "other")]
    assert held_in(json.dumps({"hangbench": 1, "held": rows[:1] * 2})) == ({("t", 0): "owner"}, True)
    with pytest.raises(AnswerError, match="it has two rows about"):
        held_in(json.dumps({"hangbench": 1, "held": rows}))


def test_a_detector_finds_its_question_in_the_environment() -> None:
    """Which party, and how long a standstill must last."""
    program = (
        "import json, os; e = {n: os.environ['HANGBENCH_' + n] for n in ('GROUP', 'TRANSACTIONAL_ID', 'YOUNG_MS')};"
        "print(json.dumps({'hangbench': 1, 'held': [{'topic': json.dumps(e), 'partition': 0, 'behind': None}]}))"
    )
    question = Question(bootstrap="127.0.0.1:9", cluster=NoCluster(), situations=("it",))
    answer = PartyDetector("it", [sys.executable, "-c", program]).ask(question, group="readers", young_ms=1000)

    assert answer.death is None
    ((topic, _),) = answer.held
    assert json.loads(topic) == {"GROUP": "readers", "TRANSACTIONAL_ID": "", "YOUNG_MS": "1000"}


def test_why_is_understood() -> None:
    """A young hold holds nobody yet; a producer stands still where its own end is missing, whatever it holds."""
    row = {"topic": "orders", "partition": 0, "transactional_id": "owner"}
    hold = {"transaction": row, "is_young": False}
    found = {"holds": [hold, {**hold, "is_young": True}], "stuck": [{"partitions": [{"topic": "t", "partition": 1}]}]}

    assert list(ktx_why.of_group(found)) == [("orders", 0, "owner")]
    assert list(ktx_why.of_producer(found)) == [("t", 1, None)]


@pytest.mark.parametrize(
    ("complaint", "status"),
    [
        ("ktx: there is no group 'g': its coordinator, broker 1, has none", 0),
        ("ktx: no broker is the coordinator; or no group has ever committed", 1),
    ],
)
def test_only_a_group_that_is_not_there_holds_nowhere(
    complaint: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no coordinator responds, `ktx why` has no answer."""
    program = tmp_path / "ktx"
    program.write_text(f'#!/bin/sh\necho "{complaint}" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("KTX", str(program))
    question = Question(bootstrap="127.0.0.1:9", cluster=NoCluster(), situations=("it",))
    (detector,) = party_detectors_of(["ktx"])
    answer = detector.ask(question, group="g", young_ms=1000)

    assert answer.death == (complaint if status else None)


def test_brokers_that_do_not_come_up_count_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next version is played all the same."""
    monkeypatch.setattr(play, "KafkaCluster", Mock(side_effect=BrokersUnavailable("java is missing")))
    said: list[str] = []
    found = list(play.results("4.3.1", [PartyDetector("mute", ["true"])], SITUATIONS[:2], said.append))

    assert [each.judgement for each in found] == [NOT_JUDGED] * 2
    assert "java is missing" in found[0].words
    assert "java is missing" in said[0]


def played(monkeypatch: pytest.MonkeyPatch, problem: str | None) -> PartyAct:
    """A situation with a group behind a silent owner, whose detector sees nobody, and with what the brokers say of it."""

    def make(scene: Scene) -> Generator[None, None, None]:
        scene.groups["readers"] = False
        scene.owners.add("owner")
        scene.stand_still(("readers", PLACE, Cause.OWNER_SILENT, "owner"))
        yield

    monkeypatch.setattr(play, "PAUSE_S", 0)
    monkeypatch.setattr(play, "Probe", lambda _: Mock(contradiction=Mock(return_value=problem)))
    flags: dict[str, Any] = dict.fromkeys(("quick", "alone", "patient", "late"), False)
    situation = Situation(name="held", sentence="A group waits.", make=make, versions=None, not_offered="", **flags)
    blind = PartyDetector("blind", [sys.executable, "-c", 'print(\'{"hangbench": 1, "held": []}\')'])
    act = PartyAct(Scene(situation, NoCluster(), Mock(), stack=ExitStack()), [blind])
    act.play()
    return act


def test_every_party_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group is missed; the owner of the open transaction stands still nowhere."""
    (result,) = played(monkeypatch, None).results()

    assert (result.judgement, result.words, result.truth) == ("missed", "missed a party", "owner_silent")


def test_a_truth_that_the_brokers_contradict_counts_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    (result,) = played(monkeypatch, "it does not stand still").results()

    assert result.judgement == NOT_JUDGED
    assert "the truth is another one: it does not stand still" in result.words
