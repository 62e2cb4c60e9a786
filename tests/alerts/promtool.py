"""Prometheus' own checker, on rules and on time lines."""

from __future__ import annotations

import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from alerts.rules import Choices, rule_groups
from tests.alerts.timeline import seconds, unit_tests

TIMELINES: Final = Path(__file__).parent / "timelines"
RUNBOOKS: Final = "RUNBOOKS"
"""Stands for the base of all runbooks in expected pages."""
STEP_S: Final = 15


def timeline_file(alert: str) -> dict[str, Any]:
    """The time lines of one alert."""
    written: dict[str, Any] = yaml.safe_load((TIMELINES / f"{alert}.yaml").read_text())
    return written


def shipped_rules(folder: Path) -> Path:
    """All rules as they are shipped, in one file, with the short name of the runbooks."""
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": rule_groups(Choices(runbook_base=RUNBOOKS))}))
    return path


def play(alert: str, rules: Path, *, promtool: str = "promtool") -> str:
    """Play the time lines of an alert on these rules: what promtool has to say against them, nothing where all holds."""
    file = timeline_file(alert)
    by_step: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    for name, case in file["cases"].items():
        by_step[seconds(case.get("step", STEP_S))][name] = case
    return "".join(_play(alert, file, cases, step, rules, promtool) for step, cases in by_step.items())


def _play(alert: str, file: Mapping[str, Any], cases: Mapping[str, Any], step: int, rules: Path, promtool: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tests.yaml")
        path.write_text(yaml.safe_dump(unit_tests(cases, alert, file, rule_files=[str(rules)], step=step)))
        run = subprocess.run([promtool, "test", "rules", str(path)], capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else run.stdout + run.stderr
