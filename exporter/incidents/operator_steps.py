"""Finds in an audit log what operators did about suspects: the steps of `abort` and `complete` on their transactions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
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

_Step = tuple[str, str, Event]
"""Producer id and topic id, as text, and what was done. Empty are a topic id that brokers do not have, and both in a log of
version 0.1.0.
"""
Steps = Mapping[tuple[str, str, str], tuple[_Step, ...]]
"""By topic, partition and start offset, as text: a foreign file may hold anything there."""


def steps_of(lines: Iterable[str]) -> Steps:
    """A damaged line, and one about anything else, is left out: the audit log itself is the record."""
    steps: defaultdict[tuple[str, str, str], list[_Step]] = defaultdict(list)
    for line in lines:
        step = _parsed(line)
        if step is not None and str(step.get("step")) in _WORDS:
            plan = step.get("plan")
            facts = plan if isinstance(plan, dict) else step
            topic, partition, start_offset = (str(facts.get(name)) for name in ("topic", "partition", "start_offset"))
            event = _event(step, f"{topic}-{partition}")
            if event is not None:
                producer_id, topic_id = (str(facts.get(name, "")) for name in ("producer_id", "topic_id"))
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


def _parsed(line: str) -> Mapping[str, Any] | None:
    try:
        step = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return step if isinstance(step, dict) else None


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
