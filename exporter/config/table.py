"""Declares a setting as the field of a record that holds its value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from exporter.config.values import PATH, SettingType

FILE_SUFFIX = "_file"
"""`kafka.sasl.password_file` names a file that holds `kafka.sasl.password`."""

_SETTING, _ONLY_IF = "setting", "only_if"

Values = Mapping[str, Any]
"""Parsed values by the full names of their settings."""
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Declaration of a setting: its name, type, default and documentation."""

    name: str
    """`section.key`; keys of the kafka section contain dots themselves."""
    kind: SettingType
    default: Any
    """Default as a user would write it; None if there is no default."""
    help: str
    is_secret: bool = False
    """Never accepted on a command line, never shown."""
    is_path: bool = False
    """Names a file whose contents matter: it is watched, and the settings are applied again when it changes."""
    needs_restart: bool = False
    """A reload does not change it, and logs that."""


def setting(name: str, kind: SettingType, help: str, *, default: Any = None, **more: bool) -> Any:  # noqa: A002
    """A field that holds the value of a setting. `more` are the switches of `Setting`."""
    declared = Setting(name=name, kind=kind, default=default, help=help, **more)
    return field(repr=not declared.is_secret, metadata={_SETTING: declared})


def only_if(condition: Callable[[Values], bool]) -> Any:
    """A field with a record of settings; its value is None if the condition does not hold."""
    return field(metadata={_ONLY_IF: condition})


def settings_in(record: type) -> Iterator[Setting]:
    """The settings of a record's fields and of the records in it, in order; each secret's file follows it."""
    types = get_type_hints(record)
    for member in fields(record):
        inner = _record_in(types[member.name])
        if _SETTING in member.metadata:
            yield member.metadata[_SETTING]
            if member.metadata[_SETTING].is_secret:
                yield _file_of(member.metadata[_SETTING])
        elif inner is not None:
            yield from settings_in(inner)


def fill_record(record: type[Record], values: Values) -> Record:
    """The record of these values; fields that are no settings keep their defaults."""
    types = get_type_hints(record)
    arguments: dict[str, Any] = {}
    for member in fields(record):  # type: ignore[arg-type]  # every record is a dataclass
        inner = _record_in(types[member.name])
        if _SETTING in member.metadata:
            arguments[member.name] = values[member.metadata[_SETTING].name]
        elif inner is not None:
            wanted = _ONLY_IF not in member.metadata or member.metadata[_ONLY_IF](values)
            arguments[member.name] = fill_record(inner, values) if wanted else None
    return record(**arguments)


def given_in(record: object) -> dict[str, Any]:
    """The values of a filled record by the names of their settings, without those that are None."""
    given: dict[str, Any] = {}
    for member in fields(record):  # type: ignore[arg-type]  # every record is a dataclass
        value = getattr(record, member.name)
        if _SETTING in member.metadata and value is not None:
            given[member.metadata[_SETTING].name] = value
        elif is_dataclass(value):
            given |= given_in(value)
    return given


def _record_in(declared: Any) -> Any:
    """The record in a field of this type, also if the field may be None."""
    parts = (declared, *get_args(declared)) if type(None) in get_args(declared) else (declared,)
    return next((part for part in parts if is_dataclass(part)), None)


def _file_of(secret: Setting) -> Setting:
    name = secret.name + FILE_SUFFIX
    return Setting(
        name=name,
        kind=PATH,
        default=None,
        help=f"File that holds `{secret.name}`; read again when it changes.",
        is_path=True,
    )
