"""The wheel has the same bytes in every build, works in an empty environment, and all its licences are allowed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import pytest

from examples.workload.planting import plant_hang
from tests.conftest import HANGS_CAN_BE_PLANTED, MakeCluster

ROOT: Final = Path(__file__).parents[2]
LICENCES: Final = frozenset(
    {"Apache-2.0", "MIT", "MIT-0", "MIT-CMU", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "Zlib", "CC0-1.0", "PSF-2.0"}
)
"""Each lets anyone use and hand on the package, next to Apache-2.0."""
BY_CLASSIFIER: Final = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
}
BY_NAME: Final = {"Apache 2.0": "Apache-2.0", "http://www.apache.org/licenses/LICENSE-2.0": "Apache-2.0"}
"""As some packages write it in a field that is free text."""


def pinned(constraints: str) -> dict[str, str]:
    """Package -> version, of the lines that are for this Python."""
    text = (ROOT / "constraints" / f"{constraints}.txt").read_text()
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", text, re.MULTILINE))


def licences_of(package: str) -> set[str]:
    about = distribution(package).metadata
    told = about.get_all("License-Expression") or [
        BY_CLASSIFIER[it] for it in about.get_all("Classifier", []) if it in BY_CLASSIFIER
    ]
    told = told or [BY_NAME.get(it, it) for it in about.get_all("License", ["none given"])]
    return {licence for expression in told for licence in re.split(r" AND | OR |[()]", expression) if licence}


def test_all_that_is_installed_may_be_used() -> None:
    """Every package of the exporter and of the pipeline names a licence that is known to suit."""
    packages = {**pinned("runtime"), **pinned("spark")}
    told = {}
    for package in packages:
        try:
            told[package] = licences_of(package)
        except PackageNotFoundError:  # for another Python, or another system
            continue
    assert len(told) > 20
    unknown = {package: licences for package, licences in told.items() if not licences & LICENCES}
    assert unknown == {}


def test_every_package_is_pinned_by_hashes() -> None:
    """In every file of constraints, none without: pip refuses then what was changed since."""
    for path in sorted((ROOT / "constraints").glob("*.txt")):
        entries = re.split(r"^(?=[A-Za-z0-9])", path.read_text(), flags=re.MULTILINE)[1:]
        assert entries
        assert [it.split()[0] for it in entries if "--hash=sha256:" not in it] == [], path
        assert not re.search(r"https?://", path.read_text()), f"{path} names a host"


def built(folder: Path) -> Path:
    """The wheel of what git would hand out, built there by `make wheel`'s own command."""
    source = folder / "source"
    files = subprocess.run(
        ["git", "ls-files", "exporter", "pyproject.toml", "README.md", "LICENSE"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    for file in files:
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, source / file)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"),
            *("--wheel-dir", str(folder / "wheels"), str(source)),
        ],
        env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"},
        check=True,
    )
    (wheel,) = (folder / "wheels").glob("*.whl")
    return wheel


@pytest.mark.slow
def test_the_wheel_is_the_same_whoever_builds_it(tmp_path: Path) -> None:
    """Twice, in different folders: equal bytes."""
    first, second = built(tmp_path / "one"), built(tmp_path / "another")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """With the pinned packages of the exporter and nothing else, a real broker's hang is found."""
    wheel = built(tmp_path)
    venv.create(tmp_path / "empty", with_pip=True)
    program = tmp_path / "empty" / "bin"
    pip = [str(program / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "-r", str(ROOT / "constraints" / "runtime.txt")], check=True)
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    cluster = make_cluster("4.3.1", properties=HANGS_CAN_BE_PLANTED)
    cluster.topics.create("orders")
    plant_hang(cluster.bootstrap, "orders", 0, "app")

    run = subprocess.run(
        [
            str(program / "kafka-transaction-exporter"),
            "once",
            f"--bootstrap-server={cluster.bootstrap}",
            "--format=json",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert [it["verdict"] for it in json.loads(run.stdout)["transactions"]] == ["hanging_not_in_transaction"]


@pytest.mark.slow
def test_the_list_of_packages_is_that_of_the_constraints() -> None:
    """`make sbom`: CycloneDX, every pinned package with its hashes, and the same bytes each time."""
    listed = ROOT / "build" / "sbom" / "runtime.cdx.json"
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True, capture_output=True)
    first = listed.read_bytes()
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True, capture_output=True)
    assert listed.read_bytes() == first
    told = json.loads(first)
    assert (told["bomFormat"], told["metadata"]["component"]["name"]) == ("CycloneDX", "kafka-transaction-exporter")
    assert {it["name"] for it in told["components"]} == set(pinned("runtime"))
    assert all(any(ref.get("hashes") for ref in it["externalReferences"]) for it in told["components"])
