"""The files of settings: named by options, or by the environment where no option names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.commands.context import CLUSTERS_FILE, CONFIG_FILE
from tests.real_brokers.exporting import called


def written(path: Path, servers: str) -> Path:
    path.write_text(f"kafka.bootstrap.servers: {servers}\n")
    return path


@pytest.mark.parametrize("options", [(), ("--config.file",), ("--command-config",)], ids=str)
def test_an_option_wins_over_the_environment(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Any of them: an operator's own login must not be mixed with the exporter's settings."""
    of_pod, own = written(tmp_path / "pod.yaml", "pod:9092"), tmp_path / "own"
    own.write_text(
        "bootstrap.servers=own:9092\n" if options == ("--command-config",) else "kafka.bootstrap.servers: own:9092\n"
    )
    words = [*options, str(own)] if options else []
    run = called(tmp_path, "config", "dump", *words, **{CONFIG_FILE: str(of_pod)})

    assert run.returncode == 0, run.stderr
    (line,) = (line for line in run.stdout.splitlines() if "bootstrap" in line)
    assert ("own:9092" if options else "pod:9092") in line


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
