"""Grafana's dashboard-linter has nothing to say; and each of its rules, ported, has something to say where it should."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import yaml

from grafana.dashboards import FOLDER
from tests.each import each
from tests.grafana.linter import RULES
from tests.grafana.reading import COMMITTED, Json, panels

Break = Callable[[Json], object]
EXCLUDED: Final[dict[str, Any]] = yaml.safe_load((FOLDER / ".lint").read_text())["exclusions"]


def first_panel(dashboard: Json) -> Json:
    return next(panels(dashboard))


def first_target(dashboard: Json) -> Json:
    target: Json = first_panel(dashboard)["targets"][0]
    return target


def variable(dashboard: Json, name: str) -> Json:
    return next(variable for variable in dashboard["templating"]["list"] if variable["name"] == name)


def is_excluded(rule: str, dashboard: str, problem: str) -> bool:
    entries = EXCLUDED.get(rule, {}).get("entries", [])
    return any(entry["dashboard"] == dashboard and problem.startswith(f"{entry['panel']}: ") for entry in entries)


@each(RULES, COMMITTED)
def test_no_rule_finds_anything(rule: str, name: str) -> None:
    """Every dashboard passes every rule, but for what grafana/.lint leaves out with a reason."""
    title = COMMITTED[name]["title"]

    assert [problem for problem in RULES[rule](COMMITTED[name]) if not is_excluded(rule, title, problem)] == []


def test_exclusions_are_needed_and_have_a_reason() -> None:
    """An exclusion that hides nothing is taken away; one without a reason is none."""
    for rule, exclusion in EXCLUDED.items():
        assert exclusion["reason"]
        for entry in exclusion["entries"]:
            (dashboard,) = [candidate for candidate in COMMITTED.values() if candidate["title"] == entry["dashboard"]]
            assert any(problem.startswith(f"{entry['panel']}: ") for problem in RULES[rule](dashboard)), entry


BROKEN: Final[list[tuple[str, Break]]] = [
    ("template-datasource-rule", lambda board: variable(board, "datasource").update(label="Prometheus")),
    ("template-job-rule", lambda board: variable(board, "job").update(allValue=".*")),
    ("template-instance-rule", lambda board: variable(board, "instance").update(multi=False)),
    ("template-label-promql-rule", lambda board: variable(board, "job").update(query="label_values(up{, job)")),
    ("template-on-time-change-reload-rule", lambda board: variable(board, "job").update(refresh=1)),
    ("panel-datasource-rule", lambda board: first_target(board).update(datasource={"uid": "PBFA97CFB590B2093"})),
    ("panel-title-description-rule", lambda board: first_panel(board).update(description="")),
    ("panel-units-rule", lambda board: first_panel(board)["fieldConfig"]["defaults"].update(unit="seconds")),
    ("panel-no-targets-rule", lambda board: first_panel(board).update(targets=[])),
    ("target-promql-rule", lambda board: first_target(board).update(expr="sum(up{job=~")),
    ("target-rate-interval-rule", lambda board: first_target(board).update(expr="rate(a_total[5m])")),
    ("target-rate-interval-rule", lambda board: first_target(board).update(expr="max_over_time(a[$__rate_interval])")),
    ("target-job-rule", lambda board: first_target(board).update(expr='up{instance=~"$instance"}')),
    ("target-instance-rule", lambda board: first_target(board).update(expr='up{job=~"$job", instance="$instance"}')),
    ("target-counter-agg-rule", lambda board: first_target(board).update(expr="sum(a_total)")),
    ("uneditable-dashboard", lambda board: board.update(editable=True)),
]


@each(BROKEN, name=lambda case: case[0])
def test_each_rule_sees_what_it_is_for(broken: tuple[str, Break]) -> None:
    """A dashboard that is broken in one place is found by the rule of that name."""
    rule, break_it = broken
    dashboard = copy.deepcopy(COMMITTED["overview"])
    break_it(dashboard)

    assert any(not is_excluded(rule, dashboard["title"], problem) for problem in RULES[rule](dashboard))
    assert {name for name, _ in BROKEN} == set(RULES)
