"""`rules`: prints the signals and alerts for Prometheus, with thresholds, labels and addresses of one's own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from exporter import PROGRAM
from exporter.artifacts.rules import Choices, UnknownChoiceError, as_yaml, prometheus_rule, rule_groups
from exporter.commands.context import CLUSTERS_FILE, CONFIG_FILE, Context
from exporter.commands.report import complain
from exporter.commands.status import ExitStatus
from exporter.config.settings import PublishSettings

OF_A_FLEET: Final = (
    'kafka-transaction-exporter() { command kafka-transaction-exporter "$@"'
    """ --cluster='{{ $labels.cluster | reReplaceAll "[^-_.a-zA-Z0-9]" "?" }}'; }"""
)
"""Chooses the cluster of the alert; an alert about the process has none."""


def run(context: Context, publish: PublishSettings) -> int:
    """Prints the rules; returns the exit status, WRONG_USAGE for a choice that names nothing."""
    options = context.options
    config_file: str | None = vars(options).get("config_file")
    if context.file_of_environment is not None and config_file is None and options.clusters is None:
        # In a pod the variable names a file that an operator's machine lacks: alerts name only what an option names.
        complain(
            "no alert names the settings file; on a host use "
            f"--config.file={shlex.quote(context.file_of_environment)}, so that commands of a runbook read it"
        )
    if options.clusters is not None and not Path(options.clusters).is_file():
        return complain(f"{options.clusters}: cannot be read: there is no such file")
    if options.name is not None and options.format != "prometheus-rule":
        return complain("--name is of a manifest: use it with --format prometheus-rule", ExitStatus.WRONG_USAGE)
    choices = Choices(
        labels=dict(options.label),
        disabled=frozenset(options.disable),
        thresholds=dict(options.threshold),
        runbook_base=options.runbook_base or publish.runbook_url or "",
        exporter_url=publish.external_url or "",
        grafana_url=options.grafana_url or "",
        function=function_of(config_file, options.clusters),
    )
    try:
        groups = rule_groups(choices)
    except UnknownChoiceError as error:
        return complain(str(error), ExitStatus.WRONG_USAGE)
    made = (
        prometheus_rule(options.name or PROGRAM, groups) if options.format == "prometheus-rule" else {"groups": groups}
    )
    print(as_yaml(made), end="")
    return ExitStatus.ANSWERED


def function_of(config_file: str | None, clusters: str | None) -> str:
    """Returns a line for a shell on the exporter's host, after which the program reads these files; empty without one.

    A function that a line for a login has defined before would use that login.
    """
    files = {CONFIG_FILE: config_file, CLUSTERS_FILE: clusters}
    exports = [f"{name}={shlex.quote(str(Path(path).absolute()))}" for name, path in files.items() if path is not None]
    if not exports:
        return ""
    return f"{f'unset -f {PROGRAM}' if clusters is None else OF_A_FLEET}; export {' '.join(exports)}"
