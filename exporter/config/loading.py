"""Putting settings together: defaults < YAML file < environment < flags. Everything wrong is reported at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import yaml

from exporter.config.settings import ALIASES, BY_NAME, SETTINGS, Settings, impossible, settings_of

ENVIRONMENT_PREFIX = "KAFKA_TRANSACTION_EXPORTER__"
"""Two underscores, so that the variables which Kubernetes makes for a Service of our name are not taken for settings."""


class ConfigurationError(Exception):
    """One or more settings are wrong. `problems` are sentences, each with its place."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class Written:
    """A value as somebody wrote it, and where."""

    value: Any
    place: str
    """`config.yaml:12`, `KAFKA_TRANSACTION_EXPORTER__SCAN__INTERVAL`, `--scan.interval`, `default`."""


def environment_name(name: str) -> str:
    """The environment variable of a setting: section and key joined by two underscores, dots as one."""
    section, key = name.split(".", 1)
    return f"{ENVIRONMENT_PREFIX}{section}__{key.replace('.', '_')}".upper()


def flag_name(name: str) -> str:
    """The flag of a setting."""
    return "--" + name.replace("_", "-")


def load(
    *,
    file: tuple[str, str] | None,
    environment: Mapping[str, str],
    flags: Mapping[str, str],
    java: Mapping[str, Written] = MappingProxyType({}),
) -> Settings:
    """The settings of `file` (its path and text), `java`, `environment` and `flags` (setting name -> value).

    Raises ConfigurationError with every problem found.
    """
    problems: list[str] = []
    written: dict[str, Written] = {}
    if file is not None:
        written |= _from_yaml(*file, problems)
    written |= java
    written |= _from_environment(environment, problems)
    written |= {name: Written(value, flag_name(name)) for name, value in flags.items()}
    parsed = _parse(written, problems)
    if not problems:
        problems += [f"{_place(written, name)}: {name} {sentence}" for name, sentence in impossible(parsed)]
    if problems:
        raise ConfigurationError(problems)
    return settings_of(parsed)


def _parse(written: Mapping[str, Written], problems: list[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for setting in SETTINGS:
        source = written.get(setting.name, Written(setting.default, "default"))
        if source.value is None:
            parsed[setting.name] = None
            continue
        try:
            parsed[setting.name] = setting.parse(source.value)
        except ValueError as error:
            problems.append(f"{source.place}: {setting.name} {error}")
    if parsed.get("kafka.bootstrap.servers", "") is None:
        problems.append(
            "kafka.bootstrap.servers is not set: name a broker, for example --bootstrap-server localhost:9092"
        )
    return parsed


def _place(written: Mapping[str, Written], name: str) -> str:
    return written[name].place if name in written else "default"


def _from_environment(environment: Mapping[str, str], problems: list[str]) -> dict[str, Written]:
    names = {environment_name(name): name for name in [*BY_NAME, *ALIASES]}
    found = {}
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        name = names.get(variable)
        if name is None:
            problems.append(f"{variable}: unknown setting{_nearest(variable, names)}")
        else:
            found[ALIASES.get(name, name)] = Written(value, variable)
    return found


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _from_yaml(path: str, text: str, problems: list[str]) -> dict[str, Written]:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        problems.append(f"{path}{line}: not valid YAML: {getattr(error, 'problem', None) or error}")
        return {}
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        problems.append(f"{path}:{root.start_mark.line + 1}: must be a mapping of sections")
        return {}
    found: dict[str, Written] = {}
    for name, node in _flatten(root, ""):
        _take(path, name, node, found, problems)
    return found


def _flatten(mapping: yaml.MappingNode, prefix: str) -> Iterable[tuple[str, yaml.Node]]:
    """(full name, value) of every leaf; a mapping is descended into, so `a: {b: 1}` and `a.b: 1` are the same."""
    for key, value in mapping.value:
        name = f"{prefix}{key.value}"
        if isinstance(value, yaml.MappingNode):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def _take(path: str, name: str, node: yaml.Node, found: dict[str, Written], problems: list[str]) -> None:
    place = f"{path}:{node.start_mark.line + 1}"
    known = ALIASES.get(name, name)
    if known not in BY_NAME:
        problems.append(f"{place}: {name}: unknown setting{_nearest(name, BY_NAME)}")
        return
    if known in found:
        problems.append(f"{place}: {name} is set twice, first at {found[known].place}")
        return
    loader = yaml.SafeLoader("")
    found[known] = Written(loader.construct_object(node, deep=True), place)
