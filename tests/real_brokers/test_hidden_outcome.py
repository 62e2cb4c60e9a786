"""An abort is refused wherever the transaction's COMMIT marker may be on a topic that the operator cannot see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from examples.workload.producers import OpenTransaction, run_transaction
from exporter.kafka.lookups import producers_of
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang_without_id
from hangbench.kafka.second_door import GuardedCluster, java_login
from hangbench.waiting import until
from tests.brokers.messages import committed_records
from tests.marks import starts
from tests.real_brokers.exporting import called
from tests.watching import Watch

CLUSTER = ResourceType.BROKER  # librdkafka's word for the resource that Kafka calls Cluster
HUNG, UNCOMMITTED = "hung", "uncommitted"
OTHERS = ("other.marker", "other.next", "other.unused")
"""The topic with the COMMIT marker, the one of the producer's next transaction, and one without anything of it."""
SUBSETS = [subset for count in range(len(OTHERS) + 1) for subset in combinations(OTHERS, count)]
EVERYTHING = SUBSETS[-1]
"""Its user has READ on `*`: grants by name never show that there is no other topic."""


def user_of(subset: tuple[str, ...], operation: AclOperation) -> str:
    return f"{operation.name.lower()}-{'-'.join(name.removeprefix('other.') for name in subset) or 'nothing'}"


USERS = {
    user_of(subset, operation): (subset, operation)
    for operation in (AclOperation.READ, AclOperation.DESCRIBE)
    for subset in SUBSETS
}


def bindings(user: str) -> Iterator[AclBinding]:
    subset, operation = USERS[user]
    grants = [
        (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.DESCRIBE),
        (CLUSTER, "kafka-cluster", AclOperation.DESCRIBE),
        (CLUSTER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS),
        (CLUSTER, "kafka-cluster", AclOperation.ALTER),
        *((ResourceType.TOPIC, name, AclOperation.READ) for name in (HUNG, UNCOMMITTED, "__transaction_state")),
        *((ResourceType.TOPIC, name, operation) for name in (["*"] if subset == EVERYTHING else subset)),
    ]
    for resource, name, allowed in grants:
        yield AclBinding(
            resource, name, ResourcePatternType.LITERAL, f"User:{user}", "*", allowed, AclPermissionType.ALLOW
        )


def producer_on(cluster: KafkaCluster, topic: str) -> tuple[int, int]:
    """(producer id, epoch) of the one producer that partition 0 remembers."""
    with Watch(cluster.bootstrap) as watch:
        watch.cycle()
        (entry,) = watch.collector.query(lambda client: producers_of(client, topic, 0))
    return entry.producer_id, entry.producer_epoch


class Scene(NamedTuple):
    cluster: KafkaCluster
    door: str
    folder: Path

    def abort(self, user: str, topic: str) -> tuple[int, str]:
        """(exit status, output) of `abort --yes` by this user, with every guard."""
        login = self.folder / f"{user}.properties"
        login.write_text(java_login(user))
        where = ("--topic", topic, "--partition", "0", "--start-offset", "0")
        connection = ("--bootstrap-server", self.door, "--command-config", str(login))
        done = called(self.folder, "abort", *connection, *where, "--yes")
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
@starts("broker")
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A client's commit reached `other.marker`; its late record on `hung` was committed too, and hangs."""
    guarded = GuardedCluster(request.param, users=USERS, properties=HANGS_CAN_BE_PLANTED)
    with guarded as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for made in admin.create_acls([each for user in USERS for each in bindings(user)]).values():
            made.result(30)
        for topic in (HUNG, UNCOMMITTED, *OTHERS):
            cluster.topics.create(topic)
        written_ms = int(time.time() * 1000)
        run_transaction(cluster.bootstrap, "app", [(OTHERS[0], 0)])
        producer_id, epoch = producer_on(cluster, OTHERS[0])
        plant_hang_without_id(
            cluster.bootstrap, HUNG, 0, producer_id=producer_id, producer_epoch=epoch, timestamp_ms=written_ms
        )
        plant_hang_without_id(cluster.bootstrap, UNCOMMITTED, 0)
        folder = tmp_path_factory.mktemp("operators")
        with OpenTransaction(cluster.bootstrap, "app", [(OTHERS[1], 0)]):
            made_scene = Scene(cluster, guarded.door, folder)
            last = list(USERS)[-1]  # its ACLs were made last: brokers take them over in order
            until(lambda: made_scene.abort(last, HUNG), lambda done: "may not be visible" not in done[1])
            yield made_scene


@pytest.mark.parametrize("user", USERS)
def test_less_right_is_never_less_caution(scene: Scene, user: str) -> None:
    """READ, DESCRIBE or nothing on any of the other topics: the committed record is never dropped."""
    status, output = scene.abort(user, HUNG)

    assert status == 5, output
    subset, operation = USERS[user]
    if subset == EVERYTHING and operation is AclOperation.READ:
        assert "a commit elsewhere may be this transaction's" in output
    else:
        assert "may have been committed elsewhere" in output or "a commit elsewhere may be this transaction's" in output


@pytest.mark.parametrize("user", [user for user in USERS if user != user_of(EVERYTHING, AclOperation.READ)])
def test_what_cannot_be_searched_refuses_also_where_nothing_was_committed(scene: Scene, user: str) -> None:
    """The operator cannot know that."""
    status, output = scene.abort(user, UNCOMMITTED)

    assert status == 5, output
    assert "may not be visible" in output or "could not be read" in output


def test_who_sees_everything_may_abort_what_was_not_committed(scene: Scene) -> None:
    """The guard refuses nobody who could look everywhere; the other hang is as it was."""
    status, output = scene.abort(user_of(EVERYTHING, AclOperation.READ), UNCOMMITTED)

    assert status == 0, output
    assert "the transaction is closed" in output
    assert committed_records(scene.cluster, HUNG, 0) == []
