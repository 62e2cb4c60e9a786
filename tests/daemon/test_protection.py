"""What a cluster's settings prevent, from whatever a broker returns."""

from __future__ import annotations

import logging

import pytest

from exporter.daemon.cluster_state import ClusterState
from exporter.evaluation.protection import CHECKS, ProtectionState, number_of
from exporter.snapshot import ClusterIdentity
from exporter.snapshot.origin import Protection
from tests.daemon.stand_ins import settings_with


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("2", 2),
        ("604800000", 604_800_000),
        ("", None),
        (None, None),
        ("-1", None),
        ("\u00b2", None),
        ("9" * 5000, None),
    ],
)
def test_only_a_number_of_kafka_is_one(value: str | None, number: int | None) -> None:
    """Whatever else a broker returns is unread, and stops nothing."""
    assert number_of(value) == number
    assert all(check(Protection(state_topic_configs={"min.insync.replicas": value or ""})) for check in CHECKS.values())


def test_the_protection_of_another_cluster_is_not_published() -> None:
    """Other servers in the settings lead to another cluster, whose settings are read after its first cycle."""
    state = ClusterState(None, "a:1")
    state.cluster = ClusterIdentity(cluster_id="A")
    state.protected(Protection())
    settings = settings_with()
    assert state.replaced(ClusterIdentity(cluster_id="A")) is None
    assert state.status(settings, ()).protection is not None
    assert state.replaced(ClusterIdentity(cluster_id="B")) is not None
    assert state.status(settings, ()).protection is None


def test_what_could_not_be_read_is_not_called_good(caplog: pytest.LogCaptureFixture) -> None:
    """Without DESCRIBE_CONFIGS nothing is known."""
    caplog.set_level(logging.INFO)
    nothing = Protection()
    assert {check(nothing).state for check in CHECKS.values()} == {ProtectionState.UNKNOWN}
    ClusterState(None, "a:1").protected(nothing)

    assert caplog.messages == [f"settings that could not be read: {', '.join(CHECKS)}"]
