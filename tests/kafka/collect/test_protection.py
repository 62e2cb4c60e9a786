"""Settings that prevent hanging transactions: what brokers refuse has the right that it needs, or their error."""

from __future__ import annotations

from exporter.kafka.collect.protection import read_protection
from exporter.snapshot import STATE_TOPIC
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import Model
from tests.kafka.scene import collector_of, scene


def unread(model: Model) -> tuple[str, ...]:
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        return collector.query(read_protection).unread


def test_refused_settings_name_the_missing_right_once() -> None:
    """The settings of brokers need another right than those of the topic."""
    model = scene()
    model.max_timeout_ms = None

    assert unread(model) == (
        "broker settings: not authorized, needs DESCRIBE_CONFIGS on the cluster",
        f"settings of {STATE_TOPIC}: not authorized, needs DESCRIBE_CONFIGS on topic {STATE_TOPIC}",
    )


def test_another_error_is_named_with_its_broker() -> None:
    """The fake broker knows no settings of topics."""
    assert unread(scene()) == (f"settings of {STATE_TOPIC}: broker 1 responded with INVALID_REQUEST",)
