"""Makes the pages of incidents: the list, and for each its suspects with the evidence, who waited, and the time line.

`_e` escapes every text from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape as _e
from typing import Final

from exporter.evaluation.humanize import humanize_count, humanize_duration, humanize_names
from exporter.incidents.incident import Incident, Incidents, Suspect, without_transactional_ids
from exporter.publication.page.advice import variables
from exporter.publication.page.humanize import humanize_instant
from exporter.publication.page.page import Page, as_bytes, foot, head
from exporter.publication.page.summary import Level
from exporter.publication.page.suspects import next_step

PATH: Final = "/incidents"
_NAMES_SHOWN_MAX: Final = 5
_LINKS: Final = (("/", "status"), (PATH, "incidents"))

AddSteps = Callable[[Incident], Incident]
"""Adds what operators did about an incident, where the audit log is on this machine."""


class IncidentPages:
    """Makes each page again only when its incident has changed."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[tuple[Incident, bool, str], Page]] = {}

    def render(
        self,
        incidents: Incidents,
        add_steps: AddSteps,
        interval_ms: int,
        *,
        bootstrap: str = "",
        transactional_ids: bool = True,
    ) -> Mapping[str, Page]:
        """The list and every incident, by path; `transactional_ids` says whether they are shown.

        Commands on the pages name the brokers in `bootstrap`, or leave them to the operator where it is empty.
        """
        made = {}
        for it in incidents.all:
            content = add_steps(it), transactional_ids, bootstrap
            before = self._made.get(it.id)
            page = before[1] if before is not None and before[0] == content else _page(*content, interval_ms)
            made[it.id] = content, page
        self._made = made
        pages = {path_of(name): page for name, (_, page) in made.items()}
        return {PATH: _list(incidents, interval_ms), **pages}


def path_of(incident: str) -> str:
    """Where the page of an incident is."""
    return f"{PATH}/{incident}"


def url_of(external_url: str | None, incident: str) -> str | None:
    """Its whole address, where that is known."""
    return None if external_url is None else f"{external_url}{path_of(incident)}"


def in_one_sentence(it: Incident) -> str:
    """What it was, for the top of a page or of a text."""
    lasted = "" if it.ended_ms is None else f" for {humanize_duration(it.ended_ms - it.started_ms)}"
    groups = f", {humanize_count(len(it.groups), 'group')} blocked" if it.groups else ""
    held = "" if it.records_held_back is None else f", up to {it.records_held_back:,} records held back"
    count = humanize_count(len(it.suspects) + it.more_suspects, "suspect transaction")
    return f"{count} on {humanize_count(len(it.partitions), 'partition')}{lasted}{groups}{held}"


def _list(incidents: Incidents, interval_ms: int) -> Page:
    parts = [head("Incidents", "Incidents", interval_ms, _LINKS)]
    if not incidents.all:
        parts.append('<p id="none">No suspect transaction has been seen yet.</p>')
    else:
        parts.append(f'<ol class="events" id="list">{"".join(_row(it) for it in reversed(incidents.all))}</ol>')
    return Page(head=as_bytes(parts), rest=as_bytes([foot()]))


def _row(it: Incident) -> str:
    groups = f"; blocked: {humanize_names(it.groups, shown_max=_NAMES_SHOWN_MAX)}" if it.groups else ""
    return (
        f'<li><a href="{_e(path_of(it.id))}">{humanize_instant(it.started_ms)}</a> '
        f'<span class="tag {_level(it).value}">{_e(it.worst.label)}</span> {_state(it)}: {_e(in_one_sentence(it))}'
        f'<br><span class="quiet">{_e(humanize_names(it.partitions, shown_max=_NAMES_SHOWN_MAX))}{_e(groups)}</span></li>'
    )


def _level(it: Incident) -> Level:
    return Level.GOOD if it.is_over else Level.BAD if it.worst.is_hanging else Level.WARNING


def _state(it: Incident) -> str:
    return "over" if it.is_over else "open"


def _page(incident: Incident, transactional_ids: bool, bootstrap: str, interval_ms: int) -> Page:  # noqa: FBT001
    it = incident if transactional_ids else without_transactional_ids(incident)
    heading = f'Incident <code id="incident">{_e(it.id)}</code>'
    headline = f"<strong>{_state(it).capitalize()}: {_e(in_one_sentence(it))}</strong>"
    parts = [
        head(f"Incident {it.id}", heading, interval_ms, _LINKS),
        f'<div class="banner {_level(it).value}" id="headline" role="status">{headline}</div>',
        "<h2>Suspect transactions</h2>",
        f'<section id="suspects">{"".join(_suspect(one, bootstrap) for one in it.suspects)}</section>',
    ]
    if it.more_suspects:
        parts.append(f'<p id="hidden">{humanize_count(it.more_suspects, "more suspect")} not followed.</p>')
    rows = "".join(
        f"<li><time>{_e(humanize_instant(event.at_ms))}</time> {_e(event.sentence)}</li>" for event in it.events
    )
    parts.append(f'<h2>Time line</h2><ol class="events" id="events">{rows}</ol>')
    if it.more_events:
        parts.append(f"<p>{humanize_count(it.more_events, 'later event')} not kept.</p>")
    parts.append(
        f"<p>To paste into a post-mortem: <code>ktx incident {_e(it.id)} --format markdown</code>, on this machine.</p>"
    )
    return Page(head=as_bytes(parts), rest=as_bytes([foot()]))


def _suspect(it: Suspect, bootstrap: str) -> str:
    """With the next command while it is open, and a suspect."""
    level = Level.BAD if it.worst.is_hanging else Level.WARNING
    ended = "open" if it.ended_at_ms is None else humanize_instant(it.ended_at_ms)
    facts = (
        ("suspect since", humanize_instant(it.suspect_at_ms)),
        ("ended", ended),
        ("start offset", str(it.key.start_offset)),
        ("producer id / epoch", f"{it.key.producer_id} / {it.producer_epoch}"),
        ("transactional id", it.transactional_id or "unknown"),
        ("records held back", "unknown" if it.records_held_back is None else f"{it.records_held_back:,} at most"),
        ("consumer groups blocked", humanize_names(it.groups, shown_max=_NAMES_SHOWN_MAX) or "none seen"),
    )
    step = _what_to_paste(it, bootstrap) if it.ended_at_ms is None and it.verdict.is_suspect else ""
    listed = "".join(f"<div><dt>{_e(name)}</dt><dd>{_e(text)}</dd></div>" for name, text in facts)
    return (
        f'<article class="suspect"><h3><code>{_e(it.name)}</code>'
        f'<span class="tag {level.value}">{_e(it.worst.label)}</span></h3>'
        f"{step}<p>{_e(it.reason)}</p><dl>{listed}</dl></article>"
    )


def _what_to_paste(it: Suspect, bootstrap: str) -> str:
    """The next command, and the line before the commands of the runbook."""
    line = f'<code class="command variables">{_e(variables(it, bootstrap))}</code>'
    return f'{next_step(it, bootstrap)}<p class="quiet">before the runbook\'s commands {line}</p>'
