"""The chart as Helm renders it."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from helm.made import CHART
from tests.helm.manifests import Manifest, manifests
from tests.tools import helm

MAJORS: Final = (3, 4)
EXAMPLES: Final = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))
RELEASE: Final = "watch"
NAMESPACE: Final = "kafka"


class Refused(Exception):
    """Helm does not render these values; the message is its own."""


def example(name: str) -> Path:
    """One of the values files of ci/."""
    return CHART / "ci" / f"{name}-values.yaml"


def render(name: str, *more: str, major: int = 3) -> list[Manifest]:
    """The objects of an example, with whatever `--set` and the like adds. Raises Refused."""
    return manifests(render_text(name, *more, major=major))


@functools.cache
def render_text(name: str, *more: str, major: int = 3) -> str:
    """As Helm prints it."""
    return run_helm(
        major, "template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", f"--values={example(name)}", *more
    )


def render_values(values: dict[str, Any], folder: Path, *, major: int = 3) -> list[Manifest]:
    """The objects of the minimal example with these values on top, which `--set` cannot all write. Raises Refused."""
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    return manifests(render_text.__wrapped__("minimal", f"--values={path}", major=major))


def lint(name: str, major: int) -> str:
    """The output of `helm lint --strict`. Raises Refused."""
    return run_helm(major, "lint", "--strict", str(CHART), f"--values={example(name)}")


def notes(name: str, *more: str) -> str:
    """Helm's output after an installation. Helm 4 shows it without a cluster."""
    words = (
        "install",
        RELEASE,
        str(CHART),
        "--dry-run=client",
        f"--namespace={NAMESPACE}",
        f"--values={example(name)}",
    )
    return run_helm(4, *words, *more).partition("\nNOTES:\n")[2]


def run_helm(major: int, *words: str, home: str = "/nonexistent") -> str:
    """Its output. Raises Refused."""
    # no folder of Helm's own, so that no plugins and settings of a user take part
    environment = {"HOME": home, "PATH": "/usr/bin:/bin", "GOGC": os.environ.get("GOGC", "")}
    run = subprocess.run(
        [str(helm(major)), *words], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    if run.returncode != 0:
        raise Refused(run.stdout + run.stderr)
    return run.stdout
