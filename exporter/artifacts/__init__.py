"""Holds what the program hands out: alerting rules with their runbooks, and dashboards.

The files are links to those of `alerts/` and `grafana/`, which a wheel has as copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

PROJECT: Final = "https://github.com/kafka-transaction-exporter/kafka-transaction-exporter"
_FOLDER: Final = Path(__file__).parent
DASHBOARDS: Final = ("overview", "partition", "fleet")


def runbooks() -> Mapping[str, str]:
    """Name -> Markdown: one for each alert, and README, which is common to all."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted((_FOLDER / "runbooks").glob("*.md"))}


def dashboard(name: str) -> str:
    """The JSON that Grafana imports, of one of `DASHBOARDS`."""
    return (_FOLDER / "dashboards" / f"{name}.json").read_text(encoding="utf-8")
