"""Finds the classes, functions, constants and files of the project that Markdown names in backticks, and that do not exist.

Checked are `Class.member`, the file in `folder/name.py`, dotted modules, and every name that stands next to a Python file:
in the forms "`name` in `file.py`", "`name` (`file.py`)", "`file.py` (`name`)", "`file.py`: `name`" and `file.py::name`.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("exporter", "tests", "hangbench", "benchmarks", "examples", "grafana", "alerts", "helm", "docs")
FOREIGN: Final = {
    "KafkaConnection": "kafka-python",
    "Server": "uvicorn",
    "Utils": "Kafka, in Java",
}
"""Classes of others, which documents name with a member; and whose they are."""

_NAME: Final = r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)(?:\(\))?`"
_FILE: Final = r"`([\w./-]+\.py)(?:::?(\w+))?`"
_NAMES: Final = rf"{_NAME}(?:(?:, {_NAME})*,? (?:and|or) {_NAME})?"
_BESIDE: Final = (
    re.compile(rf"({_NAMES}) (?:in |of |\(|\(in ){_FILE}"),
    re.compile(rf"(?<!::){_FILE}(?::? \(?|'s )({_NAMES})"),
)
_MEMBER: Final = re.compile(r"`(_?[A-Z][A-Za-z]*)\.([a-z_]\w*)(?:\(\))?`")
_MODULE: Final = re.compile(r"(?:`|python -m )((?:exporter|tests|benchmarks|examples|grafana)(?:\.\w+)+)(?=[` \n)])")
_DATA: Final = (".json", ".yaml", ".yml", ".md", ".toml", ".sh", ".txt", ".html", ".conf")


def missing(document: Path) -> Iterator[str]:
    """A sentence for each name in the document that the project does not have."""
    text = document.read_text(encoding="utf-8")
    where = document.relative_to(ROOT) if document.is_relative_to(ROOT) else document.name
    for sentence in (*_missing_files(text, document), *_missing_members(text), *_missing_modules(text)):
        yield f"{where}: {sentence}"


def _missing_files(text: str, document: Path) -> Iterator[str]:
    """Files, and names beside a file."""
    for file in dict.fromkeys(match[0] for match in re.findall(_FILE, text)):
        if not CODE.files(file, document):
            yield f"there is no file {file}"
    for name, file in dict.fromkeys(_names_beside_files(text)):
        files = CODE.files(file, document)
        if files and not any(CODE.has(path, name) for path in files):
            yield f"{file} has no {name}"


def _missing_members(text: str) -> Iterator[str]:
    for class_, member in _MEMBER.findall(text):
        is_ours = class_ not in FOREIGN and not f"{class_}.{member}".endswith(_DATA)
        if is_ours and member not in CODE.members(class_):
            yield f"there is no {class_}.{member}"


def _missing_modules(text: str) -> Iterator[str]:
    for module in _MODULE.findall(text):
        if not module.endswith(_DATA) and not CODE.has_module(module):
            yield f"there is no module {module}"


def _names_beside_files(text: str) -> Iterator[tuple[str, str]]:
    yield from ((name, file) for file, name in re.findall(_FILE, text) if name)
    first, second = _BESIDE
    for match in first.finditer(text):
        for name in re.findall(_NAME, match[1]):
            yield name, match.groups()[-2]
    for match in second.finditer(text):
        for name in re.findall(_NAME, match[3]):
            yield name, match[1]


class Code:
    """The Python code of the project, by names."""

    @cached_property
    def _paths(self) -> list[Path]:
        return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]

    @cached_property
    def _trees(self) -> dict[Path, ast.Module]:
        return {path: ast.parse(path.read_text(encoding="utf-8")) for path in self._paths}

    def files(self, name: str, document: Path) -> list[Path]:
        """Those that a document may mean: below the project, beside the document, or any whose path ends so."""
        exact = [path for path in (ROOT / name, document.parent / name) if path.is_file()]
        return exact or [path for path in self._paths if f"/{path.relative_to(ROOT)}".endswith(f"/{name}")]

    def has(self, path: Path, name: str) -> bool:
        """Whether the file defines the name, or a class with this member."""
        class_, _, member = name.partition(".")
        if member:
            return class_ in self._top_level(path) and member in self.members(class_)
        return name in self._top_level(path) or any(
            name in _defined(node.body) for node in self._trees[path].body if isinstance(node, ast.ClassDef)
        )

    def has_module(self, dotted: str) -> bool:
        """A module, a package, or a name in one."""
        path, last = ROOT.joinpath(*dotted.split(".")), dotted.rpartition(".")[2]
        if path.is_dir() or path.with_suffix(".py").is_file():
            return True
        return any(
            file.is_file() and last in self._top_level(file)
            for file in (path.parent.with_suffix(".py"), path.parent / "__init__.py")
        )

    def members(self, class_: str) -> set[str]:
        """Of all classes with this name, and of their bases in the project."""
        return {member for node in self._classes[class_] for member in self._members_of(node)}

    def _members_of(self, node: ast.ClassDef) -> set[str]:
        own = _defined(node.body) | {
            target.attr
            for child in ast.walk(node)
            if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store)
            for target in [child]
            if isinstance(target.value, ast.Name) and target.value.id == "self"
        }
        bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id != node.name]
        return own.union(*(self.members(base) for base in bases))

    def _top_level(self, path: Path) -> set[str]:
        return _defined(self._trees[path].body)

    @cached_property
    def _classes(self) -> dict[str, list[ast.ClassDef]]:
        classes = defaultdict(list)
        for tree in self._trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    classes[node.name].append(node)
        return classes


def _defined(body: list[ast.stmt]) -> set[str]:
    """The names that these statements define or import."""
    names: set[str] = set()
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.If(body=inner) | ast.With(body=inner) | ast.Try(body=inner):
                names |= _defined(inner)
    return names


CODE: Final = Code()
