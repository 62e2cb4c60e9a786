"""Steps of an audit log: those on the incident's own transactions, and no line that cannot be read."""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.incidents.incident import EventKind, Incident, IncidentEvent
from exporter.incidents.operator_steps import steps_of, with_steps
from exporter.recovery.audit import AuditLog
from tests.evaluation.builders import NOW_MS
from tests.incidents.cycles import Cycles, hang

PLAN = {"action": "abort", "topic": "orders", "partition": 0, "start_offset": 100}


def test_steps_on_its_transactions_are_listed_in_the_order_of_time(tmp_path: Path) -> None:
    (incident,) = Cycles().cycle(0, [hang()]).all
    clock = iter([NOW_MS / 1000 + second for second in range(1, 10)])
    audit = AuditLog(tmp_path / "audit.jsonl", wall_clock=lambda: next(clock))
    facts = {"topic": "orders", "partition": 0, "start_offset": 100}
    other = {**facts, "start_offset": 7}
    audit.step("planned", plan=PLAN)
    audit.step("declined", by="Ctrl-C", **facts)
    audit.step("plan_file", path="p.json", judged=2, transactions=[{**facts, "action": "abort"}])
    audit.step("declined", by="no terminal", transactions=[other, facts, 7])
    audit.step("sending", plan={**PLAN, **other})
    audit.step("confirmed", by="terminal", **facts)
    audit.step("confirmed", by="--yes", transactions=[other])
    audit.step("judged_again", plan=PLAN)
    audit.step("ended", **facts, done=True, sentence="the marker was written")
    steps = steps_in(incident, (tmp_path / "audit.jsonl").read_text().splitlines())
    who = f"{getpass.getuser()}@{socket.gethostname()}"
    assert [(step.at_ms - NOW_MS, step.sentence) for step in steps] == [
        (1000, f"{who} planned an abort of the transaction on orders-0"),
        (2000, f"{who} declined the plan for orders-0 (Ctrl-C): nothing was written"),
        (3000, f"{who} planned an abort of the transaction on orders-0, by a plan file"),
        (4000, f"the plan of {who} for orders-0 was not confirmed, as there was no terminal: nothing was written"),
        (6000, f"{who} confirmed the plan for orders-0 (typed at the terminal)"),
        (8000, f"the command of {who} has judged the transaction on orders-0 again, as it writes"),
        (9000, f"the command of {who} for orders-0 ended: the marker was written"),
    ]


def test_an_unreadable_line_is_left_out() -> None:
    (incident,) = Cycles().cycle(0, [hang()]).all
    step = {"at": "2027-01-15T08:00:00+00:00", "who": "a@b", "step": "planned", "plan": PLAN}
    lines = (
        "",
        "{",
        "[1]",
        json.dumps({**step, "at": "yesterday"}),
        json.dumps({**step, "step": ["planned"]}),
        json.dumps({**step, "plan": {**PLAN, "topic": ["orders"]}}),
        json.dumps({**step, "plan": 7}),
    )
    assert steps_in(incident, lines) == []
    assert len(steps_in(incident, [json.dumps(step)])) == 1


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        ({}, 1),
        ({"producer_id": 7, "topic_id": ""}, 1),
        ({"producer_id": 7, "topic_id": "id-1"}, 1),
        ({"producer_id": 8, "topic_id": ""}, 0),
        ({"producer_id": 7, "topic_id": "id-2"}, 0),
    ],
)
def test_steps_on_another_cluster_are_left_out(facts: dict[str, Any], shown: int) -> None:
    """Its topic has the same name and offset there, and another id; or another producer, where there are no ids."""
    (incident,) = Cycles().cycle(0, [hang()]).all
    (suspect,) = incident.suspects
    assert suspect.key.producer_id == 7
    named = replace(incident, suspects=(replace(suspect, key=suspect.key._replace(topic_id="id-1")),))
    step = {"at": "2027-01-15T08:00:00+00:00", "who": "a@b", "step": "ended", **PLAN, **facts}

    assert len(steps_in(named, [json.dumps(step)])) == shown


def steps_in(incident: Incident, lines: Iterable[str]) -> list[IncidentEvent]:
    return [event for event in with_steps(incident, steps_of(lines)).events if event.kind is EventKind.OPERATOR]
