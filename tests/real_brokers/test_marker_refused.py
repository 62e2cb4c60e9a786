"""Markers that are not written on real brokers: a commit may be hidden; a newer epoch of coordinator or producer."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ResourceType,
)

from exporter.evaluation.evaluate import all_rows
from exporter.kafka.markers import MarkerResponse
from exporter.kafka.messages.write_txn_markers import Marker
from exporter.recovery.audit import AuditLog
from exporter.recovery.carry_out import RecoveryOutcome, RecoveryResult, carry_out
from exporter.recovery.partition import DecidingCoordinator, PartitionOnBrokers, PartitionState
from exporter.recovery.plan import Action, plan_for
from hangbench.kafka.acls import allow
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import (
    HANGS_CAN_BE_PLANTED,
    PlantedTransaction,
    init_producer_id,
    plant_hang,
    plant_hang_without_id,
    write_marker,
)
from hangbench.kafka.second_door import GuardedCluster, java_login
from hangbench.waiting import until
from tests.conftest import FreshName, MakeTopic
from tests.marks import starts
from tests.real_brokers.exporting import ended
from tests.watching import Watch

OPERATOR = "operator"
NARROW = "narrow"
"""An operator who may write markers, and may not read every topic."""
BLINKERED = "blinkered"
"""An operator without DESCRIBE on other topics."""
CLUSTER = ResourceType.BROKER  # librdkafka's word for the resource that Kafka calls Cluster


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
@starts("broker")
def guarded(request: pytest.FixtureRequest) -> Iterator[GuardedCluster]:
    """A user who sees everything and may write nothing."""
    cluster = GuardedCluster(request.param, users=[OPERATOR, NARROW, BLINKERED], properties=HANGS_CAN_BE_PLANTED)
    with cluster:
        for resource, operation in (
            (ResourceType.TOPIC, AclOperation.READ),
            (ResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE),
        ):
            grant(cluster, resource, "*", operation)
        grant(cluster, CLUSTER, "kafka-cluster", AclOperation.DESCRIBE)
        yield cluster


def grant(
    cluster: KafkaCluster, resource: ResourceType, name: str, operation: AclOperation, user: str = OPERATOR
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_acls([allow(user, resource, name, operation)]).values():
        made.result(10)


def abort_as_operator(
    cluster: GuardedCluster, topic: str, folder: Path, *, user: str = OPERATOR
) -> subprocess.CompletedProcess[str]:
    properties = folder / "client.properties"
    properties.write_text(java_login(user))
    arguments = ("abort", "--topic", topic, "--partition", "0", "--start-offset", "0", "--yes")
    return ended(folder, "--bootstrap-server", cluster.door, "--command-config", str(properties), *arguments)


def test_a_commit_may_be_on_a_topic_that_may_not_be_read(
    guarded: GuardedCluster, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Its COMMIT is where the operator may not look: an ABORT elsewhere proves nothing, and nothing is written."""
    init_producer_id(guarded.bootstrap, fresh_name("id"))  # makes the coordinators' topic
    seen, unseen = (guarded.topics.create(fresh_name(name), partitions=2) for name in ("seen", "unseen"))
    for resource, name, operation in (
        (ResourceType.TOPIC, "*", AclOperation.DESCRIBE),
        (ResourceType.TOPIC, seen, AclOperation.READ),
        (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.DESCRIBE),
        *((CLUSTER, "kafka-cluster", operation) for operation in (AclOperation.DESCRIBE, AclOperation.ALTER)),
    ):
        grant(guarded, resource, name, operation, NARROW)
    producer_id = 9_500_000_000
    for topic, partition, commit in ((seen, 1, False), (unseen, 0, True)):
        plant_hang_without_id(guarded.bootstrap, topic, partition, producer_id=producer_id)
        write_marker(guarded.bootstrap, topic, partition, producer_id, 0, commit=commit)
    plant_hang_without_id(guarded.bootstrap, seen, 0, producer_id=producer_id)

    refused = until(  # brokers take ACLs over within moments
        lambda: abort_as_operator(guarded, seen, tmp_path, user=NARROW), lambda run: "outcome elsewhere" in run.stdout
    )

    assert refused.returncode == 5, refused.stderr
    assert "outcome elsewhere: unknown. ABORT marker at epoch 0 on" in refused.stdout
    assert "could not be read (TOPIC_AUTHORIZATION_FAILED), so their logs were not searched" in refused.stderr
    assert "the transaction may have been committed elsewhere" in refused.stderr


def test_a_commit_may_be_on_a_topic_that_is_not_visible(
    guarded: GuardedCluster, fresh_name: FreshName, tmp_path: Path
) -> None:
    """The epoch is its own and it was aborted, for all that this operator can see: that does not prove an abort."""
    topic = guarded.topics.create(fresh_name("visible"), partitions=2)
    init_producer_id(guarded.bootstrap, fresh_name("id"))  # makes the coordinators' topic
    producer_id = 9_600_000_000
    for epoch, commit in ((0, True), (1, False)):
        plant_hang_without_id(guarded.bootstrap, topic, 1, producer_id=producer_id, producer_epoch=epoch)
        write_marker(guarded.bootstrap, topic, 1, producer_id, epoch + 1, commit=commit)
    plant_hang_without_id(guarded.bootstrap, topic, 0, producer_id=producer_id, producer_epoch=1)
    for resource, name, operation in (
        (ResourceType.TOPIC, topic, AclOperation.READ),
        (ResourceType.TOPIC, "__transaction_state", AclOperation.DESCRIBE),
        (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.DESCRIBE),
        *(
            (CLUSTER, "kafka-cluster", operation)
            for operation in (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
        ),
    ):
        for user in (BLINKERED, OPERATOR):
            grant(guarded, resource, name, operation, user)

    def shown_to(user: str, expected: str) -> dict[str, Any]:
        properties = tmp_path / f"{user}.properties"
        properties.write_text(java_login(user))
        command = ("find-hanging", "--topic", topic, "--format", "json")

        def rows() -> list[dict[str, Any]]:
            run = ended(tmp_path, "--bootstrap-server", guarded.door, "--command-config", str(properties), *command)
            return json.loads(run.stdout)["transactions"] if run.stdout else []

        # Brokers take ACLs over within moments.
        return until(rows, lambda found: found and found[0]["outcome_evidence"] == expected)[0]

    blinkered, operator = shown_to(BLINKERED, "none"), shown_to(OPERATOR, "aborted")

    assert blinkered["outcome_evidence"] == "none"
    assert "some topics may not be visible: needs DESCRIBE on every topic" in blinkered["outcome_seen"]
    assert operator["outcome_evidence"] == "aborted", operator["outcome_seen"]


class Interrupted(PartitionOnBrokers):
    """Something happens between the last look and the marker."""

    meanwhile: Callable[[], None]

    def write(
        self,
        marker: Marker,
        is_unchanged: Callable[[PartitionState], bool],
        coordinated: DecidingCoordinator | None = None,
    ) -> MarkerResponse | PartitionState:
        def changes_then(look: PartitionState) -> bool:
            it_is = is_unchanged(look)
            self.meanwhile()
            return it_is

        return super().write(marker, changes_then, coordinated)


def aborted_after(
    cluster: KafkaCluster, planted: PlantedTransaction, meanwhile: Callable[[], None], folder: Path
) -> RecoveryResult:
    with Watch(cluster.bootstrap) as watch:
        rows = all_rows(watch.cycle(describe_all=True))
        (row,) = [row for row in rows if (row.topic, row.partition) == (planted.topic, planted.partition)]
        partition = Interrupted(watch.collector, planted.topic, planted.partition)
        partition.meanwhile = meanwhile
        return carry_out(plan_for(Action.ABORT, row), partition, AuditLog(folder / "audit.jsonl", wall_clock=time.time))


def test_a_newer_coordinator_fences_the_marker(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Its coordinator's marker came first, from a newer epoch: the command's marker is refused as too late."""
    topic = make_topic(broker)
    hang = plant_hang(broker.bootstrap, topic, 0, fresh_name("hang"))

    result = aborted_after(
        broker,
        hang,
        lambda: write_marker(broker.bootstrap, topic, 0, hang.producer_id, 0, coordinator_epoch=5),
        tmp_path,
    )

    assert result.outcome is RecoveryOutcome.REFUSED
    assert "(TRANSACTION_COORDINATOR_FENCED): the partition remembers a newer coordinator epoch" in result.sentence


def test_a_newer_producer_epoch_refuses_the_marker(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """The producer came back at a newer epoch at the last moment: the marker is refused, and the message says why."""
    topic = make_topic(broker)
    hang = plant_hang(broker.bootstrap, topic, 0, fresh_name("hang"))

    result = aborted_after(
        broker,
        hang,
        lambda: plant_again(broker, topic, hang),
        tmp_path,
    )

    assert result.outcome is RecoveryOutcome.REFUSED
    assert "(INVALID_PRODUCER_EPOCH): the partition has seen a newer epoch of this producer" in result.sentence


def plant_again(cluster: KafkaCluster, topic: str, hang: PlantedTransaction) -> None:
    plant_hang_without_id(cluster.bootstrap, topic, 0, producer_id=hang.producer_id, producer_epoch=1)
