"""Resolves references: `${file:/run/secrets/password}`, `${env:PASSWORD}`, and the file of a `*_file` setting."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from exporter.files import read_text

ReadText = Callable[[Path], str]
"""Raises OSError and UnicodeDecodeError."""

_CREDENTIALS = "/run/credentials/"
_REFERENCE = re.compile(r"\$(?P<escaped>\$)?\{(?P<inside>[^{}]*)\}")


def is_one_reference(written: str) -> bool:
    """True if the text consists only of references, so that it contains no part of the value."""
    match = _REFERENCE.fullmatch(written)
    return match is not None and not match["escaped"]


@dataclass(slots=True)
class ReferenceSources:
    """The sources of references; remembers which files were read."""

    environment: Mapping[str, str]
    read: ReadText = read_text
    files: list[Path] = field(default_factory=list)

    def resolve(self, written: str) -> str:
        """`written` with each reference replaced; `$${` gives `${`. Raises ValueError with the end of a sentence."""
        return _REFERENCE.sub(self._value, written)

    def contents(self, path: str) -> str:
        """A file's contents without the final line end. Raises ValueError with the end of a sentence."""
        file = Path(path)
        self.files.append(file)
        try:
            return self.read(file).rstrip("\r\n")
        except OSError as error:
            hint = " (systemd shows it to root, and only while the unit runs)" if path.startswith(_CREDENTIALS) else ""
            here = (
                "" if file.is_absolute() else f" (here {file.absolute()}: a relative path is below the present folder)"
            )
            raise ValueError(f"names the file {path}{here}, which cannot be read: {error.strerror}{hint}") from error
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
        # The sentence omits the value: a password may contain these characters.
        raise ValueError("contains ${...}, and only ${file:PATH} and ${env:NAME} are known; write $${ for a literal ${")
