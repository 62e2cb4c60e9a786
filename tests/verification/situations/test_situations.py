"""Runs every situation on real brokers: no false hanging, no missed hang with complete evidence, no guess."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest

from tests.verification.situations.play import Performance
from tests.verification.situations.scene import score_java, score_ours
from tests.verification.situations.stages import STAGES, VERSIONS, Stage
from tests.verification.situations.table import DOCUMENT, recorded_rows
from tests.verification.situations.words import Situation

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
            performances[key] = stage.perform(version)
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
    ours = score_ours(scene)
    java = score_java(scene)
    print(f"truth: {scene.truth}; ours: {ours.words}; meanwhile: {scene.meanwhile or '-'}; the tool: {java.words}")
    assert ours.is_right, ours.words
    if not situation.is_racy:
        _, our_cell, java_cell = recorded[situation.name]
        assert ours.words in our_cell
        if TIMED_OUT not in java.words:
            assert java.words.split(":")[0] in java_cell
