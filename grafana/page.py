"""The common parts of all dashboards, and the layout of their panels.

A page is a list of lines from top to bottom; a line is a heading, or panels of one height with their widths in 24ths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grafana.queries import series

Json = dict[str, Any]

SCHEMA_VERSION: Final = 41
"""Grafana 12's; older servers ignore unknown fields, newer ones migrate it."""
TAG: Final = "kafka-transactions"
DATASOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
WIDTH: Final = 24


@dataclass(frozen=True)
class Line:
    """Panels side by side: (width, panel)."""

    height: int
    panels: Sequence[tuple[int, Json]]


@dataclass(frozen=True)
class Heading:
    """The title of the lines below it, up to the next heading."""

    title: str
    is_open: bool = True
    """Otherwise a click shows the lines, and their queries cost nothing before."""


def dashboard(
    *, uid: str, title: str, description: str, variables: Sequence[Json], lines: Iterable[Line | Heading]
) -> Json:
    """A dashboard of these lines."""
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": [TAG],
        "editable": False,
        "graphTooltip": 1,
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "timepicker": {},
        "fiscalYearStartMonth": 0,
        "weekStart": "",
        "links": [_links_between_dashboards()],
        "annotations": {"list": list(_annotations())},
        "templating": {"list": list(variables)},
        "panels": list(_placed(lines)),
    }


def _placed(lines: Iterable[Line | Heading]) -> Iterator[Json]:
    """Every panel with its id and its position."""
    top, number = 0, 1
    row: Json | None = None
    for line in lines:
        if isinstance(line, Heading):
            if row is not None and row["collapsed"]:
                top = row["gridPos"]["y"] + 1
            place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
            collapsed = not line.is_open
            row = {
                "id": number,
                "type": "row",
                "title": line.title,
                "collapsed": collapsed,
                "gridPos": place,
                "panels": [],
            }
            yield row
            top, number = top + 1, number + 1
            continue
        left = 0
        for width, panel in line.panels:
            placed = {"id": number, "gridPos": {"x": left, "y": top, "w": width, "h": line.height}, **panel}
            if row is not None and row["collapsed"]:
                row["panels"].append(placed)
            else:
                yield placed
            left, number = left + width, number + 1
        assert left == WIDTH, f"a line of {left} 24ths"
        top += line.height


def _links_between_dashboards() -> Json:
    return {
        "type": "dashboards",
        "title": "Kafka transactions",
        "tags": [TAG],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    }


def _annotations() -> Iterator[Json]:
    """Marks firing alerts in every graph. Alerts on missing series have no instance, so only the cluster narrows these."""
    for severity, colour in (("critical", "red"), ("warning", "orange")):
        yield {
            "name": f"Alerts, {severity}",
            "datasource": DATASOURCE,
            "enable": True,
            "hide": False,
            "iconColor": colour,
            "expr": series(
                "ALERTS",
                f'alertname=~"KafkaTransaction.*|KafkaPartition.*", alertstate="firing", severity="{severity}"',
                narrowed_by='cluster=~"$cluster"',
            ),
            "step": "30s",
            "titleFormat": "{{alertname}}",
            "textFormat": "{{topic}} {{partition}} {{group}}",
            "tagKeys": "cluster,instance",
            "useValueForTime": False,
        }
