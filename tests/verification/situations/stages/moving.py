"""Situations that change during the scan: at a chosen moment, all the time, or by a restart.

A go-between is in front of the broker, and events between two requests of a scan happen there at a known moment,
for the exporter and for Kafka's tool alike.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Producer

from examples.workload.planting import plant_hang, write_marker
from examples.workload.producers import OpenTransaction
from exporter.evaluation.verdicts import Verdict
from exporter.kafka.errors import ClusterUnavailableError
from tests.brokers.go_between import GoBetween, Moment
from tests.brokers.second_door import TwoDoorCluster
from tests.conftest import HANGS_CAN_BE_PLANTED
from tests.verification.situations import ground, steps
from tests.verification.situations.ground import until_closed
from tests.verification.situations.play import Performance, Play, Watch, failing_alone
from tests.verification.situations.play import perform as perform_stage
from tests.verification.situations.scene import OPEN, Scene
from tests.verification.situations.words import Collection, Truth

MOMENTS = Collection("moving")
"""Each returns its change, and before which request of the exporter and of the tool (none: the tool runs afterwards)."""
RESTLESS = Collection("moving")
RESTART = Collection("moving")

LIST_OFFSETS, DESCRIBE_PRODUCERS, LIST_TRANSACTIONS = 2, 61, 66
BEFORE_READING = (DESCRIBE_PRODUCERS, 1)
BEFORE_LISTING = (LIST_TRANSACTIONS, 1)
IN_MID_PROOF = (LIST_TRANSACTIONS, 2)
"""The exporter lists a second time for unverified transactions."""
BEFORE_LAST_READ = (DESCRIBE_PRODUCERS, 3)
BEFORE_LAST_OFFSETS = (LIST_OFFSETS, 9)
"""The same where producers may not be read: each end is asked for twice by the first cycle, and before and after the
coordinators by the second one."""
"""Of the scan, the read before the proof, and the one after it: all that is known of the coordinators is known by now."""

Request = tuple[int, int]
Change = tuple[Callable[[], object], Request, "Request | None"]
COMMITS = 300
STATE_TOPIC = "__transaction_state"
TOMBSTONES = 300_000
QUIET_CYCLES = 3


@MOMENTS.add()
def committed_in_mid_scan(scene: Scene) -> Change:
    """A live transaction is committed after its partition was read and before its coordinator is asked."""
    client = scene.client()
    live = client.open(scene.topic(), 0)
    scene.closed(live)

    def commit() -> None:
        client.end(commit=True)
        until_closed(scene.bootstrap, live.topic, 0)

    return commit, BEFORE_LISTING, BEFORE_LISTING


@MOMENTS.add()
def healed_in_mid_proof(scene: Scene) -> Change:
    """Somebody aborts a hang between the two reads of its partition."""
    hang = plant_hang(scene.bootstrap, scene.topic(), 0, scene.name("id"))
    scene.closed(hang)
    return (
        lambda: write_marker(scene.bootstrap, hang.topic, 0, hang.producer_id, hang.producer_epoch),
        IN_MID_PROOF,
        BEFORE_LISTING,
    )


@MOMENTS.add()
def reopened_in_mid_proof(scene: Scene) -> Change:
    """Between the two reads the hang is aborted and its id begins a transaction on the same partition."""
    topic, name = scene.topic(), scene.name("id")
    hang = plant_hang(scene.bootstrap, topic, 0, name)

    def reopen() -> None:
        write_marker(scene.bootstrap, topic, 0, hang.producer_id, hang.producer_epoch)
        scene.live(scene.client().open(topic, 0))

    return reopen, IN_MID_PROOF, BEFORE_LISTING


@MOMENTS.add()
def taken_over_in_mid_proof(scene: Scene) -> Change:
    """Between the two reads the id's next epoch writes to the same partition: now its marker will end the hang."""
    topic = scene.topic()
    plant_hang(scene.bootstrap, topic, 0, scene.name("id"))

    def take_over() -> None:
        scene.expect(scene.client().open(topic, 0), Truth.LIVE, OPEN, first={Verdict.INCONCLUSIVE})

    return take_over, IN_MID_PROOF, BEFORE_LISTING


@MOMENTS.add()
def goes_on_in_mid_proof(scene: Scene) -> Change:
    """Before the last read the same producer takes its old open record into its next transaction, at the same epoch."""
    topic, client = scene.topic(), scene.client()
    hang = client.write(topic, 0)

    def go_on() -> None:
        client.add(topic, [0])
        client.write(topic, 0, sequence=1)
        scene.expect(hang, Truth.LIVE, OPEN, first={Verdict.INCONCLUSIVE})

    return go_on, BEFORE_LAST_READ, BEFORE_LISTING


@MOMENTS.add()
def topic_made_again_in_mid_proof(scene: Scene) -> Change:
    """Before the last read the topic is deleted and created again, with a live transaction at the same offset."""
    topic, client = scene.topic(), scene.client()
    client.write(topic, 0)

    def make_again() -> None:
        scene.cluster.topics.delete(topic)
        scene.cluster.topics.create(topic)
        scene.expect(client.open(topic, 0), Truth.LIVE, OPEN, first={Verdict.INCONCLUSIVE})

    return make_again, BEFORE_LAST_READ, BEFORE_LISTING


@MOMENTS.add()
def topic_deleted_in_mid_scan(scene: Scene) -> Change:
    """A topic with a hang is deleted after the metadata were read and before its partitions are."""
    hang = plant_hang(scene.bootstrap, scene.topic(), 0, scene.name("id"))
    return lambda: scene.cluster.topics.delete(hang.topic), BEFORE_READING, BEFORE_READING


@MOMENTS.add()
def topic_deleted_in_mid_proof(scene: Scene) -> Change:
    """A topic with a hang is deleted between the two reads of its partition."""
    hang = plant_hang(scene.bootstrap, scene.topic(), 0, scene.name("id"))
    scene.may_show = frozenset({Verdict.INCONCLUSIVE})
    return lambda: scene.cluster.topics.delete(hang.topic), IN_MID_PROOF, BEFORE_LISTING


@MOMENTS.add()
def partitions_added(scene: Scene) -> Change:
    """A topic grows in mid-scan and a transaction hangs on the new partition; the next cycle must see it."""
    topic = scene.topic()

    def grow() -> None:
        scene.cluster.topics.grow(topic, 3)
        scene.hanging(plant_hang(scene.bootstrap, topic, 2, scene.name("id")))

    return grow, BEFORE_READING, None


@RESTLESS.add(is_racy=True)
def rapid_commits(scene: Scene) -> None:
    """Hundreds of transactions on three partitions are committed and aborted while the cluster is scanned without pause."""
    scene.topic(partitions=3)
    scene.may_show = frozenset({Verdict.OPEN_WITHIN_TIMEOUT, Verdict.COMPLETING})
    scene.truth_in_words = "live, come and go"


@RESTART.add(is_racy=True)
def coordinator_loading(scene: Scene) -> None:
    """The only broker is killed and comes back, scanned without pause: coordinators answer before they have loaded."""
    topic = scene.topic(partitions=2)
    scene.live(scene.client("live").open(topic, 0))
    scene.hanging(plant_hang(scene.bootstrap, topic, 1, scene.name("hang")))


def at_the_moment(play: Play, scene: Scene, door: GoBetween) -> None:
    """Make the change within the first of two cycles of the exporter, and within a run of Kafka's tool."""
    change, ours, java = scene.situation.plant(scene)
    if not Watch.may_read and ours == BEFORE_LAST_READ:
        ours = BEFORE_LAST_OFFSETS
    scene_moment = Moment(ours[0], ours[1], change)
    door.await_moment(scene_moment)
    play.scan([scene], bootstrap=door.address, cycles=2 if Watch.may_read else 3)
    twin = scene.make_twin()
    change, _, _ = twin.situation.plant(twin)
    if java is None:
        change()
        play.ask_java([twin])
    else:
        twin_moment = Moment(java[0], java[1], change)
        door.await_moment(twin_moment)
        play.ask_java([twin], bootstrap=door.address)
        _must_have_come(twin_moment)
    _must_have_come(scene_moment)
    play.verify([scene, twin])
    scene.failure = scene.failure or twin.failure


def _must_have_come(moment: Moment) -> None:
    if moment.failure is not None:
        raise moment.failure
    assert moment.has_come, f"request {moment.nth} of API {moment.api_key} never came"


def without_rest(play: Play, scene: Scene) -> None:
    """Commit and abort while the exporter scans and Kafka's tool runs."""
    scene.situation.plant(scene)
    (topic,) = scene.topics
    enough = threading.Event()
    transaction = OpenTransaction(scene.bootstrap, scene.name("id"), [(topic, p) for p in range(3)])

    def commit_rapidly() -> int:
        turn = 0
        while turn < COMMITS or not enough.is_set():
            transaction.__enter__()
            transaction.close("abort" if turn % 7 == 0 else "commit")
            turn += 1
        return turn

    with ThreadPoolExecutor(2) as pool, Watch(scene.bootstrap) as watch:
        writing = pool.submit(commit_rapidly)
        asking = pool.submit(play.ask_java, [scene])
        while not writing.done():
            scene.see(watch.cycle())
            if asking.done():
                enough.set()
        turns, _ = writing.result(), asking.result()
        print(f"{turns} transactions, {len(scene.sights)} cycles")
        assert len(scene.sights) > 20


def through_a_restart(play: Play, scene: Scene, door: GoBetween) -> None:
    """Kill the broker when Kafka's tool is about to list, start it, and scan until three cycles are as they should be.

    The tool's connection waits in the go-between and is served first.
    """
    (broker,) = play.cluster.brokers
    is_asked, is_back = threading.Event(), threading.Event()

    def wait_for_restart() -> None:
        is_asked.set()
        is_back.wait()

    door.await_moment(Moment(*BEFORE_LISTING, wait_for_restart))
    with ThreadPoolExecutor(1) as pool, Watch(scene.bootstrap, request_timeout_ms=1000) as watch:
        scene.see(watch.cycle())
        asking = pool.submit(play.ask_java, [scene], bootstrap=door.address, patience_s=30)
        try:
            assert is_asked.wait(30), "the tool lists"
            broker.kill()
            broker.launch()  # by this thread: the kernel ends a broker with the thread that started it
        finally:
            is_back.set()
        quiet = 0
        while quiet < QUIET_CYCLES:
            try:
                scene.see(watch.cycle())
            except ClusterUnavailableError:
                time.sleep(0.01)
                continue
            sight = scene.sights[-1]
            last = [*sight.verdicts.values(), *sight.by_offsets.values()]
            quiet = quiet + 1 if len(last) == len(scene.expected) and Verdict.INCONCLUSIVE not in dict(last) else 0
        asking.result()


def lengthen_loading(bootstrap: str, transactional_id: str) -> None:
    """Fill the id's partition of `__transaction_state` with tombstones of ids that never were: loading reads them all."""
    wanted = ground.leader_ids(bootstrap, STATE_TOPIC)
    partition = steps.partition_of(transactional_id, len(wanted))
    producer = Producer(
        {"bootstrap.servers": bootstrap, "client.id": "__admin_client", "linger.ms": 50, "log_level": 0}
        | {"queue.buffering.max.messages": TOMBSTONES, "compression.type": "lz4"}
    )
    for number in range(TOMBSTONES):
        key = b"never-%d" % number
        producer.produce(STATE_TOPIC, key=struct.pack(">hh", 0, len(key)) + key, value=None, partition=partition)
    assert producer.flush(30) == 0


def timeline(play: Play, door: GoBetween) -> None:
    """One situation after another; the restart last."""
    for scene in play.some(MOMENTS.situations):
        with failing_alone(scene):
            at_the_moment(play, scene, door)
    for scene in play.some(RESTLESS.situations):
        with failing_alone(scene):
            without_rest(play, scene)
    scenes = play.some(RESTART.situations)
    play.plant(scenes)
    for scene in scenes:
        with failing_alone(scene):
            lengthen_loading(scene.bootstrap, scene.name("live"))
            through_a_restart(play, scene, door)
    play.verify(scenes)


def perform(version: str) -> Performance:
    door = GoBetween()
    cluster = TwoDoorCluster(version, properties=HANGS_CAN_BE_PLANTED, advertised_ports={1: door.port})
    door.lead_to(cluster.door_ports[1])
    situations = [*MOMENTS.situations, *RESTLESS.situations, *RESTART.situations]
    try:
        return perform_stage(cluster, situations, lambda play: timeline(play, door))
    finally:
        door.close()
