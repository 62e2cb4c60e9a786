"""YAML as Kubernetes reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

Manifest = dict[str, Any]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the fast one where it is built
    """PyYAML takes a bare `=` for a value of a rare kind; in Kubernetes it is text."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda _, node: node.value)


def manifests(text: str) -> list[Manifest]:
    """The documents of a text, without empty ones."""
    return [document for document in yaml.load_all(text, Loader=_Loader) if document]


def of_kind(objects: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in objects if manifest["kind"] == kind]


def only(objects: list[Manifest], kind: str) -> Manifest:
    """The one object of a kind."""
    (found,) = of_kind(objects, kind)
    return found


def pods(objects: list[Manifest]) -> Iterator[Manifest]:
    """The spec of every pod that would run, by whatever it is made; the Spark operator makes its pods of other fields."""
    for manifest in objects:
        if manifest["kind"] == "Pod":
            yield manifest["spec"]
        elif manifest["kind"] == "CronJob":
            yield manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        elif "spec" in manifest.get("spec", {}).get("template", {}):
            yield manifest["spec"]["template"]["spec"]


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod.get("initContainers", []), *pod["containers"]]
