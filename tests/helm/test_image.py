"""The image's file, without a container engine: tests/images builds it and runs what it makes."""

from __future__ import annotations

import re
import subprocess
from typing import Final

import pytest
import yaml

from helm.made import CHART, ROOT
from tests.tools import ToolUnavailable, hadolint

DOCKERFILE: Final = ROOT / "Dockerfile"
JARS: Final = ROOT / "constraints" / "spark-jars.xml"
PLACE: Final = "/opt/kafka-transaction-exporter"
USER: Final = 65532


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
    """Files that the Dockerfile copies from the project's folder."""
    return [
        source
        for word, rest in instructions(*stages)
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]


def values_of(word: str, *stages: str) -> list[str]:
    return [rest for instruction, rest in instructions(*stages) if instruction == word]


@pytest.mark.programs
def test_hadolint_finds_nothing() -> None:
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
    """A numeric user, that of the chart; exec forms."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    (user,) = values_of("USER", image)

    assert user == f"{USER}:{USER}"
    assert values["podSecurityContext"]["runAsUser"] == values["podSecurityContext"]["runAsGroup"] == USER
    assert values_of("ENTRYPOINT", image) == ['["kafka-transaction-exporter"]']
    (variables,) = values_of("ENV", image)
    assert {"PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"} <= set(variables.split())
    assert f"PATH={PLACE}/bin:" in variables


def test_the_exporter_is_what_is_built() -> None:
    """Where no target is named, the last stage; it serves on the chart's port, and nothing of Spark is in it."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    assert values_of("FROM")[-1] == "scratch AS exporter"
    assert [rest for rest in values_of("COPY", "exporter") if "--from" in rest] == [
        "--from=root /image /",
        f"--from=exporter-build {PLACE} {PLACE}",
    ]
    assert values_of("CMD", "exporter") == ['["serve"]']
    assert values_of("EXPOSE", "exporter") == [str(values["containerPort"])]
    assert "constraints/spark.txt" not in copied("build", "exporter-build", "root", "exporter")


def test_images_are_made_of_bases_that_an_argument_names() -> None:
    """One base for every stage, so that one digest pins all; the exporter's own image begins with nothing."""
    stages = {rest.partition(" AS ")[2] for rest in values_of("FROM")}
    bases = {rest.partition(" AS ")[0] for rest in values_of("FROM")} - stages

    assert bases == {"${DEBIAN_IMAGE}", "scratch"}


def test_the_jars_have_hashes() -> None:
    """Each jar that the file for Maven names, by its version."""
    named = re.findall(r"<artifactId>([\w.-]+)</artifactId><version>([\w.]+)</version>", JARS.read_text())
    hashed = re.findall(r"(?m)^[0-9a-f]{64}  (.+)\.jar$", JARS.with_suffix(".sha256").read_text())

    assert sorted(hashed) == sorted("-".join(pair) for pair in named if pair != ("spark", "1"))


def test_every_package_comes_with_its_hash() -> None:
    """No step fetches a Python package that is not pinned: with hashes, or from no index at all."""
    steps = [
        step for rest in values_of("RUN") for step in rest.split("&&") if re.search(r"pip .*(install|wheel)", step)
    ]

    assert len(steps) == 6
    assert all("--require-hashes" in step or "--no-index" in step for step in steps)
