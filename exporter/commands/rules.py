"""`rules`: prints the signals and alerts for Prometheus, with thresholds, labels and addresses of one's own."""

from __future__ import annotations

import yaml

from exporter.artifacts.rules import Choices, UnknownChoiceError, prometheus_rule, rule_groups
from exporter.commands.context import Context
from exporter.commands.report import complain
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings


def run(context: Context, _: Settings | None) -> int:
    """Prints the rules; returns the exit status, WRONG_USAGE for a choice that names nothing."""
    options = context.options
    choices = Choices(
        labels=dict(options.label),
        disabled=frozenset(options.disable),
        thresholds=dict(options.threshold),
        runbook_base=options.runbook_base,
        grafana_url=options.grafana_url or "",
    )
    try:
        groups = rule_groups(choices)
    except UnknownChoiceError as error:
        return complain(str(error), ExitStatus.WRONG_USAGE)
    made = prometheus_rule(options.name, groups) if options.format == "prometheus-rule" else {"groups": groups}
    print(yaml.safe_dump(made, sort_keys=False, width=10_000), end="")
    return ExitStatus.ANSWERED
