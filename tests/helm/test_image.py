"""The image's file, without a container engine, and its steps.

No image is built here. `make test-all` runs every RUN of the exporter's image in a folder, and what comes of it from a tree
that cannot be written, as a user that is nobody. The image with Spark has been built in this way by hand alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from helm.made import CHART, ROOT
from tests.tools import ToolUnavailable, hadolint

DOCKERFILE: Final = ROOT / "Dockerfile"
PLACE: Final = "/opt/kafka-transaction-exporter"
USER: Final = 65532
STEP_TIMEOUT_S: Final = 600


def instructions(*stages: str) -> list[tuple[str, str]]:
    """(instruction, the rest) of these stages, or of all; lines joined and comments left out."""
    read: list[tuple[str, str]] = []
    stage = ""
    for word, rest in _lines():
        if word == "FROM":
            stage = rest.partition(" AS ")[2]
        if not stages or stage in stages:
            read.append((word, rest))
    return read


def _lines() -> list[tuple[str, str]]:
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = "\n".join(lines).replace("\\\n", "")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def copied(*stages: str) -> list[str]:
    """What the Dockerfile takes from the project's folder."""
    return [
        source
        for word, rest in instructions(*stages)
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]


def values_of(word: str, *stages: str) -> list[str]:
    return [rest for instruction, rest in instructions(*stages) if instruction == word]


@pytest.mark.programs
def test_hadolint_has_nothing_to_say() -> None:
    try:
        program = hadolint()
    except ToolUnavailable as missing:
        pytest.skip(str(missing))
    files = [str(DOCKERFILE), str(ROOT / ".devcontainer" / "Dockerfile")]
    run = subprocess.run([str(program), *files], capture_output=True, text=True, check=False)

    assert (run.returncode, run.stdout) == (0, "")


def test_what_is_copied_is_there_and_is_all_that_is_sent() -> None:
    """The engine gets the files that are copied and no others: no key, setting or history can come into an image."""
    ignore = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    sent = {line.removeprefix("!") for line in ignore if line.startswith("!")}

    assert ignore[0] == "*"
    assert sent == set(copied())
    assert all((ROOT / source).exists() for source in copied())


@pytest.mark.parametrize("image", ["exporter", "pipeline"])
def test_the_image_runs_as_nobody_without_a_shell(image: str) -> None:
    """A numeric user, that of the chart; exec forms; the base decided by an argument."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    (user,) = values_of("USER", image)

    assert user == f"{USER}:{USER}"
    assert values["podSecurityContext"]["runAsUser"] == values["podSecurityContext"]["runAsGroup"] == USER
    assert values_of("ENTRYPOINT", image) == ['["kafka-transaction-exporter"]']
    assert values_of("FROM", image) == [f"${{PYTHON_IMAGE}} AS {image}"]
    (variables,) = values_of("ENV", image)
    assert {"PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1", f"PATH={PLACE}/bin:$PATH"} <= set(variables.split())


def test_the_exporter_is_what_is_built() -> None:
    """Where no target is named, the last stage; it serves on the chart's port, and nothing of Spark is in it."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    assert values_of("FROM")[-1].endswith(" AS exporter")
    assert [rest for rest in values_of("COPY", "exporter") if "--from" in rest] == [f"--from=build {PLACE} {PLACE}"]
    assert values_of("CMD", "exporter") == ['["serve"]']
    assert values_of("EXPOSE", "exporter") == [str(values["containerPort"])]
    assert "constraints/spark.txt" not in copied("build", "exporter")


def test_every_package_comes_with_its_hash() -> None:
    """No step fetches anything that is not pinned: with hashes, or from no index at all."""
    steps = [
        step for rest in values_of("RUN") for step in rest.split("&&") if re.search(r"pip .*(install|wheel)", step)
    ]

    assert len(steps) == 6
    assert all("--require-hashes" in step or "--no-index" in step for step in steps)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can pass through, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def interpreter() -> Path:
    """A Python that other users can run too, where there is one."""
    ours = Path(sys.executable).resolve()
    system = Path("/usr/bin/python3")
    if all(parent.stat().st_mode & 0o001 for parent in ours.parents) or not system.exists():
        return ours
    check = [str(system), "-c", "import sys, venv; sys.exit(sys.version_info < (3, 10))"]
    return system if subprocess.run(check, capture_output=True, check=False).returncode == 0 else ours


def run_step(step: str, place: Path) -> None:
    """One RUN, its places moved into the folder. `python` is any, pip is that of the tests."""
    programs = place / "programs"
    programs.mkdir(exist_ok=True)
    python = programs / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$2" != pip ] || exec {sys.executable} "$@"\nexec {interpreter()} "$@"\n', encoding="utf-8"
    )
    python.chmod(0o755)
    moved = step.replace("/opt/", f"{place}/opt/").replace("/src", f"{place}/src")
    run = subprocess.run(
        ["/bin/sh", "-c", moved],
        cwd=place / "src",
        env={**os.environ, "PATH": f"{programs}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=STEP_TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
def test_its_steps_make_a_program_that_writes_nothing(place: Path) -> None:
    """Every COPY and RUN of the build, then the program as a user that is nobody: no HOME, and a tree that is read-only."""
    (place / "opt").mkdir()
    (place / "src" / "constraints").mkdir(parents=True)
    for source in copied("build", "exporter"):
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, place / "src" / source, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, place / "src" / source)
    for step in values_of("RUN", "build", "exporter"):
        run_step(step, place)
    shutil.rmtree(place / "src")
    tree = place / PLACE.lstrip("/")
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o555)
    before = sorted(tree.rglob("*"))

    is_another = os.geteuid() == 0 and interpreter() == Path("/usr/bin/python3")
    who = {"user": USER, "group": USER, "extra_groups": []} if is_another else {}
    environment = {"PATH": f"{tree}/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    for arguments, status in (
        (["--version"], 0),
        (["config", "check", "--kafka.bootstrap.servers=127.0.0.1:1"], 0),
        (["once", "--bootstrap-server=127.0.0.1:1", "--scan.deadline=2s"], 1),
    ):
        run = subprocess.run(  # type: ignore[call-overload]
            ["kafka-transaction-exporter", *arguments],
            cwd="/",
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **who,
        )
        assert run.returncode == status, run.stdout + run.stderr
        assert "Traceback" not in run.stderr
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    installed = {path.name for path in tree.rglob("*.dist-info")}
    assert f"kafka_transaction_exporter-{version}.dist-info" in installed
    assert not any(name.startswith(("pytest-", "pip-", "setuptools-")) for name in installed)
    assert sorted(tree.rglob("*")) == before
