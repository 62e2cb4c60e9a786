"""The rules and their time lines on a Prometheus 3 as well: the same files, the same answers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from exporter.artifacts.rules import ALERTS, RECORDING
from tests.alerts.promtool import TIMELINES, play, shipped_rules
from tests.marks import starts
from tests.tools import ToolUnavailable, newest_promtool

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
@starts("programs")
def promtool() -> str:
    try:
        return str(newest_promtool())
    except ToolUnavailable as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("path", [RECORDING, ALERTS], ids=lambda path: path.name)
def test_the_newest_promtool_finds_nothing(path: Path, promtool: str) -> None:
    command = [promtool, "check", "rules", "--lint=all", "--lint-fatal", str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("alert", sorted(path.stem for path in TIMELINES.glob("*.yaml")))
def test_it_fires_when_it_should(alert: str, promtool: str) -> None:
    problems = play(alert, shipped_rules(), promtool=promtool)

    assert problems == "", problems
