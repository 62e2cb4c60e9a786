"""Incidents as JSON: what is written is read back, and anything else is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.incidents.document import document, incidents_of
from exporter.incidents.incident import NO_INCIDENTS, Incidents
from tests.incidents.cycles import Cycles, blocked, hang


def incidents_of_each_kind() -> Incidents:
    """One that is over, with a group, and one that is open."""
    cycles = Cycles()
    cycles.cycle(0, [hang()], impact=blocked("readers"))
    cycles.cycle(60)
    return cycles.cycle(6_000, [hang(1, producer_id=8)])


@pytest.mark.parametrize("incidents", [NO_INCIDENTS, incidents_of_each_kind()])
def test_what_is_written_is_read(incidents: Incidents) -> None:
    assert incidents_of(json.loads(json.dumps(document(incidents)))) == incidents


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), "another program's"),
        (("version",), 2),
        (("cluster_id",), 7),
        (("incidents",), {}),
        (("incidents", 0, "started_ms"), "1"),
        (("incidents", 0, "started_ms"), -1),
        (("incidents", 0, "started_ms"), 10**18),
        (("incidents", 0, "suspects"), []),
        (("incidents", 0, "suspects", 0, "partition"), True),
        (("incidents", 0, "suspects", 0, "verdict"), "hangs"),
        (("incidents", 0, "suspects", 0, "groups"), [None]),
        (("incidents", 0, "events", 0, "kind"), "party"),
    ],
    ids=lambda value: "/".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_anything_else_is_refused(path: tuple[str | int, ...], value: object) -> None:
    damaged: Any = document(incidents_of_each_kind())
    at = damaged
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    with pytest.raises((ValueError, KeyError, TypeError)):
        incidents_of(damaged)


def test_a_file_of_an_earlier_version_has_no_causes() -> None:
    """It is read, and the causes of its open suspects are searched for."""
    old = document(incidents_of_each_kind())
    for incident in old["incidents"]:
        for suspect in incident["suspects"]:
            del suspect["cause"], suspect["because"]

    assert incidents_of(old) == incidents_of_each_kind()
