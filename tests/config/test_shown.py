"""Documents made from the table of settings: the schema, the example file, and `config dump`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from docs.generators.example_file import example_file
from docs.generators.settings_schema import settings_schema
from exporter.cli import main
from exporter.commands.config import dump
from exporter.config.loading import environment_name, flag_name, load
from exporter.config.settings import SETTINGS

ROOT = Path(__file__).parents[2]
GOOD = [
    "kafka: {bootstrap.servers: 'a:1'}",
    "kafka: {bootstrap: {servers: [a:1, b:2]}}\nscan: {interval: 10s, deadline: 5s}\nverdicts: {late_padding: 0}",
    (
        "kafka.bootstrap.servers: a:1\nkafka: {sasl: {mechanisms: scram-sha-512, username: u, password: p},\n"
        "  security: {protocol: sasl_plaintext}}"
    ),
    "kafka: {bootstrap.servers: 'a:1'}\npublish: {transactional_ids: false, suspects_limit: '7'}",
]
BAD = [
    "kafka: {bootstrap.servers: 'a:1', sasl.pasword: x}",
    "kafka: {bootstrap.servers: 'a:1'}\nscan: {interval: soon}",
    "kafka: {bootstrap.servers: 'a:1'}\npublish: {partition_series: some}",
    "kafka: {bootstrap.servers: 'a:1'}\npublish: {suspects_limit: -1}",
    "kafka: {bootstrap.servers: 'a:1'}\npublish: [x]",
    "telemetry: {on: true}",
]


def schema_problems(text: str) -> list[str]:
    validator = jsonschema.Draft202012Validator(settings_schema())
    return [error.message for error in validator.iter_errors(yaml.safe_load(text))]


@pytest.mark.parametrize("text", GOOD)
def test_the_schema_takes_what_the_program_takes(text: str) -> None:
    """Nested and dotted keys, other spellings, digits in quotes."""
    load(file=("config.yaml", text), environment={}, flags={})

    assert schema_problems(text) == []


@pytest.mark.parametrize("text", BAD)
def test_the_schema_refuses_what_the_program_refuses(text: str) -> None:
    """Unknown keys, wrong kinds, values out of range."""
    assert schema_problems(text)


def test_the_example_is_good_and_holds_every_setting() -> None:
    """Unchanged, and with every commented value taken in."""
    text = example_file()
    assert load(file=("config.yaml", text), environment={}, flags={}).settings.kafka.bootstrap_servers == (
        ("localhost", 9092),
    )
    taken_in = "\n".join(
        line.replace("# ", "", 1) if line.startswith(("# ", "  # ")) and line.rstrip().endswith(":") else line
        for line in text.splitlines()
    )
    assert all(setting.name.split(".", 1)[1] + ":" in taken_in for setting in SETTINGS)


def test_a_dump_can_be_loaded_and_shows_no_secret() -> None:
    """Every setting with its place, without secrets and the values of references; read again, it is the same."""
    text = (
        "kafka:\n  bootstrap.servers: [a:1, b:2]\n  security.protocol: SASL_SSL\n  sasl.mechanism: PLAIN\n"
        "  sasl.username: ${env:WHO}\n  sasl.password: c4nary\nscan.interval: 20s\n"
        "scan.topics.include: ['${env:WHO}-.*', orders]\n"
    )
    environment = {"WHO": "somebody", environment_name("scan.deadline"): "7s"}
    loaded = load(file=("config.yaml", text), environment=environment, flags={"publish.suspects_limit": "3"})

    dumped = dump(loaded.written)

    assert "c4nary" not in dumped
    assert "somebody" not in dumped
    for line in (
        "  bootstrap.servers: ['a:1', 'b:2']  # config.yaml:2",
        "  sasl.username: ${env:WHO}  # config.yaml:5",
        "  # sasl.password: <secret>  # config.yaml:6",
        "  interval: 20s  # config.yaml:7",
        "  topics.include: ['${env:WHO}-.*', orders]  # config.yaml:8",
        f"  deadline: 7s  # {environment_name('scan.deadline')}",
        f"  suspects_limit: '3'  # {flag_name('publish.suspects_limit')}",
        "  stale_after_cycles: 3  # default",
        "  # ssl.ca.location: not set",
    ):
        assert line in dumped.splitlines()
    again: Any = load(
        file=("dump.yaml", dumped),
        environment={"WHO": "somebody", environment_name("kafka.sasl.password"): "c4nary"},
        flags={},
    ).settings
    assert again == loaded.settings


def test_a_dump_of_a_fleet_is_a_document_for_each_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An alert about the process names no cluster, and its runbook prints the settings all the same."""
    fleet = tmp_path / "clusters.yaml"
    fleet.write_text(
        "clusters:\n  north: {kafka.bootstrap.servers: n:9092}\n  south: {kafka.bootstrap.servers: s:9092}\n"
    )

    assert main(["config", "dump", f"--clusters={fleet}", "--cluster="]) == 0

    north, south = yaml.safe_load_all(capsys.readouterr().out)
    assert (north["kafka"]["bootstrap.servers"], south["kafka"]["bootstrap.servers"]) == ("n:9092", "s:9092")
