"""Every file of the chart that is made from something else, with its text.

It reads, `make generate` writes; a test compares both.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import yaml

from alerts import FOLDER as ALERTS
from exporter.artifacts.rules import as_yaml, rule_groups, thresholds
from helm.readme import readme
from helm.schema import values_schema
from helm.values import read_values

ROOT: Final = Path(__file__).parents[1]
CHART: Final = Path(__file__).parent / "kafka-transaction-exporter"
DASHBOARDS: Final = "files/dashboards"

_HEAD: Final = "# Made by `make generate` from {}: change that.\n"
_MATCHER: Final = re.compile(r"(?P<name>\w+) *(?P<type>=~|!~|!=|=) *\"?(?P<value>[^\"]*)\"?")


def made_files() -> dict[str, str]:
    """Path below the chart -> text."""
    text = _with_thresholds((CHART / "values.yaml").read_text(encoding="utf-8"))
    values = read_values(text)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    return {
        "values.yaml": text,
        "README.md": readme(values, chart),
        "values.schema.json": json.dumps(values_schema(values), indent=2, ensure_ascii=False) + "\n",
        "files/rules.yaml": _HEAD.format("alerts/recording.yaml and alerts/alerts.yaml")
        + as_yaml({"groups": rule_groups()}),
        "files/inhibitions.yaml": _HEAD.format("alerts/alertmanager.yaml") + as_yaml({"inhibitRules": inhibitions()}),
        **{
            f"{DASHBOARDS}/{path.name}": path.read_text(encoding="utf-8")
            for path in sorted((ROOT / "grafana").glob("*.json"))
        },
    }


def _with_thresholds(values: str) -> str:
    """values.yaml with the thresholds of the rules."""
    lines = "".join(f"    {name}: {value}\n" for name, value in thresholds(rule_groups()).items())
    changed, found = re.subn(r"(?m)(^  thresholds:\n)(?:    .+\n)*", rf"\g<1>{lines}", values)
    assert found == 1
    return changed


def inhibitions() -> list[dict[str, Any]]:
    """The inhibitions of the example for Alertmanager, as an AlertmanagerConfig has them."""
    example = yaml.safe_load((ALERTS / "alertmanager.yaml").read_text(encoding="utf-8"))
    return [
        {
            "sourceMatch": [_matcher(text) for text in rule["source_matchers"]],
            "targetMatch": [_matcher(text) for text in rule["target_matchers"]],
            "equal": rule["equal"],
        }
        for rule in example["inhibit_rules"]
    ]


def _matcher(text: str) -> dict[str, str]:
    found = _MATCHER.fullmatch(text)
    if found is None:
        raise ValueError(f"no matcher of Alertmanager's: {text}")
    return {"name": found["name"], "matchType": found["type"], "value": found["value"]}
