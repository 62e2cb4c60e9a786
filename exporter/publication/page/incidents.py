"""Makes the pages of incidents: the list, and for each its suspects with the evidence, who waited, and the time line.

`_e` escapes every text from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape as _e
from typing import Final, NamedTuple

from exporter.evaluation.humanize import as_sentence, humanize_count, humanize_names
from exporter.incidents.document import as_json
from exporter.incidents.incident import Incident, Incidents, Suspect, without_transactional_ids
from exporter.publication.page.humanize import humanize_id, humanize_instant
from exporter.publication.page.page import JSON, MARKDOWN, Page, as_bytes, foot, head
from exporter.publication.page.post_mortem import NOT_SEARCHED, in_one_sentence, post_mortem
from exporter.publication.page.stuck import RUNBOOKS as RUNBOOKS_OF_STUCK
from exporter.publication.page.stuck import why_it_cannot_start
from exporter.publication.page.summary import Severity
from exporter.publication.page.suspects import all_at_once, what_to_paste
from exporter.publication.paths import (
    ANY_PLACE,
    INCIDENTS,
    below,
    incidents_of,
    path_of,
    query_of,
    status_from_incidents,
    url_of,
)
from exporter.snapshot import MarkerFinding

_NAMES_SHOWN_MAX: Final = 5

AddSteps = Callable[[Incident], Incident]
"""Adds what operators did about an incident, where the audit log is on this machine."""


class IncidentPages:
    """Makes each page again only when its incident has changed."""

    def __init__(self, cluster: str | None = None) -> None:
        """`cluster` is its name in a fleet."""
        self._cluster = cluster
        self._made: dict[str, tuple[_Content, Mapping[str, Page]]] = {}

    def render(
        self,
        incidents: Incidents,
        add_steps: AddSteps,
        interval_ms: int,
        *,
        bootstrap: str = "",
        runbooks: str | None = None,
        external_url: str | None = None,
        transactional_ids: bool = True,
    ) -> Mapping[str, Page]:
        """The list and every incident, by path below the cluster's page; `transactional_ids` says whether they are shown.

        Commands on the pages name the brokers in `bootstrap`, or leave them to the operator where it is empty. `runbooks`
        is where the runbooks are, by default the project's; `external_url` where people reach these pages. Each incident is
        also there as Markdown and JSON, as `ktx incident` prints it.
        """
        made = {}
        for incident in incidents.all:
            url = url_of(external_url, self._cluster, incident.id)
            content = _Content(add_steps(incident), transactional_ids, bootstrap, runbooks, url, incidents.cluster_id)
            before = self._made.get(incident.id)
            is_same = before is not None and before[0] == content
            pages = before[1] if before is not None and is_same else _pages(content, interval_ms, self._cluster)
            made[incident.id] = content, pages
        self._made = made
        found = {f"{INCIDENTS}/{name}{form}": page for name, (_, pages) in made.items() for form, page in pages.items()}
        list_page = render_list([(self._cluster, incidents)], interval_ms, runbooks)
        return {INCIDENTS: list_page, **found, **_by_place(incidents, self._cluster)}


def _by_place(incidents: Incidents, cluster: str | None) -> Mapping[str, Page]:
    """Leads from the labels of an alert to its incident, and to the status page where nothing of it is open.

    A start offset names one transaction, open or not. A partition alone leads only to an incident that has an open suspect
    there: an alert about a live transaction, which has no incident, must not show an old one.
    """
    oldest_first = sorted(incidents.all, key=lambda incident: incident.started_ms)
    suspects = [(incident, suspect) for incident in oldest_first for suspect in incident.suspects]
    by_place = {
        query_of(suspect.topic, suspect.partition): incident
        for incident, suspect in suspects
        if suspect.ended_at_ms is None
    }
    by_place |= {
        query_of(suspect.topic, suspect.partition, suspect.start_offset): incident
        for incident, suspect in sorted(suspects, key=lambda each: each[1].ended_at_ms is None)
    }
    moved = {place: f"{INCIDENTS[1:]}/{incident.id}" for place, incident in by_place.items()}
    moved[ANY_PLACE] = status_from_incidents(cluster)
    return {INCIDENTS + place: Page(head=b"", moved_to=to) for place, to in moved.items()}


class _Content(NamedTuple):
    """Inputs of the pages of an incident."""

    incident: Incident
    transactional_ids: bool
    bootstrap: str
    runbooks: str | None
    url: str | None
    cluster_id: str


def _pages(content: _Content, interval_ms: int, cluster: str | None) -> Mapping[str, Page]:
    """The page and its other forms, by the end of their paths."""
    incident, transactional_ids, url = content.incident, content.transactional_ids, content.url
    shown = incident if transactional_ids else without_transactional_ids(incident)
    text = post_mortem(shown, url, cluster, transactional_ids=transactional_ids)
    return {
        "": _page(shown, content, interval_ms, cluster),
        ".md": Page(head=text.encode(), content_type=MARKDOWN),
        ".json": Page(head=f"{as_json(shown, url)}\n".encode(), content_type=JSON),
    }


def render_list(found: Sequence[tuple[str | None, Incidents]], interval_ms: int, runbooks: str | None = None) -> Page:
    """All incidents of these clusters, the newest first; clusters have a name in a fleet."""
    links = _links(found[0][0] if len(found) == 1 else None)
    parts = [head("Incidents", "Incidents", interval_ms, links, runbooks=runbooks)]
    newest_first = sorted(
        ((incident, cluster) for cluster, incidents in found for incident in incidents.all),
        key=lambda one: one[0].started_ms,
        reverse=True,
    )
    if not newest_first:
        parts.append(
            '<p id="none">No suspect transaction has been seen yet. '
            f'<a href="{_e(links[0][0])}">Status</a> says what could be read.</p>'
        )
    else:
        rows = "".join(_row(incident, cluster) for incident, cluster in newest_first)
        parts.append(f'<ol class="events" id="list">{rows}</ol>')
    return Page(head=as_bytes(parts), rest=as_bytes([foot()]))


def _links(cluster: str | None) -> tuple[tuple[str, str], ...]:
    return ((below(cluster) or "/", "status"), (incidents_of(cluster), "incidents"))


def _row(incident: Incident, cluster: str | None) -> str:
    partitions = humanize_names(incident.partitions, shown_max=_NAMES_SHOWN_MAX)
    groups = f"; blocked: {humanize_names(incident.groups, shown_max=_NAMES_SHOWN_MAX)}" if incident.groups else ""
    of = "" if cluster is None else f"{_e(cluster)}: "
    return (
        f'<li>{of}<a href="{_e(path_of(incident.id, cluster))}">{humanize_instant(incident.started_ms)}</a> '
        f'<span class="tag {_level(incident).value}">{_e(incident.worst.label)}</span> '
        f"{_state(incident)}: {_e(in_one_sentence(incident))}"
        f'<br><span class="quiet">{_e(partitions)}{_e(groups)}</span></li>'
    )


def _level(incident: Incident) -> Severity:
    return Severity.GOOD if incident.is_over else Severity.BAD if incident.is_critical else Severity.WARNING


def _state(incident: Incident) -> str:
    return "over" if incident.is_over else "open"


def _page(shown: Incident, content: _Content, interval_ms: int, cluster: str | None) -> Page:
    """`shown` is the incident of `content` with or without its ids."""
    heading = f'Incident <code id="incident">{_e(shown.id)}</code>'
    headline = f"<strong>{_state(shown).capitalize()}: {_e(in_one_sentence(shown))}</strong>"
    parts = [
        head(f"Incident {shown.id}", heading, interval_ms, _links(cluster), runbooks=content.runbooks),
        f'<div class="banner {_level(shown).value}" id="headline" role="status">{headline}</div>',
        "<h2>Suspect transactions</h2>",
        '<section id="suspects">',
        all_at_once((one for one in shown.suspects if one.ended_at_ms is None), content.bootstrap),
        *(_suspect(one, content) for one in shown.suspects),
        "</section>",
    ]
    if shown.more_suspects:
        parts.append(f'<p id="hidden">{humanize_count(shown.more_suspects, "more suspect")} not followed.</p>')
    rows = "".join(
        f"<li><time>{_e(humanize_instant(event.at_ms))}</time> {_e(event.sentence)}</li>" for event in shown.events
    )
    parts.append(f'<h2>Time line</h2><ol class="events" id="events">{rows}</ol>')
    if shown.more_events:
        parts.append(f"<p>{humanize_count(shown.more_events, 'later event')} not shown.</p>")
    parts.append(
        f'<p>For a post-mortem: <a href="{_e(shown.id)}.md">Markdown</a>, <a href="{_e(shown.id)}.json">JSON</a>.</p>'
    )
    return Page(head=as_bytes(parts), rest=as_bytes([foot()]))


def _suspect(suspect: Suspect, content: _Content) -> str:
    """Renders a suspect, with the next command while it is open."""
    level = Severity.BAD if suspect.is_critical else Severity.WARNING
    ended = "open" if suspect.ended_at_ms is None else humanize_instant(suspect.ended_at_ms)
    held_back = "unknown" if suspect.records_held_back is None else f"{suspect.records_held_back:,} at most"
    of_partition = (
        ("start offset", str(suspect.key.start_offset)),
        ("offsets held back", held_back),
        ("consumer groups blocked", humanize_names(suspect.groups, shown_max=_NAMES_SHOWN_MAX) or "none seen"),
    )
    facts = (
        ("suspect since", humanize_instant(suspect.suspect_at_ms)),
        ("ended", ended),
        ("producer id / epoch", f"{suspect.key.producer_id} / {suspect.producer_epoch}"),
        ("transactional id", humanize_id(suspect.transactional_id, is_shown=content.transactional_ids)),
        *(() if suspect.is_at_coordinator else of_partition),
    )
    is_open = suspect.ended_at_ms is None and suspect.verdict.is_suspect
    step = _step(suspect, content) if is_open else ""
    listed = "".join(f"<div><dt>{_e(name)}</dt><dd>{_e(text)}</dd></div>" for name, text in facts)
    return (
        f'<article class="suspect"><h3><code>{_e(suspect.name)}</code>'
        f'<span class="tag {level.value}">{_e(suspect.worst.label)}</span></h3>'
        f"{step}<p>{_e(suspect.reason)}</p>{_cause(suspect)}<dl>{listed}</dl></article>"
    )


def _step(suspect: Suspect, content: _Content) -> str:
    place = content.bootstrap, content.runbooks, content.cluster_id
    if not suspect.is_at_coordinator:
        return what_to_paste(suspect, *place)
    runbook = RUNBOOKS_OF_STUCK[suspect.markers or MarkerFinding.AS_DECIDED]
    return why_it_cannot_start(suspect.transactional_id, suspect.key.producer_id, runbook, *place)


def _cause(suspect: Suspect) -> str:
    if suspect.cause:
        return f'<p class="cause">Cause <strong>{_e(suspect.cause)}</strong>: {_e(suspect.because)}.</p>'
    is_left = suspect.lacks_cause and suspect.ended_at_ms is not None
    return f'<p class="cause">{_e(as_sentence(NOT_SEARCHED))}</p>' if is_left else ""
