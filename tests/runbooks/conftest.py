"""The clusters on which runbooks are followed, and the operator's desk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ResourceType,
)

from hangbench.kafka.acls import allow
from hangbench.kafka.cluster import Properties
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, PlantedTransaction
from hangbench.kafka.second_door import PASSWORD, GuardedCluster
from hangbench.situations.steps import Client
from tests.marks import starts
from tests.runbooks.desk import Desk

DAY_MS = 86_400_000
USERS = ("watcher", "without-read", "without-ids", "without-log", "without-topics", "with-one-topic")
"""Users of the second listener: the exporter, with all its grants or without some."""
ONE_TOPIC = "the-one-that-is-seen"
CLUSTER = ResourceType.BROKER  # librdkafka's word for the resource that Kafka calls Cluster

Granted = tuple[tuple[ResourceType, str, AclOperation], ...]
READ_TOPICS: Granted = ((ResourceType.TOPIC, "*", AclOperation.READ),)
DESCRIBE_TOPICS: Granted = ((ResourceType.TOPIC, "*", AclOperation.DESCRIBE),)
DESCRIBE_IDS: Granted = ((ResourceType.TRANSACTIONAL_ID, "*", AclOperation.DESCRIBE),)
DESCRIBE_CLUSTER: Granted = (
    (CLUSTER, "kafka-cluster", AclOperation.DESCRIBE),
    (CLUSTER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS),
)
GRANTS = {
    "watcher": (*READ_TOPICS, *DESCRIBE_IDS, *DESCRIBE_CLUSTER),
    "without-read": (*DESCRIBE_TOPICS, *DESCRIBE_IDS, *DESCRIBE_CLUSTER),
    "without-ids": READ_TOPICS,
    "without-topics": (*DESCRIBE_IDS, *DESCRIBE_CLUSTER),
    "with-one-topic": ((ResourceType.TOPIC, ONE_TOPIC, AclOperation.READ), *DESCRIBE_IDS, *DESCRIBE_CLUSTER),
    "without-log": (*DESCRIBE_TOPICS, *DESCRIBE_IDS, *DESCRIBE_CLUSTER),
}


@pytest.fixture(scope="session")
@starts("broker")
def guarded() -> Iterator[GuardedCluster]:
    """One node with an authorizer, whose coordinator never looks for time-outs. By the plain listener all is allowed."""
    properties: Properties = {
        **HANGS_CAN_BE_PLANTED,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": DAY_MS,
    }
    cluster = GuardedCluster("4.3.1", users=USERS, properties=properties)
    with cluster:
        bindings = [
            allow(user, resource, name, operation)
            for user, granted in GRANTS.items()
            for resource, name, operation in granted
        ]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for made in admin.create_acls(bindings).values():
            made.result(10)
        yield cluster


@pytest.fixture(scope="session")
def overdue(guarded: GuardedCluster) -> tuple[PlantedTransaction, float]:
    """A transaction with a short time-out of its own, and when it began: by the time it is needed it is overdue."""
    client = Client.begin(guarded.bootstrap, "overdue", timeout_ms=100)
    return client.open(guarded.topics.create("overdue"), 0), time.monotonic()


@pytest.fixture
def desk(tmp_path: Path, guarded: GuardedCluster, overdue: tuple[PlantedTransaction, float]) -> Desk:
    """On the guarded cluster, as somebody who may do everything."""
    assert overdue  # asked for here, so that it grows old while other pages are followed
    folder = tmp_path / "desk"
    folder.mkdir()
    made = Desk(folder, {"BOOTSTRAP": guarded.bootstrap, "BROKER": "1"})
    made.has_tools_of(guarded)
    return made


@pytest.fixture
def settings_file(tmp_path: Path, guarded: GuardedCluster) -> Callable[..., Path]:
    """The exporter's settings, `settings_file(user, more, password=...)`, by the second listener of the guarded cluster."""

    def write(user: str, more: str = "", *, password: str = PASSWORD) -> Path:
        (tmp_path / "password").write_text(f"{password}\n")
        path = tmp_path / "config.yaml"
        path.write_text(
            f"kafka:\n  bootstrap.servers: '{guarded.door}'\n  security.protocol: SASL_PLAINTEXT\n"
            f"  sasl.mechanism: PLAIN\n  sasl.username: {user}\n  sasl.password_file: '{tmp_path / 'password'}'\n"
            f"scan: {{interval: 500ms, deadline: 400ms}}\nreload.watch_interval: 100ms\n{more}"
        )
        return path

    return write
