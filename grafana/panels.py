"""The kinds of panels, each with its constant properties.

A number or a table shows the present: its query is an instant query, so that it never shows an old value as the newest. A
graph shows the past, with a gap where nothing was known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from grafana.fields import NEUTRAL, Shade, column, drawn, fixed, missing, override, shades, texts, thresholds
from grafana.page import DATASOURCE, Json

SECONDS: Final = "suffix: s"
MINUTES: Final = "suffix: min"
HOURS: Final = "suffix: h"
MILLISECONDS: Final = "suffix: ms"
"""Units of an axis: Grafana's own change along it, as from 50 s to 8.33 mins."""
IN_WORDS: Final = "dtdurations"
"""A duration in words: 59 minutes."""
DURATION: Final[Json] = {"unit": IN_WORDS, "decimals": 0}
WRAPPED: Final[Json] = {"custom.cellOptions": {"type": "auto", "wrapText": True}, "custom.wrapText": True}
"""A long text takes several lines. Grafana 13 has moved `wrapText` out of the cell's options."""
_HIDDEN: Final[Json] = {"custom.hideFrom": {"viz": True, "legend": False, "tooltip": False}, "custom.hidden": True}
"""A column that is not drawn: by its name since Grafana 12.2, and by the one before. A column that a transformation removes
is unknown to links.
"""


def age_column(title: str, *, width: int) -> Json:
    """The first query's column: an age, with a dash in a row that is not about a transaction (-1)."""
    dash = texts({-1: ("-", NEUTRAL)})
    return column("Value #A", title, {**DURATION, "mappings": [dash], "custom.width": width})


"""The properties of such a cell; a number has the same."""


def stat(
    title: str,
    description: str,
    expression: str,
    *,
    unit: str,
    no_value: str,
    steps: Mapping[float, str] | None = None,
    mappings: Sequence[Json] = (),
    legend: str = "__auto",
) -> Json:
    """One number, or one for each series, on its colour."""
    return {
        "type": "stat",
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": [_instant("A", expression, legend)],
        "fieldConfig": {
            "defaults": {
                "unit": unit,
                **({"decimals": 0} if unit == IN_WORDS else {}),
                "noValue": no_value,
                "color": {"mode": "thresholds"},
                "thresholds": thresholds(NEUTRAL, steps or {}),
                "mappings": [*mappings, missing(no_value)],
            },
            "overrides": [],
        },
        "options": {
            "colorMode": "background_solid",
            "graphMode": "none",
            "justifyMode": "center",
            "orientation": "horizontal",
            "textMode": "auto",
            "wideLayout": True,
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
    }


def table(
    title: str,
    description: str,
    expressions: Sequence[str],
    *,
    no_value: str,
    no_cell: str,
    columns: Sequence[Json],
    hidden: Sequence[str] = (),
    sorted_by: Mapping[str, bool],
) -> Json:
    """A row for each series; several expressions share the rows with equal labels. Columns have the given order.

    A column is text unless it has a unit: Grafana would write the producer 4004 as 4.00 K. `no_cell` is what an empty cell
    says, where otherwise each would say `no_value`. `sorted_by`: {field: whether the largest comes first}, the last
    is the first that counts; it may be a hidden one. A link of a cell can use hidden columns.
    """
    order = [rule["matcher"]["options"] for rule in columns]
    return {
        "type": "table",
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": [
            {**_instant(chr(ord("A") + number), expression, ""), "format": "table"}
            for number, expression in enumerate(expressions)
        ],
        "transformations": [
            *([{"id": "merge", "options": {}}] if len(expressions) > 1 else []),
            *(
                {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": name, "desc": descending}]}}
                for name, descending in sorted_by.items()
            ),
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True},
                    "indexByName": {name: index for index, name in enumerate(order)},
                    "renameByName": {},
                },
            },
        ],
        "fieldConfig": {
            "defaults": {
                "unit": "string",
                "noValue": no_value,
                "color": {"mode": "thresholds"},
                "thresholds": thresholds(NEUTRAL, {}),
                "mappings": [],
                "custom": {"align": "left", "cellOptions": {"type": "auto"}, "inspect": False, "filterable": True},
            },
            "overrides": [
                override({"id": "byRegexp", "options": ".*"}, {"noValue": no_cell}),
                *columns,
                *(override({"id": "byName", "options": name}, _HIDDEN) for name in hidden),
            ],
        },
        "options": {
            "showHeader": True,
            "cellHeight": "sm",
            "footer": {"show": False, "reducer": ["sum"], "countRows": False, "fields": ""},
            "sortBy": [],
        },
    }


def graph(
    title: str,
    description: str,
    lines: Mapping[str, str],
    *,
    shade: Shade,
    unit: str,
    no_value: str,
    nothing: Mapping[str, str] | None = None,
    overrides: Sequence[Json] = (),
    stacked: bool = False,
    calcs: Sequence[str] = ("lastNotNull", "max"),
    beside: bool = False,
    is_neutral_at_zero: bool = False,
) -> Json:
    """Lines over time: {legend: expression}. A gap stays a gap.

    `nothing`: {legend: expression} of the neutral line at 0 while the other lines have nothing to show. Without one, no
    line has only one reason, `no_value`. `is_neutral_at_zero`: a line that never has 1 or more has the neutral colour.
    `beside`: the legend is at the right of the lines, not below them.
    """
    nothing = nothing or {}
    return {
        "type": "timeseries",
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": DATASOURCE,
                "editorMode": "code",
                "expr": expression,
                "legendFormat": legend,
                "range": True,
                "instant": False,
            }
            for number, (legend, expression) in enumerate({**lines, **nothing}.items())
        ],
        "fieldConfig": {
            "defaults": {
                "unit": unit,
                **({"decimals": 1} if unit in {MINUTES, HOURS} else {}),
                "noValue": no_value,
                "color": {"mode": "thresholds", "seriesBy": "max"} if is_neutral_at_zero else shades(shade),
                "thresholds": thresholds(Shade.NEUTRAL.value, {1: shade.value}),
                "mappings": [],
                "min": 0,
                "custom": {
                    "drawStyle": "line",
                    "lineInterpolation": "stepAfter",
                    "lineWidth": 2,
                    "fillOpacity": 25 if stacked else 0,
                    "showPoints": "never",
                    "spanNulls": False,
                    "axisPlacement": "auto",
                    **({"axisSoftMax": 1} if unit in {MINUTES, HOURS} else {}),
                    "scaleDistribution": {"type": "linear"},
                    "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
                },
            },
            "overrides": [
                *overrides,
                *(drawn(f"^{legend}$", {"color": fixed(Shade.NEUTRAL.value)}) for legend in nothing),
            ],
        },
        "options": {
            "legend": {
                "displayMode": "table" if beside else "list",
                "placement": "right" if beside else "bottom",
                "calcs": list(calcs),
                "showLegend": True,
            },
            "tooltip": {"mode": "multi", "sort": "desc", "hideZeros": False},
        },
    }


def limit_line(pattern: str = r"^transaction\.max\.timeout\.ms$") -> Json:
    """A dashed line to compare with."""
    dashed = {"fill": "dash", "dash": [8, 8]}
    return drawn(pattern, {"color": fixed("text"), "custom.lineStyle": dashed, "custom.lineWidth": 1})


def text(title: str, description: str, content: str) -> Json:
    """Text in Markdown with variables."""
    return {
        "type": "text",
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "options": {"mode": "markdown", "content": content},
    }


def _instant(number: str, expression: str, legend: str) -> dict[str, Any]:
    return {
        "refId": number,
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": expression,
        "legendFormat": legend,
        "instant": True,
        "range": False,
    }
