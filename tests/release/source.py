"""Says what is released: the committed tree, if all files that name a version name the wanted one."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Final

import yaml

from tests.release.images import version as project_version

ROOT: Final = Path(__file__).parents[2]
CHART: Final = Path("helm", "kafka-transaction-exporter")
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(rc\d+)?")
_HEADING: Final = re.compile(r"(?m)^## (\S+)(?: - (\d{4}-\d{2}-\d{2}))?$")


class ReleaseError(Exception):
    """Nothing can be released; the message has a line for each reason."""


def require_releasable(root: Path, version: str) -> None:
    """Raises ReleaseError where the tree is not committed, or a file names another version."""
    reasons = [*_disagreements(root, version), *_uncommitted(root)]
    if reasons:
        raise ReleaseError("\n".join(reasons))


def notes(changelog: str, version: str) -> str:
    """The section of that version, without its heading. Raises ReleaseError."""
    headings = list(_HEADING.finditer(changelog))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        if heading[1] == version:
            section = changelog[heading.end() : following.start() if following else len(changelog)].strip()
            if heading[2] is None:
                raise ReleaseError(f"CHANGELOG.md: the heading of {version} has no date: ## {version} - YYYY-MM-DD")
            if not section:
                raise ReleaseError(f"CHANGELOG.md: the section of {version} is empty")
            return section + "\n"
    raise ReleaseError(f"CHANGELOG.md has no section ## {version} - YYYY-MM-DD")


def export(root: Path, folder: Path) -> None:
    """The committed files of HEAD and no others, as a clean clone has them."""
    archive = _git(root, "archive", "--format=tar", "HEAD")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def committed_at(root: Path) -> int:
    """The seconds of the last commit, which every file of a release has as its time."""
    return int(_git(root, "log", "-1", "--format=%ct"))


def _disagreements(root: Path, version: str) -> list[str]:
    if not _VERSION.fullmatch(version):
        return [f"{version!r} is not a version such as 1.2.3 or 1.2.3rc1: make release VERSION=1.2.3"]
    chart = yaml.safe_load((root / CHART / "Chart.yaml").read_text(encoding="utf-8"))
    named = {
        "pyproject.toml: version": project_version(root),
        f"{CHART}/Chart.yaml: version": chart["version"],
        f"{CHART}/Chart.yaml: appVersion": chart["appVersion"],
    }
    reasons = [f"{place} is {found}, not {version}" for place, found in named.items() if found != version]
    try:
        notes((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    except ReleaseError as error:
        reasons.append(str(error))
    return reasons


def _uncommitted(root: Path) -> list[str]:
    changed = _git(root, "status", "--porcelain").decode().splitlines()
    return [f"not committed: {line[3:]}" for line in changed]


def _git(root: Path, *words: str) -> bytes:
    run = subprocess.run(["git", *words], cwd=root, capture_output=True, check=False)
    if run.returncode != 0:
        raise ReleaseError(f"git {words[0]}: {run.stderr.decode().strip()}")
    return run.stdout


def pinned(constraints: str) -> dict[str, str]:
    """Package -> version, of the lines that are for this Python."""
    text = (ROOT / "constraints" / f"{constraints}.txt").read_text()
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", text, re.MULTILINE))
