"""`config check` and `config dump`: check and print the settings, without a request to a broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import yaml

from exporter.commands.cautions import cautions
from exporter.commands.context import Context
from exporter.commands.report import complain
from exporter.commands.serve import require_startable, web_server, why_baseline_unusable
from exporter.commands.status import ExitStatus
from exporter.config.loading import ConfigurationError
from exporter.config.settings import SETTINGS, Settings
from exporter.config.sources import SettingSource
from exporter.config.table import Setting

REDACTED = "<secret>"


def run(context: Context, settings: Settings) -> int:
    """Returns the exit status; only valid settings get here."""
    options = context.options
    try:
        require_startable(settings)
        web_server(settings)
    except ConfigurationError as error:
        for problem in error.problems:
            complain(problem)
        return ExitStatus.COULD_NOT_RUN
    if options.action == "dump":
        written = {cluster.name: cluster.written for cluster in settings.clusters}
        dumps = [f"# cluster {name}\n{dump(of_cluster)}" for name, of_cluster in written.items()]
        print("---\n".join(dumps or [dump(context.settings_source.loaded.written)]), end="")
    else:
        for sentence in (*cautions(settings), *_unusable_files(settings)):
            complain(f"warning: {sentence}")
        files = ", ".join(map(str, context.settings_source.files))
        print(f"The settings are valid{f': {files}' if files else '.'}")
    return ExitStatus.ANSWERED


def _unusable_files(settings: Settings) -> Iterator[str]:
    """Reads what `serve` reads from this disk while it runs, and goes on without."""
    why = why_baseline_unusable(settings)
    if why is not None:
        yield f"baseline.file {settings.baseline.file} would not be used: {why}"


def dump(written: Mapping[str, SettingSource]) -> str:
    """Every setting as YAML that can be used as a file, without secrets; each with its origin."""
    lines = []
    for section, settings in groupby(SETTINGS, key=lambda setting: setting.name.split(".", 1)[0]):
        below = [_line(setting, written.get(setting.name)) for setting in settings]
        is_empty = all(line.lstrip().startswith("#") for line in below)
        lines += [f"# {section}:" if is_empty else f"{section}:", *below]
    return "\n".join(lines) + "\n"


def _line(setting: Setting, written: SettingSource | None) -> str:
    key = setting.name.split(".", 1)[1]
    value = setting.default if written is None else written.value
    place = "default" if written is None else written.place
    if value is None:
        return f"  # {key}: not set"
    if written is not None and written.reference is not None:
        return f"  {key}: {_scalar(written.reference)}  # {place}"
    if setting.is_secret:
        return f"  # {key}: {REDACTED}  # {place}"
    return f"  {key}: {_scalar(value)}  # {place}"


def _scalar(value: Any) -> str:
    """Formats a value on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=10**9).removesuffix("\n...\n").strip()
