"""Makes the overview of a fleet: the worst cluster first, with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as _e

from exporter.evaluation.humanize import humanize_count
from exporter.publication.page.humanize import humanize_instant
from exporter.publication.page.page import Page, as_bytes, banner, foot, head
from exporter.publication.page.sections import table
from exporter.publication.page.summary import Severity, Summary, summarize
from exporter.publication.paths import INCIDENTS, REPORT, below
from exporter.publication.publication import Publication

_WORST_FIRST = (Severity.BAD, Severity.UNKNOWN, Severity.WARNING, Severity.WAITING, Severity.GOOD)
_COUNTED = {
    Severity.BAD: "with hanging transactions",
    Severity.UNKNOWN: "without a current snapshot",
    Severity.WARNING: "with a suspect, or partly unread",
    Severity.WAITING: "with groups behind live transactions",
}
_Found = tuple[Summary, Publication]


def render_overview(publications: Sequence[Publication], runbooks: str | None = None) -> Page:
    """The state of all clusters."""
    found = sorted(
        ((summarize(publication.evaluation, publication.status), publication) for publication in publications),
        key=lambda line: (_WORST_FIRST.index(line[0].level), line[1].cluster or ""),
    )
    heading = f"Kafka transactions of {humanize_count(len(publications), 'cluster')}"
    interval_ms = max((publication.status.interval_ms for publication in publications), default=0)
    attention = [line for line in found if line[0].level is not Severity.GOOD]
    healthy = [line for line in found if line[0].level is Severity.GOOD]
    cards = "\n".join(_card(*line) for line in attention)
    body = [
        banner(_state_of_all(found)),
        f'<section id="clusters">{cards}</section>',
        _healthy_section(healthy),
        foot(),
    ]
    links = [(INCIDENTS, "incidents")]
    links += [(REPORT, "report")] if any(publication.options.report for publication in publications) else []
    return Page(
        head=as_bytes([head("Kafka transactions", heading, interval_ms, tuple(links), runbooks=runbooks)]),
        rest=as_bytes(body),
    )


def _state_of_all(found: Sequence[_Found]) -> Summary:
    """The worst level, and the number of clusters at each."""
    levels = [summary.level for summary, _ in found]
    counts = [(level, levels.count(level)) for level in _WORST_FIRST if level in _COUNTED and level in levels]
    if counts:
        title = "; ".join(f"{humanize_count(count, 'cluster')} {_COUNTED[level]}" for level, count in counts)
        return Summary(level=counts[0][0], title=title, notes=())
    return Summary(
        level=Severity.GOOD, title=f"No suspect in {humanize_count(len(found), 'cluster')}, all read", notes=()
    )


def _card(summary: Summary, publication: Publication) -> str:
    """A cluster that needs attention: its state, and everything that limits it."""
    notes = "".join(f"<p>{_e(note)}</p>" for note in summary.notes)
    facts = "".join(f"<div><dt>{_e(name)}</dt><dd>{_e(value)}</dd></div>" for name, value in _facts(publication))
    return (
        f'<article class="suspect"><h3>{_link(publication)} <span class="tag {summary.level.value}">'
        f"{_e(summary.title)}</span></h3>{notes}<dl>{facts}</dl></article>"
    )


def _healthy_section(healthy: Sequence[_Found]) -> str:
    if not healthy:
        return ""
    rows = []
    for _, publication in healthy:
        (_, open_), _, (_, when) = _facts(publication)
        rows.append(f'<tr><td>{_link(publication)}</td><td class="number">{open_}</td><td>{_e(when)}</td></tr>')
    listed = table(("cluster", "#open", "newest snapshot"), rows)
    return f'<section id="healthy"><h2>Without a suspect, all read</h2>{listed}</section>'


def _link(publication: Publication) -> str:
    name = publication.cluster or ""
    return f'<a href="{_e(below(name))}">{_e(name)}</a>'


def _facts(publication: Publication) -> tuple[tuple[str, str], tuple[str, str], tuple[str, str]]:
    evaluation, taken_at_ms = publication.evaluation, publication.status.snapshot_taken_at_ms
    open_ = suspects = "unknown"
    if evaluation is not None:
        open_, suspects = f"{evaluation.open_count:,}", f"{evaluation.suspect_count:,}"
    when = "none yet" if taken_at_ms is None else humanize_instant(taken_at_ms)
    return ("open transactions", open_), ("suspects", suspects), ("newest snapshot", when)
