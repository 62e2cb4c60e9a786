"""Files for contributors: the forge's files are valid, and name targets and metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from exporter.publication.metrics.table import METRICS

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_the_forge_s_files_are_valid() -> None:
    for path in [*(ROOT / ".github").rglob("*.y*ml"), ROOT / ".pre-commit-config.yaml"]:
        assert yaml.safe_load(path.read_text()), path
    assert (
        ROOT
        / ".devcontainer"
        / json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())["build"]["dockerfile"]
    ).is_file()


def test_the_workflow_calls_make_test_on_the_oldest_python_and_a_new_one() -> None:
    """A forge runs the same command as every developer; its user is not root, who alone may install Debian's packages."""
    (job,) = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yaml").read_text())["jobs"].values()
    oldest = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())

    assert [step["run"] for step in job["steps"] if "run" in step] == ["sudo make packages", "make test"]
    assert oldest is not None
    assert job["strategy"]["matrix"]["python"][0] == oldest[1]


def test_the_workflow_keeps_its_programs_until_a_pin_of_them_changes() -> None:
    """The key is of files that exist, and among them are those that name versions of jars and programs."""
    text = (ROOT / ".github" / "workflows" / "test.yaml").read_text()
    patterns = re.findall(r"'([^']+)'", text.partition("hashFiles(")[2].partition(")")[0])
    hashed = {path.relative_to(ROOT).as_posix(): pattern for pattern in patterns for path in ROOT.glob(pattern)}

    assert set(hashed.values()) == set(patterns)
    assert {"tests/tools.py", "tests/brokers/jars.py", "hangbench/kafka/maven.py"} <= set(hashed)


def test_hooks_and_documents_call_targets_that_exist() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    called = [hook["entry"].split() for hook in hooks]
    called += [
        command.split()
        for path in ("CONTRIBUTING.md", "docs/release.md")
        for command in re.findall(r"`(make [a-z -]+)[`A-Z]", (ROOT / path).read_text())
    ]

    assert len(called) > 10
    for make, *targets in called:
        assert make == "make"
        assert set(targets) <= TARGETS, targets


def test_every_kind_of_change_has_a_recipe() -> None:
    """A checklist whose steps name files; tests/test_docs.py knows whether these, and names in them, exist."""
    recipes = (ROOT / "CONTRIBUTING.md").read_text().split("\n## Recipes\n")[1].split("\n## ")[0].split("\n### ")[1:]
    steps = {recipe.split("\n")[0]: re.findall(r"^- \[ \] (.+)$", recipe, re.MULTILINE) for recipe in recipes}

    assert list(steps) == [
        "A verdict",
        "A metric",
        "A setting",
        "An alert and its runbook",
        "A message of Kafka's protocol",
        "A column of an open transaction",
        "A table of the pipeline",
        "An API that a broker lacks",
    ]
    for recipe, listed in steps.items():
        assert len(listed) >= 3, recipe
        assert sum("/" in step for step in listed) >= len(listed) - 1, recipe


def test_experimental_metrics_exist() -> None:
    """A prefix that docs/release.md leaves out of the promise is one that metrics have."""
    for prefix in re.findall(r"`(kafka_\w+_)`", (ROOT / "docs" / "release.md").read_text()):
        assert any(metric.name.startswith(prefix) for metric in METRICS), prefix


def test_an_installation_shows_errors_only() -> None:
    """With one --quiet pip also shows its warnings to the authors of packages, which nobody can follow."""
    text = MAKEFILE.replace("$(PIP_FLAGS)", *re.findall(r"^PIP_FLAGS := (.*)$", MAKEFILE, re.MULTILINE))
    of_demos = re.findall(r"^\t@\S+/pip install (.*)$", text.partition("##@ After a change")[0], re.MULTILINE)

    assert len(of_demos) == 4
    assert all(options.startswith("--quiet --quiet ") for options in of_demos), of_demos


def test_make_help_names_every_target() -> None:
    """In groups; `java` and `help` are not for calling."""
    text = (ROOT / "Makefile").read_text()

    assert set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE)) == TARGETS - {"java", "help"}
    assert len(re.findall(r"^##@ ", text, re.MULTILINE)) >= 4
