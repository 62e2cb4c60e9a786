"""The image's file, without a container engine: tests/images builds it and runs what it makes."""

from __future__ import annotations

import re
import subprocess
from typing import Final

import pytest
import yaml

from helm.made import CHART, ROOT
from tests.helm.dockerfile import DOCKERFILE, PLACE, USER, instructions, values_of
from tests.tools import ToolUnavailable, hadolint

JARS: Final = ROOT / "constraints" / "spark-jars.xml"


def copied(*stages: str) -> list[str]:
    """Files that the Dockerfile copies from the project's folder."""
    return [
        source
        for word, rest in instructions(*stages)
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]


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
    program = {"exporter": "kafka-transaction-exporter", "pipeline": "entrypoint.sh"}[image]
    assert values_of("ENTRYPOINT", image) == [f'["{program}"]']
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
