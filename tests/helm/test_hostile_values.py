"""Hostile text in every string of every example's values: it stays text, or is refused."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from helm.made import CHART
from tests.helm.chart import EXAMPLES, NAMESPACE, RELEASE, Refused, example, run_helm
from tests.helm.manifests import Manifest, manifests

pytestmark = pytest.mark.programs

KINDS_OF_TEXT: Final = {
    "lines": "a\n- b: {{ .Release.Name }}\n---\nkind: Secret # '\"",
    "a line": "a'\"{{ .Release.Name }}: #&b *b",
}
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


def every_string() -> list[tuple[str, Path_]]:
    """(example, path), each path once."""
    found: dict[Path_, str] = {}
    for name in EXAMPLES:
        for path in strings(yaml.safe_load(example(name).read_text())):
            if path[0] != TEMPLATES:
                found.setdefault(path, name)
    return [(name, path) for path, name in found.items()]


def rendered(name: str, path: Path_, text: str, folder: Path) -> list[Manifest]:
    values = copy.deepcopy(yaml.safe_load(example(name).read_text()))
    at = values
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = text
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    words = ("template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", f"--values={folder / 'values.yaml'}")
    return manifests(run_helm(3, *words))


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
    wrong = []
    tried = every_string()
    for name, path in tried:
        try:
            objects = rendered(name, path, text, tmp_path)
        except Refused as refusal:
            if "YAML parse error" in str(refusal):
                wrong.append(f"{name}: {path}: it is not quoted: {refusal}")
            continue
        if [text for text in texts(objects) if f"b: {RELEASE}" in text or f"{RELEASE}: #" in text]:
            wrong.append(f"{name}: {path}: it is expanded")
        if any(manifest["kind"] == "Secret" for manifest in objects):
            wrong.append(f"{name}: {path}: an object is made of it")

    assert len(tried) > 100
    assert wrong == []
