"""Makes the table of rooms in ARCHITECTURE.md from the real packages; `make generate` writes it.

A room's sentence is the first line of its `__init__.py`, what it imports is what its files import.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]


def table() -> str:
    """One row for each room, in the order of the tree; then the loose files."""
    rooms = sorted(path.parent for path in (ROOT / "exporter").rglob("__init__.py"))
    imports = _imports({path: _name(path) for path in rooms})
    lines = ["| room | what it does | imports |", "|---|---|---|"]
    for path in rooms[1:]:
        used = ", ".join(f"`{room}`" for room in sorted(imports[_name(path)]))
        lines.append(f"| `{_name(path)}/` | {_sentence(path / '__init__.py')} | {used or 'none'} |")
    loose = sorted((ROOT / "exporter").glob("[!_]*.py"))
    lines += [f"| `{path.name}` | {_sentence(path)} | {_used_by_file(path, rooms)} |" for path in loose]
    return "\n".join(lines) + "\n"


def _name(room: Path) -> str:
    """As it is written in an import, without `exporter`."""
    return ".".join(room.relative_to(ROOT / "exporter").parts)


def _imports(names: dict[Path, str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "exporter").rglob("*.py"):
        mine = names[path.parent]
        found[mine] |= {room for module in _modules(path) if (room := _room_of(module, names)) != mine}
    return found


def _used_by_file(path: Path, rooms: list[Path]) -> str:
    names = {room: _name(room) for room in rooms}
    used = {_room_of(module, names) for module in _modules(path)}
    return ", ".join(f"`{name}`" for name in sorted(used)) or "none"


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
