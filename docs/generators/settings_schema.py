"""Makes a JSON schema for editors and the chart; `make generate` writes it to `docs/schema/config.schema.json`."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from exporter.config.kafka_section import ALIASES
from exporter.config.settings import BY_NAME, SETTINGS
from exporter.config.table import Setting

_REFERENCE = {"type": "string", "pattern": r"\$\{(file|env):[^{}]+\}"}


def settings_schema() -> dict[str, Any]:
    """Of the YAML file: accepts nested and dotted keys, and no unknown one."""
    names = {
        **{setting.name: setting for setting in SETTINGS},
        **{alias: BY_NAME[target] for alias, target in ALIASES.items()},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of kafka-transaction-exporter",
        **_mapping(names),
    }


def _mapping(settings: dict[str, Setting]) -> dict[str, Any]:
    """Each whole name, and its first word as a mapping of the rest."""
    properties: dict[str, Any] = {name: _leaf(setting) for name, setting in sorted(settings.items())}
    dotted = sorted(name for name in settings if "." in name)
    for word, group in groupby(dotted, key=lambda name: name.split(".", 1)[0]):
        properties[word] = _mapping({name.split(".", 1)[1]: settings[name] for name in group})
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _leaf(setting: Setting) -> dict[str, Any]:
    shown = {} if setting.default is None else {"default": setting.default}
    return {"description": setting.help, **shown, "anyOf": [dict(setting.kind.schema), _REFERENCE]}
