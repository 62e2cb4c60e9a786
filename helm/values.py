"""Reads values.yaml with the comments that describe and restrict each value. A value without a description is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

_HELP: Final = "# -- "
_SCHEMA: Final = "# @schema "
_SECTION: Final = re.compile(r"^# @section (.+)$", re.MULTILINE)


class UndocumentedError(Exception):
    """A value has no `# --`; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One key of values.yaml."""

    path: tuple[str, ...]
    default: Any
    help: str
    """Empty for a key that only holds others."""
    schema: dict[str, Any]
    """What `# @schema` adds to what the default shows."""
    section: str
    children: tuple[Value, ...] = field(default=())
    """Of a key that only holds others."""

    @property
    def name(self) -> str:
        """As it is written after `--set`."""
        return ".".join(self.path)


def read_values(text: str) -> tuple[Value, ...]:
    """The keys of the file, in its order. Raises UndocumentedError."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(node, yaml.MappingNode)
    return _children(node, (), text)


def documented(values: tuple[Value, ...]) -> Iterator[Value]:
    """Those that a user sets."""
    for value in values:
        if value.help:
            yield value
        else:
            yield from documented(value.children)


def _children(node: yaml.MappingNode, above: tuple[str, ...], text: str) -> tuple[Value, ...]:
    return tuple(_value(key, value, above, text) for key, value in node.value)


def _value(key: yaml.ScalarNode, node: yaml.Node, above: tuple[str, ...], text: str) -> Value:
    path = (*above, key.value)
    said, schema = _comment(text.splitlines()[: key.start_mark.line])
    holds_others = not said and isinstance(node, yaml.MappingNode) and bool(node.value)
    if not said and not holds_others:
        raise UndocumentedError(f"values.yaml:{key.start_mark.line + 1}: {'.'.join(path)} has no `# --`")
    return Value(
        path=path,
        default=yaml.safe_load(yaml.serialize(node, Dumper=yaml.SafeDumper)),
        help=said,
        schema=schema,
        section=([*_SECTION.findall(text[: key.start_mark.index])] or [""])[-1],
        children=_children(node, path, text) if isinstance(node, yaml.MappingNode) and holds_others else (),
    )


def _comment(lines: list[str]) -> tuple[str, dict[str, Any]]:
    """What the comment right above a key says, and narrows."""
    block: list[str] = []
    for line in reversed(lines):
        if not line.strip().startswith("#"):
            break
        block.insert(0, line.strip())
    said: list[str] = []
    schema: dict[str, Any] = {}
    for line in block:
        if line.startswith(_SCHEMA):
            schema |= yaml.safe_load(line.removeprefix(_SCHEMA))
        elif line.startswith(_HELP):
            said = [line.removeprefix(_HELP)]
        elif said:
            said.append(line.removeprefix("# "))
    return " ".join(said), schema
