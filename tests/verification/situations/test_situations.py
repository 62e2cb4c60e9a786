"""Runs every situation on real brokers: no false hanging, no missed hang with complete evidence, no guess."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest

from hangbench.detectors import detector_of
from hangbench.judge import Judgement
from hangbench.play import Performance
from hangbench.run import judged
from hangbench.situations.stages import STAGES, VERSIONS, Stage
from hangbench.situations.words import Situation
from tests.verification.situations.exporter import EXPORTER, ExporterDetector
from tests.verification.situations.scoring import meanwhile, score_exporter
from tests.verification.situations.table import DOCUMENT, TOOL, recorded_rows, tool_judged

ALWAYS = ("4.3.1", "still")
"""Version and stage that `make test` plays. It plays the model too, which has the lies that the other stages show."""
TIMED_OUT = "Timed out"
"""Kafka's tool gave up. On a busy machine it does so in any situation."""

performances: dict[tuple[str, str], Performance | str] = {}
recorded = recorded_rows(DOCUMENT.read_text()) if DOCUMENT.exists() else {}


def performance(stage: Stage, version: str) -> Performance:
    """Runs once in a session, when its first situation is needed."""
    key = (stage.name, version)
    if key not in performances:
        try:
            performances[key] = stage.perform(version, [ExporterDetector(), detector_of(TOOL)])
        except Exception:  # noqa: BLE001 - reported by each of its situations, instead of booting brokers again for each
            performances[key] = traceback.format_exc()
    played = performances[key]
    if isinstance(played, str):
        pytest.fail(f"the stage {stage.name!r} could not be played: {played}")
    return played


def cases() -> Iterator[object]:
    for version in VERSIONS:
        for stage in STAGES:
            marks = [pytest.mark.broker]
            if (version, stage.name) != ALWAYS:
                marks.append(pytest.mark.slow)
            for situation in stage.situations:
                if situation.is_for(version):
                    name = situation.name.replace(" ", "_")
                    yield pytest.param(stage, version, situation, marks=marks, id=f"{version}-{stage.name}-{name}")


@pytest.mark.parametrize(("stage", "version", "situation"), list(cases()))
def test_situation(stage: Stage, version: str, situation: Situation) -> None:
    """The exporter is right; Kafka's own tool, where it responds in time, prints what the document says."""
    scene = performance(stage, version)[situation.name]

    assert scene.failure is None, scene.failure
    ours, (_, tool_words) = score_exporter(scene), tool_judged(scene)
    print(f"truth: {scene.truth}; ours: {ours.words}; meanwhile: {meanwhile(scene) or '-'}; the tool: {tool_words}")
    assert ours.is_right, ours.words
    assert judged(scene, EXPORTER)[0] == Judgement.RIGHT.value, "HangBench is less strict"
    if not situation.is_racy:
        _, our_cell, tool_cell = recorded[situation.name]
        assert ours.words in our_cell
        if TIMED_OUT not in tool_words:
            assert tool_words.split(":")[0] in tool_cell
