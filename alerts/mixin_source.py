"""The rules as jsonnet: a mixin whose thresholds, runbook base and list of alerts are configuration.

Groups in, text out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from alerts import FOLDER
from exporter.artifacts import DASHBOARDS
from exporter.artifacts.rules import RUNBOOK_BASE, Group, Rule, dashboard_path, thresholds, with_thresholds

MIXIN: Final = FOLDER / "mixin" / "mixin.libsonnet"

HEAD: Final = "// Made from recording.yaml and alerts.yaml by `make generate`: change those."


def mixin(recording: list[Group], alerting: list[Group]) -> str:
    """The text of `mixin.libsonnet`."""
    return "\n".join(
        [
            HEAD,
            "{",
            "  _config+:: {",
            "    // A page for each reason.",
            f"    runbookBase: {_text(RUNBOOK_BASE)},",
            "    // Where Grafana has the dashboards, for links in alerts; empty: no links.",
            "    grafanaUrl: '',",
            "    // Names of alerts, or of runbooks for one reason only, to leave out.",
            "    disabledAlerts: [],",
            "    // Text, as it stands in the expressions.",
            f"    thresholds: {_indented(_thresholds(thresholds([*recording, *alerting])), 4)},",
            "  },",
            "",
            f"  prometheusRules+:: {{ groups+: {_indented(_value(recording), 2)} }},",
            "",
            "  prometheusAlerts+:: {",
            "    groups+: [",
            "      group { rules: [",
            "        rule",
            "        for rule in super.rules",
            "        if !std.member($._config.disabledAlerts, rule.alert)",
            "           && !std.member($._config.disabledAlerts, 'KafkaTransaction' + rule.labels.reason)",
            "      ] }",
            f"      for group in {_indented(_value(alerting), 6)}",
            "    ],",
            "  },",
            "",
            "  grafanaDashboards+:: {",
            *(f"    'kafka-transactions-{name}.json': import '../../grafana/{name}.json'," for name in DASHBOARDS),
            "  },",
            "}",
            "",
        ]
    )


def _thresholds(values: Mapping[str, str]) -> str:
    return "\n".join(["{", *(f"  {name}: {_text(value)}," for name, value in sorted(values.items())), "}"])


def _value(value: Any, key: str = "") -> str:
    """A value of a rule file as jsonnet; what is configuration is looked up in it."""
    if isinstance(value, list):
        return "\n".join(["[", *(f"  {_indented(_value(item), 2)}," for item in value), "]"])
    if isinstance(value, dict):
        fields = [
            f"  {_text(name)}: {_indented(_value(item, name), 2)}{_dashboard(value) if name == 'annotations' else ''},"
            for name, item in value.items()
        ]
        return "\n".join(["{", *fields, "}"])
    if key == "expr":
        return _expression(value)
    if key == "runbook_url":
        return f"$._config.runbookBase + {_text(f'/{PurePosixPath(value).name}')}"
    return _text(value)


def _dashboard(rule: Rule) -> str:
    """Adds the link to the annotations where it is configured."""
    link = f"$._config.grafanaUrl + {_text(dashboard_path(rule))}"
    return f" + {{ [if $._config.grafanaUrl != '' then 'dashboard_url']: {link} }}"


def _expression(expression: str) -> str:
    """A text block; `%` takes the thresholds where there are any."""
    lookup = with_thresholds(expression.replace("%", "%%"), lambda name, _value: f"%({name})s")
    has_thresholds = lookup != expression.replace("%", "%%")
    block = "\n".join(
        ["|||", *(f"  {line}" for line in (lookup if has_thresholds else expression).splitlines()), "|||"]
    )
    return f"{block} % $._config.thresholds" if has_thresholds else block


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _indented(text: str, width: int) -> str:
    """All lines but the first moved to the right."""
    return text.replace("\n", "\n" + " " * width)
