"""Writes an incident as a post-mortem to fill in, in Markdown: what is known, and headings for what only people know."""

from __future__ import annotations

import shlex

from exporter.evaluation.humanize import humanize_count, humanize_duration, humanize_names, in_markdown
from exporter.incidents.incident import Incident, Suspect
from exporter.publication.page.humanize import humanize_id, humanize_instant

NOT_SEARCHED = "the logs were not searched for its cause before it ended: the command explain --incident does that"
_NAMES_MAX = 10
_NO_CAUSE = "The evidence has what is known: logs are searched for the causes of open transactions alone."


def in_one_sentence(incident: Incident) -> str:
    """Returns a sentence about the incident, for the top of a page or of a text."""
    if incident.is_of_coordinators:
        return _of_producers(incident)
    lasted = "" if incident.ended_ms is None else f" for {_between(incident.started_ms, incident.ended_ms)}"
    groups = f", {humanize_count(len(incident.groups), 'group')} blocked" if incident.groups else ""
    offsets = incident.records_held_back
    held = "" if offsets is None else f", up to {humanize_count(offsets, 'offset')} held back"
    count = humanize_count(len(incident.suspects) + incident.more_suspects, "suspect transaction")
    ended = sum(suspect.ended_at_ms is not None for suspect in incident.suspects)
    of_them = f" ({ended:,} of them ended)" if ended and not incident.is_over else ""
    return f"{count}{of_them} on {humanize_count(len(incident.partitions), 'partition')}{lasted}{groups}{held}"


def _of_producers(incident: Incident) -> str:
    """Counts each producer once, of an open incident those that still cannot start."""
    damage = ", and a log contradicts its coordinator" if incident.is_contradicted else ""
    if not incident.is_over:
        waiting = {one.key.producer_id for one in incident.suspects if one.ended_at_ms is None}
        return f"{humanize_count(len(waiting) + incident.more_suspects, 'producer')} cannot start{damage}"
    count = len({one.key.producer_id for one in incident.suspects}) + incident.more_suspects
    began_ms = min(one.suspect_at_ms for one in incident.suspects)
    lasted = _between(began_ms, incident.ended_ms or began_ms)
    when = f"{'for at least' if count == 1 else 'within'} {lasted}"
    return f"{humanize_count(count, 'producer')} could not start, {when}{damage}"


def _between(began_ms: int, ended_ms: int) -> str:
    return humanize_duration(ended_ms - began_ms) if ended_ms >= began_ms else "an unknown time (a clock was set back)"


def post_mortem(incident: Incident, url: str | None, cluster: str | None, *, transactional_ids: bool = True) -> str:
    """`url` is that of its page, None if that is unknown; `cluster` has a name in a fleet.

    Without `transactional_ids` the incident has none of them.
    """
    state = "Over" if incident.is_over else "Open"
    lines = [f"# Incident {incident.id}", "", f"{state}: {in_one_sentence(incident)}.", ""]
    lines += [] if url is None else [f"<{url}>", ""]
    lines += ["| partition | start offset | producer id / epoch | transactional id | verdict | from suspicion to end |"]
    lines += ["|---|---|---|---|---|---|", *(_row(one, is_id_shown=transactional_ids) for one in incident.suspects), ""]
    lines += [
        "## Who waited",
        "",
        *(f"- {in_markdown(party)}" for party in _waiting(incident)),
        *_not_seen(incident),
        "",
    ]
    lines += [
        "## Evidence",
        "",
        *(f"- {in_markdown(one.name)}: {in_markdown(one.reason)}" for one in incident.suspects),
        "",
    ]
    lines += ["## Time line", ""]
    lines += [f"- {humanize_instant(one.at_ms)}: {in_markdown(one.sentence)}" for one in incident.events]
    of_fleet = "" if cluster is None else f" --cluster {shlex.quote(cluster)}"
    command = f"kafka-transaction-exporter explain --incident {incident.id}{of_fleet} --format markdown"
    more = f"On the exporter's host, with its settings, `{command}` has the logs' time line, and what prevents it."
    causes = [f"- {in_markdown(one.name)}{_cause(one)}" for one in incident.suspects if one.cause or one.lacks_cause]
    lines += [
        "",
        "## Cause",
        "",
        *(causes or [_NO_CAUSE if incident.is_of_coordinators else "The logs were not searched for it."]),
        "",
    ]
    lines += [] if incident.is_of_coordinators else [more, ""]
    named = "" if incident.is_of_coordinators else ": the command above names it for a cause that it finds"
    lines += ["## What prevents the next one", "", f"(to fill in{named})", ""]
    return "\n".join(lines)


def _cause(suspect: Suspect) -> str:
    if suspect.lacks_cause:
        return f": {NOT_SEARCHED if suspect.ended_at_ms is not None else 'the logs are not searched for its cause yet'}"
    return f" ({suspect.cause}): {in_markdown(suspect.because)}"


def _waiting(incident: Incident) -> tuple[str, ...]:
    """Names who stood still: groups, or applications that could not start."""
    if not incident.is_of_coordinators:
        return incident.groups
    ids = dict.fromkeys(one.transactional_id or f"producer {one.key.producer_id}" for one in incident.suspects)
    return tuple(f"the application of {name}" for name in ids)


def _not_seen(incident: Incident) -> list[str]:
    """Says where no group was seen: an abort may come before the cycle that would have seen one."""
    without = [one.name for one in incident.suspects if not (one.groups or one.is_at_coordinator)]
    later = "groups are seen from the second cycle of a transaction on"
    if without and incident.groups:
        return ["", f"None on {in_markdown(humanize_names(without, shown_max=_NAMES_MAX))}: {later}."]
    return [f"No blocked group was seen: {later}."] if without else []


def _row(suspect: Suspect, *, is_id_shown: bool) -> str:
    lasted = "open" if suspect.ended_at_ms is None else _between(suspect.suspect_at_ms, suspect.ended_at_ms)
    cells = (
        suspect.name,
        "-" if suspect.is_at_coordinator else str(suspect.key.start_offset),
        f"{suspect.key.producer_id} / {suspect.producer_epoch}",
        humanize_id(suspect.transactional_id, is_shown=is_id_shown),
        suspect.worst.label,
        lasted,
    )
    return f"| {' | '.join(in_markdown(cell) for cell in cells)} |"
