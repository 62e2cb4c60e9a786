"""Every generated file matches its current sources."""

from __future__ import annotations

import pytest

from tests.generated import BY_HELM, ROOT, STEPS, left_over

NAMES = [pytest.param(name, marks=pytest.mark.programs if name == BY_HELM else ()) for name in STEPS]


@pytest.mark.parametrize("name", NAMES)
def test_generated_files_are_committed(name: str) -> None:
    """To the byte, and no file is left over from what was made once."""
    step = STEPS[name]
    made = step.make()

    assert made
    for path, text in made.items():
        file = ROOT / path
        there = file.read_bytes().decode(errors="replace") if file.exists() else None
        assert there == text, f"{path} is stale or missing: run `make generate`"
    assert left_over(step, made) == set(), "nothing makes these files any more: run `make generate`"
