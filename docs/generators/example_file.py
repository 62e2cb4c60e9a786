"""Makes a file with every setting; `make generate` writes it to `examples/config.yaml`."""

from __future__ import annotations

import textwrap
from itertools import groupby

import yaml

from exporter.config.settings import SETTINGS
from exporter.config.table import Setting


def example_file() -> str:
    """Every setting with its default and its purpose; all but the brokers are comments."""
    lines = [
        "# Every setting of kafka-transaction-exporter, with its default. Only the brokers must be given.",
        "# yaml-language-server: $schema=../docs/schema/config.schema.json",
    ]
    for section, settings in groupby(SETTINGS, key=lambda setting: setting.name.split(".", 1)[0]):
        lines += ["", f"{section}:" if section == "kafka" else f"# {section}:"]
        for setting in settings:
            lines += textwrap.wrap(setting.help, width=116, initial_indent="  # ", subsequent_indent="  # ")
            lines.append(_example(setting))
    return "\n".join(lines) + "\n"


def _example(setting: Setting) -> str:
    key = setting.name.split(".", 1)[1]
    if setting.name == "kafka.bootstrap.servers":
        return f"  {key}: localhost:9092"
    if setting.default is None:
        return f"  # {key}:"
    written = yaml.safe_dump(setting.default, default_flow_style=True).removesuffix("\n...\n").strip()
    return f"  # {key}: {written}"
