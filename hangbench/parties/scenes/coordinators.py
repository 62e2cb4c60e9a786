"""Situations of coordinators: stuck with nothing open or with a partition open, two-phase commit, and a restart."""

from __future__ import annotations

from typing import Any

from hangbench.kafka.planting import plant_hang, write_marker
from hangbench.parties.scene import Scene
from hangbench.parties.scenes.owners import behind_one
from hangbench.parties.words import Cause, Collection, Place, Steps
from hangbench.situations.ground import described, wait_past_clocks
from hangbench.situations.steps import HIGHER_COORDINATOR_EPOCH, Client, Transactions, prepared_client
from hangbench.waiting import until

COORDINATORS = Collection()


def _state_of(scene: Scene, transactional_id: str) -> str:
    listed = described(scene.bootstrap, transactional_id)
    return "" if listed is None else listed.state


def commit_past_a_marker(scene: Scene, place: Place, **marker: Any) -> str:
    """The client's commit returns without an error; a marker by hand has its coordinator refused, which gives up."""
    owner = scene.owner_id()
    transaction = Transactions(scene.bootstrap, owner, [place])
    transaction.begin()
    listed = described(scene.bootstrap, owner)
    assert listed is not None
    wait_past_clocks(listed)
    write_marker(scene.bootstrap, *place, listed.producer_id, listed.producer_epoch, **marker)
    transaction.end(commit=True)
    until(lambda: _state_of(scene, owner) == "PrepareCommit")
    return owner


def _stuck_with_nothing_open(scene: Scene, *, commit: bool) -> Steps:
    place = scene.topic(), 0
    owner = commit_past_a_marker(scene, place, coordinator_epoch=HIGHER_COORDINATOR_EPOCH, commit=commit)
    scene.reader(place)
    scene.stand_still((owner, place, Cause.STUCK_AT_COORDINATOR, None))
    yield


@COORDINATORS.add(quick=True)
def stuck_as_decided(scene: Scene) -> Steps:
    """Nothing is open: the partition has the COMMIT marker, and only the coordinator does not know."""
    yield from _stuck_with_nothing_open(scene, commit=True)


@COORDINATORS.add()
def stuck_and_contradicted(scene: Scene) -> Steps:
    """Nothing is open: the partition has an ABORT marker, although the commit is decided."""
    yield from _stuck_with_nothing_open(scene, commit=False)


def _stuck_with_a_partition_open(scene: Scene, *, commit: bool) -> Steps:
    place = scene.topic(), 0
    client = Client.begin(scene.bootstrap, scene.owner_id())
    client.make_its_marker_unwelcome(*place)
    client.open(*place)
    client.end(commit=commit)
    until(lambda: _state_of(scene, client.transactional_id).startswith("Prepare"))
    group = behind_one(scene, place)
    scene.stand_still(
        (client.transactional_id, place, Cause.STUCK_AT_COORDINATOR, None),
        (group, place, Cause.STUCK_AT_COORDINATOR, client.transactional_id),
    )
    yield


@COORDINATORS.add(quick=True)
def stuck_commit_with_a_partition_open(scene: Scene) -> Steps:
    """A partition refuses its COMMIT marker and stays open: the producer cannot start, and a group waits."""
    yield from _stuck_with_a_partition_open(scene, commit=True)


@COORDINATORS.add()
def stuck_abort_with_a_partition_open(scene: Scene) -> Steps:
    """The same with an ABORT marker."""
    yield from _stuck_with_a_partition_open(scene, commit=False)


@COORDINATORS.add()
def producer_stuck_on_one_of_two_partitions(scene: Scene) -> Steps:
    """Of a transaction's two COMMIT markers one was written and one refused: the group of the first partition reads on."""
    topic = scene.topic(partitions=2)
    client = Client.begin(scene.bootstrap, scene.owner_id())
    client.make_its_marker_unwelcome(topic, 0)
    client.open(topic, 0)
    client.open(topic, 1)
    client.end(commit=True)
    held, free = (topic, 0), (topic, 1)
    until(
        lambda: (
            (listed := described(scene.bootstrap, client.transactional_id)) is not None
            and listed.state == "PrepareCommit"
            and listed.partitions == {held}
        )
    )
    group = behind_one(scene, held)
    behind_one(scene, free, what="free")
    owner = client.transactional_id
    scene.stand_still((owner, held, Cause.STUCK_AT_COORDINATOR, None), (group, held, Cause.STUCK_AT_COORDINATOR, owner))
    yield


@COORDINATORS.add(quick=True, versions=["4.3.1"], not_offered="KIP-939 is there from Kafka 4.1 on")
def group_behind_a_prepared_commit(scene: Scene) -> Steps:
    """A transaction of two-phase commit, which no time-out ends: its application decides."""
    place = scene.topic(), 0
    prepared_client(scene.bootstrap, scene.owner_id()).open(*place)
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.PREPARED_2PC, scene.name("owner")))
    yield


@COORDINATORS.add(alone=True)
def coordinator_starts_again(scene: Scene) -> Steps:
    """The broker restarts while an owner is killed and a hang is open: who stands still is the same afterwards."""
    topic = scene.topic(partitions=2)
    scene.process((topic, 0)).kill()
    plant_hang(scene.bootstrap, topic, 1, scene.owner_id("hang"))
    for partition in (0, 1):
        scene.records(topic, partition)
    group = scene.reader((topic, 0), (topic, 1))
    scene.stand_still(
        (group, (topic, 0), Cause.OWNER_SILENT, scene.name("owner")),
        (group, (topic, 1), Cause.HANGING, scene.name("hang")),
    )
    yield
    (broker,) = scene.cluster.brokers
    broker.stop()
    broker.start()
    yield
