"""The files of settings: named by options, or by the environment where no option names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.commands.context import CLUSTERS_FILE, CONFIG_FILE
from hangbench.kafka.ports import free_ports
from tests.real_brokers.exporting import called


def written(path: Path, servers: str) -> Path:
    path.write_text(f"kafka.bootstrap.servers: {servers}\n")
    return path


@pytest.mark.parametrize("options", [(), ("--config.file",)], ids=str)
def test_an_option_wins_over_the_environment(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The two are not mixed."""
    of_pod, own = written(tmp_path / "pod.yaml", "pod:9092"), written(tmp_path / "own", "own:9092")
    words = [*options, str(own)] if options else []
    run = called(tmp_path, "config", "dump", *words, **{CONFIG_FILE: str(of_pod)})

    assert run.returncode == 0, run.stderr
    (line,) = (line for line in run.stdout.splitlines() if "bootstrap" in line)
    assert ("own:9092" if options else "pod:9092") in line


def test_an_operator_s_login_is_not_mixed_with_the_exporter_s_settings(tmp_path: Path) -> None:
    """After a runbook's login line every command has --command-config: Kafka is read with it, and with nothing else."""
    exporter_port, port = free_ports(2)
    of_pod, own = written(tmp_path / "pod.yaml", f"127.0.0.1:{exporter_port}"), tmp_path / "client.properties"
    own.write_text(f"bootstrap.servers=127.0.0.1:{port}\n")
    run = called(tmp_path, "find-hanging", "--command-config", str(own), **{CONFIG_FILE: str(of_pod)})

    assert run.returncode == 1
    assert f"127.0.0.1:{port}" in run.stderr
    assert str(exporter_port) not in run.stderr


def test_a_command_about_the_exporter_reads_its_settings_after_the_login_line(tmp_path: Path) -> None:
    """`config check` called a client's file valid there, while the exporter's own settings were not."""
    of_exporter, own = written(tmp_path / "config.yaml", "a:1"), tmp_path / "client.properties"
    own.write_text("bootstrap.servers=own:9092\n")
    login = ("--command-config", str(own))
    right = called(tmp_path, "config", "check", *login, **{CONFIG_FILE: str(of_exporter)})
    alone = called(tmp_path, "config", "check", *login)
    of_exporter.write_text("kafka.bootstrap.servers: a:1\nscan: {intervall: 5s}\npublish.listen_address: 127.0.0.1:1\n")
    wrong = called(tmp_path, "config", "check", *login, **{CONFIG_FILE: str(of_exporter)})
    asked = called(tmp_path, "get", "/metrics", *login, **{CONFIG_FILE: str(of_exporter)})

    assert right.stdout == f"The settings are valid: {of_exporter}\n"
    assert alone.stdout == f"The settings are valid: {own}\n"
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert f"{of_exporter}:2: scan.intervall: unknown setting" in wrong.stderr
    assert "http://127.0.0.1:1/metrics" in asked.stderr


@pytest.mark.parametrize("content", ["", "security.protocol=PLAINTEXT\n"])
def test_a_client_s_file_without_brokers_is_named_with_its_property(content: str, tmp_path: Path) -> None:
    """Its reader knows Kafka's name of the setting, and not this program's."""
    file = tmp_path / "client.properties"
    file.write_text(content)

    run = called(tmp_path, "find-hanging", "--command-config", str(file))

    assert run.returncode == 1
    assert run.stderr.rstrip().endswith(
        f"kafka.bootstrap.servers is not set: name a broker in {file} as bootstrap.servers, or --bootstrap-server "
        "localhost:9092"
    )


def test_the_environment_may_name_a_fleet(tmp_path: Path) -> None:
    """As in the chart's pod: a command takes one cluster of it by its name."""
    settings = tmp_path / "config.yaml"
    settings.write_text("scan.interval: 7s\n")
    fleet = tmp_path / "clusters.yaml"
    fleet.write_text(
        "clusters:\n  north: {kafka.bootstrap.servers: n:9092}\n  south: {kafka.bootstrap.servers: s:9092}\n"
    )
    named = {CONFIG_FILE: str(settings), CLUSTERS_FILE: str(fleet)}
    run = called(tmp_path, "config", "dump", "--cluster=south", **named)

    assert run.returncode == 0, run.stderr
    assert "s:9092" in run.stdout
    assert "n:9092" not in run.stdout
    assert "7s" in run.stdout


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file or directory"), (b"\xff", "it is not text in UTF-8")]
)
def test_a_file_that_cannot_be_read_is_an_error(content: bytes | None, why: str, tmp_path: Path) -> None:
    """In the system's words, without the number and the path of Python's."""
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_bytes(content)
    run = called(tmp_path, "config", "check", **{CONFIG_FILE: str(path)})

    assert run.returncode == 1
    assert run.stderr.endswith(f": {path}: cannot be read: {why}\n")
