"""Situations that do not change during a look: one node, all planted together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from hangbench import play
from hangbench.detector import Detector
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.kafka.coordinators import GROUP
from hangbench.kafka.planting import (
    HANGS_CAN_BE_PLANTED,
    now_ms,
    plant_hang,
    plant_hang_without_id,
    plant_producers,
    write_marker,
)
from hangbench.situations import steps
from hangbench.situations.ground import coordinator_address, described, until, until_closed
from hangbench.situations.scene import Scene
from hangbench.situations.words import Collection, Lacking, Truth

STILL = Collection("still")
ASKED = Collection("still")
"""One hang, and a question for each option of Kafka's tool."""

MINUTE_MS = 60_000
YEAR_MS = 365 * 86_400_000
PROPERTIES: Properties = {
    **HANGS_CAN_BE_PLANTED,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}


def until_complete(scene: Scene, topic: str) -> None:
    """Wait until the transaction on partition 0 is over for its coordinator too."""

    def is_over() -> bool:
        listed = described(scene.bootstrap, scene.name("id"))
        return listed is not None and not listed.partitions

    until_closed(scene.bootstrap, topic, 0)
    until(is_over, f"{scene.name('id')} is complete")


@STILL.add()
def id_empty(scene: Scene) -> None:
    """A late record came in while its id is Empty at the coordinator."""
    scene.hanging(plant_hang(scene.bootstrap, scene.topic(), 0, scene.name("id")))


@STILL.add()
def id_complete(scene: Scene) -> None:
    """A late record came in on a second partition after its id's transaction was committed: CompleteCommit."""
    topic, client = scene.topic(partitions=2), scene.client()
    client.open(topic, 0)
    client.end(commit=True)
    until_complete(scene, topic)
    scene.hanging(client.write(topic, 1))


@STILL.add()
def id_ongoing_elsewhere(scene: Scene) -> None:
    """The id's transaction is Ongoing on another partition (Apache's case: in progress with different partitions)."""
    topic, client = scene.topic(partitions=2), scene.client()
    scene.live(client.open(topic, 0))
    scene.hanging(client.write(topic, 1))


@STILL.add()
def id_ongoing_here(scene: Scene) -> None:
    """An ordinary open transaction (Apache's case: in progress with the same partition)."""
    scene.live(scene.client().open(scene.topic(), 0))


@STILL.add()
def id_unknown(scene: Scene) -> None:
    """No coordinator has assigned the producer id (Apache's case: no mapped transactional id)."""
    scene.hanging(plant_hang_without_id(scene.bootstrap, scene.topic(), 0, producer_id=8_100_000_001))


@STILL.add()
def older_epoch(scene: Scene) -> None:
    """Open records of an old epoch; the id is Ongoing two epochs later with the same partition, no record there yet."""
    topic = scene.topic()
    hang = plant_hang(scene.bootstrap, topic, 0, scene.name("id"))
    scene.client()
    scene.client().add(topic, [0])
    scene.hanging(hang)


@STILL.add()
def next_epoch(scene: Scene) -> None:
    """Open records of an old epoch; the id is Ongoing at the next one: a fence that the coordinator cannot write yet looks
    the same.
    """
    topic = scene.topic()
    hang = plant_hang(scene.bootstrap, topic, 0, scene.name("id"))
    scene.client().add(topic, [0])
    scene.expect(hang, Truth.HANGING, [Lacking.MAY_BE_FENCED])


@STILL.add()
def older_epoch_taken_over(scene: Scene) -> None:
    """The newer epoch has written too: its marker will end the old record, so nothing hangs any more."""
    topic = scene.topic()
    plant_hang(scene.bootstrap, topic, 0, scene.name("id"))
    scene.live(scene.client().open(topic, 0))


@STILL.add()
def two_hangs_on_one_partition(scene: Scene) -> None:
    """Two producers hang on one partition; the second has the older timestamp."""
    topic = scene.topic()
    scene.hanging(plant_hang(scene.bootstrap, topic, 0, scene.name("first")))
    scene.hanging(plant_hang(scene.bootstrap, topic, 0, scene.name("second"), timestamp_ms=now_ms() - MINUTE_MS))


@STILL.add()
def hang_beside_a_live_one(scene: Scene) -> None:
    """A hang behind a live transaction on the same partition."""
    topic = scene.topic()
    scene.live(scene.client("live").open(topic, 0))
    scene.hanging(plant_hang(scene.bootstrap, topic, 0, scene.name("hang")))


@STILL.add()
def on_consumer_offsets(scene: Scene) -> None:
    """A transactional offset commit that its coordinator does not know hangs on `__consumer_offsets`."""
    coordinator_address(scene.bootstrap, scene.name("group"), GROUP)  # makes the topic
    scene.hanging(scene.client().commit_offset_unheard(scene.name("group"), scene.topic()))


@STILL.add()
def from_the_future(scene: Scene) -> None:
    """The hanging record's timestamp is fifty minutes ahead."""
    timestamp_ms = now_ms() + 50 * MINUTE_MS
    scene.hanging(plant_hang(scene.bootstrap, scene.topic(), 0, scene.name("id"), timestamp_ms=timestamp_ms))


@STILL.add()
def from_thirty_years_ago(scene: Scene) -> None:
    """The hanging record's timestamp is thirty years old."""
    timestamp_ms = now_ms() - 30 * YEAR_MS
    scene.hanging(plant_hang(scene.bootstrap, scene.topic(), 0, scene.name("id"), timestamp_ms=timestamp_ms))


@STILL.add()
def without_timestamp(scene: Scene) -> None:
    """The hanging record's timestamp is -1."""
    scene.hanging(plant_hang(scene.bootstrap, scene.topic(), 0, scene.name("id"), timestamp_ms=-1))


@STILL.add()
def live_replay_of_old_events(scene: Scene) -> None:
    """A live transaction that replays events of thirty years ago."""
    scene.live(scene.client().open(scene.topic(), 0, timestamp_ms=now_ms() - 30 * YEAR_MS))


@STILL.add()
def fifty_live_decoys(scene: Scene) -> None:
    """Fifty live transactions and one hang."""
    topic = scene.topic(partitions=5)
    for number in range(50):
        scene.live(scene.client(f"live-{number}").open(topic, number % 5))
    scene.hanging(plant_hang(scene.bootstrap, topic, 3, scene.name("hang")))


@STILL.add()
def idempotent_producers_only(scene: Scene) -> None:
    """Twenty idle idempotent producers without transactions."""
    plant_producers(scene.bootstrap, scene.topic(), [0], range(8_200_000_001, 8_200_000_021))


@STILL.add()
def committed_and_aborted_only(scene: Scene) -> None:
    """One transaction was committed and one aborted."""
    topic = scene.topic()
    for name, commit in (("done", True), ("undone", False)):
        steps.run_transaction(scene.bootstrap, scene.name(name), [(topic, 0)], commit=commit)
    until_closed(scene.bootstrap, topic, 0)


@STILL.add()
def healed_by_a_marker(scene: Scene) -> None:
    """Somebody aborted the hang."""
    hang = plant_hang(scene.bootstrap, scene.topic(), 0, scene.name("id"))
    write_marker(scene.bootstrap, hang.topic, 0, hang.producer_id, hang.producer_epoch)
    scene.closed(hang)


@STILL.add()
def aborted_by_its_timeout(scene: Scene) -> None:
    """The client was silent for longer than its time-out, and the coordinator aborted the transaction."""
    live = scene.client(timeout_ms=1000).open(scene.topic(), 0)
    until_closed(scene.bootstrap, live.topic, 0)
    scene.closed(live)


@STILL.add()
def healed_on_one_of_two_partitions(scene: Scene) -> None:
    """An id without transaction hung on two partitions, and only one of them was aborted."""
    topic, client = scene.topic(partitions=2), scene.client()
    scene.hanging(client.write(topic, 0))
    healed = client.write(topic, 1)
    write_marker(scene.bootstrap, topic, 1, healed.producer_id, healed.producer_epoch)
    scene.closed(healed)


@STILL.add()
def records_deleted(scene: Scene) -> None:
    """DeleteRecords removed the hanging record; the transaction stays open all the same."""
    hang = plant_hang(scene.bootstrap, scene.topic(), 0, scene.name("id"))
    everything = TopicPartition(hang.topic, 0, hang.start_offset + 1)
    admin = AdminClient({"bootstrap.servers": scene.bootstrap})
    for deleted in admin.delete_records([everything]).values():
        assert deleted.result(30).low_watermark == hang.start_offset + 1
    scene.hanging(hang)


@STILL.add()
def killed_producer(scene: Scene) -> None:
    """A producer's process died by SIGKILL in mid-transaction; until its time-out its coordinator owns the transaction."""
    topic, name = scene.topic(), scene.name("id")
    steps.run_and_die(scene.bootstrap, name, topic)
    listed = described(scene.bootstrap, name)
    assert listed is not None
    scene.live(steps.opened(scene.bootstrap, topic, 0, listed.producer_id, name))


@STILL.add(since="4.0")
def transaction_version_2(scene: Scene) -> None:
    """A client of TransactionVersion 2 committed, has the next epoch now and is in its next transaction."""
    topic, client = scene.topic(), scene.client()
    client.open(topic, 0)
    client.end(commit=True, version_cap=steps.EPOCH_BUMPING_VERSION)
    until_complete(scene, topic)
    scene.live(client.one_epoch_later().open(topic, 0))


@STILL.add(since="4.0")
def transaction_version_2_late_write(scene: Scene) -> None:
    """A hang at the epoch that a TransactionVersion 2 client got from its commit, on a partition that it has not added."""
    topic, client = scene.topic(partitions=2), scene.client()
    client.open(topic, 0)
    client.end(commit=True, version_cap=steps.EPOCH_BUMPING_VERSION)
    until_complete(scene, topic)
    scene.hanging(client.one_epoch_later().write(topic, 1))


def _asked(scene: Scene) -> None:
    topic = scene.topic(partitions=3)
    scene.live(scene.client("live").open(topic, 0))
    scene.hanging(plant_hang(scene.bootstrap, topic, 1, scene.name("hang")))


@ASKED.add()
def asked_by_topic(scene: Scene) -> None:
    """Asked for one topic (Apache's case: lookup of a topic's partitions)."""
    _asked(scene)


@ASKED.add()
def asked_by_topic_and_broker(scene: Scene) -> None:
    """Asked for one topic and one broker (Apache's case: lookup by topic and broker)."""
    _asked(scene)


@ASKED.add()
def asked_by_partition(scene: Scene) -> None:
    """Asked for one partition of a topic (Apache's case: one partition)."""
    _asked(scene)


ASKED_FOR: Mapping[str, Mapping[str, Any]] = {
    "asked by topic": {"broker_ids": ()},
    "asked by topic and broker": {"broker_ids": (1,)},
    "asked by partition": {"broker_ids": (), "partition": 1},
}


def timeline(play: play.Play) -> None:
    """Plant, ask every detector, check the truth before and after. First what is asked for: most look at all there is."""
    still, busy = play.some(STILL.situations), play.some(ASKED.situations)
    play.plant(busy)
    for scene in busy:
        (topic,) = scene.topics
        play.ask([scene], topic=topic, **ASKED_FOR[scene.situation.name])
    play.plant(still)
    play.ask(still)
    play.verify([*still, *busy])


def perform(version: str, detectors: Sequence[Detector]) -> play.Performance:
    cluster = KafkaCluster(version, properties=PROPERTIES)
    return play.perform(cluster, [*STILL.situations, *ASKED.situations], detectors, timeline)
