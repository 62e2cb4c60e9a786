"""Situations of parties: each type of group, offsets that are pending in a transaction, and positions before markers."""

from __future__ import annotations

from functools import partial
from typing import Final

from confluent_kafka import TopicPartition

from hangbench.kafka.groups import commit, share_consumer, share_lag, streams_group
from hangbench.kafka.planting import plant_hang
from hangbench.parties.scene import LONG_MS, Scene
from hangbench.parties.scenes.owners import behind_one
from hangbench.parties.words import Cause, Collection, Place, Steps
from hangbench.situations.steps import Client, Transactions, partition_of
from hangbench.waiting import until

PARTIES = Collection()
OFFSETS: Final = "__consumer_offsets"


def _member_waits(scene: Scene, protocol: str) -> Steps:
    place = scene.topic(), 0
    scene.owner(place)
    scene.records(*place)
    scene.member(place[0], protocol=protocol)
    scene.stand_still((scene.name("group"), place, Cause.OWNER_SILENT, scene.name("owner")))
    yield


@PARTIES.add()
def classic_group_with_a_member(scene: Scene) -> Steps:
    """A member of a classic group waits behind a silent owner."""
    yield from _member_waits(scene, "classic")


@PARTIES.add(versions=["4.3.1"], not_offered="the new protocol of groups is stable from Kafka 4.0 on")
def consumer_group_of_kip_848(scene: Scene) -> Steps:
    """A member of a group of the new protocol waits behind a silent owner."""
    yield from _member_waits(scene, "consumer")


@PARTIES.add(versions=["4.3.1"], not_offered="share groups are stable from Kafka 4.2 on")
def share_group(scene: Scene) -> Steps:
    """A share group of committed records waits behind a silent owner; a share group of all records does not."""
    place = scene.topic(), 0
    scene.owner(place)
    scene.records(*place)
    group = scene.group(has_position=False)
    everything = scene.group("everything", has_position=False)
    scene.stack.enter_context(share_consumer(scene.cluster, group, place[0], "read_committed"))
    scene.stack.enter_context(share_consumer(scene.cluster, everything, place[0], "read_uncommitted"))
    behind = 6  # the owner's record, and five after it
    until(partial(share_lag, scene.cluster, group, place[0]), lambda lag: lag == behind)
    scene.stand_still((group, place, Cause.OWNER_SILENT, scene.name("owner")))
    yield


@PARTIES.add(versions=["4.3.1"], not_offered="streams groups are stable from Kafka 4.2 on")
def streams_group_of_kip_1071(scene: Scene) -> Steps:
    """A Streams group waits behind a hang, which an upstream application left behind."""
    place = scene.topic(), 0
    planted = plant_hang(scene.bootstrap, *place, scene.owner_id())
    scene.records(*place)
    group = scene.group()
    streams_group(scene.cluster, group, place[0], planted.start_offset)
    scene.stand_still((group, place, Cause.HANGING, scene.name("owner")))
    yield


@PARTIES.add()
def three_groups(scene: Scene) -> Steps:
    """Three groups wait behind one silent owner, two at its first record, one in the marker before it."""
    place = scene.topic(records=0), 0
    scene.transaction(*place)
    scene.owner(place)
    scene.records(*place)
    groups = [
        scene.reader(place, what="read"),
        scene.position(place, 2, what="java"),
        scene.position(place, 1, what="one"),
    ]
    scene.stand_still(*((group, place, Cause.OWNER_SILENT, scene.name("owner")) for group in groups))
    yield


@PARTIES.add(quick=True)
def two_groups_one_uncommitted(scene: Scene) -> Steps:
    """Two groups read a partition with a silent owner; the one of all records is at the end and not blocked."""
    place = scene.topic(), 0
    scene.owner(place)
    group = behind_one(scene, place)
    scene.reader(place, what="uncommitted", isolation="read_uncommitted")
    scene.stand_still((group, place, Cause.OWNER_SILENT, scene.name("owner")))
    yield


def _stands_before_a_silent_owner(scene: Scene, place: Place, offset: int) -> None:
    """An owner goes silent after what the log has by now; a group as of Flink stands at `offset`."""
    scene.owner(place)
    scene.records(*place)
    group = scene.position(place, offset)
    scene.stand_still((group, place, Cause.OWNER_SILENT, scene.name("owner")))


@PARTIES.add(quick=True)
def one_marker_before(scene: Scene) -> Steps:
    """A group as of Flink commits the offset after its last record, one marker before the last stable offset."""
    place = scene.topic(records=0), 0
    scene.transaction(*place, records=3)
    _stands_before_a_silent_owner(scene, place, 3)
    yield


@PARTIES.add(quick=True)
def two_markers_before(scene: Scene) -> Steps:
    """Two producers committed at the same time, so that two markers are between Flink's position and the owner."""
    place = scene.topic(records=0), 0
    first, second = (scene.owner(place, what=what, usual=False) for what in ("one", "other"))
    first.end(commit=True)
    second.end(commit=True)
    _stands_before_a_silent_owner(scene, place, 2)
    yield


@PARTIES.add()
def aborted_records_before(scene: Scene) -> Steps:
    """A transaction was aborted just before the owner began, and Flink's position is before its records."""
    place = scene.topic(), 0
    scene.transaction(*place, commit=False, records=3)
    _stands_before_a_silent_owner(scene, place, 3)
    yield


@PARTIES.add()
def markers_before_a_reader(scene: Scene) -> Steps:
    """Markers and aborted records are before the owner's first record, and librdkafka's reader has passed them."""
    place = scene.topic(), 0
    scene.transaction(*place)
    scene.transaction(*place, commit=False, records=3)
    scene.owner(place)
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.OWNER_SILENT, scene.name("owner")))
    yield


def _group_on(scene: Scene, partition: int, what: str = "group") -> str:
    """Returns a group whose own offsets are on this partition of `__consumer_offsets`."""
    names = (f"{what}-{number}" for number in range(1000))
    chosen = next(name for name in names if partition_of(scene.name(name)) == partition)
    return scene.group(chosen, has_position=False)


@PARTIES.add()
def offset_without_add_offsets(scene: Scene) -> Steps:
    """A transactional offset commit that its coordinator does not know hangs; a group beside it reads as before."""
    topic = scene.topic()
    group, beside = _group_on(scene, 0), _group_on(scene, 0, "beside")
    for name in (group, beside):
        commit(scene.cluster, name, topic, 0)
    client = Client.begin(scene.bootstrap, scene.owner_id())
    client.commit_offset_unheard(group, topic)
    scene.stand_still((group, (OFFSETS, 0), Cause.HANGING, scene.name("owner")))
    yield


@PARTIES.add(quick=True)
def offset_of_a_silent_owner(scene: Scene) -> Steps:
    """An application reads, sends its offsets to its transaction and dies: its group cannot read its own position."""
    topic = scene.topic()
    group, beside = _group_on(scene, 1), _group_on(scene, 1, "beside")
    for name in (group, beside):
        commit(scene.cluster, name, topic, 0)
    _send_offsets(scene, group, topic)
    scene.stand_still((group, (OFFSETS, 1), Cause.OWNER_SILENT, scene.name("owner")))
    yield


@PARTIES.add()
def first_offset_of_a_silent_owner(scene: Scene) -> Steps:
    """The same with the very first offset of the group."""
    topic = scene.topic()
    group = _group_on(scene, 2)
    _send_offsets(scene, group, topic)
    scene.stand_still((group, (OFFSETS, 2), Cause.OWNER_SILENT, scene.name("owner")))
    yield


def _send_offsets(scene: Scene, group: str, topic: str) -> None:
    """A client sends the group's offset to its transaction, and goes without an end."""
    producer = Transactions(scene.bootstrap, scene.owner_id(), timeout_ms=LONG_MS).producer
    consumer = scene.consumer(group, "read_committed")
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], consumer.consumer_group_metadata(), 30)
    consumer.close()
