"""What cannot be judged counts for nobody; the score card has every result."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from hangbench.__main__ import main
from hangbench.detector import Detector, Look, Question, Response, Says
from hangbench.detectors import DetectorUnavailable, ktx
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
    torn = [replace(RESULTS[0], words="FALSE HANGING: a\nb\ud800-0")]
    for text in (markdown(torn), page(torn)):
        assert "FALSE HANGING: a b\\ud800-0" in text
        text.encode()


@pytest.mark.parametrize(("command", "words"), [("", "ktx is not on the PATH"), ("ktx '", "KTX is not a command")])
def test_a_ktx_that_is_no_command_is_said(command: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty KTX is none."""
    monkeypatch.setenv("KTX", command)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DetectorUnavailable, match=words):
        ktx()


def test_where_nothing_is_played_no_results_are_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file may have those of an earlier run."""
    monkeypatch.setattr("hangbench.__main__._versions", lambda _: ["3.9.1"])
    monkeypatch.setattr("hangbench.__main__.results", lambda *_: iter(()))
    output = tmp_path / "results.json"
    arguments = ["run", "--detector", f"mine={sys.executable}", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", ["hangbench", *arguments])

    assert main() == 1
    assert "nothing was played" in capsys.readouterr().err
    assert not output.exists()


def test_a_build_that_takes_too_long_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Maven does so behind a proxy that does not respond."""
    monkeypatch.setattr(sys, "argv", ["hangbench", "issues"])
    monkeypatch.setattr("hangbench.__main__.kafka_jars", Mock(side_effect=subprocess.TimeoutExpired("mvn", 600)))

    assert main() == 1
    assert capsys.readouterr().err == "hangbench: Command 'mvn' timed out after 600 seconds\n"


@pytest.mark.parametrize(
    ("scenes", "status", "words"),
    [
        ([{"fault": "it hangs"}, {"failure": "AssertionError: late"}], 3, "not judged: AssertionError: late"),
        ([{}, {"failure": "AssertionError: late"}], 4, "right"),
        ([{}], 0, "right"),
        (None, 4, "BrokersUnavailable: java is missing"),
    ],
)
def test_a_fault_is_the_status_whatever_cannot_be_judged(
    scenes: list[dict[str, str]] | None,
    status: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Brokers that do not come up show nothing."""
    situation = replace(SITUATIONS.situations[0], issue="KAFKA-1")

    def perform(_: str, __: Sequence[Detector]) -> Performance:
        if scenes is None:
            raise BrokersUnavailable("java is missing")
        return {str(at): Scene(situation, NoCluster(), **each) for at, each in enumerate(scenes)}  # type: ignore[arg-type]

    collection = Collection("stage", [situation])
    played = Stage("stage", "Stage", "", (collection,), perform)
    monkeypatch.setattr("hangbench.__main__.STAGES", (played,))
    monkeypatch.setattr("hangbench.__main__._versions", lambda _: ["4.3.1"])
    monkeypatch.setattr(sys, "argv", ["hangbench", "issues"])

    assert main() == status
    assert words in capsys.readouterr().out


def test_results_are_never_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results of the situations before stay where the disk is full."""
    output = tmp_path / "results.json"
    arguments = ["run", "--detector", f"mine={sys.executable}", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", ["hangbench", *arguments])
    monkeypatch.setattr("hangbench.__main__._versions", lambda _: ["4.3.1"])
    monkeypatch.setattr("hangbench.__main__.results", lambda *_: iter([RESULTS[0]] * 2))
    written: list[str] = []

    def write_text(path: Path, text: str, **_: str) -> int:
        written.append(text)
        if len(written) > 1:
            with path.open("w") as file:
                file.write(text[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        with path.open("w") as file:
            return file.write(text)

    monkeypatch.setattr(Path, "write_text", write_text)

    assert main() == 1
    assert len(json.loads(output.read_text())["results"]) == 1


def test_results_can_be_written_to_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not replaced by a file."""
    monkeypatch.setattr(
        sys, "argv", ["hangbench", "run", "--detector", f"mine={sys.executable}", "--output", os.devnull]
    )
    monkeypatch.setattr("hangbench.__main__._versions", lambda _: ["4.3.1"])
    monkeypatch.setattr("hangbench.__main__.results", lambda *_: iter(RESULTS))
    monkeypatch.setattr(Path, "replace", Mock(side_effect=AssertionError("replaced")))

    assert main() == 4


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
        (["run", "--detector", "mine='"], 2, "detector mine: ' is not a command: No closing quotation"),
        (["run", "--detector", "mine=/nowhere/mine"], 1, "detector mine: there is no program /nowhere/mine"),
        (["run", "--detector", f"mine={sys.executable}", "--kafka", "4.3.1,x"], 1, "mvn is missing"),
        (["report", "/nowhere.json"], 1, "there is no"),
        (["report", "BROKEN"], 1, "has no results of `hangbench run`"),
        (["report", "UNTYPED"], 1, "has no results of `hangbench run`"),
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
    paths = {name: tmp_path / name for name in ("GOOD", "BROKEN", "UNTYPED")}
    paths["GOOD"].write_text(json.dumps({"results": [result.document() for result in RESULTS]}))
    paths["BROKEN"].write_text('{"results": [{}]}')
    paths["UNTYPED"].write_text(json.dumps({"results": [{**RESULTS[0].document(), "words": None}]}))
    monkeypatch.setattr(sys, "argv", ["hangbench", *(str(paths.get(each, each)) for each in arguments)])

    assert main() == status
    printed = capsys.readouterr()
    assert words in printed.out + printed.err
