"""Another cluster behind the name erases nothing: not the incident, not the memory, not the files."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.config.kafka_section import KafkaSettings
from exporter.config.settings import ClusterSettings
from exporter.daemon.daemon import Daemon
from exporter.kafka.errors import AnotherClusterError
from exporter.snapshot import STATE_TOPIC, Snapshot
from tests.daemon.stand_ins import Clock, Script, cycle, daemon_on, get, values
from tests.evaluation.builders import NOW_MS, proof, snapshot
from tests.incidents.cycles import hang

REFUSED = (
    "no broker of the watched cluster responded: broker at b:2 belongs to another cluster: its cluster id is B, not A"
)


def of_a(at_s: int = 0) -> Snapshot:
    return snapshot([hang()], proof=proof(), cluster_id="A", taken_at_ms=NOW_MS + at_s * 1000)


def of_b(at_s: int = 0) -> Snapshot:
    return snapshot(cluster_id="B", taken_at_ms=NOW_MS + at_s * 1000)


def with_ids(taken: Snapshot, prefix: str) -> Snapshot:
    """With the coordinators' topic, and with topic ids."""
    topics = (STATE_TOPIC, *taken.partitions.topics)
    columns = replace(
        taken.partitions,
        topics=topics,
        topic_ids=tuple(f"{prefix}{topic}" for topic in topics),
        topic=taken.partitions.topic + 1,
    )
    return replace(taken, partitions=columns, cluster_id="A")


def with_other_servers(daemon: Daemon) -> None:
    """As after a reload with other bootstrap servers."""
    watched = daemon.jobs[None]
    kafka: KafkaSettings = replace(watched.settings.kafka, bootstrap_servers=(("b", 2),))
    watched.use(ClusterSettings(name=None, settings=replace(watched.settings, kafka=kafka)), frozenset())


def incidents(path: Path) -> list[tuple[str, int | None]]:
    return [(entry["id"], entry["ended_ms"]) for entry in json.loads(path.read_text())["incidents"]]


def test_while_another_cluster_responds_nothing_of_the_watched_one_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The page and the log name both ids; afterwards the same incident goes on, from the same start."""
    state, clock = tmp_path / "state.json", Clock()
    refused = [AnotherClusterError(REFUSED) for _ in range(4)]
    daemon = daemon_on(Script(of_a(), *refused, of_a(600)), clock, state)
    cycle(daemon)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    began = values(daemon)["kafka_suspect_transaction_start_timestamp_seconds"]
    for _ in refused:
        cycle(daemon)
        page = get(daemon, "/")[1]
        assert "its cluster id is B, not A" in page
        assert 'class="good"' not in page
    assert "kafka_transaction_exporter_coverage_complete" not in values(daemon)
    assert get(daemon, "/incidents/20270115T080000000Z")[0] == 200
    assert [record.message for record in caplog.records].count(
        f"cycle failed: {REFUSED}; if it replaces the watched one, move the state file and the file of incidents away, "
        "and restart"
    ) == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files

    cycle(daemon)
    assert values(daemon)["kafka_suspect_transaction_start_timestamp_seconds"] == began
    assert incidents(tmp_path / "state.incidents.json") == [("20270115T080000000Z", None)]


def test_after_a_restart_the_cluster_of_the_file_is_required(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    cycle(daemon_on(Script(of_a()), Clock(), state))
    script = Script()
    daemon_on(script, Clock(), state)
    assert script.recalled == (of_a().identity, True)


def test_a_file_of_a_cluster_behind_other_servers_is_moved_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that was named by mistake, or a cluster that was replaced together with its servers."""
    state = tmp_path / "state.json"
    cycle(daemon_on(Script(of_a()), Clock(), state))
    kept = json.loads(state.read_text())
    state.write_text(json.dumps({**kept, "bootstrap": "elsewhere:9092"}, separators=(",", ":")))
    before, followed = state.read_bytes(), (tmp_path / "state.incidents.json").read_bytes()

    script = Script(of_b())
    cycle(daemon_on(script, Clock(), state))

    assert script.recalled == (of_a().identity, False)
    assert (tmp_path / "state.json.another-cluster-1").read_bytes() == before
    assert (tmp_path / "state.incidents.json.another-cluster-1").read_bytes() == followed
    assert json.loads(state.read_text())["cluster_id"] == "B"
    assert "first-seen times start from now: " in caplog.text
    assert "its cluster id is B, not A" in caplog.text
    assert "incidents start from now: " in caplog.text


@pytest.mark.parametrize("has_two_ids", [True, False])
def test_other_servers_in_the_settings_may_lead_to_another_cluster(tmp_path: Path, *, has_two_ids: bool) -> None:
    """Nothing of the old cluster is overwritten, or ends: its files are moved aside."""
    state = tmp_path / "state.json"
    first, second = (of_a(), of_b(10)) if has_two_ids else (with_ids(of_a(), "a-"), with_ids(of_b(10), "b-"))
    daemon = daemon_on(Script(first, second), Clock(), state)
    cycle(daemon)
    with_other_servers(daemon)
    cycle(daemon)

    aside = tmp_path / "state.incidents.json.another-cluster-1"
    assert incidents(aside) == [("20270115T080000000Z", None)]
    assert len(json.loads((tmp_path / "state.json.another-cluster-1").read_text())["transactions"]) == 1
    assert json.loads(state.read_text())["bootstrap"] == "b:2"
    assert "20270115T080000000Z" not in get(daemon, "/incidents")[1]


def test_other_servers_of_the_same_cluster_change_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    daemon = daemon_on(Script(of_a(), of_a(10)), Clock(), state)
    cycle(daemon)
    with_other_servers(daemon)
    cycle(daemon)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["state.incidents.json", "state.json"]
    assert incidents(tmp_path / "state.incidents.json") == [("20270115T080000000Z", None)]


def test_two_exporters_of_two_clusters_do_not_overwrite_each_others_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each says so once, and reads on."""
    state = tmp_path / "state.json"
    first = daemon_on(Script(of_a(), of_a(10), of_a(20)), Clock(), state)
    cycle(first)
    state.write_text(state.read_text().replace('"cluster_id":"A"', '"cluster_id":"B"'))
    of_the_other = state.read_bytes()
    caplog.set_level(logging.INFO)
    cycle(first)
    cycle(first)

    assert state.read_bytes() == of_the_other
    (warning,) = (record.message for record in caplog.records if "a restart would lose" in record.message)
    assert "state.json is of cluster B" in warning
    assert "give each its own state.file" in warning
    assert values(first)["kafka_transaction_exporter_last_cycle_success"] == 1


def test_incidents_of_another_cluster_are_moved_aside_though_the_state_file_is_gone(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    cycle(daemon_on(Script(of_a()), Clock(), state))
    state.unlink()
    cycle(daemon_on(Script(of_b(10)), Clock(), state))

    assert incidents(tmp_path / "state.incidents.json.another-cluster-1") == [("20270115T080000000Z", None)]
