"""Renders the report as one HTML file that fetches nothing: plots by matplotlib, and their tables."""

from __future__ import annotations

import base64
import html
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final, TypeVar

import matplotlib as mpl
from matplotlib.dates import date2num
from matplotlib.figure import Figure

from exporter.incidents.incident import HANGING
from exporter.pipeline.report import CoverageGap, Durations, Incident, ReportData

Plot = Callable[[Sequence[Any]], str]
_Row = TypeVar("_Row")
Columns = Mapping[str, Callable[[_Row], str]]
"""Head -> cell as HTML; a head that begins with # is of a column of numbers."""

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2430; background: #fff; }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .25rem .75rem .25rem 0; }
th { border-bottom: 2px solid #1c2430; } td { border-bottom: 1px solid #d5dae1; }
td.number, th.number { text-align: right; }
img { max-width: 100%; } .nothing { color: #4b5563; }
"""


def render(data: ReportData) -> str:
    """The whole page. Names come from clusters: all are escaped, and none is parsed as a formula."""
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "report", "text.parse_math": False}
    with mpl.rc_context(settings), warnings.catch_warnings():
        # Letters stay letters: what matplotlib's own font lacks, the browser's has.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        return _page(data)


def _page(data: ReportData) -> str:
    body = [
        "<h1>Kafka transactions: the report</h1>",
        f"<p>{_span(data)}</p>",
        "<h2>Incidents</h2>",
        _section(data.incidents, "No transaction was a suspect.", _INCIDENTS, _timeline),
        _cut(data.incidents_cut, "older incidents"),
        "<h2>Durations by application</h2>",
        _section(data.durations, "No transaction was recorded.", _DURATIONS, _duration_plot),
        _DURATIONS_NOTE if data.durations else "",
        _cut(data.durations_cut, "applications with fewer hangs and fewer transactions"),
        "<h2>Coverage gaps</h2>",
        _section(data.coverage_gaps, "Every cycle is recorded and read every partition.", _COVERAGE_GAPS),
        _cut(data.coverage_gaps_cut, "older hours"),
        _section(data.left_out, "No file of the history is left out.", _LEFT_OUT),
    ]
    head = f'<meta charset="utf-8"><title>Kafka transactions: the report</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def _span(data: ReportData) -> str:
    made = f"Made {_minute(data.made_at)} UTC."
    if data.first is None or data.last is None:
        return f"Nothing was recorded. {made}"
    clusters = ", ".join(map(_text, data.clusters))
    return f"From {_minute(data.first)} to {_minute(data.last)} UTC, of {clusters}. {made}"


def _section(rows: Sequence[_Row], nothing: str, columns: Columns[_Row], plot: Plot | None = None) -> str:
    if not rows:
        return f'<p class="nothing">{nothing}</p>'
    kinds = [' class="number"' if head.startswith("#") else "" for head in columns]
    head = "".join(f"<th{kind}>{it.removeprefix('#')}</th>" for kind, it in zip(kinds, columns, strict=True))
    cells = list(zip(kinds, columns.values(), strict=True))
    lines = ("".join(f"<td{kind}>{cell(row)}</td>" for kind, cell in cells) for row in rows)
    table = f"<table><tr>{head}</tr>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
    return ("" if plot is None else plot(rows)) + table


def _cut(count: int, what: str) -> str:
    return f'<p class="nothing">Not shown: {count:,} more {what}.</p>' if count else ""


def _timeline(incidents: Sequence[Incident]) -> str:
    """One line per cluster, red where a transaction was proved hanging."""
    clusters = sorted({it.cluster_id for it in incidents})
    figure = Figure(figsize=(11, 1.2 + 0.5 * len(clusters)), layout="constrained")
    axes = figure.subplots()
    for incident in incidents:
        start, end = (date2num(it) for it in (incident.started_at, incident.ended_at))  # type: ignore[no-untyped-call]
        colour = "#b42318" if incident.worst_verdict in HANGING else "#b54708"
        row = clusters.index(incident.cluster_id)
        axes.broken_barh([(start, max(end - start, 1 / 1440))], (row - 0.35, 0.7), facecolors=colour)
    axes.set_yticks(range(len(clusters)), clusters)
    axes.set_ylim(-0.6, len(clusters) - 0.4)
    axes.xaxis_date(tz=timezone.utc)
    axes.grid(axis="x", alpha=0.3)
    return _image(figure, "Incidents over time; red where a transaction was proved hanging")


def _duration_plot(durations: Sequence[Durations]) -> str:
    """A bar from the median to the 99th percentile, and a mark at the longest."""
    figure = Figure(figsize=(11, 1 + 0.32 * len(durations)), layout="constrained")
    axes = figure.subplots()
    for row, it in enumerate(reversed(durations)):
        if it.p50_ms is not None and it.p99_ms is not None:
            low, high = (max(value, 1) / 1000 for value in (it.p50_ms, it.p99_ms))
            axes.plot([low, high], [row, row], linewidth=6, solid_capstyle="butt", color="#1570ef")
        axes.plot([max(it.max_ms, 1) / 1000], [row], marker="|", markersize=12, color="#b42318")
    axes.set_yticks(range(len(durations)), [it.application for it in reversed(durations)])
    axes.set_ylim(-0.6, len(durations) - 0.4)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("seconds: median to 99th percentile, and the longest")
    axes.grid(axis="x", alpha=0.3)
    return _image(figure, "Durations by application")


def _image(figure: Figure, words: str) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    encoded = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{_text(words)}" src="data:image/svg+xml;base64,{encoded}">\n'


def _seconds(duration_ms: float | None) -> str:
    return "\N{EN DASH}" if duration_ms is None else f"{duration_ms / 1000:,.3f}"


def _some(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(_text, names[:most])) + more


def _text(name: str) -> str:
    return html.escape(name)


def _minute(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M")


_INCIDENTS: Final[Columns[Incident]] = {
    "cluster": lambda it: _text(it.cluster_id),
    "from": lambda it: _minute(it.started_at),
    "to": lambda it: _minute(it.ended_at) if it.is_over else "still open",
    "worst verdict": lambda it: _text(it.worst_verdict),
    "transactional ids": lambda it: _some(it.transactional_ids) or "unknown",
    "partitions": lambda it: _some(it.partitions),
    "blocked groups": lambda it: _some(it.groups) or "none known",
    "#records held back": lambda it: "unknown" if it.records_held_back is None else f"{it.records_held_back:,}",
}
_DURATIONS: Final[Columns[Durations]] = {
    "cluster": lambda it: _text(it.cluster_id),
    "application": lambda it: _text(it.application),
    "#transactions": lambda it: f"{it.transactions:,}",
    "#median s": lambda it: _seconds(it.p50_ms),
    "#p95": lambda it: _seconds(it.p95_ms),
    "#p99": lambda it: _seconds(it.p99_ms),
    "#longest": lambda it: _seconds(it.max_ms),
    "#hung": lambda it: f"{it.hanging:,}",
}
_DURATIONS_NOTE: Final = (
    '<p class="nothing">Median, p95 and p99 are of transactions that did not hang; the longest is of all.</p>'
)
_COVERAGE_GAPS: Final[Columns[CoverageGap]] = {
    "cluster": lambda it: _text(it.cluster_id),
    "hour": lambda it: _minute(it.hour),
    "#cycles": lambda it: f"{it.cycles} of {it.cycles_expected}",
    "#incomplete": lambda it: f"{it.incomplete:,}",
    "#most partitions unread": lambda it: f"{it.unread_partitions_max:,}",
}
_LEFT_OUT: Final[Columns[tuple[str, str]]] = {
    "file that is left out": lambda it: _text(it[0]),
    "why": lambda it: _text(it[1]),
}
