"""Combines the values of several sources, each with its place, and replaces the references in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from exporter.config.references import ReferenceSources, is_one_reference
from exporter.config.settings import SETTINGS
from exporter.config.table import FILE_SUFFIX

_SECRETS = frozenset(setting.name for setting in SETTINGS if setting.is_secret)


@dataclass(frozen=True, slots=True)
class SettingSource:
    """A value as it was written, and where."""

    value: Any = field(repr=False)
    place: str
    """`config.yaml:12`, `KAFKA_TRANSACTION_EXPORTER__SCAN__INTERVAL`, `--scan.interval`, `default`."""
    reference: Any = None
    """The value as it was written, if it has references: the resolved value may be a secret, the reference is not."""


def merged(*sources: Mapping[str, SettingSource]) -> dict[str, SettingSource]:
    """The values of all sources by setting: the later sources override the earlier.

    A secret and the file that holds it are one value: the one of a later source overrides the other of an earlier one.
    """
    of_all: dict[str, SettingSource] = {}
    for source in sources:
        for name in source:
            secret = name.removesuffix(FILE_SUFFIX)
            if secret in _SECRETS and source[name].value:
                of_all.pop(secret, None)
                of_all.pop(secret + FILE_SUFFIX, None)
        of_all.update(source)
    return of_all


def resolve_references(
    written: Mapping[str, SettingSource], elsewhere: ReferenceSources, problems: list[str]
) -> dict[str, SettingSource]:
    """Replaces references by the values that they refer to."""
    resolved: dict[str, SettingSource] = {}
    for name, source in written.items():
        try:
            value = _with_references(source.value, elsewhere)
            # A secret is shown only if the value is nothing but the reference.
            is_shown = name not in _SECRETS or is_one_reference(str(source.value))
            reference = source.value if value != source.value and is_shown else None
            resolved[name] = replace(source, value=value, reference=reference)
        except ValueError as error:
            problems.append(f"{source.place}: {name} {error}")
    for name, source in list(resolved.items()):
        secret = name.removesuffix(FILE_SUFFIX)
        if secret not in _SECRETS or secret == name or not source.value:  # an empty name is none
            continue
        if secret in resolved:
            problems.append(f"{source.place}: {name} and {secret} (at {resolved[secret].place}) cannot both be set")
            continue
        try:
            contents, place = elsewhere.contents(str(source.value)), f"{source.place} ({source.value})"
            resolved[secret] = replace(source, value=contents, place=place, reference=None)
        except ValueError as error:
            problems.append(f"{source.place}: {name} {error}")
    return resolved


def _with_references(value: Any, elsewhere: ReferenceSources) -> Any:
    if isinstance(value, list):
        return [_with_references(item, elsewhere) for item in value]
    if isinstance(value, dict):
        return {key: _with_references(inner, elsewhere) for key, inner in value.items()}
    return elsewhere.resolve(value) if isinstance(value, str) else value
