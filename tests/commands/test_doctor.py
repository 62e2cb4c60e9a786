"""`doctor` prints one line for each check, and what mends it; its status is for scripts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.kafka.fake_broker import FakeCluster
from tests.kafka.loopback import HOST
from tests.kafka.scene import scene
from tests.real_brokers.exporting import ended

NO_BROKER = ("doctor", "--bootstrap-server", f"{HOST}:1")


def doctor(cluster: FakeCluster, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Asks the second broker."""
    return ended(folder, "doctor", "--bootstrap-server", f"{HOST}:{cluster.ports[1]}", *options)


def test_each_check_is_a_line_and_the_sentence_is_the_sum(tmp_path: Path) -> None:
    """Each check that is not ok has its consequence below it; then the sentence, and lines for an administrator."""
    with FakeCluster(scene(), nodes=2) as cluster:
        cluster.model.unreadable_topics = {"hung"}
        done = doctor(cluster, tmp_path)

    lines = done.stdout.splitlines()
    assert done.returncode == 0
    at = lines.index("limited  partitions        known by their offsets alone, without READ: hung")
    assert lines[at + 1].strip().startswith("-> a hang there is proved once the transactions beside it have completed")
    assert (
        "Hangs can be proved on all 4 visible topics (Kafka's internal ones included), on 1 by offsets alone. Level of"
        in done.stdout
    )
    assert "by offsets, where producers are not shown." in " ".join(done.stdout.split())
    assert "Optional, for what is limited, as an administrator whose login is in admin.properties:" in lines
    assert lines[-1].endswith("--add --allow-principal User:ANONYMOUS --operation Read --topic hung")


def test_json_has_the_same_data(tmp_path: Path) -> None:
    """For scripts: levels, results, consequences, and the rules of a KafkaUser."""
    with FakeCluster(scene(), nodes=2) as cluster:
        cluster.model.unreadable_topics = {"hung"}
        done = doctor(cluster, tmp_path, "--format", "json", "--acls", "strimzi")

    found = json.loads(done.stdout)
    assert (found["provable"], found["topics_provable"], found["topics_visible"]) == ("all", 4, 4)
    assert found["principal"] == "User:ANONYMOUS"
    assert {finding["level"] for finding in found["findings"]} == {"ok", "limited"}
    assert '    name: "hung"' in found["remedies"]


def test_without_a_broker_it_could_not_run(tmp_path: Path) -> None:
    """Status 1, the reason, and what this machine lacks as well."""
    state = tmp_path / "occupied"
    state.write_text("a file in place of the directory")

    done = ended(tmp_path, *NO_BROKER, STATE_DIRECTORY=str(state))

    assert done.returncode == 1
    assert "missing  connection" in done.stdout
    assert "Connection refused" in done.stdout or "ECONNREFUSED" in done.stdout
    assert f"limited  state file        {state}/kafka-transaction-exporter cannot be written" in done.stdout
    assert "No hang can be proved: no broker responds." in done.stdout


@pytest.mark.parametrize("url", ["prometheus:9090", "http://user:password@prometheus:9090"])
def test_a_url_of_prometheus_has_a_scheme_and_no_password(tmp_path: Path, url: str) -> None:
    """Other users of the machine see the command line."""
    done = ended(tmp_path, *NO_BROKER, "--prometheus", url)

    assert done.returncode == 2
    assert "argument --prometheus: must be" in done.stderr
    assert "password@" not in done.stderr


def test_a_pattern_that_matches_no_topic_is_named(tmp_path: Path) -> None:
    """The finding says what a glob was meant to be, also if it matches some; another that matches is not mentioned."""
    with FakeCluster(scene(), nodes=2) as cluster:
        done = doctor(cluster, tmp_path, "--scan.topics.exclude", '["pay*", "mixed", "gone", "hung*"]')

    assert "limited  topics            scan.topics.exclude 'pay*' matches none of 4 visible topics" in done.stdout
    assert "-> it excludes no topic" in done.stdout
    assert "for all such names write 'pay.*'" in done.stdout
    assert "scan.topics.exclude 'gone' matches none of 4 visible topics" in done.stdout
    assert "scan.topics.exclude 'hung*' matches 1 of 4 visible topics" in done.stdout
    assert "it excludes only these" in done.stdout
    assert "for all such names write 'hung.*'" in done.stdout
    assert "'mixed'" not in done.stdout


def test_what_serve_would_not_start_with_or_go_without_is_said(tmp_path: Path) -> None:
    """The sentences are those of `config check`."""
    (tmp_path / "web.yaml").write_text("basic_auth_users:\n  ada: in plain text\n")
    (tmp_path / "baselines.json").write_text("{")
    (tmp_path / "clusters.yaml").write_text(
        "".join(["clusters:\n", *(f"  {name}: {{kafka.bootstrap.servers: '{HOST}:1'}}\n" for name in "ab")])
    )
    files = (f"--publish.web-config-file={tmp_path}/web.yaml", f"--baseline.file={tmp_path}/baselines.json")

    alone = ended(tmp_path, *NO_BROKER, *files, "--format=json")
    fleet = ended(tmp_path, "doctor", f"--clusters={tmp_path}/clusters.yaml", "--state.file=s.json", "--format=json")

    by_check = {finding["check"]: finding for finding in json.loads(alone.stdout)["findings"]}
    assert by_check["start"]["result"].startswith(f"{tmp_path}/web.yaml:2: ")
    assert (by_check["start"]["level"], by_check["start"]["consequence"]) == ("missing", "serve does not start")
    assert by_check["baseline"]["result"].startswith(
        f"baseline.file {tmp_path}/baselines.json would not be used: it is not JSON"
    )
    assert "state.file must be `auto` or `none` for several clusters" in fleet.stdout
