"""The cycles around an incident are kept beside the state file, within a limit, and `capsule` makes one file of them."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.capsules import file as capsule_file
from exporter.capsules import sharing
from exporter.capsules.file import CapsuleTooLargeError, load, pack, text_size
from exporter.capsules.recording import RecordingConnections, RecordingReader
from exporter.commands.capsule import run
from exporter.commands.status import ExitStatus
from exporter.cycle import EvaluationInput
from exporter.daemon.capsule_folder import CapsuleFolder, reasons_to_keep, recorded_files
from exporter.daemon.incidents_file import IncidentsFile
from exporter.evaluation.memory import Memory
from exporter.incidents.follow import follow
from exporter.incidents.incident import NO_INCIDENTS
from exporter.kafka.client.connections import Address
from exporter.kafka.collect.collector import CollectOptions
from exporter.transaction_log.journal import NO_JOURNAL
from tests.commands.scenes import SETTINGS, context_of
from tests.incidents.cycles import hanging
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.loopback import HOST
from tests.kafka.scene import POLICY, scene

LIMIT = 10_000_000


class Watched:
    """A reader of a fake cluster, its incidents and its folder."""

    def __init__(self, cluster: FakeCluster, state: Path, *, limit: int = LIMIT) -> None:
        addresses = [Address(HOST, port) for port in cluster.ports.values()]
        options = CollectOptions(deadline_s=60, request_timeout_s=20)
        self.reader = RecordingReader(RecordingConnections({}, client_id="tests"), addresses, options)
        self.folder = CapsuleFolder(self.reader.ring, state, limit)
        self.incidents = IncidentsFile(state)
        self.memory = Memory()

    def cycle(self) -> str:
        """One cycle; the id of the newest incident."""
        known = EvaluationInput(memory=self.memory, policy=POLICY)
        evaluation = self.reader.cycle(known, lambda _: NO_JOURNAL)
        self.memory, before = evaluation.memory, self.incidents.incidents
        self.incidents.take(evaluation)
        self.folder.keep(before, self.incidents.incidents)
        return self.incidents.incidents.all[-1].id


def test_first_sight_verdicts_and_the_end_are_kept(tmp_path: Path) -> None:
    """Also the last cycle in which it was open; a cycle without news is not."""
    model, state = scene(), tmp_path / "state-a.json"
    with FakeCluster(model, nodes=2) as cluster:
        watched = Watched(cluster, state)
        incident = watched.cycle()
        for _ in range(3):
            watched.cycle()
        quiet = len(recorded_files(state, incident))
        for partition in (*model.topics["hung"], *model.topics["mixed"]):
            partition.producers.clear()
        watched.cycle()
        watched.reader.close()
    reasons = [load(path).cycles[0].reasons for path in recorded_files(state, incident)]

    assert reasons[0] == ("first sight",)
    assert quiet <= 2, "only proofs changed verdicts"
    assert len(reasons) == quiet + 2
    assert [each[-1] for each in reasons[-2:]] == ["last cycle before its end", "its end"]


def test_a_cycle_that_is_kept_twice_has_both_reasons(tmp_path: Path) -> None:
    """The second suspect's first cycle was the last one."""
    model, state = scene(), tmp_path / "state-a.json"
    with FakeCluster(model, nodes=2) as cluster:
        watched = Watched(cluster, state)
        incident = watched.cycle()
        watched.cycle()
        for partition in (*model.topics["hung"], *model.topics["mixed"]):
            partition.producers.clear()
        watched.cycle()
        watched.reader.close()
    (reasons,) = [
        cycle.reasons
        for path in recorded_files(state, incident)
        for cycle in load(path).cycles
        if "last cycle before its end" in cycle.reasons
    ]

    assert reasons == ("first sight", "last cycle before its end")


def test_the_folder_stays_within_its_limit(tmp_path: Path) -> None:
    """The oldest cycles go first; a cycle that alone is larger is not written."""
    state = tmp_path / "state-a.json"
    with FakeCluster(scene(), nodes=2) as cluster:
        watched = Watched(cluster, state)
        incident = watched.cycle()
        (first,) = recorded_files(state, incident)
        size, (expected,) = first.stat().st_size, load(first).expected
        for limit, left in ((int(size * 2.9), 2), (int(size * 1.5), 1), (10, 0)):
            folder = CapsuleFolder(watched.reader.ring, state, limit)
            unfinished = first.with_name("killed.zip.tmp")
            unfinished.write_bytes(b"x" * size)
            os.utime(unfinished, (0, 0))
            for number in range(4):
                folder._write(f"{incident}-{number}", watched.reader.ring[-1], expected, ("first sight",))
                folder._remove_oldest()
            assert len(list(first.parent.glob("*.zip"))) == left
            assert not unfinished.exists()
        watched.reader.close()


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once."""
    state = tmp_path / "state-a.json"
    (tmp_path / "state-a.capsules").write_text("a file is in its place")
    with FakeCluster(scene(), nodes=2) as cluster, caplog.at_level(logging.WARNING):
        watched = Watched(cluster, state)
        watched.cycle()
        watched.folder.keep(NO_INCIDENTS, watched.incidents.incidents)
        watched.reader.close()

    assert sum("are not recorded" in record.message for record in caplog.records) == 1


def test_reasons_follow_from_two_states_of_the_incidents() -> None:
    """Nothing is kept where nothing changed."""
    first = follow(NO_INCIDENTS, hanging())
    (incident,) = first.all

    assert reasons_to_keep(NO_INCIDENTS, first) == {(incident.id, -1): ("first sight",)}
    assert reasons_to_keep(first, first) == {}


@pytest.mark.parametrize("names", [False, True])
def test_the_command_makes_one_file(names: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: FBT001
    """It has other names unless they are kept, and a summary; it takes the place of no other file."""
    output = tmp_path / "capsule.zip"
    context = context_of(tmp_path, ["incident"])
    state = context.state_path(SETTINGS, SETTINGS)
    assert state is not None
    with FakeCluster(scene(), nodes=2) as cluster:
        watched = Watched(cluster, state)
        incident = watched.cycle()
        watched.cycle()
        watched.reader.close()
    words = ["capsule", incident, "--output", str(output), *(["--names"] if names else [])]

    assert run(context_of(tmp_path, words), SETTINGS) == ExitStatus.ANSWERED
    assert f"Incident {incident}" in capsys.readouterr().out
    assert (b"hung" in b"".join(load(output).expected)) is names
    assert run(context_of(tmp_path, words), SETTINGS) == ExitStatus.COULD_NOT_RUN
    assert "cannot be written: File exists" in capsys.readouterr().err


def test_one_cycle_that_cannot_be_used_costs_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, and the status is that of a result with gaps."""
    output = tmp_path / "capsule.zip"
    state = context_of(tmp_path, ["incident"]).state_path(SETTINGS, SETTINGS)
    assert state is not None
    with FakeCluster(scene(), nodes=2) as cluster:
        watched = Watched(cluster, state)
        incident = watched.cycle()
        watched.reader.close()
    (whole,) = recorded_files(state, incident)
    whole.with_name(f"{incident}-999999999999999.zip").write_bytes(b"")

    assert run(context_of(tmp_path, ["capsule", incident, "--output", str(output)]), SETTINGS) == ExitStatus.INCOMPLETE
    assert len(load(output).cycles) == 1
    assert "999999999999999.zip cannot be used: it is not a zip file" in capsys.readouterr().err
    whole.unlink()
    output.unlink()
    assert run(context_of(tmp_path, ["capsule", incident, "--output", str(output)]), SETTINGS) == 1
    assert not output.exists()


def test_what_nobody_could_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The command keeps the first and the last cycles of too much text; one cycle that is too large is not recorded."""
    model, state = scene(), tmp_path / "state-a.json"
    with FakeCluster(model, nodes=2) as cluster, caplog.at_level(logging.WARNING):
        watched = Watched(cluster, state)
        incident = watched.cycle()
        (recorded,) = map(load, recorded_files(state, incident))
        size = text_size(recorded.cycles[0], recorded.expected[0])
        monkeypatch.setattr(capsule_file, "TEXT_BYTES_MAX", size - 1)
        watched.folder.keep(NO_INCIDENTS, watched.incidents.incidents)
        watched.reader.close()
    several = [replace(recorded, cycles=(replace(recorded.cycles[0], reasons=(str(number),)),)) for number in range(5)]
    monkeypatch.setattr(sharing, "JOINED_BYTES_MAX", 2 * size + size // 2)

    with pytest.raises(CapsuleTooLargeError, match="the text of 1 cycle with so many transactions is of 0 MB"):
        pack(recorded)
    assert [cycle.reasons for cycle in sharing.joined(several).cycles] == [("0",), ("4",)]
    assert "are not recorded" in caplog.text


def test_without_recorded_cycles_it_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The incident may be older, or recording may be off."""
    context = context_of(tmp_path, ["incident"])
    incidents = IncidentsFile(context.state_path(SETTINGS, SETTINGS))
    incidents.take(hanging())
    words = ["capsule", incidents.incidents.all[0].id]

    assert run(context_of(tmp_path, words), SETTINGS) == ExitStatus.COULD_NOT_RUN
    assert "state.capsules is false" in capsys.readouterr().err
