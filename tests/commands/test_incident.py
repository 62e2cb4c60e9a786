"""`incident`: the list, one incident as Markdown and JSON, and what to do where none is known."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from exporter.cli import main
from exporter.commands import explain
from exporter.commands.context import CLUSTERS_FILE, CONFIG_FILE
from exporter.commands.incident import run
from exporter.commands.status import ExitStatus
from exporter.config.fleet import choose_cluster, load_fleet
from exporter.config.loading import ConfigurationError, load
from exporter.daemon import kept_file
from exporter.daemon.incidents_file import IncidentsFile, path_beside
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.incidents.document import document
from exporter.incidents.incident import Incidents, Suspect
from exporter.kafka.collect.collector import Collector
from exporter.kafka.lookups import KafkaRequestError
from tests.commands.scenes import SETTINGS, context_of
from tests.evaluation.builders import snapshot
from tests.incidents.cycles import Cycles, StuckProducer, hang, hanging

ID = "20270115T080000000Z"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state directory in which a daemon has followed a hang."""
    context = context_of(tmp_path, ["incident"])
    IncidentsFile(context.state_path(SETTINGS, SETTINGS)).take(hanging())
    return tmp_path


def test_one_of_a_producer_that_cannot_start_is_explained_by_another_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing needs to be open, so there is no log of a transaction to read."""
    (incident,) = StuckProducer().cycle().all
    path = path_beside(context_of(tmp_path, ["incident"]).state_path(SETTINGS, SETTINGS))
    assert path is not None
    kept_file.save(path, document(Incidents(cluster_id="c", all=(incident,))), bytes_max=100_000)

    assert run(context_of(tmp_path, ["incident"]), SETTINGS) == ExitStatus.ANSWERED
    assert capsys.readouterr().out == f"{incident.id}  open  1 producer cannot start\n"
    explained = explain.run(context_of(tmp_path, ["explain", "--incident", incident.id]), SETTINGS)
    assert explained == ExitStatus.COULD_NOT_RUN
    assert "why --producer-id N says what ends it" in capsys.readouterr().err


def test_what_cannot_be_explained_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a broker is down, the transactions whose partitions it leads are named, and the others explained."""
    suspects = hanging_on(2)

    def wanted(_settings: object, _collector: object, suspect: Suspect) -> Suspect:
        if suspect.partition == 0:
            raise KafkaRequestError("LEADER_NOT_AVAILABLE", "orders-0 has no leader")
        return suspect

    monkeypatch.setattr(explain, "_of_suspect", wanted)
    monkeypatch.setattr(explain, "_explained", lambda *_: SimpleNamespace(gaps=()))
    monkeypatch.setattr(explain, "text", lambda _: ["explained"])
    context = context_of(tmp_path, ["explain", "--incident", ID])

    status = explain._explain(context, SETTINGS, cast("Collector", None), suspects)

    said = capsys.readouterr()
    assert (status, said.out) == (ExitStatus.INCOMPLETE, "explained\n")
    assert "incomplete: orders-0 is not explained: orders-0 has no leader" in said.err


def test_a_partition_that_is_not_read_has_no_known_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """`explain` said that none is open there."""
    unread = evaluate(snapshot([], partitions=1, unread=[0]), Memory(), Policy())
    monkeypatch.setattr(explain, "_judged", lambda *_: unread)

    with pytest.raises(KafkaRequestError, match="is open on orders-0 is not known: 1 partition is unread"):
        explain._open_at(SETTINGS, cast("Collector", None), "orders", 0, 100)


def test_a_suspect_whose_partition_is_not_read_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """`explain --incident` said that it is not open any more."""
    unread = evaluate(snapshot([], partitions=1, unread=[0]), Memory(), Policy())
    monkeypatch.setattr(explain, "_judged", lambda *_: unread)

    with pytest.raises(KafkaRequestError, match="is open on orders-0 is not known: 1 partition is unread"):
        explain._of_suspect(SETTINGS, cast("Collector", None), hanging_on(1)[0])


def hanging_on(partitions: int) -> tuple[Suspect, ...]:
    entries = [hang(number, producer_id=7 + number) for number in range(partitions)]
    return Cycles().cycle(0, entries).all[0].suspects


def test_without_an_id_all_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(context_of(folder, ["incident"]), SETTINGS) == ExitStatus.ANSWERED
    sentence = "1 suspect transaction on 1 partition, up to 50 offsets held back"
    assert capsys.readouterr().out == f"{ID}  open  {sentence}\n"


def test_as_markdown_it_is_a_post_mortem_to_fill_in(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(context_of(folder, ["incident", ID]), SETTINGS) == ExitStatus.ANSWERED
    printed = capsys.readouterr().out
    assert printed.startswith(f"# Incident {ID}\n\nOpen: 1 suspect transaction on 1 partition")
    assert r"| orders-0 | 100 | 7 / 3 | unknown | hanging_no_transactional_id | open |" in printed
    pointer = "(to fill in: the command above names it for a cause that it finds)"
    assert printed.index("`kafka-transaction-exporter explain --incident") < printed.index(pointer)
    headings = [line for line in printed.splitlines() if line.startswith("## ")]
    assert headings == [
        f"## {heading}" for heading in ("Who waited", "Evidence", "Time line", "Cause", "What prevents the next one")
    ]


def test_as_json_it_has_the_documented_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(context_of(folder, ["incident", ID, "--format", "json"]), SETTINGS) == ExitStatus.ANSWERED
    printed = json.loads(capsys.readouterr().out)
    assert (printed["id"], printed["worst_verdict"], printed["ended_ms"]) == (ID, "hanging_no_transactional_id", None)


def test_an_unknown_id_gets_the_nearest_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(context_of(folder, ["incident", f"{ID[:-3]}9Z"]), SETTINGS) == ExitStatus.COULD_NOT_RUN
    assert f"did you mean {ID}?" in capsys.readouterr().err


def test_where_no_daemon_has_run_it_says_where_to_run_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(context_of(tmp_path, ["incident"]), SETTINGS) == ExitStatus.COULD_NOT_RUN
    assert "run this where `serve` runs" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["incident"], ["capsule", ID]])
def test_without_settings_it_asks_for_those_of_the_daemon(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It sends no request: the name of a broker alone would be the wrong advice."""
    monkeypatch.delenv(CONFIG_FILE, raising=False)

    assert main(words) == ExitStatus.COULD_NOT_RUN
    assert "give it the settings of `serve`, as --config.file FILE" in capsys.readouterr().err


def test_in_a_fleet_it_asks_for_the_cluster_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The environment names the fleet already: its common settings alone would lead nowhere."""
    path = tmp_path / "clusters.yaml"
    path.write_text("clusters: {a: {kafka: {bootstrap.servers: b:1}}, c: {kafka: {bootstrap.servers: b:2}}}\n")
    monkeypatch.setenv(CLUSTERS_FILE, str(path))

    assert main(["incident"]) == ExitStatus.WRONG_USAGE
    said = capsys.readouterr().err
    assert "choose it by --cluster NAME, one of a, c" in said
    assert "give it the settings" not in said


def test_a_state_that_only_another_user_may_read_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Systemd closes the state directory to others."""

    def closed(_: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "exists", closed)
    assert run(context_of(folder, ["incident"]), SETTINGS) == ExitStatus.COULD_NOT_RUN
    assert "is closed to this user: run this as root, or as the exporter's user" in capsys.readouterr().err


def test_names_from_brokers_break_neither_a_table_nor_a_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = folder.rglob("*.incidents.json")
    path.write_text(path.read_text().replace('"orders"', r'"or|de\u001brs\n# x"'))
    assert run(context_of(folder, ["incident", ID]), SETTINGS) == ExitStatus.ANSWERED
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert r"| or\|de" in printed
    assert "\n# x" not in printed


@pytest.mark.parametrize("damage", ["{", "[]"])
def test_a_damaged_file_is_an_error_and_stays_where_the_daemon_has_it(
    folder: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = folder.rglob("*.incidents.json")
    path.write_text(damage)
    assert run(context_of(folder, ["incident"]), SETTINGS) == ExitStatus.COULD_NOT_RUN
    assert "is not a file of incidents" in capsys.readouterr().err
    assert path.read_text() == damage


def test_where_the_page_is_known_it_is_linked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = {"kafka.bootstrap.servers": "localhost:1", "publish.external_url": "https://ktx.example.org/"}
    linked = load(file=None, environment={}, flags=flags).settings
    url = f"https://ktx.example.org/incidents/{ID}"
    assert run(context_of(folder, ["incident", ID]), linked) == ExitStatus.ANSWERED
    assert f"\n<{url}>\n" in capsys.readouterr().out
    assert run(context_of(folder, ["incident", ID, "--format", "json"]), linked) == ExitStatus.ANSWERED
    assert json.loads(capsys.readouterr().out)["url"] == url


def test_one_of_a_fleet_is_found_where_its_daemon_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where another cluster has the same brokers; its page is below the cluster's."""
    brokers = "{kafka: {bootstrap.servers: 'localhost:1'}}"
    flags = {"publish.external_url": "https://ktx.example.org/"}
    fleet = load_fleet(("fleet.yaml", f"clusters: {{orders: {brokers}, payments: {brokers}}}"), flags=flags)
    context = context_of(tmp_path, ["incident", ID, "--format", "json"])
    IncidentsFile(context.state_path(fleet.settings, fleet.settings.clusters[1].settings)).take(hanging())

    assert run(context, choose_cluster(fleet, "payments", one=True).settings) == ExitStatus.ANSWERED
    url = f"https://ktx.example.org/clusters/payments/incidents/{ID}"
    assert json.loads(capsys.readouterr().out)["url"] == url
    assert run(context, choose_cluster(fleet, "orders", one=True).settings) == ExitStatus.COULD_NOT_RUN


@pytest.mark.parametrize("url", ["ktx.example.org", "ftp://ktx.example.org", "https://", "https://a:b@ktx.example.org"])
def test_an_address_that_no_browser_can_open_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"publish\.external_url"):
        load(file=None, environment={}, flags={"kafka.bootstrap.servers": "a:1", "publish.external_url": url})
