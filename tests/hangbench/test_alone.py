"""HangBench stands alone: it imports nothing of this repository, and can be installed and run without it."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hangbench.command import environment_of
from hangbench.detector import Question, Says
from hangbench.detectors import DETECTORS, PARTY_DETECTORS, detector_of
from hangbench.judge import Judgement
from hangbench.parties.detector import ABOUT_PARTIES
from hangbench.parties.scenes import SITUATIONS as PARTY_SITUATIONS
from hangbench.situations.stages import STAGES
from tests.hangbench.no_cluster import NoCluster

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "hangbench"
README = (BENCH / "README.md").read_text()
PACKAGES = {"confluent_kafka": "confluent-kafka", "kafka": "kafka-python"}


def listed(name: str) -> set[str]:
    """A list of texts in its pyproject.toml, which Python 3.10 cannot read by itself."""
    found = re.search(rf"(?ms)^{name} = (\[.*?\])$", (BENCH / "pyproject.toml").read_text())
    assert found is not None
    texts: list[str] = ast.literal_eval(found[1])
    return set(texts)


def test_it_imports_nothing_of_this_repository() -> None:
    """Only the standard library, itself, and what it declares."""
    imported: set[str] = set()
    for path in BENCH.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])

    assert imported - sys.stdlib_module_names - {"hangbench"} == set(PACKAGES)
    assert {re.split(r"[<>=]", each)[0] for each in listed("dependencies")} == set(PACKAGES.values())


def test_its_packages_are_its_folders() -> None:
    """A new folder would be left out of what is installed."""
    folders = {path.parent.relative_to(ROOT) for path in BENCH.rglob("*.py")}

    assert listed("packages") == {".".join(folder.parts) for folder in folders}


@pytest.mark.programs
def test_it_can_be_installed_and_run_alone(tmp_path: Path) -> None:
    """With the adapters that are no modules; `show` finds the source of a situation there."""
    copy = tmp_path / "source" / "hangbench"
    shutil.copytree(BENCH, copy, ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(copy)], check=True, capture_output=True, timeout=120)

    shown = subprocess.run(
        [sys.executable, "-m", "hangbench", "show", "hang", "beside", "a", "live", "one"],
        cwd=target,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert "def hang_beside_a_live_one(scene: Scene) -> None:" in shown
    assert "exporter" not in shown
    adapters = target / "hangbench" / "adapters"
    assert {path.name for path in adapters.rglob("*") if path.suffix in {".sh", ".go", ".mod", ".sum"}} == {
        "ongoing_too_long.sh",
        "main.go",
        "go.mod",
        "go.sum",
    }


def test_the_readme_names_every_word_of_question_and_answer() -> None:
    """What a detector finds in its environment, what it may say, what is said of it, and those that come with it."""
    question = Question(bootstrap="127.0.0.1:9", cluster=NoCluster(), situations=())
    variables = {*environment_of(question), "HANGBENCH_CONFIG", *ABOUT_PARTIES}

    assert set(re.findall(r"`(HANGBENCH_\w+)`", README)) == variables
    assert all(f"`{says.value}`" in README for says in Says)
    assert all(f"\n| {judgement.value} |" in README for judgement in Judgement)
    assert re.findall(r"\n\| `([a-z-]+)` \| ", README) == [*DETECTORS, *PARTY_DETECTORS]


def test_names_of_situations_are_their_own() -> None:
    """`show` takes a name, and topics are named by it."""
    names = [situation.name for stage in STAGES for situation in stage.situations]
    names += [situation.name for situation in PARTY_SITUATIONS]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("chosen", ["kafka", "mine=", "mine= ", "=true"])
def test_an_unknown_detector_is_refused(chosen: str) -> None:
    """With the names that there are."""
    with pytest.raises(ValueError, match="is none of kafka-transactions, kadm, kafka-python, script, ktx"):
        detector_of(chosen)


def test_a_situation_is_for_its_versions() -> None:
    """A release candidate counts as its release."""
    by_name = {situation.name: situation for stage in STAGES for situation in stage.situations}
    since, before = by_name["transaction version 2"], by_name["fence that cannot be written"]

    assert [since.is_for(version) for version in ("3.9.1", "4.0.0", "4.10.0", "4.0.0-rc1")] == [False, True, True, True]
    assert [before.is_for(version) for version in ("3.9.1", "4.0.0")] == [True, False]
