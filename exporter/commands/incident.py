"""`incident`: prints an incident that the daemon on this machine has followed, or lists all of them. Sends no request."""

from __future__ import annotations

import json

from exporter.commands.context import Context
from exporter.commands.names import meant
from exporter.commands.report import complain
from exporter.commands.rows import printable
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.daemon.incidents_file import IncidentsFile, path_beside
from exporter.evaluation.humanize import humanize_duration
from exporter.incidents.document import document, of_incident
from exporter.incidents.incident import Event, Incident, Incidents, Suspect, by_time
from exporter.publication.page.humanize import humanize_instant
from exporter.publication.page.incidents import in_one_sentence, url_of


def run(context: Context, settings: Settings) -> int:
    """Print it; returns the exit status."""
    options = context.options
    path = path_beside(context.state_path(settings, settings.kafka))
    if path is None or not path.exists():
        where = "there is no state directory" if path is None else f"{path} does not exist"
        complain(f"no incident is known on this machine: {where}; run this where `serve` runs, with the same settings")
        return ExitStatus.COULD_NOT_RUN
    kept = IncidentsFile(context.state_path(settings, settings.kafka), context.audit_path)
    if options.id is None:
        print(_listed(kept.incidents, options.format))
        return ExitStatus.ANSWERED
    incident = kept.incidents.named(options.id)
    if incident is None:
        hint = meant(options.id, [it.id for it in kept.incidents.all]) or ": `ktx incident` lists them"
        complain(f"no incident {options.id} is known{hint}")
        return ExitStatus.COULD_NOT_RUN
    steps = kept.operator_steps(incident)
    print(_told(incident, steps, options.format, url_of(settings.publish.external_url, incident.id)))
    return ExitStatus.ANSWERED


def _listed(incidents: Incidents, form: str) -> str:
    if form == "json":
        return json.dumps(document(incidents)["incidents"], indent=2)
    if not incidents.all:
        return "No suspect transaction has been seen yet."
    lines = [f"{it.id}  {'over' if it.is_over else 'open'}  {in_one_sentence(it)}" for it in reversed(incidents.all)]
    return "\n".join(lines)


def _told(it: Incident, steps: tuple[Event, ...], form: str, url: str | None) -> str:
    if form == "json":
        told = {**of_incident(it), "url": url}
        told["events"] += [{"at_ms": one.at_ms, "kind": one.kind.value, "sentence": one.sentence} for one in steps]
        return json.dumps(told, indent=2)
    return markdown(it, steps, url)


def markdown(it: Incident, steps: tuple[Event, ...], url: str | None) -> str:
    """A post-mortem to fill in: what is known, and headings for what only people know."""
    lines = [f"# Incident {it.id}", "", f"{'Over' if it.is_over else 'Open'}: {in_one_sentence(it)}.", ""]
    lines += [] if url is None else [f"<{url}>", ""]
    lines += ["| partition | start offset | producer id / epoch | transactional id | verdict | open as a suspect |"]
    lines += ["|---|---|---|---|---|---|", *(_row(one) for one in it.suspects), ""]
    lines += [
        "## Who waited",
        "",
        *([f"- {_cell(group)}" for group in it.groups] or ["No blocked group was seen."]),
        "",
    ]
    lines += ["## Evidence", "", *(f"- {_cell(one.name)}: {_cell(one.reason)}" for one in it.suspects), ""]
    lines += ["## Time line", ""]
    lines += [f"- {humanize_instant(one.at_ms)}: {_cell(one.sentence)}" for one in by_time((*it.events, *steps))]
    lines += ["", "## Cause", "", "## What prevents the next one", ""]
    return "\n".join(lines)


def _row(it: Suspect) -> str:
    lasted = "open" if it.ended_at_ms is None else humanize_duration(it.ended_at_ms - it.suspect_at_ms)
    cells = (
        it.name,
        str(it.key.start_offset),
        f"{it.key.producer_id} / {it.producer_epoch}",
        it.transactional_id or "unknown",
        it.worst.label,
        lasted,
    )
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    """Names come from brokers: one line, and no Markdown."""
    plain = printable(text)
    return "".join(f"\\{it}" if it in "\\`*_[]<>|#" else it for it in plain)
