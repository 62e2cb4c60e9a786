"""Hostile text in every string of every example's values: it stays text, or is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from jsonschema import Draft7Validator

from helm.made import CHART
from tests.helm.chart import EXAMPLES, NAMESPACE, RELEASE, Refused, example, run_helm
from tests.helm.manifests import Manifest, manifests

pytestmark = pytest.mark.programs

KINDS_OF_TEXT: Final = {
    "lines": "a\n- b: {{ .Release.Name }}\n---\nkind: Secret # '\"",
    "a line": "a'\"{{ .Release.Name }}: #&b *b",
}
AT_A_TIME: Final = 5
SCHEMA: Final = Draft7Validator(json.loads((CHART / "values.schema.json").read_text()))
TEMPLATES: Final = "extraManifests"
"""Are templates on purpose."""

Path_ = tuple[Any, ...]


def strings(values: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Where the strings are."""
    inner = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for key, value in inner:
        if isinstance(value, str):
            yield (*path, key)
        yield from strings(value, (*path, key))


def every_string() -> dict[str, list[Path_]]:
    """Paths by example, each path once."""
    found: dict[Path_, str] = {}
    for name in EXAMPLES:
        for path in strings(yaml.safe_load(example(name).read_text())):
            if path[0] != TEMPLATES:
                found.setdefault(path, name)
    return {name: [path for path in found if found[path] == name] for name in EXAMPLES}


def with_text(name: str, paths: Iterable[Path_], text: str) -> Any:
    """The values of an example with the text in these places."""
    values = copy.deepcopy(yaml.safe_load(example(name).read_text()))
    for path in paths:
        at = values
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = text
    return values


def rendered(name: str, paths: Iterable[Path_], text: str, folder: Path) -> list[Manifest]:
    """The objects of an example with the text in these places. Raises Refused."""
    (folder / "values.yaml").write_text(yaml.safe_dump(with_text(name, paths, text)))
    words = ("template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", f"--values={folder / 'values.yaml'}")
    return manifests(run_helm(3, *words))


def groups(name: str, paths: Sequence[Path_], text: str) -> list[list[Path_]]:
    """Alone what the schema refuses; of the others a few at a time that are far from each other.

    Neighbours together would hide a template that prints one of them only where another is as it was.
    """
    errors = [tuple(error.absolute_path) for error in SCHEMA.iter_errors(with_text(name, paths, text))]
    refused = [path for path in paths if any(path[: len(error)] == error for error in errors if error)]
    free = [path for path in paths if path not in refused]
    count = -(-len(free) // AT_A_TIME)
    return [[path] for path in refused] + [free[first::count] for first in range(count)]


def texts(value: Any) -> Iterator[str]:
    """Every key and every string."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("kind", ["lines", pytest.param("a line", marks=pytest.mark.slow)])
def test_it_stays_text_or_is_refused(kind: str, tmp_path: Path) -> None:
    """No other object, nothing expanded, and never YAML that Helm itself cannot read: with other indentation it could.

    Finds a value that a template prints without quoting it, and a `tpl` where none is meant.
    """
    text = KINDS_OF_TEXT[kind]
    wrong, tried = [], every_string()
    for name, paths in tried.items():
        waiting = groups(name, paths, text)
        while waiting:
            group = waiting.pop()
            try:
                objects = rendered(name, group, text, tmp_path)
            except Refused as refusal:
                if len(group) > 1:
                    waiting += [[path] for path in group]
                elif "YAML parse error" in str(refusal):
                    wrong.append(f"{name}: {group}: it is not quoted: {refusal}")
                continue
            if [text for text in texts(objects) if f"b: {RELEASE}" in text or f"{RELEASE}: #" in text]:
                wrong.append(f"{name}: one of {group}: it is expanded")
            if any(manifest["kind"] == "Secret" for manifest in objects):
                wrong.append(f"{name}: one of {group}: an object is made of it")

    assert sum(map(len, tried.values())) > 100
    assert wrong == []
