"""Plays situations in which somebody stands still, or nobody does: nobody is missing, and nobody is extra."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping

import pytest

from hangbench.parties.scenes import SITUATIONS, VERSIONS
from hangbench.parties.words import Situation
from tests.verification.standstill.play import Result, play

QUICK_VERSION = "4.3.1"

results: dict[tuple[str, bool], Mapping[str, Result] | str] = {}


def result(version: str, situation: Situation, *, is_quick: bool) -> Result:
    """Plays all situations of the set when the first one is needed, once in a session."""
    key = version, is_quick
    if key not in results:
        try:
            results[key] = play(version, [each for each in SITUATIONS if each.quick or not is_quick])
        except Exception:  # noqa: BLE001 - reported by each situation, instead of booting a broker again for each
            results[key] = traceback.format_exc()
    played = results[key]
    if isinstance(played, str):
        pytest.fail(f"nothing could be played: {played}")
    return played[situation.name]


def cases() -> Iterator[object]:
    """Yields the quick situations of one version, then all of both, which are slow."""
    for version, is_quick in ((QUICK_VERSION, True), *((version, False) for version in VERSIONS)):
        marks = [pytest.mark.broker, *([] if is_quick else [pytest.mark.slow])]
        for situation in SITUATIONS:
            if situation.is_for(version) and (situation.quick or not is_quick):
                name = situation.name.replace(" ", "_")
                words = f"{'quick' if is_quick else 'all'}-{version}-{name}"
                yield pytest.param(version, situation, is_quick, marks=marks, id=words)


@pytest.mark.parametrize(("version", "situation", "is_quick"), list(cases()))
def test_everybody_who_stands_still_is_named_and_nobody_else(
    version: str,
    situation: Situation,
    is_quick: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The exporter and `why` name the written truth, or differ from it exactly as README.md says."""
    played = result(version, situation, is_quick=is_quick)

    assert played.failure == ""
    assert played.wrong == []
