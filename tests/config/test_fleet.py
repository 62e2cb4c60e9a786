"""The clusters of a fleet: their own settings, the common ones, and the messages about mistakes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from exporter.config.fleet import choose_cluster, load_fleet
from exporter.config.loading import ConfigurationError, WrongUsageError, environment_name
from tests.config.sasl import sasl_of

SHARED = """
kafka:
  security.protocol: SASL_PLAINTEXT
  sasl: {mechanism: PLAIN, username: exporter, password: hunter2}
scan: {interval: 20s, deadline: 15s}
"""
TWO = """
clusters:
  payments:
    kafka: {bootstrap.servers: "payments:9092"}
  orders:
    kafka:
      bootstrap.servers: orders:9092
      sasl.password: other
"""


def problems_of(clusters: str, shared: str = SHARED) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as failure:
        load_fleet(("fleet.yaml", clusters), file=("config.yaml", shared))
    return failure.value.problems


def test_a_cluster_takes_from_the_settings_what_it_does_not_say() -> None:
    """Names and order are those of the file; a cluster's own value overrides a variable."""
    flags = {"kafka.sasl.username": "by-flag"}
    variables = {environment_name("kafka.bootstrap.servers"): "overridden:1"}
    settings = load_fleet(
        ("fleet.yaml", TWO), file=("config.yaml", SHARED), environment=variables, flags=flags
    ).settings

    assert [cluster.name for cluster in settings.clusters] == ["payments", "orders"]
    assert [cluster.settings.kafka.bootstrap for cluster in settings.clusters] == ["payments:9092", "orders:9092"]
    assert [sasl_of(cluster).password for cluster in settings.clusters] == ["hunter2", "other"]
    assert {sasl_of(cluster).username for cluster in settings.clusters} == {"by-flag"}
    assert settings.scan.interval_ms == 20_000
    assert "hunter2" not in repr(settings)


def test_settings_of_a_cluster_travel_to_other_machines() -> None:
    """Executors get them as bytes."""
    clusters = load_fleet(("fleet.yaml", TWO), file=("config.yaml", SHARED)).settings.clusters
    assert pickle.loads(pickle.dumps(clusters)) == clusters  # noqa: S301 - our own, of just now


@pytest.mark.parametrize(
    ("clusters", "sentence"),
    [
        ("", "fleet.yaml: must be a mapping with the one key `clusters`, a mapping of names to clusters"),
        ("clusters: []", "fleet.yaml: must be a mapping with the one key `clusters`, a mapping of names to clusters"),
        ("clusters: {}", "fleet.yaml: must be a mapping with the one key `clusters`, a mapping of names to clusters"),
        (
            "clusters: {a: {kafka: {bootstrap.servers: 'a:1'}}}\nmore: 1",
            "fleet.yaml: must be a mapping with the one key",
        ),
        ("clusters:\n  a: 1", "fleet.yaml:2: a must be a mapping with a section `kafka`"),
        ("clusters:\n  a: {kafka: {bootstrap.servers: 'a:1'}}\n  a: {}", "fleet.yaml:3: 'a' is named twice"),
        (
            "clusters:\n  a:\n    kafka: {bootstrap.server: 'a:1'}",
            "fleet.yaml:3: kafka.bootstrap.server: unknown setting",
        ),
        (
            "clusters:\n  a:\n    publish: {suspects_limit: 1}",
            "fleet.yaml:3: publish.suspects_limit applies to the whole fleet",
        ),
        (
            "clusters:\n  a:\n    scan: {receive_limit: 1GB}",
            "fleet.yaml:3: scan.receive_limit applies to the whole fleet",
        ),
        ("clusters: {a/b: {kafka: {bootstrap.servers: 'a:1'}}}", "fleet.yaml:1: 'a/b' is not a valid cluster name"),
        ('clusters:\n  "a\\nb": {}', "fleet.yaml:2: 'a\\nb' is not a valid cluster name"),
        ("clusters:\n  a: {kafka: {client.id: x}}", "fleet.yaml: cluster a: kafka.bootstrap.servers is not set"),
        ("clusters: {a: {kafka: {bootstrap.servers: '[', }}", "fleet.yaml:1: not valid YAML"),
    ],
)
def test_a_mistake_is_reported_with_its_place(clusters: str, sentence: str) -> None:
    """File and line, and what to do."""
    assert any(problem.startswith(sentence) for problem in problems_of(clusters)), problems_of(clusters)


def test_a_fleet_has_no_second_name() -> None:
    """The name of one cluster would be ignored: it is refused."""
    (problem,) = problems_of(TWO, SHARED + "cluster: {name: payments}\n")
    assert problem == "cluster.name: cannot be given for a fleet, whose clusters have the names in fleet.yaml"


def test_a_mistake_that_all_clusters_share_is_reported_once() -> None:
    """The setting is shared, so the problem is not repeated for each cluster."""
    assert len(problems_of(TWO, SHARED + "web: 1\n")) == 1


def test_one_cluster_can_be_chosen() -> None:
    """With its own values and their places, as a fleet of one or as the settings of a single cluster."""
    loaded = load_fleet(("fleet.yaml", TWO), file=("config.yaml", SHARED))
    fleet, one = choose_cluster(loaded, "orders", one=False), choose_cluster(loaded, "orders", one=True)

    assert [cluster.name for cluster in fleet.settings.clusters] == ["orders"]
    assert (one.settings.clusters, one.settings.cluster_name, one.settings.kafka.bootstrap) == (
        (),
        "orders",
        "orders:9092",
    )
    assert one.written["kafka.sasl.password"].place == "fleet.yaml:8"
    assert choose_cluster(loaded, None, one=False) is loaded
    with pytest.raises(WrongUsageError, match="choose it by --cluster NAME, one of payments, orders"):
        choose_cluster(loaded, None, one=True)
    with pytest.raises(WrongUsageError, match="no such cluster; the file has payments, orders"):
        choose_cluster(loaded, "x", one=False)


OWN_ID = f"{TWO}      client.id: own\n"


@pytest.mark.parametrize(
    ("flag", "chosen", "problem"),
    [
        (
            "kafka.bootstrap.servers",
            "payments",
            (
                "--bootstrap-server (kafka.bootstrap.servers): each cluster has its brokers in fleet.yaml: leave the "
                "option out, and choose a cluster by --cluster NAME"
            ),
        ),
        (
            "kafka.client.id",
            None,
            "--kafka.client.id: cluster orders has a kafka.client.id of its own (fleet.yaml:9): leave the option out",
        ),
    ],
)
def test_a_flag_that_a_cluster_would_override_is_refused(flag: str, chosen: str | None, problem: str) -> None:
    """An operator who names brokers must not write to others."""
    with pytest.raises(WrongUsageError) as failure:
        load_fleet(("fleet.yaml", OWN_ID), file=("config.yaml", SHARED), flags={flag: "other:1"}, chosen=chosen)
    assert failure.value.problems == (problem,)


def test_a_flag_applies_to_a_chosen_cluster_without_the_setting() -> None:
    """Another cluster's block is of no account."""
    flags = {"kafka.client.id": "by-flag"}
    loaded = load_fleet(("fleet.yaml", OWN_ID), file=("config.yaml", SHARED), flags=flags, chosen="payments")
    assert [cluster.settings.kafka.client_id for cluster in loaded.settings.clusters] == ["by-flag"]


def test_what_the_clusters_that_are_not_chosen_refer_to_is_not_read() -> None:
    """Only its own secrets are needed; its state file has the same name as with the others."""
    two = TWO.replace("orders:9092", "payments:9092").replace(
        "sasl.password: other", "sasl.password_file: /nowhere/password"
    )

    assert any("/nowhere/password" in problem for problem in problems_of(two))
    (own,) = load_fleet(("fleet.yaml", two), file=("config.yaml", SHARED), chosen="payments").settings.clusters
    assert own.settings.has_namesakes
    with pytest.raises(WrongUsageError, match="no such cluster; the file has payments, orders"):
        load_fleet(("fleet.yaml", two), file=("config.yaml", SHARED), chosen="x")


def test_a_cluster_has_a_secret_in_its_own_way(tmp_path: Path) -> None:
    """Its file overrides the common password."""
    (tmp_path / "password").write_text("its own")
    two = TWO.replace("sasl.password: other", f"sasl.password_file: {tmp_path}/password")

    clusters = load_fleet(("fleet.yaml", two), file=("config.yaml", SHARED)).settings.clusters

    assert [sasl_of(cluster).password for cluster in clusters] == ["hunter2", "its own"]
