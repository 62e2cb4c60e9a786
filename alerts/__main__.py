"""`python -m alerts prometheus-rule` prints a manifest."""

from __future__ import annotations

import argparse
import sys

import yaml

from alerts.rules import RUNBOOK_BASE, Choices, UnknownChoiceError, prometheus_rule
from alerts.rules import rule_groups as groups_for


def main() -> int:
    """Status 2 for a choice that names nothing."""
    arguments = _parser().parse_args()
    choices = Choices(
        disabled=frozenset(arguments.disable),
        thresholds=dict(arguments.threshold),
        runbook_base=arguments.runbook_base,
        grafana_url=arguments.grafana_url,
    )
    try:
        manifest = prometheus_rule(arguments.name, groups_for(choices))
    except UnknownChoiceError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(yaml.safe_dump(manifest, sort_keys=False, width=10_000))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m alerts", description="Prints other forms of the rule files.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    rule = commands.add_parser("prometheus-rule", help="print a PrometheusRule")
    rule.add_argument("--name", default="kafka-transaction-exporter", help="default: %(default)s")
    rule.add_argument("--runbook-base", default=RUNBOOK_BASE, metavar="URL", help="default: %(default)s")
    rule.add_argument(
        "--grafana-url",
        default="",
        metavar="URL",
        help="where Grafana has the dashboards, for links; default: no links",
    )
    rule.add_argument(
        "--disable", action="append", default=[], metavar="ALERT", help="leave this alert out; repeatable"
    )
    rule.add_argument(
        "--threshold", action="append", default=[], type=_threshold, metavar="NAME=VALUE", help="set one; repeatable"
    )
    return parser


def _threshold(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE")
    float(value)
    return name, value


if __name__ == "__main__":
    sys.exit(main())
