"""`incident`: prints an incident that the daemon on this machine has followed, or lists all of them. Sends no request."""

from __future__ import annotations

import json

from exporter.commands.context import Context
from exporter.commands.lines import fit_terminal
from exporter.commands.names import suggestion
from exporter.commands.report import complain
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.daemon.incidents_file import AuditReader, load, path_beside
from exporter.daemon.kept_file import KeptFileError
from exporter.incidents.document import as_json, document
from exporter.incidents.incident import Incident, Incidents
from exporter.publication.page.post_mortem import in_one_sentence, post_mortem
from exporter.publication.paths import url_of


def run(context: Context, settings: Settings) -> int:
    """Prints the incident; returns the exit status."""
    options = context.options
    try:
        if options.id is None:
            print(_list_of(_followed_incidents(context, settings), options.format))
            return ExitStatus.ANSWERED
        incident = incident_named(context, settings, options.id)
    except KeptFileError as error:
        return complain(str(error))
    url = url_of(settings.publish.external_url, settings.fleet_name, incident.id)
    incident = AuditReader(context.audit_path).added_to(incident)
    print(as_json(incident, url) if options.format == "json" else post_mortem(incident, url, settings.fleet_name))
    return ExitStatus.ANSWERED


def _followed_incidents(context: Context, settings: Settings) -> Incidents:
    path = path_beside(context.state_path(settings, settings))
    try:
        is_there = path is not None and path.exists()
    except PermissionError as error:
        raise KeptFileError(f"{path} is closed to this user: run this as root, or as the exporter's user") from error
    if path is None or not is_there:
        where = "there is no state directory" if path is None else f"{path} does not exist"
        is_client_s = "command_config" in vars(context.options)
        but = ": without --command-config, which names others" if is_client_s else ""
        raise KeptFileError(
            f"no incident is known on this machine: {where}; run this where `serve` runs, with the same settings{but}"
        )
    return load(path)


def incident_named(context: Context, settings: Settings, name: str) -> Incident:
    """One that the daemon has followed. Raises KeptFileError with the reason if there is none."""
    incidents = _followed_incidents(context, settings)
    incident = incidents.named(name)
    if incident is None:
        hint = suggestion(name, [known.id for known in incidents.all]) or ": `ktx incident` lists them"
        raise KeptFileError(f"no incident {name} is known{hint}")
    return incident


def _list_of(incidents: Incidents, form: str) -> str:
    if form == "json":
        return json.dumps(document(incidents)["incidents"], indent=2)
    if not incidents.all:
        return "No suspect transaction has been seen yet."
    lines = [
        f"{incident.id}  {'over' if incident.is_over else 'open'}  {in_one_sentence(incident)}"
        for incident in reversed(incidents.all)
    ]
    return fit_terminal("\n".join(lines))
