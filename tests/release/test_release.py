"""`make release` makes the same bytes from the same commit, refuses what does not fit together, and what it makes works."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

import pytest
import yaml

from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang
from tests.conftest import MakeCluster
from tests.release.__main__ import release
from tests.release.artifacts import OF_IMAGES, SBOMS, install, requirements_of
from tests.release.images import ROOT, NoEngine, find_engine, revision, version
from tests.release.licences import LICENCES
from tests.release.source import CHART, ReleaseError, export, link_readme, notes, require_releasable

CHANGELOG: Final = """\
# Changelog

## Unreleased

## 1.1.0 - 2027-01-31

### Added

- Second.

## 1.0.0

## 0.9.0 - 2026-12-01

- First.
"""


def clone(folder: Path) -> Path:
    """A clone of the last commit, without uncommitted changes."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def test_notes_are_the_section_of_the_version() -> None:
    """From its heading to the next one."""
    assert notes(CHANGELOG, "1.1.0") == "### Added\n\n- Second.\n"
    assert notes(CHANGELOG, "0.9.0") == "- First.\n"


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [("1.0.0", "has no date"), ("Unreleased", "has no date"), ("2.0.0", "has no section"), ("0.9", "has no section")],
)
def test_a_version_without_notes_is_refused(wanted: str, reason: str) -> None:
    """No heading, or one without a date: it is still being written."""
    with pytest.raises(ReleaseError, match=reason):
        notes(CHANGELOG, wanted)


def test_the_changelog_has_notes_of_this_version() -> None:
    """And a place for the next ones above."""
    text = (ROOT / "CHANGELOG.md").read_text()

    assert notes(text, version())
    assert re.findall(r"(?m)^## (\S+)", text)[:1] == ["Unreleased"]


@pytest.mark.programs
def test_what_does_not_fit_together_is_refused_with_every_reason(tmp_path: Path) -> None:
    """Another version in each file, and two files that are not committed: all reasons at once."""
    root = clone(tmp_path / "clone")
    require_releasable(root, version())
    (root / "README.md").write_text("changed")
    (root / "new.txt").write_text("new")

    with pytest.raises(ReleaseError) as refused:
        require_releasable(root, "9.9.9")

    assert str(refused.value).splitlines() == [
        f"pyproject.toml: version is {version()}, not 9.9.9",
        f"{CHART}/Chart.yaml: version is {version()}, not 9.9.9",
        f"{CHART}/Chart.yaml: appVersion is {version()}, not 9.9.9",
        "CHANGELOG.md has no section ## 9.9.9 - YYYY-MM-DD",
        "not committed: README.md",
        "not committed: new.txt",
    ]


@pytest.mark.programs
@pytest.mark.parametrize("wanted", ["v0.1.0", "0.1", "latest", "../0.1.0", "0.01.0", "0.2.0rc1"])
def test_what_is_not_a_version_is_refused(wanted: str, tmp_path: Path) -> None:
    """It would be a folder's name, and a heading; or Helm would refuse it for the chart."""
    with pytest.raises(ReleaseError, match="is not a version"):
        require_releasable(clone(tmp_path / "clone"), wanted)


@pytest.mark.programs
def test_what_is_released_does_not_depend_on_the_settings_of_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line ends, modes and files are those of the commit, whatever its user has in ~/.gitconfig."""
    root = clone(tmp_path / "clone")
    (tmp_path / "attributes").write_text("*.md export-ignore\n")
    settings = f"[core]\nautocrlf = true\nattributesFile = {tmp_path / 'attributes'}\n[tar]\numask = 0077\n"
    (tmp_path / "settings").write_text(settings)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "settings"))

    export(root, tmp_path / "tree")

    assert (tmp_path / "tree" / "README.md").read_bytes() == (root / "README.md").read_bytes()
    assert (tmp_path / "tree" / "README.md").stat().st_mode & 0o777 == 0o644


@pytest.mark.programs
def test_an_image_of_changed_files_does_not_name_a_commit_alone(tmp_path: Path) -> None:
    """`make images` builds what is there: its label would lead to other source."""
    root = clone(tmp_path / "clone")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)

    assert revision(root) == commit.stdout.strip()
    (root / "exporter" / "new.py").write_text("")
    assert revision(root) == f"{commit.stdout.strip()}-dirty"
    assert revision(tmp_path) == ""


@pytest.mark.programs
def test_images_are_built_without_layers_of_earlier_builds(tmp_path: Path) -> None:
    """docs/release.md says that packages are the newest of the day, and the label that the commit is this one."""
    engine = tmp_path / "buildah"
    engine.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path / "calls"}\n')
    engine.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "ENGINE": "buildah"}
    subprocess.run([sys.executable, "-m", "tests.release.images"], cwd=ROOT, env=environment, check=True)

    builds = [line.split() for line in (tmp_path / "calls").read_text().splitlines() if line.startswith("build ")]
    assert [words[words.index("--target") + 1] for words in builds] == ["exporter", "pipeline"]
    assert all("--no-cache" in words for words in builds)


@pytest.mark.programs
def test_a_version_is_never_a_command() -> None:
    """A workflow takes it from the name of a tag, which may have any of a shell's own letters."""
    words = ["make", "--dry-run", "--assume-old=release-tools", "release", "VERSION=1.2.3;touch planted"]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)

    assert "tests.release" in run.stdout
    assert "planted" not in run.stdout


def test_the_readme_of_a_package_has_no_link_to_a_file_beside_it(tmp_path: Path) -> None:
    """An index of packages shows it alone: links lead to the version's files, and pictures are loaded from there."""
    for name in ("README.md", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    link_readme(tmp_path, "1.2.3")

    text = (tmp_path / "README.md").read_text()
    address = "https://github.com/kafka-transaction-exporter/kafka-transaction-exporter"
    assert [to for to in re.findall(r"\]\(([^)]+)\)", text) if not to.startswith(("https://", "#"))] == []
    assert f"]({address}/blob/v1.2.3/docs/install.md)" in text
    assert re.search(rf"!\[[^]]+\]\({address}/raw/v1\.2\.3/docs/pictures/[a-z-]+\.png\)", text)


def test_a_list_of_packages_has_those_of_the_images_python_alone() -> None:
    """Constraints have several versions of a package, for several Pythons: a scanner would warn of what is not there."""
    for image, some in (("exporter", {"botocore", "pyarrow"}), ("pipeline", {"botocore", "pyarrow", "pyspark"})):
        names = [package.partition("==")[0] for package in requirements_of(image, ROOT)]

        assert some <= set(names)
        assert len(names) == len(set(names))
    installed = set(re.findall(r"constraints/([a-z]+)\.txt", (ROOT / "Dockerfile").read_text())) - {"dev"}
    assert installed == set(SBOMS["pipeline"])
    assert set(re.findall(r"/lib/python(\d+\.\d+)/site-packages", (ROOT / "Dockerfile").read_text())) == {
        OF_IMAGES["python_version"]
    }


def test_an_unknown_engine_is_refused() -> None:
    """With the names of those that are known."""
    with pytest.raises(NoEngine, match="docker, podman, buildah"):
        find_engine("rocket")


def test_the_workflow_makes_the_release_by_the_same_commands() -> None:
    """It runs on tags only, and names no registry: that is a variable."""
    text = (ROOT / ".github" / "workflows" / "release.yaml").read_text()
    workflow = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes texts only, and `on` is one
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]

    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    assert any(step.startswith("make release VERSION=") for step in steps)
    assert any("make images" in step and "$REGISTRY/" in step for step in steps)
    for job in ("images", "images-and-chart"):
        assert workflow["jobs"][job]["env"] == {"REGISTRY": "${{ vars.REGISTRY }}"}
    assert not re.search(r"[a-z]+\.(io|com|org)\b", text)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    release(clone(folder / "clone"), version(), folder / "made")
    return folder / "made"


@pytest.mark.slow
def test_two_releases_of_a_commit_are_the_same_bytes(released: Path, tmp_path: Path) -> None:
    """Another clone in another folder, made by somebody whose new files are for their owner alone, in another time zone."""
    before = os.umask(0o077)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TZ", "Asia/Tokyo")
            release(clone(tmp_path / "elsewhere"), version(), tmp_path / "made")
    finally:
        os.umask(before)

    files = sorted(path.name for path in released.iterdir())
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == files
    assert [name for name in files if (released / name).read_bytes() != (tmp_path / "made" / name).read_bytes()] == []


@pytest.mark.slow
def test_a_release_has_packages_chart_lists_notes_and_sums(released: Path) -> None:
    """Every file is in SHA256SUMS with its sum; the chart has the version and nothing of the tests."""
    lines = [line.split("  ") for line in (released / "SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in lines}

    assert set(sums) == {
        f"kafka_transaction_exporter-{version()}.tar.gz",
        f"kafka_transaction_exporter-{version()}-py3-none-any.whl",
        f"kafka-transaction-exporter-{version()}.tgz",
        "exporter.cdx.json",
        "pipeline.cdx.json",
        "NOTES.md",
    }
    for name, digest in sums.items():
        assert hashlib.sha256((released / name).read_bytes()).hexdigest() == digest
    assert (released / "NOTES.md").read_text() == notes((ROOT / "CHANGELOG.md").read_text(), version())
    with tarfile.open(released / f"kafka-transaction-exporter-{version()}.tgz") as chart:
        names = chart.getnames()
    assert "kafka-transaction-exporter/Chart.yaml" in names
    assert not [name for name in names if "/ci/" in name or "__pycache__" in name]


@pytest.mark.slow
def test_the_source_package_has_the_program_and_what_installs_it(released: Path) -> None:
    """And nothing of the tests, a part of which setuptools would add."""
    with tarfile.open(released / f"kafka_transaction_exporter-{version()}.tar.gz") as package:
        names = {name.partition("/")[2] for name in package.getnames()}

    assert {name for name in names if not re.match(r"exporter/|\w+\.egg-info", name)} == {
        *("", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "constraints", "constraints/runtime.txt", "exporter"),
        *("pyproject.toml", "setup.cfg"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("image", ["exporter", "pipeline"])
def test_the_list_of_packages_is_that_of_the_image(image: str, released: Path) -> None:
    """CycloneDX, with hashes and licences of every package; tests/images compares the same list with what an image has."""
    document = json.loads((released / f"{image}.cdx.json").read_text())

    assert (document["bomFormat"], document["metadata"]["component"]["name"]) == (
        "CycloneDX",
        "kafka-transaction-exporter",
    )
    listed = [f"{component['name']}=={component['version']}" for component in document["components"]]
    assert sorted(listed) == list(requirements_of(image, ROOT))
    assert all(
        any(ref.get("hashes") for ref in component["externalReferences"]) for component in document["components"]
    )
    assert all(
        {each["license"]["id"] for each in component["licenses"]} & LICENCES for component in document["components"]
    )


@pytest.mark.slow
def test_the_wheel_finds_a_hang_from_an_empty_environment(
    released: Path, make_cluster: MakeCluster, tmp_path: Path
) -> None:
    """With the pinned packages of the exporter and nothing else, on a real broker."""
    (wheel,) = released.glob("*.whl")
    program = install(wheel, ROOT, tmp_path / "empty")
    cluster = make_cluster("4.3.1", properties=HANGS_CAN_BE_PLANTED)
    cluster.topics.create("orders")
    plant_hang(cluster.bootstrap, "orders", 0, "app")

    run = subprocess.run(
        [str(program), "once", f"--bootstrap-server={cluster.bootstrap}", "--format=json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert [row["verdict"] for row in json.loads(run.stdout)["transactions"]] == ["hanging_not_in_transaction"]
