"""Finds every place in the exporter that starts a thread, pool, timer or event loop, or makes a lock or a signal handler.

tests/test_threads.py compares them with the thread map in ARCHITECTURE.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
ARCHITECTURE: Final = ROOT / "ARCHITECTURE.md"
BEGIN: Final = "## Threads and locks\n"
STARTS: Final = {
    "Thread": "thread",
    "start_new_thread": "thread",
    "NetworkSelector": "thread",  # kafka-python's class starts one
    "to_thread": "thread",
    "run_in_executor": "thread",
    "Timer": "timer",
    "ThreadPoolExecutor": "pool",
    "ProcessPoolExecutor": "pool",
    "Pool": "pool",
    "new_event_loop": "event loop",
    "get_event_loop": "event loop",
    "signal": "signal handler",
    "set_wakeup_fd": "signal handler",
    "Popen": "process",
    "fork": "process",
    "posix_spawn": "process",
    "create_subprocess_exec": "process",
    "Lock": "lock",
    "RLock": "lock",
    "Condition": "lock",
    "Semaphore": "lock",
    "BoundedSemaphore": "lock",
    "Barrier": "lock",
    "flock": "file lock",
    "lockf": "file lock",
}
"""The last part of a name -> what a use of it makes. `signal` is the function `signal.signal`."""
MODULES: Final = {"run": "asyncio", "call": "subprocess", "check_call": "subprocess", "check_output": "subprocess"}
"""Names that are common words: counted only as attributes of these modules."""


class Place(NamedTuple):
    """One place in the code."""

    file: str
    """Below `exporter/`."""
    name: str
    """Of a lock: the variable that holds it. Otherwise the class whose constructor, or the function which, makes it."""
    kind: str


def in_source(file: str, source: str) -> Iterator[Place]:
    """The places of one file."""
    yield from _Finder(file).places(ast.parse(source), (), None)


def in_code() -> set[Place]:
    """The places of the exporter."""
    folder = ROOT / "exporter"
    return {
        place
        for path in sorted(folder.rglob("*.py"))
        for place in in_source(str(path.relative_to(folder)), path.read_text(encoding="utf-8"))
    }


def in_map(text: str) -> set[Place]:
    """The places that the rows of the thread map name: `file`, `name`, kind."""
    section = text.partition(BEGIN)[2].partition("\n## ")[0]
    return {
        Place(*row) for row in re.findall(r"^\| `([\w/.]+\.py)` \| `([\w.]+)` \| ([a-z ]+?) \|", section, re.MULTILINE)
    }


class _Finder:
    def __init__(self, file: str) -> None:
        self._file = file

    def places(self, node: ast.AST, scope: tuple[str, ...], target: ast.expr | None) -> Iterator[Place]:
        """Of a node in the class or function `scope`, whose value goes to the variable `target`."""
        match node:
            case ast.Import() | ast.ImportFrom():
                return
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                scope = (*scope, name)
            case ast.Assign(targets=[first, *_]) | ast.AnnAssign(target=first):
                target = first
        kind = _kind(node)
        if kind is not None:
            yield Place(self._file, _name(scope, target, kind), kind)
        for field, value in ast.iter_fields(node):
            if field in {"annotation", "returns", "type_comment"}:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self.places(child, scope, target)


def _kind(node: ast.AST) -> str | None:
    match node:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if name in MODULES or module == "subprocess":
            return "process" if module == "subprocess" else "event loop" if MODULES[name] == module else None
        case ast.Attribute(value=owner, attr="signal"):
            return STARTS["signal"] if isinstance(owner, ast.Name) and owner.id == "signal" else None
        case ast.Name(id="signal"):
            return None
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return STARTS.get(name)
    return None


def _name(scope: tuple[str, ...], target: ast.expr | None, kind: str) -> str:
    is_in_function = bool(scope) and not scope[-1].lstrip("_")[:1].isupper()
    if kind == "lock":
        match target:
            case ast.Attribute(attr=name):
                return f"{scope[0]}.{name}"
            case ast.Name(id=name) if not is_in_function:
                return ".".join((*scope, name))
    return ".".join(part for part in scope if part != "__init__")


def lock_order(text: str) -> set[tuple[str, str]]:
    """(lock that is held, lock that is taken) by the last column of the map's rows of locks."""
    section = text.partition(BEGIN)[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `[\w/.]+` \| `([\w.]+)` \| (?:file )?lock \| .* \| (.+) \|$", section, re.MULTILINE)
    return {(held, taken) for held, cell in rows for taken in re.findall(r"`([\w.]+)`", cell)}
