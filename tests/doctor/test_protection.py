"""`doctor --cluster`: what is not authorized gets the line that grants it."""

from __future__ import annotations

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
