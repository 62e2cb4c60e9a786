"""Renders the report as one HTML file that fetches nothing and needs no script: sentences, bars and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from html import escape
from typing import Final

from pyspark.sql import Row

from exporter.evaluation.humanize import humanize_count, humanize_duration
from exporter.incidents.incident import HANGING
from exporter.pipeline.report import APPLICATIONS_MAX, ReportData, SectionRows
from exporter.pipeline.report_audits import AuditsOfWeek, damage_in_words, section_of_audits
from exporter.pipeline.report_html import (
    DASH,
    Columns,
    as_section,
    as_table,
    minute_of,
    not_shown,
    on_one_line,
    some_names,
    with_cluster,
)
from exporter.pipeline.report_weeks import budget_used, days_as_bars, sentence_of_weeks

TIMELINE_MAX: Final = 20
"""Incidents that have a bar."""
SILENT_MS: Final = 3 * 3_600_000
"""A cluster whose newest cycle is older is named: its files come within the hour, and the report once a day."""
# Light or dark by the preference of the browser; on a phone each row is a card.
_STYLE: Final = """
:root{color-scheme:light dark;--text:#1c2430;--quiet:#4b5563;--page:#ffffff;--panel:#eef0f3;--line:#d5dae1;
 --bad:#b42318;--warning:#b54708;--usual:#1570ef}
@media (prefers-color-scheme:dark){:root{--text:#e6e8eb;--quiet:#a9b0b9;--page:#14171a;--panel:#23282d;--line:#3a4149;
 --bad:#ff7a70;--warning:#f5a742;--usual:#5aa2ff}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,"DejaVu Sans",sans-serif;color:var(--text);background:var(--page);
 max-width:75rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2.5rem 0 .5rem}
.summary{font-size:1.15rem;font-weight:600;margin:.75rem 0}.nothing,.quiet{color:var(--quiet)}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;overflow-wrap:anywhere}
th{border-bottom:2px solid var(--text);overflow-wrap:normal}td{border-bottom:1px solid var(--line)}
.word{white-space:nowrap}td.number,th.number{text-align:right}td.number{white-space:nowrap;font-variant-numeric:tabular-nums}
ol.plot{list-style:none;margin:1rem 0;padding:0}
ol.plot li{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,2fr);gap:0 1rem;align-items:center}
ol.plot li>span:first-child{overflow-wrap:anywhere}
.track{position:relative;height:1.1rem;background:var(--panel);border-radius:.2rem;margin:.15rem 0}
.track i{position:absolute;top:0;height:100%;min-width:3px;border-radius:.2rem}
svg.days{width:100%;height:7.5rem}p.ends{margin:0}
svg .bad{fill:var(--bad)}svg .warning{fill:var(--warning)}svg .base{fill:var(--line)}
svg .unwatched{fill:none;stroke:var(--quiet);stroke-dasharray:3 3;
 vector-effect:non-scaling-stroke}
.bad{background:var(--bad)}.warning{background:var(--warning)}.usual{background:var(--usual)}
.ends{display:flex;justify-content:space-between;color:var(--quiet);font-size:.85rem;gap:1rem}
@media (max-width:45rem){
 body{margin:1rem auto}
 ol.plot li{grid-template-columns:minmax(0,1fr)}
 table,tbody{display:block}tr{display:block;border-bottom:1px solid var(--line);padding:.4rem 0}
 tr:has(th){display:none}
 td,td.number{display:flex;gap:1rem;justify-content:space-between;border:0;padding:.05rem 0;white-space:normal;
  text-align:right}
 td::before{content:attr(data-head);color:var(--quiet);flex:none;text-align:left}
}
"""


def render(data: ReportData, audits: AuditsOfWeek | None = None) -> str:
    """The whole page. Names come from clusters: all are escaped."""
    body = [
        "<h1>Kafka transactions: the report</h1>",
        f'<p class="summary">{_summary(data)}{damage_in_words(audits)}</p>',
        f"<p>{_span(data)}</p>",
        *([_left_out(data)] if data.first_ms is None else _sections(data, audits)),
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Kafka transactions: the report</title><style>{_STYLE}</style>"
    )
    text = "\n".join(part for part in body if part)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{text}\n</body></html>\n'


def _sections(data: ReportData, audits: AuditsOfWeek | None) -> Iterable[str]:
    """All of a report about at least one cycle."""
    several = len(data.newest_ms) > 1
    return (
        "<h2>Who waited: this week against the last</h2>",
        f"<p>{sentence_of_weeks(data.waited_ms, data.days)}</p>",
        days_as_bars(data.days),
        as_table(with_cluster(_weeks(data.objective_percent), several), data.weeks[:APPLICATIONS_MAX]),
        not_shown(max(len(data.weeks) - APPLICATIONS_MAX, 0), "applications, all of them in report.csv"),
        "<h2>Incidents</h2>",
        _timeline(data.incidents.rows),
        as_section(data.incidents, "No transaction was a suspect.", _INCIDENTS, several),
        not_shown(data.incidents.cut, "older incidents"),
        "<h2>What was not watched</h2>",
        _clocks(data.clocks),
        "".join(f"<p>Unknown: {words}.</p>" for words in _uncounted(data)),
        as_section(data.coverage_gaps, _ALL_WATCHED, _COVERAGE_GAPS, several) if data.days else "",
        not_shown(data.coverage_gaps.cut, "older hours"),
        _excluded(data.excluded),
        _left_out(data),
        "<h2>Exactly-once: what the audits of the last week say</h2>",
        *section_of_audits(audits, several=several),
        "<h2>Durations by application</h2>",
        _sampling(data),
        _duration_bars(data.durations.rows),
        as_section(data.durations, "No transaction was recorded.", _DURATIONS, several),
        not_shown(data.durations.cut, "applications with fewer hangs and fewer transactions"),
        "<h2>Outcomes by application</h2>",
        _outcomes(data.outcomes, several),
    )


def _excluded(partitions: int) -> str:
    said = f"The section <code>scan</code> of the settings excludes up to {humanize_count(partitions, 'partition')}."
    return f"<p>{said}</p>" if partitions else ""


def _uncounted(data: ReportData) -> Iterable[str]:
    """Says from when on nothing is known of a cluster whose newest cycles are not in `coverage` and `stalls`."""
    for cluster_id, until_ms in data.uncounted.items():
        after = "" if until_ms is None else f" after {minute_of(until_ms)} UTC"
        yield f"hours of cluster {escape(cluster_id)}{after} were not counted (pipeline stalls)"


def _left_out(data: ReportData) -> str:
    return as_table(_LEFT_OUT, data.left_out) or '<p class="nothing">No file of the history is left out.</p>'


def _summary(data: ReportData) -> str:
    """The report in a sentence: the number of incidents and their reach; missing data is never reported as healthy."""
    if data.first_ms is None:
        return "Nothing was recorded."
    gaps = len(data.coverage_gaps.rows) + data.coverage_gaps.cut
    limits = f" Coverage is incomplete in {humanize_count(gaps, 'hour')}." if gaps else ""
    limits += "".join(
        f" The newest cycle of cluster {escape(cluster_id)} is of {minute_of(newest_ms)} UTC."
        for cluster_id, newest_ms in data.newest_ms.items()
        if data.made_at_ms - newest_ms > SILENT_MS
    )
    limits += "".join(f" Unknown: {words}." for words in _uncounted(data))
    limits += f" {humanize_count(len(data.left_out), 'file')} left out." if data.left_out else ""
    incidents, older = data.incidents.rows, data.incidents.cut
    if not incidents:
        return f"No incident.{limits}"
    newest = f", the newest {len(incidents):,} of them" if older else ""
    is_every_one_open = not older and not any(incident.is_over for incident in incidents)
    noun = "open incident" if is_every_one_open else "incident"
    partitions = {(incident.cluster_id, name) for incident in incidents for name in incident.partitions}
    return (
        f"{humanize_count(len(incidents) + older, noun)}{newest} on {_one_or_count(partitions, 'partition')}: "
        f"{_blocked(incidents)}.{limits}"
    )


def _one_or_count(names: AbstractSet[tuple[str, str]], noun: str) -> str:
    """The name of the only one, or how many they are."""
    return escape(next(iter(names))[1]) if len(names) == 1 else humanize_count(len(names), noun)


def _blocked(incidents: Sequence[Row]) -> str:
    """The groups, and how long they waited at most: in the incident that has held back groups for longest."""
    groups = {(incident.cluster_id, name) for incident in incidents for name in incident.groups}
    if not groups:
        return "no consumer group is known to have waited"
    longest = max((incident for incident in incidents if incident.groups), key=_blocked_ms)
    named = f"{'consumer group ' if len(groups) == 1 else ''}{_one_or_count(groups, 'consumer group')}"
    has = "" if longest.is_over else "has " if len(groups) == 1 else "have "
    length = humanize_duration(_blocked_ms(longest))
    limit = f"at most {length}" if longest.is_start_known else f"{length} or longer: the start is not known"
    return f"{named} {has}waited for {limit}"


def _blocked_ms(incident: Row) -> int:
    """Counts from the earliest start: nobody waited behind the incident's transactions before it."""
    return int(incident.ended_ms - incident.blocked_from_ms)


def _span(data: ReportData) -> str:
    made = f"Made {minute_of(data.made_at_ms)} UTC."
    if data.first_ms is None:
        return made
    names = f"{'clusters' if len(data.newest_ms) > 1 else 'cluster'} {some_names(list(data.newest_ms))}"
    return (
        f"From the hour of {minute_of(data.first_ms)} to {minute_of(max(data.newest_ms.values()))} UTC, {names}. {made}"
    )


def _clocks(clocks: Sequence[Row]) -> str:
    return "".join(
        f"<p>Two exporters of cluster {escape(row.cluster_id)} have clocks that differ by "
        f"{humanize_duration(row.clock_difference_ms)}: correct them. Durations of that time count as unknown.</p>"
        for row in clocks
    )


def _timeline(incidents: Sequence[Row]) -> str:
    """A bar for each of the newest incidents, with its partitions and length."""
    shown = incidents[:TIMELINE_MAX]
    if not shown:
        return ""
    first_ms, last_ms = (
        min(incident.blocked_from_ms for incident in shown),
        max(incident.ended_ms for incident in shown),
    )
    whole_ms = max(last_ms - first_ms, 60_000)
    bars = []
    for incident in shown:
        left = 100 * (incident.blocked_from_ms - first_ms) / whole_ms
        width = 100 * _blocked_ms(incident) / whole_ms
        level = "bad" if incident.worst_verdict in HANGING else "warning"
        still = "" if incident.is_over else ", still open"
        label = f"{some_names(incident.partitions, 1)}: {humanize_duration(_blocked_ms(incident))}{still}"
        bars.append(_bar(label, f'<i class="{level}" style="left:{left:.2f}%;width:{width:.2f}%"></i>'))
    note = "Red: a transaction was proved hanging."
    return _plot(bars, minute_of(first_ms), minute_of(last_ms), note) + not_shown(len(incidents) - len(shown), "bars")


def _duration_bars(durations: Sequence[Row]) -> str:
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
        bars.append(_bar(f"{escape(row.application)}: {', '.join(words) or DASH}", "".join(marks)))
    note = "Blue: median to 99th percentile. Red: the longest hang. The scale is logarithmic."
    return _plot(bars, _short(10.0**low), _short(10.0**high), note)


def _bar(label: str, marks: str) -> str:
    return f'<li><span>{label}</span><span class="track">{marks}</span></li>'


def _plot(bars: Sequence[str], begin: str, end: str, note: str) -> str:
    ends = f'<li><span></span><span class="ends"><span>{begin}</span><span>{end}</span></span></li>'
    return f'<p class="quiet">{note}</p><ol class="plot">{"".join(bars)}{ends}</ol>'


def _sampling(data: ReportData) -> str:
    if data.interval_ms is None or not data.durations.rows:
        return ""
    return (
        f'<p class="quiet">A sample: a cycle every {humanize_duration(data.interval_ms)} sees only transactions that are '
        "open then, so most short ones are missing. Median, p95, p99 and longest are of those that did not hang; "
        "durations are in seconds.</p>"
    )


def _outcomes(shown: SectionRows | None, several: bool) -> str:  # noqa: FBT001
    if shown is None:
        return '<p class="nothing">Unknown: the transaction log was not read (pipeline transaction-log).</p>'
    table = as_section(shown, "No transaction was recorded.", _OUTCOMES, several)
    return table + not_shown(shown.cut, "applications with fewer time-outs and fences, and fewer transactions")


def _short(duration_ms: float) -> str:
    return humanize_duration(round(duration_ms))


def _seconds(duration_ms: float | None) -> str:
    return DASH if duration_ms is None else f"{duration_ms / 1000:,.3f}"


def _delays(row: Row) -> str:
    """Returns the times from the start of the oldest transaction to the suspicion, and to the proof."""
    if row.noticed_delay_ms is None:
        return "unknown"
    proved = "not proved"
    if row.proof_delay_ms is not None:
        proved = humanize_duration(max(row.noticed_delay_ms + row.proof_delay_ms, 0))
    return f"{humanize_duration(max(row.noticed_delay_ms, 0))}, {proved}"  # two clocks may differ


_INCIDENTS: Final[Columns] = {
    "open from": lambda row: on_one_line(minute_of(row.blocked_from_ms)),
    "to": lambda row: on_one_line(minute_of(row.ended_ms) if row.is_over else "still open"),
    "noticed, proved after": _delays,
    "worst verdict, causes": lambda row: ", ".join(
        (on_one_line(row.worst_verdict), *map(on_one_line, row.causes or ("cause unknown",)))
    ),
    "transactional ids": lambda row: some_names(row.transactional_ids) or "unknown",
    "partitions": lambda row: some_names(row.partitions),
    "blocked groups": lambda row: some_names(row.groups) or "none known",
    "commands confirmed by": lambda row: (
        f"{some_names(row.operators)}, from {minute_of(row.operated_ms)} on" if row.operators else "none known"
    ),
    "#offsets held back": lambda row: "unknown" if row.records_held_back is None else f"{row.records_held_back:,}",
}


def _weeks(objective_percent: float) -> Columns:
    return {
        "application": lambda row: escape(row.application),
        "#held back a group, this week": lambda row: humanize_duration(row.this_ms) if row.this_ms else DASH,
        "#last week": lambda row: humanize_duration(row.last_ms) if row.last_ms else DASH,
        "group that waited most this week": lambda row: escape(row.group) if row.group_ms else DASH,
        f"#of its budget by {objective_percent:g} %": lambda row: (
            f"{100 * budget_used(row.group_ms, objective_percent):,.0f} %"
        ),
        "#most offsets behind": lambda row: f"{row.records_max:,}",
    }


_DURATIONS: Final[Columns] = {
    "application": lambda row: escape(row.application),
    "#seen": lambda row: f"{row.transactions:,}",
    "#of unknown duration": lambda row: f"{row.unknown:,}",
    "#median": lambda row: _seconds(row.p50_ms),
    "#p95": lambda row: _seconds(row.p95_ms),
    "#p99": lambda row: _seconds(row.p99_ms),
    "#longest": lambda row: _seconds(row.max_ms),
    "#hung": lambda row: f"{row.hanging:,}",
    "#longest hang, when last seen": lambda row: _seconds(row.hang_max_ms),
}
_OUTCOMES: Final[Columns] = {
    "transactional id": lambda row: escape(row.application),
    "#committed": lambda row: f"{row.committed:,}",
    "#aborted": lambda row: f"{row.aborted:,}",
    "#timed out": lambda row: f"{row.timed_out:,}",
    "#fenced": lambda row: f"{row.fenced:,}",
    "#unknown": lambda row: f"{row.unknown:,}",
    "#markers p99, seconds": lambda row: _seconds(row.marker_p99_ms),
}
_ALL_WATCHED: Final = "Every counted hour has its cycles, and each read every partition; the newest may not be over."
_COVERAGE_GAPS: Final[Columns] = {
    "hour": lambda gap: on_one_line(minute_of(gap.hour_ms)),
    "#cycles": lambda gap: f"{gap.cycles} of {gap.cycles_expected}",
    "#not watched": lambda gap: DASH if gap.unwatched_ms is None else humanize_duration(gap.unwatched_ms),
    "#incomplete": lambda gap: f"{gap.incomplete:,}",
    "#most partitions unread": lambda gap: f"{gap.unread_partitions_max:,}",
}
_LEFT_OUT: Final[Columns] = {
    "file that is left out": lambda file: escape(file[0]),
    "why": lambda file: escape(file[1]),
}
