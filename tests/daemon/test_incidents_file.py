"""Incidents on disk: a restart goes on with them, a damaged file is set aside, a full disk stops nothing."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from exporter.daemon.incidents_file import AuditReader, IncidentsFile, path_beside
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.incidents.follow import follow
from exporter.incidents.incident import NO_INCIDENTS, EventKind
from exporter.snapshot import TransactionKey
from exporter.status import HistoryStatus
from exporter.web.routes import Request
from tests.daemon.stand_ins import Clock, Script, cycle, daemon_on, healthy
from tests.evaluation.builders import NOW_MS, proof, snapshot
from tests.incidents.cycles import hang, hanging


def test_a_restart_goes_on_with_the_incidents_of_the_file(tmp_path: Path) -> None:
    state = tmp_path / "state-a.json"
    first = IncidentsFile(state)
    first.take(hanging())
    again = IncidentsFile(state)
    assert again.incidents == first.incidents
    again.take(hanging(30))
    assert [incident.id for incident in again.incidents.all] == ["20270115T080000000Z"]
    assert path_beside(state) == tmp_path / "state-a.incidents.json"


def test_the_file_is_written_only_when_something_has_changed(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    kept = IncidentsFile(state)
    kept.take(hanging())
    written = tmp_path / "state.incidents.json"
    written.unlink()
    kept.take(hanging(30))
    assert not written.exists()


class Recorded:
    """A history that keeps the causes of each cycle."""

    def __init__(self) -> None:
        self.causes: list[dict[TransactionKey, str]] = []

    def record(self, *arguments: Any) -> None:
        self.causes.append(dict(arguments[3]))

    def start(self) -> None: ...

    def close(self) -> None: ...

    def status(self) -> HistoryStatus:
        return HistoryStatus()


def test_a_cause_is_recorded_in_the_history(tmp_path: Path) -> None:
    """With each cycle in which the hang goes on, also after a restart; not when it is over."""
    state, history = tmp_path / "state.json", Recorded()
    before = IncidentsFile(state)
    before.take(hanging())
    (suspect,) = before.incidents.all[0].suspects
    before.explained({suspect.key: ("late_write", "its marker is at offset 99")}, NOW_MS)
    gone = snapshot(taken_at_ms=NOW_MS + 30_000)
    daemon = daemon_on(Script(hanging(15).snapshot, gone, gone), Clock(), state, history)
    for _ in range(3):
        cycle(daemon)

    assert history.causes == [{suspect.key: "late_write"}] * 2 + [{}]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": "x"}', json.dumps({"format": 1, "version": 1})])
def test_a_damaged_file_is_set_aside(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    written = tmp_path / "state.incidents.json"
    written.write_text(damage)
    kept = IncidentsFile(tmp_path / "state.json")
    assert kept.incidents.all == ()
    assert (tmp_path / "state.incidents.json.damaged-1").read_text() == damage
    assert "incidents start from now" in caplog.text
    kept.take(hanging())
    assert IncidentsFile(tmp_path / "state.json").incidents == kept.incidents


def test_where_the_file_cannot_be_written_incidents_are_followed_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = IncidentsFile(tmp_path / "state.json")
    (tmp_path / "state.incidents.json").mkdir()
    kept.take(hanging())
    assert len(kept.incidents.all) == 1
    assert "a restart would lose the incidents" in caplog.text


def test_begin_and_end_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    kept = IncidentsFile(None, url_of=lambda name: f"https://ktx/{name}")
    kept.take(hanging())
    kept.take(evaluate(snapshot(taken_at_ms=NOW_MS + 30_000), Memory(), Policy()))
    first, last = caplog.messages
    link = "https://ktx/20270115T080000000Z"
    begins = "begins: the transaction on orders-0 is hanging_no_transactional_id: "
    assert first.startswith(f"incident 20270115T080000000Z ({link}) {begins}")
    assert last == "incident 20270115T080000000Z is over"


def test_the_audit_log_is_read_again_when_it_has_grown(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    kept, reader = IncidentsFile(None), AuditReader(audit)
    kept.take(hanging())
    (incident,) = kept.incidents.all
    assert reader.added_to(incident) is incident
    plan = {"topic": "orders", "partition": 0, "start_offset": 100, "action": "abort"}
    step = {"at": "2027-01-15T08:00:00+00:00", "who": "a@b", "step": "planned", "plan": plan}
    for number in (1, 2):
        with audit.open("a") as file:
            file.write(json.dumps(step) + "\n")
        steps = [event for event in reader.added_to(incident).events if event.kind is EventKind.OPERATOR]
        assert len(steps) == number


def test_an_audit_log_that_cannot_be_read_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A FIFO without a writer would stop the daemon."""
    os.mkfifo(tmp_path / "audit.jsonl")
    reader = AuditReader(tmp_path / "audit.jsonl")
    (incident,) = follow(NO_INCIDENTS, hanging()).all
    assert reader.added_to(incident) is reader.added_to(incident) is incident
    (warning,) = caplog.messages
    assert "audit.jsonl cannot be read" in warning


def test_the_daemon_publishes_a_page_for_each_incident() -> None:
    script = Script(healthy(), snapshot([hang()], proof=proof(), taken_at_ms=NOW_MS + 30_000))
    daemon = daemon_on(script, Clock())
    cycle(daemon)
    assert daemon.routes.answer(request("/incidents")).status == 200
    cycle(daemon)
    response = daemon.routes.answer(request("/incidents/20270115T080030000Z"))
    assert (response.status, b"hanging_no_transactional_id" in b"".join(response.chunks)) == (200, True)
    assert daemon.routes.answer(request("/incidents/other")).status == 404


def request(path: str) -> Request:
    return Request(method="GET", path=path, headers={})
