"""Makes the table of rooms in ARCHITECTURE.md from the real packages; `make generate` writes it.

A room's sentence is the first line of its `__init__.py`, what it imports is what its files import.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[1]


CORE: Final = frozenset(
    {
        *("snapshot", "transaction_log", "evaluation", "recovery"),
        *("kafka", "kafka.collect", "kafka.leadership", "kafka.messages", "kafka.visibility"),
        *("cycle.py", "baseline.py", "patterns.py", "primitives.py", "status.py"),
    }
)
"""What decides verdicts and writes markers."""
ROUNDED: Final = 500
"""Lines are counted to this number, so that a few more change no document."""


@dataclass(frozen=True, slots=True)
class Room:
    """A package of the exporter, or a loose file."""

    name: str
    """As it is written in an import, without `exporter`; of a file with its suffix."""
    sentence: str
    imports: frozenset[str]
    lines: int


def rooms() -> list[Room]:
    """In the order of the tree; then the loose files."""
    folders = sorted(path.parent for path in (ROOT / "exporter").rglob("__init__.py"))
    imports = _imports({path: _name(path) for path in folders})
    loose = sorted((ROOT / "exporter").glob("[!_]*.py"))
    names = {path.stem: path.name for path in loose}

    def renamed(found: Iterable[str]) -> frozenset[str]:
        return frozenset(names.get(name, name) for name in found)

    return [
        *(
            Room(
                _name(path),
                _sentence(path / "__init__.py"),
                renamed(imports[_name(path)]),
                sum(map(_lines, path.glob("*.py"))),
            )
            for path in folders[1:]
        ),
        *(Room(path.name, _sentence(path), renamed(_used_by_file(path, folders)), _lines(path)) for path in loose),
    ]


def table() -> str:
    """The two circles: of each a sentence with its size, and a row for each room."""
    inner = [room for room in rooms() if room.name in CORE]
    outer = [room for room in rooms() if room.name not in CORE]
    core = f"**The core**, {_size(inner)}, decides verdicts and writes markers. It can be read alone:"
    around = (
        f"**Around it**, {_size(outer)}: settings, connections, what publishes, stores and explains, and the commands."
    )
    alone = f"{core} outside of itself it imports only {_names(beyond())}."
    return "\n".join([alone, "", *_rows(inner), "", around, "", *_rows(outer), ""])


def beyond() -> list[str]:
    """Rooms that the core imports, and that are not in it."""
    return sorted({name for room in rooms() if room.name in CORE for name in room.imports} - CORE)


def _rows(part: list[Room]) -> list[str]:
    lines = ["| room | what it does | imports |", "|---|---|---|"]
    for room in part:
        shown = room.name if room.name.endswith(".py") else f"{room.name}/"
        lines.append(f"| `{shown}` | {room.sentence} | {_names(sorted(room.imports)) or 'none'} |")
    return lines


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name.removesuffix('.py')}`" for name in names)


def _size(part: list[Room]) -> str:
    return f"about {round(sum(room.lines for room in part) / ROUNDED) * ROUNDED:,} lines"


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _name(room: Path) -> str:
    """As it is written in an import, without `exporter`."""
    return ".".join(room.relative_to(ROOT / "exporter").parts)


def _imports(names: dict[Path, str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "exporter").rglob("*.py"):
        mine = names[path.parent]
        found[mine] |= {room for module in _modules(path) if (room := _room_of(module, names)) != mine}
    return found


def _used_by_file(path: Path, folders: list[Path]) -> set[str]:
    names = {folder: _name(folder) for folder in folders}
    return {_room_of(module, names) for module in _modules(path)}


def _modules(path: Path) -> set[str]:
    """The exporter's modules that a file imports anywhere, without `exporter.`."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    named = [
        f"{node.module}.{alias.name}" for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    return {
        name.removeprefix("exporter.")
        for name in named
        if name.startswith("exporter.") and name != "exporter.__version__"
    }


def _room_of(module: str, names: dict[Path, str]) -> str:
    """The innermost room of a dotted name; a loose file is a room of its own."""
    inside = [room for room in names.values() if room and f"{module}.".startswith(f"{room}.")]
    return max(inside, key=len) if inside else module.split(".", maxsplit=1)[0]


def _sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring is not None, path
    return docstring.splitlines()[0]
