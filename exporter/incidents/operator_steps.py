"""Finds in an audit log what operators did about an incident: the steps of `abort` and `complete` on its transactions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from exporter.incidents.incident import Event, EventKind, Incident, by_time

_WORDS = {
    "planned": "planned",
    "refused": "was refused",
    "sending": "sends the marker",
    "answered": "got the broker's response",
    "ended": "ended",
}


def operator_steps(lines: Iterable[str], incident: Incident) -> tuple[Event, ...]:
    """By time. A damaged line, and a step on anything else, is left out: the audit log itself is the record."""
    wanted = {(it.key.topic, str(it.key.partition), str(it.key.start_offset)): it.name for it in incident.suspects}
    events = []
    for line in lines:
        step = _parsed(line)
        name = None if step is None else wanted.get(_which(step))
        if step is not None and name is not None and str(step.get("step")) in _WORDS:
            events.append(_event(step, name))
    return by_time(it for it in events if it is not None)


def _parsed(line: str) -> Mapping[str, Any] | None:
    try:
        step = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return step if isinstance(step, dict) else None


def _which(step: Mapping[str, Any]) -> tuple[str, str, str]:
    """Topic, partition and start offset, as text: a foreign file may hold anything there."""
    plan = step.get("plan")
    facts = plan if isinstance(plan, dict) else step
    return str(facts.get("topic")), str(facts.get("partition")), str(facts.get("start_offset"))


def _event(step: Mapping[str, Any], name: str) -> Event | None:
    try:
        at_ms = int(datetime.fromisoformat(str(step.get("at"))).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
    plan = step.get("plan")
    action = plan.get("action", "") if isinstance(plan, dict) else ""
    said = step.get("sentence") or step.get("outcome") or action
    sentence = f"{name}: a command of {step.get('who')} {_WORDS[str(step.get('step'))]}"
    return Event(at_ms, EventKind.OPERATOR, f"{sentence}: {said}" if said else sentence)
