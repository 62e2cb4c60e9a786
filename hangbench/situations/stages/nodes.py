"""Situations of brokers that are down: one of three nodes stops, its leaders move, and it comes back.

`__transaction_state` has one replica, its last partition on node 3 and all others on node 1; node 2 leads data only.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from hangbench.detector import Detector
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, PlantedTransaction, plant_hang, plant_hang_without_id
from hangbench.play import Performance, Play, failing_alone
from hangbench.play import perform as perform_stage
from hangbench.situations.ground import described, leader_ids, producers_at, until, until_closed
from hangbench.situations.scene import Scene
from hangbench.situations.steps import STATE_TOPIC, Client, opened, partition_of, state_once_clear
from hangbench.situations.words import Collection, Lacking, Truth

SILENT = Collection("nodes")
GIVEN_UP = Collection("nodes")
BACK = Collection("nodes")
LAGGING = Collection("nodes")
SKIPPED = Collection("nodes")
DATA_ONLY = Collection("nodes")

STATE_LEADERS = [1, 1, 1, 1, 3]
OF_NODE_3 = 4
"""The partition of `__transaction_state` that node 3 leads."""
NO_LEADER = -1
UNSURE = Lacking.LEADERSHIP_UNCONFIRMED
"""Where the silent node was the active controller: brokers wait for it for up to half a minute before they turn to the
next, and cannot show meanwhile that they are in touch with one.
"""
PROPERTIES: Properties = {
    **HANGS_CAN_BE_PLANTED,
    "transaction.state.log.replication.factor": 1,
    "offsets.topic.replication.factor": 1,
}


def id_coordinated_by(scene: Scene, node_id: int, what: str) -> str:
    """A transactional id whose coordinator is this node."""
    partitions = [partition for partition, leader in enumerate(STATE_LEADERS) if leader == node_id]
    names = (scene.name(f"{what}-{number}") for number in itertools.count())
    return next(name for name in names if partition_of(name, len(STATE_LEADERS)) in partitions)


def topic_on(scene: Scene, *node_ids: int, what: str = "") -> str:
    """A topic with one partition on each of these nodes."""
    return scene.own(scene.cluster.topics.create_on(scene.name(what), list(node_ids)))


def live(scene: Scene, topic: str, partition: int, coordinator: int, what: str = "live") -> PlantedTransaction:
    return Client.begin(scene.bootstrap, id_coordinated_by(scene, coordinator, what)).open(topic, partition)


def hang(scene: Scene, topic: str, partition: int, coordinator: int, what: str = "hang") -> PlantedTransaction:
    return plant_hang(scene.bootstrap, topic, partition, id_coordinated_by(scene, coordinator, what))


@SILENT.add(is_racy=True)
def coordinator_silent(scene: Scene) -> None:
    """One coordinator, of a live transaction elsewhere, has stopped (SIGSTOP): its sockets accept and stay silent."""
    topic = topic_on(scene, 1, 1, 1, 1)
    # The second: on a machine so slow that the others have already replaced it before the look.
    unanswered = Lacking.COORDINATOR_UNANSWERED, Lacking.STATE_PARTITION_OFFLINE, UNSURE
    scene.expect(live(scene, topic, 0, coordinator=3), Truth.LIVE, unanswered)
    scene.live(live(scene, topic, 1, coordinator=1, what="other"))
    scene.expect(hang(scene, topic, 2, coordinator=1), Truth.HANGING, [UNSURE], may_be_known=True)
    unknown = plant_hang_without_id(scene.bootstrap, topic, 3, producer_id=8_400_000_002)
    scene.expect(unknown, Truth.HANGING, unanswered)


@SILENT.add(is_racy=True)
def in_sync_replica_silent(scene: Scene) -> None:
    """An in-sync replica has stopped (SIGSTOP) and may have the marker that the leader lacks: nothing is proved."""
    topic = replicated_topic(scene, {"min.insync.replicas": "1"})
    planted = hang(scene, topic, 0, coordinator=1)
    reasons = Lacking.REPLICA_UNREAD, UNSURE
    # Proved on a machine so slow that the replica has already left the in-sync set before the look.
    scene.expect(planted, Truth.HANGING, reasons, may_be_known=True)


@GIVEN_UP.add(is_racy=True)
def coordinator_offline(scene: Scene) -> None:
    """The broker with one coordinator is down, and its state partition has no leader; it owns one live transaction."""
    topic = topic_on(scene, 1, 1)
    offline = Lacking.STATE_PARTITION_OFFLINE
    scene.expect(live(scene, topic, 0, coordinator=3), Truth.LIVE, [offline, UNSURE])
    unknown = plant_hang_without_id(scene.bootstrap, topic, 1, producer_id=8_400_000_001)
    scene.expect(unknown, Truth.HANGING, [offline, UNSURE])


@GIVEN_UP.add(is_racy=True)
def another_coordinator_offline(scene: Scene) -> None:
    """The coordinators of these transactions answer; another one is down, which owns none of them."""
    topic = topic_on(scene, 1, 1)
    scene.live(live(scene, topic, 0, coordinator=1))
    scene.expect(hang(scene, topic, 1, coordinator=1), Truth.HANGING, [UNSURE], may_be_known=True)


@GIVEN_UP.add()
def marker_held_back(scene: Scene) -> None:
    """Committed while one of two replicas that must be in sync is gone: its marker waits for the replica."""
    topic, name = replicated_topic(scene, {"min.insync.replicas": "2"}), id_coordinated_by(scene, 1, "id")
    scene.live(Client.begin(scene.bootstrap, name).open(topic, 0))


def replicated_topic(scene: Scene, config: dict[str, str]) -> str:
    """A topic of one partition, led by node 1 and followed by node 3."""
    topic = scene.own(scene.name())
    admin = AdminClient({"bootstrap.servers": scene.bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1, replica_assignment=[[1, 3]], config=config)])[topic].result(
        30
    )
    until(lambda: leader_ids(scene.bootstrap, topic) == {0: 1}, f"{topic} has a leader")
    return topic


def commit_marker_held_back(scene: Scene) -> None:
    """The second half of `marker_held_back`, once the replica is gone."""
    (expected,) = scene.expected
    assert expected.transactional_id is not None
    topic, partition, producer_id = expected.key
    client = Client(scene.bootstrap, expected.transactional_id, producer_id, expected.producer_epoch)
    client.end(commit=True)

    def is_prepared() -> bool:
        listed = described(scene.bootstrap, client.transactional_id)
        return listed is not None and listed.state == "PrepareCommit" and (topic, partition) in listed.partitions

    until(is_prepared, f"{client.transactional_id} is PrepareCommit")
    scene.expected.clear()
    planted = opened(scene.bootstrap, topic, partition, producer_id, client.transactional_id)
    scene.expect(planted, Truth.COMPLETING)


@BACK.add()
def coordinator_back(scene: Scene) -> None:
    """The broker is back, and with it the coordinator of a live transaction; the other hang can be proved now."""
    topic = topic_on(scene, 1, 1, 1)
    scene.live(live(scene, topic, 0, coordinator=3))
    scene.hanging(hang(scene, topic, 1, coordinator=3))
    scene.hanging(plant_hang_without_id(scene.bootstrap, topic, 2, producer_id=8_400_000_001))


@BACK.add()
def replica_made_after_deletion(scene: Scene) -> None:
    """The hanging record was deleted by retention, then a replica was made: in sync, and without the producer."""
    topic = topic_on(scene, 1)
    planted = hang(scene, topic, 0, coordinator=1)
    plain = Producer({"bootstrap.servers": scene.bootstrap})
    plain.produce(topic, b"behind", partition=0)
    assert plain.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": scene.bootstrap})
    next(iter(admin.delete_records([TopicPartition(topic, 0, 1)]).values())).result(30)
    add_replica(scene, topic)
    scene.expect(planted, Truth.HANGING, [Lacking.REPLICA_UNAWARE])


def add_replica(scene: Scene, topic: str) -> None:
    """On node 2, in sync."""
    assignment = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1, 2]}]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps(assignment))
        file.flush()
        scene.cluster.tool(
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
            *("--bootstrap-server", scene.bootstrap, "--execute", "--reassignment-json-file", file.name),
        )
    admin = AdminClient({"bootstrap.servers": scene.bootstrap})
    until(
        lambda: sorted(admin.list_topics(topic, timeout=30).topics[topic].partitions[0].isrs) == [1, 2],
        f"{topic} has another replica in sync",
    )


@SKIPPED.add(issue="KAFKA-20734")
def committed_without_a_leader(scene: Scene) -> None:
    """Committed while the partition had no leader. Kafka 4.3 skips its marker (KAFKA-20734), others write it later."""
    scene.live(live(scene, topic_on(scene, 3), 0, coordinator=1, what="id"))


def commit_without_a_leader(scene: Scene) -> None:
    """The second half of `committed_without_a_leader`: whether the marker was skipped is what its coordinator says."""
    (expected,) = scene.expected
    assert expected.transactional_id is not None
    topic, partition, producer_id = expected.key
    until(lambda: leader_ids(scene.bootstrap, topic) == {partition: NO_LEADER}, f"{topic} has no leader")
    client = Client(scene.bootstrap, expected.transactional_id, producer_id, expected.producer_epoch)
    client.end(commit=True)
    is_skipped = state_once_clear(scene.bootstrap, client.transactional_id) == "CompleteCommit"
    scene.expected[:] = [replace(expected, truth=Truth.HANGING if is_skipped else Truth.CLOSED)]
    if is_skipped:
        scene.fault = "its coordinator has skipped the marker: it hangs"


@LAGGING.add()
def replica_lags(scene: Scene) -> None:
    """A replica is back after a failure, and so far behind that it does not have the hanging record yet."""
    scene.cluster.topics.configure_broker(1, {"leader.replication.throttled.rate": "1"})
    replicated_topic(scene, {"min.insync.replicas": "1", "leader.replication.throttled.replicas": "*"})


def hang_behind_megabytes(scene: Scene) -> None:
    """The second half of `replica_lags`, while the replica is away: what it has missed comes in a trickle."""
    (topic,) = scene.topics
    producer = Producer({"bootstrap.servers": scene.bootstrap})
    for _ in range(300):  # 3 MB: the first fetch of a throttled follower is let through, and takes one
        producer.produce(topic, bytes(10_000), partition=0)
    assert producer.flush(60) == 0
    scene.hanging(hang(scene, topic, 0, coordinator=1))


def knows_nothing_of_it(scene: Scene) -> None:
    """The lagging replica must not have the producer, or the scene proves nothing."""
    (expected,) = scene.expected
    topic, partition, producer_id = expected.key
    if producer_id in producers_at(scene.bootstrap, topic, partition, 3):
        scene.failure = "the replica was meant to lag, and knows the producer"


@DATA_ONLY.add()
def data_leader_gone(scene: Scene) -> None:
    """A broker that leads data and coordinates nothing is down: its hang is unread, the others are proved."""
    topic = topic_on(scene, 1, 2)
    scene.hanging(hang(scene, topic, 0, coordinator=1))
    scene.expect(hang(scene, topic, 1, coordinator=1, what="gone"), Truth.HANGING, [Lacking.NO_LEADER])


def until_partition(play: Play, topic: str, partition: int, is_led_by: Callable[[int], bool]) -> None:
    until(lambda: is_led_by(leader_ids(play.cluster.bootstrap, topic)[partition]), f"the leader of {topic}-{partition}")


def timeline(play: Play) -> None:
    """Node 3 stops, is given up when its session is over, and goes on; then node 2 dies."""
    cluster = play.cluster
    node_1 = cluster.broker(1).address
    cluster.topics.create_on(STATE_TOPIC, STATE_LEADERS)
    silent, given_up = play.some(SILENT.situations), play.some(GIVEN_UP.situations)
    back, lagging = play.some(BACK.situations), play.some(LAGGING.situations)
    data_only, skipped = play.some(DATA_ONLY.situations), play.some(SKIPPED.situations)
    play.plant([*silent, *given_up, *back, *lagging, *skipped, *data_only])

    cluster.broker(3).pause()
    play.ask(silent, bootstrap=node_1, request_timeout_ms=700)

    until_partition(play, STATE_TOPIC, OF_NODE_3, lambda leader: leader == NO_LEADER)
    for scene in play.some(s for s in GIVEN_UP.situations if s.plant is marker_held_back):
        with failing_alone(scene):
            commit_marker_held_back(scene)
            scene.verify()
    play.ask(given_up, bootstrap=node_1)
    for scene in lagging:
        with failing_alone(scene):
            hang_behind_megabytes(scene)
            scene.verify()
    for scene in skipped:
        with failing_alone(scene):
            commit_without_a_leader(scene)

    cluster.broker(3).resume()
    until_partition(play, STATE_TOPIC, OF_NODE_3, lambda leader: leader == 3)
    for scene in skipped:
        with failing_alone(scene):
            ((topic, partition, _),) = [e.key for e in scene.expected]
            until_partition(play, topic, partition, lambda leader: leader == 3)
            if scene.expected[0].truth is Truth.CLOSED:
                until_closed(scene.bootstrap, topic, partition)
    play.ask([*back, *lagging, *skipped], rounds=3, pause_s=0.3)
    for scene in lagging:
        with failing_alone(scene):
            knows_nothing_of_it(scene)
    for scene in play.some(s for s in GIVEN_UP.situations if s.plant is marker_held_back):
        with failing_alone(scene):
            ((topic, partition, _),) = [e.key for e in scene.expected]
            until_closed(scene.bootstrap, topic, partition)
    play.verify([*silent, *(s for s in given_up if s.situation.plant is not marker_held_back), *back, *skipped])

    cluster.broker(2).kill()
    for scene in data_only:
        (topic,) = scene.topics
        until_partition(play, topic, 1, lambda leader: leader == NO_LEADER)
    play.ask(data_only, broker_ids=(1, 2))


def perform(version: str, detectors: Sequence[Detector]) -> Performance:
    collections = (SILENT, GIVEN_UP, BACK, LAGGING, SKIPPED, DATA_ONLY)
    situations = [situation for collection in collections for situation in collection.situations]
    return perform_stage(KafkaCluster(version, nodes=3, properties=PROPERTIES), situations, detectors, timeline)
