"""All dashboards by the name of their file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from grafana.fleet import fleet
from grafana.overview import overview
from grafana.page import Json
from grafana.partition import partition

FOLDER: Final = Path(__file__).parent

DASHBOARDS: Final[Mapping[str, Callable[[], Json]]] = {
    "overview": overview,
    "partition": partition,
    "fleet": fleet,
}


def text_of(dashboard: Json) -> str:
    """The file's text: a line for each value, so that a difference can be read."""
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"
