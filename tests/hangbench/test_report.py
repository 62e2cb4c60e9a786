"""What cannot be judged counts for nobody; the score card has every result."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from hangbench.__main__ import main
from hangbench.detector import Detector, Look, Question, Response, Says
from hangbench.kafka.maven import BrokersUnavailable
from hangbench.play import Performance
from hangbench.report import markdown, page, score_card
from hangbench.run import NOT_JUDGED, Result, judged, results
from hangbench.situations.scene import Scene
from hangbench.situations.stages import Stage
from hangbench.situations.words import Collection, Expected, Truth
from tests.hangbench.no_cluster import NoCluster

SITUATIONS = Collection("stage")


@SITUATIONS.add()
def live_one(_: Scene) -> None:
    """A live transaction."""


@SITUATIONS.add(since="9.0")
def of_the_future(_: Scene) -> None:
    """Not for this version."""


class Mute(Detector):
    """A detector that says nothing."""

    @contextmanager
    def watching(self, _: Question) -> Iterator[Look]:
        yield Response


def stage(perform: object, *, is_used_up: bool = False) -> Stage:
    return Stage("stage", "A stage", "It is small.", (SITUATIONS,), perform, is_used_up)  # type: ignore[arg-type]


def scene(*responses: Response, failure: str | None = None) -> Scene:
    """The scene of a live transaction, of which one detector said this."""
    made = Scene(SITUATIONS.situations[0], NoCluster(), failure=failure)
    made.own("topic")
    made.expected.append(Expected(key=("topic", 0, 1), truth=Truth.LIVE, producer_epoch=0, transactional_id="id"))
    made.hear("mute", responses)
    return made


def test_a_truth_that_is_not_confirmed_counts_for_nobody() -> None:
    """Neither does a scene in which the detector was never asked."""
    alarm = Response(rows={("topic", 0, 1): Says.HANGING})

    assert judged(scene(alarm), "mute") == ("false", "FALSE HANGING: live")
    assert judged(scene(alarm, failure="Traceback:\n  x\nValueError: no"), "mute") == (NOT_JUDGED, "ValueError: no")
    assert judged(scene(), "mute") == (NOT_JUDGED, "it was never asked")


def test_a_hang_on_a_topic_of_no_situation_is_false() -> None:
    """Whoever aborts it loses data there, too. A row of another situation is judged there."""
    made = scene(Response(rows={("elsewhere", 3, 1): Says.HANGING, ("other", 0, 2): Says.OPEN}))
    other = scene(Response(rows={("topic", 0, 1): Says.OPEN}))
    found = list(
        results(["4.3.1"], [stage(lambda *_: {"live one": made, "other one": other})], [Mute("mute")], lambda _: None)
    )

    false = [(each.situation, each.words) for each in found if each.judgement == "false"]
    assert false == [("where nothing was planted", "FALSE HANGING: elsewhere-3")]


def test_brokers_that_do_not_come_up_are_said() -> None:
    """For each detector and each situation of this version; other stages go on."""

    def fail(_: str, __: Sequence[Detector]) -> Performance:
        raise BrokersUnavailable("java is missing")

    said: list[str] = []
    stages = [stage(fail), stage(lambda _, __: {"live one": scene(Response())})]
    found = list(results(["4.3.1"], stages, [Mute("mute"), Mute("deaf")], said.append))

    assert [(each.situation, each.detector, each.judgement) for each in found] == [
        ("live one", "mute", NOT_JUDGED),
        ("live one", "deaf", NOT_JUDGED),
        ("live one", "mute", "right"),
        ("live one", "deaf", NOT_JUDGED),
    ]
    assert "java is missing" in found[0].words
    assert "java is missing" in said[0]


def test_where_a_look_uses_up_what_was_planted_each_detector_has_its_own_brokers() -> None:
    """Otherwise all look at the same ones."""
    groups: list[list[str]] = []

    def perform(_: str, detectors: Sequence[Detector]) -> Performance:
        groups.append([detector.name for detector in detectors])
        return {}

    for is_used_up in (False, True):
        list(results(["4.3.1"], [stage(perform, is_used_up=is_used_up)], [Mute("a"), Mute("b")], lambda _: None))
    assert groups == [["a", "b"], ["a"], ["b"]]


RESULTS = [
    Result(
        kafka="4.3.1",
        stage="still",
        situation=f"number {number}",
        detector=detector,
        truth="live",
        judgement=judgement,
        words=words,
        seconds=seconds,
    )
    for number, detector, judgement, words, seconds in (
        (1, "mine", "right", "right", 2.0),
        (2, "mine", "false", "FALSE HANGING: <live> | other", 4.0),
        (3, "mine", NOT_JUDGED, "AssertionError", 0.0),
        (1, "yours", "crashed", "crashed: of thirst", 1.0),
    )
]


def test_the_score_card_counts_each_judgement() -> None:
    """The time is the median of what was judged."""
    heading, rows = score_card(RESULTS, "4.3.1")

    assert heading == ("detector", "right", "weak", "missed", "false", "crashed", NOT_JUDGED, "a look takes")
    assert rows == [("mine", "1", "0", "0", "1", "0", "1", "4.0 s"), ("yours", "0", "0", "0", "0", "1", "0", "1.0 s")]


def test_words_of_a_detector_cannot_break_the_page() -> None:
    """Neither its table in Markdown, nor HTML."""
    assert "| number 2 | live | FALSE HANGING: <live> / other |  |" in markdown(RESULTS)
    assert "FALSE HANGING: &lt;live&gt; | other" in page(RESULTS)
    assert "<live>" not in page(RESULTS)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["list"], 0, "hang beside a live one"),
        (["show", "epochs_are_used_up"], 0, "https://issues.apache.org/jira/browse/KAFKA-20090"),
        (["show", "nothing"], 2, "no situation is called 'nothing'"),
        (["run", "--detector", "nobody"], 2, "nobody is none of kafka-transactions"),
        (
            ["run", "--detector", f"mine={sys.executable}", "--detector", f"mine={sys.executable} -"],
            2,
            "a name of its own: mine is there twice",
        ),
        (["run", "--detector", "mine=/nowhere/mine"], 1, "detector mine: there is no program /nowhere/mine"),
        (["run", "--detector", f"mine={sys.executable}", "--kafka", "4.3.1,x"], 1, "mvn is missing"),
        (["report", "/nowhere.json"], 1, "there is no"),
        (["report", "BROKEN"], 1, "has no results of `hangbench run`"),
        (["report", "GOOD"], 0, "| mine | 1 | 0 |"),
        (["report", "GOOD", "--html"], 0, "<td>crashed: of thirst</td>"),
    ],
)
def test_a_command_says_what_is_wrong(
    arguments: list[str],
    status: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a status of its own."""
    paths = {"GOOD": tmp_path / "good.json", "BROKEN": tmp_path / "broken.json"}
    paths["GOOD"].write_text(json.dumps({"results": [result.document() for result in RESULTS]}))
    paths["BROKEN"].write_text('{"results": [{}]}')
    monkeypatch.setattr(sys, "argv", ["hangbench", *(str(paths.get(each, each)) for each in arguments)])

    assert main() == status
    printed = capsys.readouterr()
    assert words in printed.out + printed.err
