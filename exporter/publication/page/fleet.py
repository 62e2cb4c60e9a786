"""Makes the status pages of a fleet: an overview with one row per cluster, worst first, and the page of each cluster."""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from html import escape as _e

from exporter.publication.page.humanize import humanize_count, humanize_instant
from exporter.publication.page.page import Page, as_bytes, foot, head, render_page
from exporter.publication.page.sections import table
from exporter.publication.page.summary import Level, summarize
from exporter.publication.publication import Publication

_BELOW = "/clusters/"
_WORST_FIRST = (Level.BAD, Level.UNKNOWN, Level.WARNING, Level.GOOD)


def render_pages(publications: Sequence[Publication]) -> dict[str, Page]:
    """Pages by path, as a request has it: `/`, and one below `/clusters/` for each cluster."""
    pages = {f"{_BELOW}{it.cluster}": render_page(it) for it in publications}
    return {"/": _overview(publications), **pages}


def _overview(publications: Sequence[Publication]) -> Page:
    lines = sorted(
        ((summarize(it.evaluation, it.status), it) for it in publications),
        key=lambda line: (_WORST_FIRST.index(line[0].level), line[1].cluster or ""),
    )
    rows = (_row(it, found.level, found.title) for found, it in lines)
    heading = f"Kafka transactions of {humanize_count(len(publications), 'cluster')}"
    body = table(("cluster", "found", "#open", "#suspect", "newest snapshot"), rows, ' id="clusters"') + foot()
    interval_ms = max((it.status.interval_ms for it in publications), default=0)
    return Page(head=as_bytes([head("Kafka transactions", heading, interval_ms)]), rest=as_bytes([body]))


def _row(publication: Publication, level: Level, title: str) -> str:
    evaluation, taken_at_ms = publication.evaluation, publication.status.snapshot_taken_at_ms
    open_ = suspects = "unknown"
    if evaluation is not None:
        open_, suspects = f"{evaluation.open_count:,}", f"{evaluation.suspect_count:,}"
    when = "none yet" if taken_at_ms is None else humanize_instant(taken_at_ms)
    link = _BELOW + urllib.parse.quote(publication.cluster or "", safe="")
    return (
        f'<tr><td><a href="{_e(link)}">{_e(publication.cluster or "")}</a></td>'
        f'<td><span class="tag {level.value}">{_e(title)}</span></td><td class="number">{open_}</td>'
        f'<td class="number">{suspects}</td><td>{_e(when)}</td></tr>'
    )
