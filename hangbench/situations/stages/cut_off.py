"""Situations of a broker that is cut off from controller and peers, and still responds as leader.

`__transaction_state` has a replica on every broker; broker 1 leads all of its partitions when it is cut off, and the
others take them over. It is the first bootstrap address of every detector, and goes on naming itself the leader.
"""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka.admin import AdminClient, NewTopic

from hangbench.detector import Detector
from hangbench.kafka.cluster import Properties
from hangbench.kafka.isolation import IsolatedCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang, write_marker
from hangbench.play import Performance, Play, failing_alone
from hangbench.play import perform as perform_stage
from hangbench.situations.ground import described, in_sync_ids, leader_ids, until
from hangbench.situations.scene import Scene
from hangbench.situations.steps import STATE_TOPIC, Client, init_without_waiting
from hangbench.situations.words import Collection, Lacking, Truth

CUT_OFF = Collection("cut off")
"""Each has a second half in `MEANWHILE`, which happens while broker 1 is cut off."""
ALONE = Collection("cut off")
"""When brokers 2 and 3 are gone as well, and the state partitions are below their min ISR."""

STATE_PARTITIONS = 5
PROPERTIES: Properties = {
    **HANGS_CAN_BE_PLANTED,
    "transaction.state.log.num.partitions": STATE_PARTITIONS,
    "transaction.state.log.min.isr": 2,
    "replica.lag.time.max.ms": 3000,
}
UNSURE = (Lacking.LEADERSHIP_UNCONFIRMED, Lacking.COORDINATOR_MOVED)


def others(scene: Scene) -> str:
    """The bootstrap addresses of the brokers that stay together."""
    return ",".join(scene.cluster.broker(node_id).address for node_id in (2, 3))


def topic_led_by(scene: Scene, *replicas: int, what: str = "") -> str:
    """A topic of one partition on these brokers, the first of which leads it."""
    topic = scene.own(scene.name(what))
    admin = AdminClient({"bootstrap.servers": scene.bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1, replica_assignment=[list(replicas)])])[topic].result(30)
    until(lambda: leader_ids(scene.bootstrap, topic) == {0: replicas[0]}, f"{topic} has a leader")
    return topic


@CUT_OFF.add(is_racy=True)
def begins_at_the_new_coordinator(scene: Scene) -> None:
    """The id is Empty at the coordinator that is cut off; at the new one it begins a transaction, which is live."""
    topic = topic_led_by(scene, 2)
    client = Client.begin(scene.bootstrap, scene.name("id"))
    scene.meanwhile_happens = lambda: scene.expect(
        Client(others(scene), client.transactional_id, client.producer_id, client.producer_epoch).open(topic, 0),
        Truth.LIVE,
        UNSURE,
        may_be_known=True,
    )


@CUT_OFF.add(is_racy=True)
def hangs_at_the_new_coordinator(scene: Scene) -> None:
    """Live at the coordinator that is cut off; the new one aborted it, and a late record of it hangs."""
    topic = topic_led_by(scene, 2)
    client = Client.begin(scene.bootstrap, scene.name("id"))
    live = client.open(topic, 0)

    def ends_and_hangs() -> None:
        at_the_others = Client(others(scene), client.transactional_id, client.producer_id, client.producer_epoch)
        at_the_others.end(commit=False)
        until(
            lambda: getattr(described(others(scene), client.transactional_id), "state", "") == "CompleteAbort",
            "it is aborted",
        )
        scene.hanging(at_the_others.write(topic, 0, sequence=1))

    scene.own(live.topic)
    scene.meanwhile_happens = ends_and_hangs


@CUT_OFF.add(is_racy=True)
def ends_at_the_new_leader(scene: Scene) -> None:
    """A hang on the broker that is cut off; at the new leader somebody has aborted it."""
    topic = topic_led_by(scene, 1, 2, 3)
    hang = plant_hang(scene.bootstrap, topic, 0, scene.name("id"))

    def is_aborted() -> None:
        until(lambda: leader_ids(others(scene), topic)[0] in {2, 3}, f"{topic} has another leader")
        write_marker(others(scene), topic, 0, hang.producer_id, hang.producer_epoch)
        scene.closed(hang)

    scene.meanwhile_happens = is_aborted


@CUT_OFF.add(is_racy=True)
def topic_made_meanwhile(scene: Scene) -> None:
    """A topic with a hang is created while broker 1 is cut off and does not know it."""

    def make() -> None:
        topic = scene.own(scene.name())
        admin = AdminClient({"bootstrap.servers": others(scene)})
        admin.create_topics([NewTopic(topic, num_partitions=1, replica_assignment=[[2]])])[topic].result(30)
        until(lambda: leader_ids(others(scene), topic) == {0: 2}, f"{topic} has a leader")
        scene.hanging(plant_hang(others(scene), topic, 0, scene.name("id")))

    scene.meanwhile_happens = make


@ALONE.add(before="4.0")
def fence_that_cannot_be_written(scene: Scene) -> None:
    """A new producer fences a live transaction while the state partition is below its min ISR: it is aborted later."""
    topic = topic_led_by(scene, 1)
    client = Client.begin(scene.bootstrap, scene.name("id"))
    live = client.open(topic, 0)
    scene.own(topic)

    def fence() -> None:
        def is_ahead() -> bool:
            init_without_waiting(scene.bootstrap, client.transactional_id)
            listed = described(scene.bootstrap, client.transactional_id)
            return listed is not None and listed.producer_epoch > client.producer_epoch

        until(is_ahead, "the coordinator has raised the epoch")
        scene.expect(live, Truth.FENCED, [Lacking.MAY_BE_FENCED])

    scene.meanwhile_happens = fence


def happen(scenes: list[Scene]) -> None:
    """The second halves."""
    for scene in scenes:
        with failing_alone(scene):
            assert scene.meanwhile_happens is not None, scene.situation.name
            scene.meanwhile_happens()


def timeline(play: Play) -> None:
    """Broker 1 is cut off, is asked first, and comes back; then it is alone."""
    cluster = play.cluster
    assert isinstance(cluster, IsolatedCluster)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    led_by_1 = NewTopic(
        STATE_TOPIC,
        num_partitions=STATE_PARTITIONS,
        replica_assignment=[[1, 2, 3]] * STATE_PARTITIONS,
        config={"min.insync.replicas": "2", "cleanup.policy": "compact"},
    )
    admin.create_topics([led_by_1])[STATE_TOPIC].result(30)
    until(
        lambda: leader_ids(cluster.bootstrap, STATE_TOPIC) == dict.fromkeys(range(STATE_PARTITIONS), 1),
        "1 coordinates all",
    )
    cut_off, alone = play.some(CUT_OFF.situations), play.some(ALONE.situations)
    for scene in [*cut_off, *alone]:
        with failing_alone(scene):
            scene.situation.plant(scene)
    them = ",".join(cluster.broker(node_id).address for node_id in (2, 3))
    cluster.cut(1)
    until(lambda: 1 not in leader_ids(them, STATE_TOPIC).values(), "the others have taken over")
    happen(cut_off)
    play.ask(cut_off, broker_ids=(2,), rounds=3, request_timeout_ms=2000, patience_s=15)
    for scene in cut_off:
        scene.bootstrap_of_truth = them
    play.verify(cut_off)
    cluster.mend(1)
    cluster.wait_until_serving()
    if not alone:
        return
    until(
        lambda: all(1 in node_ids for node_ids in in_sync_ids(them, STATE_TOPIC).values()), "broker 1 is in sync again"
    )
    for node_id in (2, 3):
        cluster.broker(node_id).kill()
    until(lambda: set(leader_ids(cluster.bootstrap, STATE_TOPIC).values()) == {1}, "broker 1 leads alone")
    happen(alone)
    play.ask(alone)
    play.verify(alone)


def perform(version: str, detectors: Sequence[Detector]) -> Performance:
    situations = [*CUT_OFF.situations, *ALONE.situations]
    return perform_stage(IsolatedCluster(version, nodes=3, properties=PROPERTIES), situations, detectors, timeline)
