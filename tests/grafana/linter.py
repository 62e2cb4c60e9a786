"""The rules of Grafana's dashboard-linter, under their names, as functions from a dashboard to its problems.

Stricter than the linter where that costs nothing: panels of every type need title, description and the templated source,
every override's unit must be one, too, and a query variable is asked of the templated source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from promql_parser import Call, MatchOp, MatrixSelector, VectorSelector

from tests.grafana.promql import RATE_INTERVAL, nodes, parsed, selectors
from tests.grafana.reading import Json, panels

Rule = Callable[[Json], Iterator[str]]
TEMPLATED: Final = {"$datasource", "${datasource}"}
UNITS: Final = {
    *("none", "string", "short", "locale", "percentunit", "bytes", "s", "dateTimeAsIso", "dtdurations"),
    *("suffix: s", "suffix: min", "suffix: h", "suffix: ms"),
}
"""Of Grafana's units those that these dashboards may use."""
GROWTH: Final = {"rate", "irate", "increase"}


def template_datasource_rule(dashboard: Json) -> Iterator[str]:
    """One source, chosen by a variable with the usual name and label."""
    found = [(each["name"], each["label"], each["query"]) for each in _variables(dashboard, "datasource")]
    if found != [("datasource", "Data source", "prometheus")]:
        yield f"data sources {found}"


def template_job_rule(dashboard: Json) -> Iterator[str]:
    """Jobs can be chosen."""
    return _chosen_by(dashboard, "job", "Job")


def template_instance_rule(dashboard: Json) -> Iterator[str]:
    """Instances can be chosen."""
    return _chosen_by(dashboard, "instance", "Instance")


def template_label_promql_rule(dashboard: Json) -> Iterator[str]:
    """A query variable asks for the values of a label of a proper selector."""
    for variable in _variables(dashboard, "query"):
        query = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
        if query is None:
            yield f"{variable['name']} asks {variable['query']}"
        else:
            yield from _unparsable(query[1])


def template_on_time_change_reload_rule(dashboard: Json) -> Iterator[str]:
    """A query variable is asked again when the range changes."""
    yield from (f"{variable['name']} stays" for variable in _variables(dashboard, "query") if variable["refresh"] != 2)


def panel_datasource_rule(dashboard: Json) -> Iterator[str]:
    """Panels, targets and query variables use the source that was chosen."""
    asking = [*panels(dashboard), *(target for panel in panels(dashboard) for target in panel.get("targets", []))]
    for element in [*asking, *_variables(dashboard, "query"), *dashboard["annotations"]["list"]]:
        if element.get("datasource", {}).get("uid") not in TEMPLATED:
            yield f"{element.get('title') or element.get('name') or element.get('refId')} asks {element.get('datasource')}"


def panel_title_description_rule(dashboard: Json) -> Iterator[str]:
    """A panel says what it shows."""
    for panel in panels(dashboard):
        if not panel.get("title") or not panel.get("description"):
            yield f"{panel.get('title')!r}: {panel.get('description')!r}"


def panel_units_rule(dashboard: Json) -> Iterator[str]:
    """A panel with values says in which unit."""
    for panel in panels(dashboard):
        if panel["type"] in {"stat", "table", "timeseries"}:
            configured = panel["fieldConfig"]
            units = [configured["defaults"].get("unit")]
            units += [
                option["value"]
                for rule in configured["overrides"]
                for option in rule["properties"]
                if option["id"] == "unit"
            ]
            yield from (f"{panel['title']} has the unit {unit}" for unit in units if unit not in UNITS)


def panel_no_targets_rule(dashboard: Json) -> Iterator[str]:
    """A panel with values asks for them."""
    yield from (panel["title"] for panel in panels(dashboard) if panel["type"] != "text" and not panel.get("targets"))


def target_promql_rule(dashboard: Json) -> Iterator[str]:
    """A question can be parsed."""
    for _, target in _targets(dashboard):
        yield from _unparsable(target["expr"])


def target_rate_interval_rule(dashboard: Json) -> Iterator[str]:
    """A rate is of $__rate_interval, and nothing else is."""
    for title, target in _targets(dashboard):
        for node, above in nodes(parsed(target["expr"])):
            if isinstance(node, MatrixSelector):
                is_rate = isinstance(above[-1], Call) and above[-1].func.name in GROWTH
                if is_rate != (node.range == RATE_INTERVAL):
                    yield f"{title}: {above[-1].func.name} over {node.range}"


def target_job_rule(dashboard: Json) -> Iterator[str]:
    """Every selector asks for the chosen jobs."""
    return _matched(dashboard, "job")


def target_instance_rule(dashboard: Json) -> Iterator[str]:
    """Every selector asks for the chosen instances."""
    return _matched(dashboard, "instance")


def target_counter_agg_rule(dashboard: Json) -> Iterator[str]:
    """A counter is only looked at by how much it grows."""
    for title, target in _targets(dashboard):
        for node, above in nodes(parsed(target["expr"])):
            if isinstance(node, VectorSelector) and str(node.name).endswith("_total"):
                grows = len(above) > 1 and isinstance(above[-2], Call) and above[-2].func.name in GROWTH
                if not grows:
                    yield f"{title}: {node.name}"


def uneditable_dashboard(dashboard: Json) -> Iterator[str]:
    """A dashboard that is provisioned is not edited in place."""
    if dashboard["editable"]:
        yield "editable"


RULES: Final[Mapping[str, Rule]] = {
    **{
        rule.__name__.replace("_", "-"): rule
        for rule in (
            template_datasource_rule,
            template_job_rule,
            template_instance_rule,
            template_label_promql_rule,
            template_on_time_change_reload_rule,
            panel_datasource_rule,
            panel_title_description_rule,
            panel_units_rule,
            panel_no_targets_rule,
            target_promql_rule,
            target_rate_interval_rule,
            target_job_rule,
            target_instance_rule,
            target_counter_agg_rule,
            uneditable_dashboard,
        )
    },
}


def _variables(dashboard: Json, kind: str) -> list[Json]:
    return [variable for variable in dashboard["templating"]["list"] if variable["type"] == kind]


def _chosen_by(dashboard: Json, name: str, label: str) -> Iterator[str]:
    found: list[dict[str, Any]] = [variable for variable in _variables(dashboard, "query") if variable["name"] == name]
    wanted = {"label": label, "multi": True, "includeAll": True, "allValue": ".+"}
    if len(found) != 1:
        yield f"{len(found)} variables {name}"
    else:
        yield from (
            f"{name}: {key} is {found[0].get(key)}" for key, value in wanted.items() if found[0].get(key) != value
        )
        if found[0]["datasource"]["uid"] not in TEMPLATED:
            yield f"{name} asks {found[0]['datasource']}"


def _targets(dashboard: Json) -> Iterator[tuple[str, Json]]:
    for panel in panels(dashboard):
        for target in panel.get("targets", []):
            yield panel["title"], target


def _unparsable(expression: str) -> Iterator[str]:
    try:
        parsed(expression)
    except ValueError as error:
        yield f"{error}: {expression}"


def _matched(dashboard: Json, label: str) -> Iterator[str]:
    for title, target in _targets(dashboard):
        for selector in selectors(target["expr"]):
            found = [(matcher.op, matcher.value) for matcher in selector.matchers.matchers if matcher.name == label]
            if found != [(MatchOp.Re, f"${label}")]:
                yield f"{title}: {selector.name} by {label} {found}"
