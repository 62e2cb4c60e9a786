"""Prometheus' own checker, on rules and on time lines."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import yaml

from exporter.artifacts.rules import ALERTS, Choices, Group, Rule, load, page_of, rule_groups, rules_of
from tests.alerts.timeline import seconds, unit_tests

TIMELINES: Final = Path(__file__).parent / "timelines"
RUNBOOKS: Final = "RUNBOOKS"
"""Stands for the base of all runbooks in expected pages."""
STEP_S: Final = 15


def timeline_file(page: str) -> dict[str, Any]:
    """The time lines of the alerts of one page."""
    written: dict[str, Any] = yaml.safe_load((TIMELINES / f"{page}.yaml").read_text())
    return written


def shipped_rules() -> list[Group]:
    """All rules as they are shipped, with the short name of the runbooks."""
    return rule_groups(Choices(runbook_base=RUNBOOKS))


def alerts_of(page: str) -> dict[str, str]:
    """Severity -> name of the alert, of those of one page."""
    return {rule["labels"]["severity"]: rule["alert"] for rule in rules_of(load(ALERTS)) if page_of(rule) == page}


def read_by(page: str, groups: list[Group]) -> list[Group]:
    """The alerts of a page, and what their expressions and texts read, directly or not: no other rule matters to them."""
    wanted = [rule for rule in rules_of(groups) if "alert" in rule and page_of(rule) == page]
    for reader in wanted:
        text = " ".join(reader.get("annotations", {}).values())
        wanted += [
            rule
            for rule in rules_of(groups)
            if rule not in wanted and (name_of(rule) in reader["expr"] or ("record" in rule and rule["record"] in text))
        ]
    kept = [{**group, "rules": [rule for rule in group["rules"] if rule in wanted]} for group in groups]
    return [group for group in kept if group["rules"]]


def name_of(rule: Rule) -> str:
    name: str = rule.get("record") or rule["alert"]
    return name


def play(page: str, groups: list[Group], *, promtool: str = "promtool") -> str:
    """Play the time lines of a page on these rules: what promtool has to say against them, nothing where all holds."""
    file = timeline_file(page)
    by_step: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    for name, case in file["cases"].items():
        by_step[seconds(case.get("step", STEP_S))][name] = case
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder, "rules.yaml")
        rules.write_text(json.dumps({"groups": read_by(page, groups)}))  # JSON is YAML, and written much sooner
        for step, cases in by_step.items():
            tests = unit_tests(cases, page, alerts_of(page), file, rule_files=[str(rules)], step=step)
            Path(folder, f"{step}.yaml").write_text(json.dumps(tests))
        files = [str(Path(folder, f"{step}.yaml")) for step in by_step]
        run = subprocess.run([promtool, "test", "rules", *files], capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else run.stdout + run.stderr
