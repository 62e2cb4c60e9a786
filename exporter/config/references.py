"""Values that stand elsewhere: `${file:/run/secrets/password}`, `${env:PASSWORD}`, and the file of a `*_file` setting."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from exporter.files import read_text

ReadText = Callable[[Path], str]
"""Raises OSError and UnicodeDecodeError."""

_REFERENCE = re.compile(r"\$(?P<escaped>\$)?\{(?P<inside>[^{}]*)\}")


def is_one_reference(written: str) -> bool:
    """True where nothing of a value is in it, only where the value stands."""
    match = _REFERENCE.fullmatch(written)
    return match is not None and not match["escaped"]


@dataclass(slots=True)
class Elsewhere:
    """Where values may be fetched from; remembers which files were asked for."""

    environment: Mapping[str, str]
    read: ReadText = read_text
    files: list[Path] = field(default_factory=list)

    def resolve(self, written: str) -> str:
        """`written` with each reference replaced; `$${` stands for `${`. Raises ValueError with the end of a sentence."""
        return _REFERENCE.sub(self._value, written)

    def contents(self, path: str) -> str:
        """A file's contents without the line end after them. Raises ValueError with the end of a sentence."""
        file = Path(path)
        self.files.append(file)
        try:
            return self.read(file).rstrip("\r\n")
        except OSError as error:
            raise ValueError(f"names the file {path}, which cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"names the file {path}, which is not UTF-8 text") from error

    def _value(self, match: re.Match[str]) -> str:
        if match["escaped"]:
            return match[0][1:]
        kind, _, name = match["inside"].partition(":")
        if kind == "file" and name:
            return self.contents(name)
        if kind == "env" and name:
            if name not in self.environment:
                raise ValueError(f"refers to the environment variable {name}, which is not set")
            return self.environment[name]
        # Not what it is: a password may hold these characters.
        raise ValueError("contains ${...}, and only ${file:PATH} and ${env:NAME} are known; write $${ for a literal ${")
