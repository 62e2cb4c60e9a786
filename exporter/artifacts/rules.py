"""The rule files as data, and the few things about them that a user may choose.

Pure but for `load`, which reads the files beside it; what nobody chooses stays as it is written there.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

import yaml

from exporter.artifacts import PROJECT

RECORDING: Final = Path(__file__).parent / "recording.yaml"
ALERTS: Final = Path(__file__).parent / "alerts.yaml"
"""Links to the files of `alerts/`."""
RUNBOOK_BASE: Final = f"{PROJECT}/blob/main/alerts/runbooks"

WITHOUT_EXPORTER: Final = frozenset({"ExporterDown", "Watchdog"})
"""Reasons of alerts whose runbooks are needed when the exporter has ended: they are not linked there."""

Rule = dict[str, Any]
Group = dict[str, Any]

THRESHOLD: Final = re.compile(r"(?P<value>\S+) # threshold: (?P<name>\w+)")
"""Mark of a number in an expression that may be chosen: PromQL has comments, so the mark costs nothing."""


LABEL_NAME: Final = r"^_?[a-zA-Z][a-zA-Z0-9_]*$"
"""Names of labels for everybody: Prometheus' own begin with two underscores."""
_LABEL_LIST: Final = re.compile(r"\b(?:by|on|ignoring|without|group_left)\s*\(([\w,\s]*)\)")
_LABEL_OF_TEXT: Final = re.compile(r"\$labels\.(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Values that may differ from the files. All are text that ends up in a rule, so each may be a template."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Added to each alert; its own labels stay."""
    disabled: frozenset[str] = frozenset()
    """Names of alerts to leave out; for one reason only, the reason or its runbook."""
    thresholds: Mapping[str, str] = field(default_factory=dict)
    """Threshold name -> value."""
    durations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """`runbook.severity` -> `for` and `keep_firing_for`, or one of them."""
    runbook_base: str = ""
    """Address of the runbooks, a page for each reason. Empty: at the exporter or the project."""
    exporter_url: str = ""
    """Address of the status page, which has the runbooks of all alerts but those about its own end; empty: unknown."""
    grafana_url: str = ""
    """Grafana's address of the dashboards, for the annotation dashboard_url; empty: none."""
    function: str = ""
    """Makes the commands of a runbook read the exporter's settings, in a shell; `variables` begins with it. Empty: none."""


class _RulesDumper(yaml.SafeDumper):
    """Writes twice what two alerts share: a reader of the file looks at one of them."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # PyYAML's own signature
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Writes expressions and descriptions as blocks."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_RulesDumper.add_representer(str, _text)


def as_yaml(value: Any) -> str:
    """Returns rules and their like as a file that people read."""
    return str(yaml.dump(value, Dumper=_RulesDumper, sort_keys=False, width=10_000, allow_unicode=True))


class UnknownChoiceError(Exception):
    """A choice names what is in no rule; the message says which."""


def load(path: Path) -> list[Group]:
    """The groups of a rule file."""
    groups: list[Group] = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return groups


def rule_groups(choices: Choices | None = None) -> list[Group]:
    """Signals and alerts in one list: what a PrometheusRule has under `spec.groups`."""
    return apply_choices([*load(RECORDING), *load(ALERTS)], choices or Choices())


def apply_choices(groups: list[Group], choices: Choices) -> list[Group]:
    """The groups as they were chosen; a group that has lost all its rules is gone."""
    _refuse_unknown(groups, choices)
    changed = [
        {**group, "rules": [_chosen_rule(rule, choices) for rule in group["rules"] if not _is_disabled(rule, choices)]}
        for group in groups
    ]
    return [group for group in changed if group["rules"]]


def thresholds(groups: list[Group]) -> dict[str, str]:
    """Returns every threshold of these groups with its value."""
    return {
        found["name"]: found["value"] for rule in rules_of(groups) for found in THRESHOLD.finditer(str(rule["expr"]))
    }


def with_thresholds(expression: str, value_of: Callable[[str, str], str]) -> str:
    """The expression with `value_of(name, value)` in the place of each marked number."""
    return THRESHOLD.sub(
        lambda found: f"{value_of(found['name'], found['value'])} # threshold: {found['name']}", expression
    )


def rules_of(groups: list[Group]) -> Iterator[Rule]:
    for group in groups:
        yield from group["rules"]


def key_of(rule: Rule) -> str:
    """The key by which the durations of an alert are chosen; two severities for one reason share a runbook."""
    return f"{page_of(rule)}.{rule['labels']['severity']}"


def reason_of(rule: Rule) -> str:
    """The label of an alert by which several causes share its name."""
    return str(rule["labels"]["reason"])


def page_of(rule: Rule) -> str:
    """The name of an alert's runbook: KafkaTransaction and its reason."""
    return str(PurePosixPath(rule["annotations"]["runbook_url"]).stem)


def dashboard_path(rule: Rule) -> str:
    """The dashboard of an alert, at the address of Grafana: that of its partition where it has one, for its cluster."""
    cluster = "{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}"
    if "$labels.partition" in rule["annotations"]["description"]:
        chosen = "var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}"
        return f"/d/kafka-transactions-partition?{chosen}&{cluster}"
    return f"/d/kafka-transactions-overview?{cluster}"


def prometheus_rule(name: str, groups: list[Group]) -> dict[str, Any]:
    """The manifest that the Prometheus operator takes."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": name},
        "spec": {"groups": groups},
    }


def labels_of_rules(groups: list[Group]) -> frozenset[str]:
    """Every label that these rules set, name, or tell their alerts apart by: another value would make two alerts one.

    Not `cluster`: clusters have an id, too, and one without a name may get one.
    """
    rules = tuple(rules_of(groups))
    texts = " ".join(text for rule in rules for text in (rule["expr"], *rule.get("annotations", {}).values()))
    listed = " ".join(_LABEL_LIST.findall(texts)).replace(",", " ").split()
    own = (label for rule in rules for label in rule.get("labels", {}))
    return frozenset({"alertname", "job", "instance", *own, *listed, *_LABEL_OF_TEXT.findall(texts)}) - {"cluster"}


def threshold_limits(name: str) -> tuple[float, float | None]:
    """(least, greatest) number that makes sense: a share is at most 1, and no snapshot is younger than no cycle."""
    return (1 if name == "fresh_cycles" else 0, 1 if name.endswith("_ratio") else None)


def _is_disabled(rule: Rule, choices: Choices) -> bool:
    return "alert" in rule and bool({rule["alert"], reason_of(rule), page_of(rule)} & choices.disabled)


def _chosen_rule(rule: Rule, choices: Choices) -> Rule:
    changed = deepcopy(rule)
    changed["expr"] = with_thresholds(rule["expr"], choices.thresholds.get)
    if "alert" in rule:
        changed.update(choices.durations.get(key_of(rule), {}))
        changed["labels"] = {**choices.labels, **rule["labels"]}
        changed["annotations"]["runbook_url"] = f"{_runbooks(rule, choices)}/{page_of(rule)}.md"
        if choices.function:
            line = changed["annotations"].get("variables")
            changed["annotations"]["variables"] = "; ".join(filter(None, (choices.function, line)))
        if choices.grafana_url:
            changed["annotations"]["dashboard_url"] = f"{choices.grafana_url.rstrip('/')}{dashboard_path(rule)}"
    return changed


def _runbooks(rule: Rule, choices: Choices) -> str:
    is_served = choices.exporter_url and reason_of(rule) not in WITHOUT_EXPORTER
    served = f"{choices.exporter_url.rstrip('/')}/runbooks" if is_served else ""
    return choices.runbook_base.rstrip("/") or served or RUNBOOK_BASE


def _refuse_unknown(groups: list[Group], choices: Choices) -> None:
    """A misspelt name would otherwise leave an alert on, or a threshold as it was, without a word."""
    alerts = [rule for rule in rules_of(groups) if "alert" in rule]
    if taken := sorted(set(choices.labels) & labels_of_rules(groups)):
        raise UnknownChoiceError(f"the rules have the label {', '.join(taken)} themselves: choose another name")
    names = {str(rule["alert"]) for rule in alerts} | set(map(reason_of, alerts))
    for kind, named, known, more in (
        ("alert", choices.disabled, names, set(map(page_of, alerts))),
        ("threshold", choices.thresholds, set(thresholds(groups)), set()),
        ("runbook and severity", choices.durations, set(map(key_of, alerts)), set()),
    ):
        if unknown := sorted(set(named) - known - more):
            raise UnknownChoiceError(
                f"no rule has this {kind}: {', '.join(unknown)}{_instead(unknown, known | more, known)}"
            )


def _instead(unknown: Iterable[str], known: set[str], listed: set[str]) -> str:
    """Returns the end of a message about unknown names: the nearest name of each, or a list where one has none near."""
    nearest = [difflib.get_close_matches(name, sorted(known), n=1) for name in unknown]
    if all(nearest):
        return f"; did you mean {', '.join(name for (name,) in nearest)}?"
    return f"; there are {', '.join(sorted(listed))}"
