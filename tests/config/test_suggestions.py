"""Errors of settings lead to the cure: the name that was meant, or the file that is missing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pytest

from exporter.config.fleet import load_fleet
from exporter.config.kafka_section import INSTEAD_OF
from exporter.config.loading import ConfigurationError, environment_name, load
from exporter.config.settings import BY_NAME

BROKER: Final = {"kafka.bootstrap.servers": "a:1"}


def problems_of(
    text: str | None, environment: Mapping[str, str] = MappingProxyType({}), flags: Mapping[str, str] = BROKER
) -> list[str]:
    """The errors of a file, None for no file."""
    with pytest.raises(ConfigurationError) as caught:
        load(file=None if text is None else ("config.yaml", text), environment=environment, flags=flags)
    return list(caught.value.problems)


def test_everything_wrong_is_reported_at_once_with_its_line() -> None:
    """Unknown keys name the nearest known one; wrong values say what they must be; every place is given."""
    text = "scan:\n  intervall: 3s\n  deadline: soon\npublish:\n  stale_after_cycles: 0\n"
    environment = {"KAFKA_TRANSACTION_EXPORTER__SCAN__INTERVALL": "1s"}

    assert problems_of(text, environment, {"log.level": "loud"}) == [
        "config.yaml:2: scan.intervall: unknown setting; did you mean scan.interval?",
        (
            "KAFKA_TRANSACTION_EXPORTER__SCAN__INTERVALL: unknown setting; "
            "did you mean KAFKA_TRANSACTION_EXPORTER__SCAN__INTERVAL?"
        ),
        "config.yaml:3: scan.deadline must be a duration such as 500ms, 30s, 5m or 1h",
        "config.yaml:5: publish.stale_after_cycles must be a whole number from 1 to 1000",
        "--log.level: log.level must be one of debug, info, warning, error",
        (
            "kafka.bootstrap.servers is not set: name a broker, for example --bootstrap-server localhost:9092; "
            "with the common file of a fleet also use --clusters FILE"
        ),
    ]


def test_the_file_of_a_fleet_in_the_place_of_the_settings_is_one_error() -> None:
    text = "clusters:\n  payments:\n    kafka:\n      bootstrap.servers: a:9092\n  orders:\n    kafka: {client.id: x}\n"

    assert problems_of(text, flags={"kafka.bootstrap.servers": "a:9092"}) == [
        "config.yaml:2: clusters: unknown setting; the file with the clusters of a fleet is given by --clusters"
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("publish.typo_here", None),
        ("publish.foo", None),
        ("state.path", None),
        ("publish.listen_adress", "publish.listen_address"),
        ("history.dir", "history.directory"),
        ("log.lvl", "log.level"),
        ("foo.bar", None),
        ("listen_address", "publish.listen_address"),
        ("scann.interval", "scan.interval"),
        ("kafka.sasl.passwrd", "kafka.sasl.password"),
        ("kafka.ssl.cert", "kafka.ssl.certificate.location"),
        ("web.config", "publish.web_config_file"),
        ("scan.timeout", None),
        # These are no passwords.
        ("kafka.ssl.provider", None),
        ("kafka.ssl.engine.factory.class", None),
        ("kafka.sasl.jaas.file", None),
    ],
)
def test_only_a_similar_name_is_suggested(written: str, meant: str | None) -> None:
    """The section that two settings share says nothing, nor do the first words of every environment variable."""
    in_file = "" if meant is None else f"; did you mean {meant}?"
    assert problems_of(f"{written}: 1") == [f"config.yaml:1: {written}: unknown setting{in_file}"]
    if "." in written:
        variable = environment_name(written)
        in_environment = "" if meant is None else f"; did you mean {environment_name(meant)}?"
        assert problems_of("", {variable: "1"}) == [f"{variable}: unknown setting{in_environment}"]


@pytest.mark.parametrize("name", [name for name in BY_NAME if name.startswith("kafka.")])
def test_a_setting_of_kafka_without_its_section_is_found(name: str) -> None:
    """Properties of a client's file are often pasted as they are; nothing else is proposed, no password least of all."""
    bare = name.removeprefix("kafka.")
    variable = environment_name(name).replace("__KAFKA__", "__")

    assert problems_of(f"{bare}: 1") == [f"config.yaml:1: {bare}: unknown setting; did you mean {name}?"]
    assert problems_of("", {variable: "1"}) == [f"{variable}: unknown setting; did you mean {environment_name(name)}?"]


@pytest.mark.parametrize("name", INSTEAD_OF)
def test_a_property_of_kafka_s_clients_has_its_own_cure(name: str) -> None:
    """The setting that is nearest to it would be a password; what the cure names is a setting."""
    bare = name.removeprefix("kafka.")
    cure = INSTEAD_OF[name]

    assert problems_of(f"{name}: PEM") == [f"config.yaml:1: {name}: unknown setting; {cure}"]
    assert problems_of(f"{bare}: PEM") == [f"config.yaml:1: {bare}: unknown setting; {cure}"]
    assert {word.rstrip(",") for word in cure.split() if word.startswith("kafka.")} <= {*BY_NAME}


@pytest.mark.parametrize(
    ("name", "must"),
    [
        ("transaction_log.groups", 'must be a list such as [{"name": "orders", "match": "orders-.*"}]'),
        (
            "scan.topics.include",
            'must be a list of regular expressions such as ["orders", "payments-.*"], or one of them',
        ),
        ("kafka.client.id", "is a mapping: it must be a single value, in quotes if it begins with {"),
    ],
)
def test_a_mapping_that_is_none_leads_to_what_the_setting_takes(name: str, must: str) -> None:
    """In quotes a list would be refused again, with another sentence."""
    assert problems_of(f"{name}: {{a: b}}") == [f"config.yaml:1: {name} {must}"]


def test_a_file_without_brokers_may_be_that_of_a_fleet() -> None:
    """With `--clusters` it is valid; without a file, or with this option, the option is not the cure."""
    (of_a_file,) = problems_of("scan.interval: 30s", flags={})
    (of_nothing,) = problems_of(None, flags={})
    with pytest.raises(ConfigurationError) as of_fleet:
        load_fleet(("clusters.yaml", "clusters: {a: {kafka.client.id: x}}"), file=("config.yaml", "scan.interval: 30s"))

    (empty,) = problems_of("scan.interval: 30s\nkafka.bootstrap.servers:", flags={})
    assert empty == f"config.yaml:2: {of_a_file.replace('is not set', 'is empty')}"
    assert of_a_file.endswith("localhost:9092; with the common file of a fleet also use --clusters FILE")
    assert of_nothing.startswith("kafka.bootstrap.servers is not set: ")
    assert "--clusters" not in of_nothing
    block = "clusters.yaml: cluster a: kafka.bootstrap.servers is not set: name its brokers in its block"
    assert of_fleet.value.problems == (block,)
