"""Renders the report as one HTML file that fetches nothing and needs no script: sentences, bars and tables."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

from exporter.evaluation.humanize import humanize_count, humanize_duration, humanize_names
from exporter.incidents.incident import HANGING
from exporter.pipeline.report import CoverageGap, Durations, Incident, Outcomes, ReportData
from exporter.pipeline.report_style import style_sheet

TIMELINE_MAX: Final = 20
"""Incidents that have a bar."""
_Line = TypeVar("_Line")
_Row = TypeVar("_Row", Durations, Incident, CoverageGap, Outcomes)
Columns = Mapping[str, Callable[[_Row], str]]
"""Head -> cell as HTML; a head that begins with # is of a column of numbers."""
_DASH: Final = "\N{EN DASH}"
_CLUSTER: Final = "cluster"


def render(data: ReportData) -> str:
    """The whole page. Names come from clusters: all are escaped."""
    several = len(data.clusters) > 1
    body = [
        "<h1>Kafka transactions: the report</h1>",
        f'<p class="summary">{_summary(data)}</p>',
        f"<p>{_span(data)}</p>",
        "<h2>Incidents</h2>",
        _timeline(data.incidents),
        _section(data.incidents, "No transaction was a suspect.", _INCIDENTS, several),
        _cut(data.incidents_cut, "older incidents"),
        "<h2>Durations by application</h2>",
        _sampling(data),
        _duration_bars(data.durations),
        _section(data.durations, "No transaction was recorded.", _DURATIONS, several),
        _cut(data.durations_cut, "applications with fewer hangs and fewer transactions"),
        "<h2>Outcomes by application</h2>",
        _outcomes(data, several),
        "<h2>Coverage gaps</h2>",
        _section(data.coverage_gaps, "Every cycle is recorded and read every partition.", _COVERAGE_GAPS, several),
        _cut(data.coverage_gaps_cut, "older hours"),
        _left_out(data.left_out),
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Kafka transactions: the report</title><style>{style_sheet()}</style>"
    )
    text = "\n".join(part for part in body if part)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{text}\n</body></html>\n'


def _summary(data: ReportData) -> str:
    """The report in a sentence: the number of incidents and their reach; missing data is never reported as healthy."""
    if data.first is None:
        return "Nothing was recorded."
    gaps = len(data.coverage_gaps) + data.coverage_gaps_cut
    limits = f" Coverage is incomplete in {humanize_count(gaps, 'hour')}." if gaps else ""
    limits += f" {humanize_count(len(data.left_out), 'file')} could not be read." if data.left_out else ""
    if not data.incidents:
        return f"No incident.{limits}"
    older = f", the newest {len(data.incidents):,} of them" if data.incidents_cut else ""
    partitions = {(incident.cluster_id, name) for incident in data.incidents for name in incident.partitions}
    return (
        f"{humanize_count(len(data.incidents) + data.incidents_cut, 'incident')}{older} on "
        f"{humanize_count(len(partitions), 'partition')}; {_blocked(data.incidents)}.{limits}"
    )


def _blocked(incidents: Sequence[Incident]) -> str:
    """The number of groups, and how long they waited at most: as long as the longest incident that has groups."""
    groups = {(incident.cluster_id, name) for incident in incidents for name in incident.groups}
    if not groups:
        return "no consumer group is known to have waited"
    longest = max((incident for incident in incidents if incident.groups), key=_length_ms)
    many = humanize_count(len(groups), "consumer group")
    so_far = "" if longest.is_over else " so far"
    return f"{many} waited, for at most {humanize_duration(_length_ms(longest))}{so_far}"


def _length_ms(incident: Incident) -> int:
    return (incident.ended_at - incident.started_at) // timedelta(milliseconds=1)


def _span(data: ReportData) -> str:
    made = f"Made {_minute(data.made_at)} UTC."
    if data.first is None or data.last is None:
        return made
    clusters = f"{'clusters' if len(data.clusters) > 1 else 'cluster'} {', '.join(map(_text, data.clusters))}"
    return f"From {_minute(data.first)} to {_minute(data.last)} UTC, {clusters}. {made}"


def _section(rows: Sequence[_Row], nothing: str, columns: Columns[_Row], several: bool) -> str:  # noqa: FBT001
    """A table; the cluster is named in each row only where there are `several`."""
    if not rows:
        return f'<p class="nothing">{nothing}</p>'
    named: dict[str, Callable[[_Row], str]] = {_CLUSTER: lambda row: _text(row.cluster_id)} if several else {}
    return _table({**named, **columns}, rows)


def _table(columns: Mapping[str, Callable[[_Line], str]], rows: Iterable[_Line]) -> str:
    heads = [(head.removeprefix("#"), ' class="number"' if head.startswith("#") else "") for head in columns]
    head = "".join(f"<th{kind}>{name}</th>" for name, kind in heads)
    cells = list(zip(heads, columns.values(), strict=True))
    lines = (
        "".join(f'<td{kind} data-head="{name}"><span>{cell(row)}</span></td>' for (name, kind), cell in cells)
        for row in rows
    )
    return f"<table><tr>{head}</tr>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _cut(count: int, what: str) -> str:
    return f'<p class="nothing">Not shown: {count:,} more {what}.</p>' if count else ""


def _timeline(incidents: Sequence[Incident]) -> str:
    """A bar for each of the newest incidents, with its partitions and length."""
    shown = incidents[:TIMELINE_MAX]
    if not shown:
        return ""
    first, last = min(incident.started_at for incident in shown), max(incident.ended_at for incident in shown)
    whole = max((last - first).total_seconds(), 60.0)
    bars = []
    for incident in shown:
        left = 100 * (incident.started_at - first).total_seconds() / whole
        width = 100 * (incident.ended_at - incident.started_at).total_seconds() / whole
        level = "bad" if incident.worst_verdict in HANGING else "warning"
        still = "" if incident.is_over else ", still open"
        label = f"{_some(incident.partitions, 1)}: {humanize_duration(_length_ms(incident))}{still}"
        bars.append(_bar(label, f'<i class="{level}" style="left:{left:.2f}%;width:{width:.2f}%"></i>'))
    note = "Red: a transaction was proved hanging."
    return _plot(bars, _minute(first), _minute(last), note) + _cut(len(incidents) - len(shown), "bars")


def _duration_bars(durations: Sequence[Durations]) -> str:
    """A bar from the median to the 99th percentile, and a mark at the longest hang; the scale is logarithmic."""
    values = [
        max(value, 1.0) for row in durations for value in (row.p50_ms, row.p99_ms, row.hang_max_ms) if value is not None
    ]
    if not values:
        return ""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)

    def place(value_ms: float) -> float:
        return 100 * (math.log10(max(value_ms, 1.0)) - low) / (high - low)

    bars = []
    for row in durations:
        marks, words = [], []
        if row.p50_ms is not None and row.p99_ms is not None:
            left, right = place(row.p50_ms), place(row.p99_ms)
            marks.append(f'<i class="usual" style="left:{left:.2f}%;width:{right - left:.2f}%"></i>')
            words.append(f"{_short(row.p50_ms)} to {_short(row.p99_ms)}")
        if row.hang_max_ms is not None:
            marks.append(f'<i class="bad" style="left:calc({place(row.hang_max_ms):.2f}% - 4px);width:4px"></i>')
            words.append(f"hung {_short(row.hang_max_ms)}")
        bars.append(_bar(f"{_text(row.application)}: {', '.join(words) or _DASH}", "".join(marks)))
    note = "Blue: median to 99th percentile. Red: the longest hang. The scale is logarithmic."
    return _plot(bars, _short(10.0**low), _short(10.0**high), note)


def _bar(label: str, marks: str) -> str:
    return f'<li><span>{label}</span><span class="track">{marks}</span></li>'


def _plot(bars: Sequence[str], begin: str, end: str, note: str) -> str:
    ends = f'<li><span></span><span class="ends"><span>{begin}</span><span>{end}</span></span></li>'
    return f'<p class="quiet">{note}</p><ol class="plot">{"".join(bars)}{ends}</ol>'


def _sampling(data: ReportData) -> str:
    if data.interval_ms is None or not data.durations:
        return ""
    return (
        f'<p class="quiet">A sample: a cycle every {humanize_duration(data.interval_ms)} sees only transactions that are '
        "open then, so most short ones are missing. Median, p95, p99 and longest are of those that did not hang; "
        "durations are in seconds.</p>"
    )


def _outcomes(data: ReportData, several: bool) -> str:  # noqa: FBT001
    if data.outcomes is None:
        return '<p class="nothing">Unknown: the transaction log was not read (pipeline transaction-log).</p>'
    table = _section(data.outcomes, "No transaction was recorded.", _OUTCOMES, several)
    return table + _cut(data.outcomes_cut, "applications with fewer time-outs and fences, and fewer transactions")


def _left_out(files: Sequence[tuple[str, str]]) -> str:
    if not files:
        return '<p class="nothing">No file of the history is left out.</p>'
    return _table({"file that is left out": lambda file: _text(file[0]), "why": lambda file: _text(file[1])}, files)


def _short(duration_ms: float) -> str:
    return humanize_duration(round(duration_ms))


def _seconds(duration_ms: float | None) -> str:
    return _DASH if duration_ms is None else f"{duration_ms / 1000:,.3f}"


def _some(names: Sequence[str], shown_max: int = 3) -> str:
    return _text(humanize_names(names, shown_max=shown_max))


def _word(text: str) -> str:
    """Text of the exporter itself, which stays on one line."""
    return f'<span class="word">{_text(text)}</span>'


def _text(name: str) -> str:
    return html.escape(name)


def _minute(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M")


_INCIDENTS: Final[Columns[Incident]] = {
    "from": lambda row: _word(_minute(row.started_at)),
    "to": lambda row: _word(_minute(row.ended_at) if row.is_over else "still open"),
    "worst verdict": lambda row: _word(row.worst_verdict),
    "transactional ids": lambda row: _some(row.transactional_ids) or "unknown",
    "partitions": lambda row: _some(row.partitions),
    "blocked groups": lambda row: _some(row.groups) or "none known",
    "#records held back": lambda row: "unknown" if row.records_held_back is None else f"{row.records_held_back:,}",
}
_DURATIONS: Final[Columns[Durations]] = {
    "application": lambda row: _text(row.application),
    "#seen": lambda row: f"{row.transactions:,}",
    "#median": lambda row: _seconds(row.p50_ms),
    "#p95": lambda row: _seconds(row.p95_ms),
    "#p99": lambda row: _seconds(row.p99_ms),
    "#longest": lambda row: _seconds(row.max_ms),
    "#hung": lambda row: f"{row.hanging:,}",
    "#longest hang": lambda row: _seconds(row.hang_max_ms),
}
_OUTCOMES: Final[Columns[Outcomes]] = {
    "transactional id": lambda row: _text(row.application),
    "#committed": lambda row: f"{row.committed:,}",
    "#aborted": lambda row: f"{row.aborted:,}",
    "#timed out": lambda row: f"{row.timed_out:,}",
    "#fenced": lambda row: f"{row.fenced:,}",
    "#unknown": lambda row: f"{row.unknown:,}",
    "#markers p99, seconds": lambda row: _seconds(row.marker_p99_ms),
}
_COVERAGE_GAPS: Final[Columns[CoverageGap]] = {
    "hour": lambda gap: _word(_minute(gap.hour)),
    "#cycles": lambda gap: f"{gap.cycles} of {gap.cycles_expected}",
    "#incomplete": lambda gap: f"{gap.incomplete:,}",
    "#most partitions unread": lambda gap: f"{gap.unread_partitions_max:,}",
}
