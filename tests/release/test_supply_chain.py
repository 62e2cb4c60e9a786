"""All that is installed is pinned by hashes, and has a licence that is allowed."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

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
    expressions = about.get_all("License-Expression") or [
        BY_CLASSIFIER[classifier] for classifier in about.get_all("Classifier", []) if classifier in BY_CLASSIFIER
    ]
    expressions = expressions or [BY_NAME.get(licence, licence) for licence in about.get_all("License", ["none given"])]
    return {licence for expression in expressions for licence in re.split(r" AND | OR |[()]", expression) if licence}


def test_all_that_is_installed_may_be_used() -> None:
    """Every package of the exporter and of the pipeline names a licence that is known to suit."""
    packages = {**pinned("runtime"), **pinned("spark")}
    found = {}
    for package in packages:
        try:
            found[package] = licences_of(package)
        except PackageNotFoundError:  # for another Python, or another system
            continue
    assert len(found) > 20
    unknown = {package: licences for package, licences in found.items() if not licences & LICENCES}
    assert unknown == {}


def test_every_package_is_pinned_by_hashes() -> None:
    """In every file of constraints, none without: pip refuses then what was changed since."""
    for path in sorted((ROOT / "constraints").glob("*.txt")):
        entries = re.split(r"^(?=[A-Za-z0-9])", path.read_text(), flags=re.MULTILINE)[1:]
        assert entries
        assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == [], path
        assert not re.search(r"https?://", path.read_text()), f"{path} names a host"
