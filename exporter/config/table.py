"""What a row of the table of settings is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from exporter.config.values import TEXT, Kind

FILE_SUFFIX = "_file"
"""`kafka.sasl.password_file` names a file that holds `kafka.sasl.password`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table."""

    name: str
    """`section.key`; keys of the kafka section contain dots of their own."""
    kind: Kind
    default: Any
    """As a user would write it; None when there is none."""
    help: str
    is_secret: bool = False
    """Never accepted on a command line, never shown."""
    is_path: bool = False
    """Names a file whose contents matter: it is watched, and the settings are applied anew when it changes."""
    needs_restart: bool = False
    """A reload leaves it as it was, and says so."""


def with_files(settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    """The rows, each secret followed by the row of the file that may hold it."""
    rows: list[Setting] = []
    for setting in settings:
        rows.append(setting)
        if setting.is_secret:
            rows.append(
                Setting(
                    name=setting.name + FILE_SUFFIX,
                    kind=TEXT,
                    default=None,
                    help=f"File that holds `{setting.name}`; read again when it changes.",
                    is_path=True,
                )
            )
    return tuple(rows)
