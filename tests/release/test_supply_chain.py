"""All that is installed is pinned by hashes, and has a licence that is allowed."""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, Final

import yaml

from tests.release.licences import LICENCES, licences_of
from tests.release.source import ROOT, entries_of

WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))


def jobs(workflow: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load(workflow.read_text())["jobs"].values())


def test_all_that_is_installed_may_be_used() -> None:
    """Every package of the exporter and of the pipeline has a licence that is known to suit, and no other one is listed."""
    listed = json.loads((ROOT / "constraints" / "licences.json").read_text())
    entries = [each for name in ("runtime", "spark") for each in entries_of(ROOT / "constraints" / f"{name}.txt")]
    assert set(listed) == {entry.partition("==")[0] for entry in entries}
    assert {package: licences for package, licences in listed.items() if not set(licences) & LICENCES} == {}


def test_the_listed_licences_are_those_that_the_packages_name() -> None:
    """Of all that is installed here; a package for another Python or another system is not."""
    listed = json.loads((ROOT / "constraints" / "licences.json").read_text())
    found = {}
    for package in listed:
        try:
            found[package] = sorted(licences_of(package))
        except PackageNotFoundError:
            continue
    assert len(found) > 20
    assert {package: listed[package] for package in found} == found


def test_every_package_is_pinned_by_hashes() -> None:
    """In every file of constraints, none without: pip refuses then what was changed since."""
    for path in sorted((ROOT / "constraints").glob("*.txt")):
        entries = entries_of(path)
        assert entries
        assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == [], path
        assert not re.search(r"https?://", path.read_text()), f"{path} names a host"


def test_every_action_is_pinned_by_its_digest() -> None:
    """A tag may be moved to other code; the comment names the release of the digest."""
    lines = [line for path in WORKFLOWS for line in path.read_text().splitlines() if "uses:" in line]
    assert len(lines) > 10
    assert [line for line in lines if not re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v[\d.]+$", line)] == []


def test_foreign_code_runs_without_credentials() -> None:
    """No checkout leaves its token; a job that runs packages has no secret, writes nothing and cannot sign.

    Within a job an order of steps would not help: what runs first may wait for what comes later.
    """
    found = []
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {"contents": "read"}
        for job in jobs(path):
            for step in job["steps"]:
                if step.get("uses", "").startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] is False
            runs_packages = any("make " in step.get("run", "") for step in job["steps"])
            may = [name for name, right in job.get("permissions", {}).items() if right == "write"]
            found.append((runs_packages, bool(may)))
            assert not (runs_packages and (may or "secrets." in str(job) or "environment" in job)), may
    assert found.count((True, False)) == 3
    assert found.count((False, True)) == 3
