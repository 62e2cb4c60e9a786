"""Dashboards as their reader has them: panels, targets and expressions with the variables filled in as Grafana does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from grafana.dashboards import DASHBOARDS, FOLDER
from tests.grafana.scenarios import SHOWN_S

Json = dict[str, Any]

COMMITTED: Final[Mapping[str, Json]] = {
    name: json.loads((FOLDER / f"{name}.json").read_text()) for name in DASHBOARDS if (FOLDER / f"{name}.json").exists()
}

BUILT_IN: Final[Mapping[str, str]] = {"__range": f"{SHOWN_S}s", "__rate_interval": "120s", "__interval": "30s"}
CHOSEN: Final[Mapping[str, str]] = {
    "cluster": ".*",
    "job": ".+",
    "group": ".*",
    "transactional_id": ".*",
    "instance": ".+",
    "bootstrap_server": "broker-1:9092",
    "runbooks": "https://runbooks.example",
}
"""All of everything, as the dashboards begin."""
ONE_PARTITION: Final[Mapping[str, str]] = {"topic": "orders", "partition": "1"}
EVERY_TOPIC: Final[Mapping[str, str]] = {"topic": ".+"}

_VARIABLE = re.compile(r"\$\{(\w+)(?::\w+)?\}|\$(\w+)")


@dataclass(frozen=True)
class Target:
    """One question of one panel."""

    dashboard: str
    panel: Json
    target: Json

    @property
    def expression(self) -> str:
        """Unchanged, from the file."""
        return str(self.target["expr"])

    @property
    def name(self) -> str:
        """Its place, for messages."""
        return f"{self.dashboard}: {self.panel['title']}: {self.target['refId']}"

    @property
    def is_instant(self) -> bool:
        """Whether it is asked at one instant."""
        return bool(self.target["instant"])


def panels(dashboard: Json) -> Iterator[Json]:
    """Every panel that shows something: rows are headings."""
    for panel in dashboard["panels"]:
        if panel["type"] != "row":
            yield panel
        yield from panel.get("panels", [])


def expanded(dashboard: Json) -> Json:
    """The dashboard after a click on every collapsed row: the rows below it have moved down."""
    shown: list[Json] = []
    moved = 0
    for panel in dashboard["panels"]:
        for inner in (panel, *panel.get("panels", [])):
            place = {**inner["gridPos"], "y": inner["gridPos"]["y"] + moved}
            shown.append(
                {**inner, "gridPos": place, **({"panels": [], "collapsed": False} if inner["type"] == "row" else {})}
            )
        below = [inner["gridPos"]["y"] + inner["gridPos"]["h"] for inner in panel.get("panels", [])]
        if below:
            moved += max(below) - panel["gridPos"]["y"] - panel["gridPos"]["h"]
    return {**dashboard, "panels": shown}


def targets() -> Iterator[Target]:
    """Every question of every dashboard."""
    for name, dashboard in COMMITTED.items():
        for panel in panels(dashboard):
            for target in panel.get("targets", []):
                yield Target(name, panel, target)


def chosen_on(dashboard: str, **changes: str) -> dict[str, str]:
    """Values of all variables of a dashboard."""
    topic = ONE_PARTITION if dashboard == "partition" else EVERY_TOPIC
    return {**CHOSEN, **topic, **changes}


def filled(text: str, chosen: Mapping[str, str]) -> str:
    """The text with its variables filled in; what no variable has, stays."""
    known = {**BUILT_IN, **chosen}
    return _VARIABLE.sub(lambda found: known.get(found[1] or found[2], found[0]), text)
