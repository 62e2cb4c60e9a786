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
_VERSION: Final = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}")
"""No release candidate: what Python calls 1.2.3rc1 is not a version to Helm, and the other way round."""
_RELATIVE: Final = re.compile(r"(!?)\[([^]]*)\]\((?![a-z]+:|#)([^)]+)\)")
"""A link or a picture of Markdown that is within the project."""
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
    """The committed files of HEAD and no others, with their committed bytes: `git archive` obeys settings of its user."""
    settings = ("core.autocrlf=false", "core.attributesFile=/dev/null", "tar.umask=0022")
    archive = _git(root, *(word for each in settings for word in ("-c", each)), "archive", "--format=tar", "HEAD")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 of Debian 12 has none
        files.extractall(folder)  # noqa: S202 - of our own commit


def link_readme(tree: Path, version: str) -> None:
    """Has the README of an exported tree name whole addresses: a package index shows it without the files beside it."""
    address = re.search(r'(?m)^Source = "(.+)"$', (tree / "pyproject.toml").read_text(encoding="utf-8"))
    if address is None:
        raise ReleaseError("pyproject.toml has no address of the source")

    def whole(link: re.Match[str]) -> str:
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}[{link[2]}]({address[1]}/{kind}/v{version}/{link[3]})"

    readme = tree / "README.md"
    readme.write_text(_RELATIVE.sub(whole, readme.read_text(encoding="utf-8")), encoding="utf-8")


def committed_at(root: Path) -> int:
    """The seconds of the last commit, which every file of a release has as its time."""
    return int(_git(root, "log", "-1", "--format=%ct"))


def _disagreements(root: Path, version: str) -> list[str]:
    if not _VERSION.fullmatch(version):
        return [f"{version!r} is not a version such as 1.2.3: make release VERSION=1.2.3"]
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
        raise ReleaseError(f"git {' '.join(words)}: {run.stderr.decode().strip()}")
    return run.stdout


def entries_of(constraints: Path) -> list[str]:
    """Returns the lines of each package: `name==version`, the Pythons that it is for, its hashes."""
    return re.split(r"^(?=[A-Za-z0-9])", constraints.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
