"""`doctor --cluster`: what is not authorized gets the line that grants it."""

from __future__ import annotations

import pytest

from exporter.config.loading import load
from exporter.doctor.protection import of_protection
from exporter.doctor.remedies import acl_lines, strimzi_rules
from exporter.kafka.collect.protection import read_protection
from exporter.snapshot.origin import Protection
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import Model
from tests.kafka.scene import collector_of, scene


def of(model: Model) -> Protection:
    with FakeCluster(model, nodes=1) as cluster, collector_of(cluster) as collector:
        return collector.query(read_protection)


def test_settings_of_the_transaction_log_that_are_refused_get_a_line() -> None:
    """Only they: the grant for settings of brokers belongs to the finding `broker settings`."""
    model = scene()
    model.max_timeout_ms = None
    findings = tuple(of_protection(of(model), ""))
    lines = acl_lines(findings, principal="User:e", bootstrap="a:1")

    assert [line.partition("--allow-principal ")[2] for line in lines] == [
        "User:e --operation DescribeConfigs --topic __transaction_state"
    ]
    assert "  operations: [DescribeConfigs]" in "\n".join(strimzi_rules(findings))


def test_another_error_gets_none() -> None:
    """The fake broker refuses the topic's settings as an invalid request."""
    assert acl_lines(tuple(of_protection(of(scene()), "")), principal="User:e", bootstrap="a:1") == ()


@pytest.mark.parametrize(
    ("releases", "is_offered"), [({1: "4.3", 2: "4.0"}, True), ({1: "4.3", 2: "3.9"}, False), ({}, True)]
)
def test_a_feature_that_a_broker_does_not_have_gets_no_command(releases: dict[int, str], *, is_offered: bool) -> None:
    """Its controller refuses it; the upgrade of the brokers comes first."""
    found = Protection(features={"metadata.version": 21}, releases=releases)
    (advice,) = (
        each.advice for each in of_protection(found, "--bootstrap-server a:1") if "transaction.version" in each.result
    )

    assert ("kafka-features.sh" in advice) is is_offered
    assert ("brokers of Kafka 3.9 do not have it: upgrade them first" in advice) is not is_offered


def test_commands_against_a_cluster_with_logins_name_the_file_of_an_administrator() -> None:
    """The exporter's own login may not alter settings, and the remedies below name this file, too."""
    found = Protection(broker_configs={1: {"transaction.partition.verification.enable": "false"}})
    given = {"kafka.bootstrap.servers": "a:1", "kafka.security.protocol": "SSL"}
    login = load(file=None, environment={}, flags=given).settings.kafka
    (advice,) = (
        each.advice
        for each in of_protection(found, login.connection_of_tools)
        if "partition.verification" in each.result
    )

    assert "(an administrator's login is in admin.properties): kafka-configs.sh" in advice
    assert "--command-config admin.properties --alter" in advice
