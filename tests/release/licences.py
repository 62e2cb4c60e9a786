"""The licences of packages, as SPDX names them, read from what is installed."""

from __future__ import annotations

import json
import re
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

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


def licences_of(package: str) -> set[str]:
    """Raises PackageNotFoundError for what is installed on another Python, or another system only."""
    about = distribution(package).metadata
    expressions = about.get_all("License-Expression") or [
        BY_CLASSIFIER[classifier] for classifier in about.get_all("Classifier", []) if classifier in BY_CLASSIFIER
    ]
    expressions = expressions or [BY_NAME.get(licence, licence) for licence in about.get_all("License", ["none given"])]
    return {licence for expression in expressions for licence in re.split(r" AND | OR |[()]", expression) if licence}


def add_licences(sbom: dict[str, Any], source: Path) -> None:
    """Writes into each component of a CycloneDX document the licences that `constraints/licences.json` has for it."""
    known: dict[str, list[str]] = json.loads((source / "constraints" / "licences.json").read_text(encoding="utf-8"))
    for component in sbom["components"]:
        component["licenses"] = [{"license": {"id": licence}} for licence in known[component["name"]]]
