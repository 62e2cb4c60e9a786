"""Makes the status page for operators, as bytes once per publication.

It is HTML that fetches nothing; `_e` escapes every text from outside. The order is that of an operator's questions: the
state, the suspects with the next command, what is unread, and then figures and tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from html import escape as _e
from typing import Final

from exporter.publication.page.blocking import blocking_section
from exporter.publication.page.script import SCRIPT
from exporter.publication.page.sections import coverage_section, exporter_section, figures_section, verdicts_section
from exporter.publication.page.stuck import stuck_section
from exporter.publication.page.style import style_sheet
from exporter.publication.page.summary import Severity, Summary, summarize
from exporter.publication.page.suspects import others_section, suspects_section
from exporter.publication.page.timeouts import timeouts_section
from exporter.publication.paths import REPORT, RUNBOOKS, incidents_of
from exporter.publication.publication import Publication

_REFRESH_SECONDS_MIN = 10


NONE_NAMED: Final = (
    "No transaction on this page names it. To ask Kafka itself: why --group, --topic or --transactional-id NAME."
)
OTHERS_NAMED: Final = "Only an open transaction below names it, which is not suspect and blocks no group."
SEARCH: Final = (
    '<p id="search" hidden><label>Who stands still? <input type="search" size="40" '
    'placeholder="group, topic, transactional id, producer id"></label> '
    f'<output data-none="{_e(NONE_NAMED)}" data-others="{_e(OTHERS_NAMED)}"></output></p>'
)
"""Filters the transactions of the page; hidden where no script runs."""
HTML: Final = "text/html; charset=utf-8"
MARKDOWN: Final = "text/markdown; charset=utf-8"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The page in two pieces: between them the web server puts an alarm when the exporter's own loop has stopped.

    The page was made while the loop was running, so it cannot contain the alarm.
    """

    head: bytes
    rest: bytes = b""
    content_type: str = HTML
    moved_to: str = ""
    """The address of the page, relative to this path, if it has no content here."""

    def with_alarm(self, sentence: str | None) -> bytes:
        """The whole page; `sentence` is the reason why the loop has stopped, None while it runs."""
        has_alarm = sentence is not None and self.content_type == HTML
        return self.head + (_alarm(sentence or "").encode() if has_alarm else b"") + self.rest

    def linked_below(self, prefix: str) -> Page:
        """The page with this path before those of its links; text on it cannot look like one, as quotes are escaped."""
        if self.content_type != HTML:
            return self
        link, below = b'href="/', f'href="{_e(prefix)}/'.encode()
        return replace(self, head=self.head.replace(link, below), rest=self.rest.replace(link, below))


def render_page(publication: Publication) -> Page:
    evaluation = publication.evaluation
    rest = [banner(summarize(evaluation, publication.status)), SEARCH]
    rest += [suspects_section(publication), stuck_section(publication), blocking_section(publication)]
    if evaluation is not None:
        rest.append(coverage_section(evaluation))
    rest.append(figures_section(publication))
    if evaluation is not None:
        rest += ['<div class="columns">', others_section(publication), verdicts_section(evaluation), "</div>"]
    rest += [timeouts_section(publication), exporter_section(publication), foot()]
    return Page(head=as_bytes([_head(publication)]), rest=as_bytes(rest))


def foot() -> str:
    """The end of a page."""
    return f"<script>{SCRIPT}</script></body></html>"


def as_bytes(parts: Iterable[str]) -> bytes:
    """Encodes the page; invalid text in names from brokers is replaced, so that it cannot break the page."""
    return "\n".join(parts).encode("utf-8", "replace")


def _head(publication: Publication) -> str:
    cluster_id = "unknown" if publication.evaluation is None else publication.evaluation.snapshot.cluster_id
    name = publication.cluster if publication.cluster_name is None else publication.cluster_name
    title = cluster_id if name is None else name
    of = "" if name is None else f' <span class="quiet">{_e(cluster_id)}</span>'
    heading = f'Kafka transactions of cluster <code id="cluster">{_e(title)}</code>{of}'
    incidents = (incidents_of(publication.cluster), "incidents")
    links = [*(() if publication.cluster is None else (("/", "all clusters"),)), incidents]
    links += [] if publication.options.report is None else [(REPORT, "report")]
    runbooks = publication.options.runbook_url
    return head(
        f"Kafka transactions: {title}", heading, publication.status.interval_ms, tuple(links), runbooks=runbooks
    )


_LINKS = tuple((path, path) for path in ("/metrics", "/-/healthy", "/-/ready"))


def head(
    title: str,
    heading: str,
    interval_ms: int,
    links: tuple[tuple[str, str], ...] = (),
    *,
    runbooks: str | None = None,
) -> str:
    """The beginning of a page, which the browser reloads once per cycle; `heading` is HTML.

    `runbooks` is where they are, by default at the exporter.
    """
    of_runbooks = (f"{runbooks or RUNBOOKS}/README.md", "runbooks")
    refresh_seconds = max(_REFRESH_SECONDS_MIN, interval_ms // 1000)
    nav = "".join(f'<a href="{_e(path)}">{_e(text)}</a>' for path, text in (*links, of_runbooks, *_LINKS))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="{refresh_seconds}">
<title>{_e(title)}</title>
<style>{style_sheet()}</style></head><body>
<header><h1>{heading}</h1>
<nav>{nav}</nav></header>
"""


def banner(summary: Summary) -> str:
    notes = "".join(f"<li>{_e(note)}</li>" for note in summary.notes)
    listed = f"<ul>{notes}</ul>" if notes else ""
    title = f"<strong>{_e(summary.title)}</strong>"
    return f'<div class="banner {summary.level.value}" id="headline" role="status">{title}{listed}</div>'


def _alarm(sentence: str) -> str:
    return (
        f'<div class="banner {Severity.BAD.value}" id="alarm" role="alert"><strong>This exporter is not working: '
        f"the page below is old</strong><p>{_e(sentence)}</p></div>"
    )
