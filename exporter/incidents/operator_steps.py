"""Finds in an audit log what operators did about suspects: the steps of `abort` and `complete` on their transactions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from exporter.incidents.incident import EventKind, Incident, IncidentEvent, by_time

_SENTENCES = {
    "planned": "{who} planned {action} of the transaction on {place}",
    "plan_file": "{who} planned {action} of the transaction on {place}, by a plan file",
    "judged_again": "the command of {who} has judged the transaction on {place} again, as it writes",
    "confirmed": "{who} confirmed the plan for {place} ({by})",
    "declined": "{who} declined the plan for {place} ({by}): nothing was written",
    "refused": "the command of {who} for {place} was refused: {said}",
    "sending": "the command of {who} sends the marker to {place}",
    "answered": "the broker's response to the command of {who} for {place}: {said}",
    "ended": "the command of {who} for {place} ended: {said}",
}
_ACTIONS = {"abort": "an abort", "complete": "the completion"}
_WITHOUT_TERMINAL = "the plan of {who} for {place} was not confirmed, as there was no terminal: nothing was written"
_UNSAID = "its words are in the audit log"
_BY = {"terminal": "typed at the terminal"}

_Step = tuple[str, str, IncidentEvent]
"""Producer id and topic id, as text, and what was done. Empty are a topic id that brokers do not have, and both in a log of
version 0.1.0.
"""
Steps = Mapping[tuple[str, str, str], tuple[_Step, ...]]
"""Steps by topic, partition and start offset, as text: a foreign file may hold anything there."""


def steps_of(lines: Iterable[str]) -> Steps:
    """A damaged line, and one about anything else, is left out: the audit log itself is the record."""
    steps: defaultdict[tuple[str, str, str], list[_Step]] = defaultdict(list)
    for step in filter(None, map(parsed_step, lines)):
        at_ms = instant_of(step)
        if at_ms is None:
            continue
        for facts in transactions_of(step):
            topic, partition, start_offset = (str(facts.get(name)) for name in ("topic", "partition", "start_offset"))
            producer_id, topic_id = (str(facts.get(name, "")) for name in ("producer_id", "topic_id"))
            event = IncidentEvent(
                at_ms, EventKind.OPERATOR, _sentence(step, facts, _said(step)), _sentence(step, facts, _UNSAID)
            )
            steps[topic, partition, start_offset].append((producer_id, topic_id, event))
    return {key: tuple(events) for key, events in steps.items()}


def with_steps(incident: Incident, steps: Steps) -> Incident:
    """The incident with the steps on its transactions in its time line.

    The log may be of several clusters, in which topics have the same names and offsets, and never the same ids.
    """
    found = tuple(
        event
        for key in (suspect.key for suspect in incident.suspects)
        for producer_id, topic_id, event in steps.get((key.topic, str(key.partition), str(key.start_offset)), ())
        if producer_id in ("", str(key.producer_id)) and (not topic_id or not key.topic_id or topic_id == key.topic_id)
    )
    return replace(incident, events=by_time((*incident.events, *found))) if found else incident


def parsed_step(line: str) -> Mapping[str, Any] | None:
    """The step of a line; None for a line that is damaged, and for a step without a sentence here."""
    try:
        step = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return step if isinstance(step, dict) and str(step.get("step")) in _SENTENCES else None


def instant_of(step: Mapping[str, Any]) -> int | None:
    """The instant of a step in ms since 1970 UTC; None if the line has none."""
    try:
        return int(datetime.fromisoformat(str(step.get("at"))).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def _plan(step: Mapping[str, Any]) -> Mapping[str, Any] | None:
    plan = step.get("plan")
    return plan if isinstance(plan, dict) else None


def transactions_of(step: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Returns the transactions of a step: one, or several with a plan file."""
    several = step.get("transactions")
    if isinstance(several, list):
        return tuple(facts for facts in several if isinstance(facts, dict))
    plan = _plan(step)
    return (step if plan is None else plan,)


def _said(step: Mapping[str, Any]) -> str:
    return str(step.get("sentence") or step.get("outcome") or "no reason is in the audit log")


def _sentence(step: Mapping[str, Any], facts: Mapping[str, Any], said: str) -> str:
    action, by = str(facts.get("action", "")), str(step.get("by"))
    place = f"{facts.get('topic')}-{facts.get('partition')}"
    sentence = _WITHOUT_TERMINAL if by == "no terminal" else _SENTENCES[str(step.get("step"))]
    return sentence.format(
        who=step.get("who"),
        place=place,
        action=_ACTIONS.get(action, action),
        by=_BY.get(by, by),
        said=said,
    )
