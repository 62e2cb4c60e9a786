"""Situations that change during the scan: at a chosen moment, all the time, or by a restart.

A go-between is in front of the broker, and events between two requests of a scan happen there at a known moment,
for every detector alike.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from hangbench import waiting
from hangbench.detector import LIST_TRANSACTIONS, Detector, Says, UnreachableError, When
from hangbench.kafka.go_between import GoBetween, Moment
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, PlantedTransaction, plant_hang, write_marker
from hangbench.kafka.second_door import TwoDoorCluster
from hangbench.play import Performance, Play, failing_alone
from hangbench.play import perform as perform_stage
from hangbench.situations import steps
from hangbench.situations.ground import until_closed
from hangbench.situations.scene import Scene
from hangbench.situations.words import Collection, Lacking, Situation, Truth

MOMENTS = Collection("moving")
"""Each returns its change, and the moment for it in the first look of a detector."""
RESTLESS = Collection("moving")
RESTART = Collection("moving")

Change = tuple[Callable[[], object], When]
COMMITS = 300
TOMBSTONES = 300_000
QUIET_LOOKS = 3
LOOKS, LOOKS_OF_A_DAEMON = 2, 20
"""At least so many while transactions come and go."""


def changed(scene: Scene, planted: PlantedTransaction) -> None:
    """It is live now, and was something else at the beginning of the look."""
    scene.expect(planted, Truth.LIVE, [Lacking.CHANGED_BETWEEN_READS], may_be_known=True)


@MOMENTS.add()
def committed_in_mid_scan(scene: Scene) -> Change:
    """A live transaction is committed after its partition was read and before its coordinator is asked."""
    client = scene.client()
    live = client.open(scene.topic(), 0)
    scene.closed(live)

    def commit() -> None:
        client.end(commit=True)
        until_closed(scene.bootstrap, live.topic, 0)

    return commit, When.BEFORE_LISTING


@MOMENTS.add()
def healed_in_mid_proof(scene: Scene) -> Change:
    """Somebody aborts a hang between the two reads of its partition."""
    hang = plant_hang(scene.bootstrap, scene.topic(), 0, scene.name("id"))
    scene.closed(hang)
    return (
        lambda: write_marker(scene.bootstrap, hang.topic, 0, hang.producer_id, hang.producer_epoch),
        When.IN_MID_PROOF,
    )


@MOMENTS.add()
def reopened_in_mid_proof(scene: Scene) -> Change:
    """Between the two reads the hang is aborted and its id begins a transaction on the same partition."""
    topic, name = scene.topic(), scene.name("id")
    hang = plant_hang(scene.bootstrap, topic, 0, name)

    def reopen() -> None:
        write_marker(scene.bootstrap, topic, 0, hang.producer_id, hang.producer_epoch)
        scene.live(scene.client().open(topic, 0))

    return reopen, When.IN_MID_PROOF


@MOMENTS.add()
def taken_over_in_mid_proof(scene: Scene) -> Change:
    """Between the two reads the id's next epoch writes to the same partition: now its marker will end the hang."""
    topic = scene.topic()
    plant_hang(scene.bootstrap, topic, 0, scene.name("id"))

    def take_over() -> None:
        changed(scene, scene.client().open(topic, 0))

    return take_over, When.IN_MID_PROOF


@MOMENTS.add()
def goes_on_in_mid_proof(scene: Scene) -> Change:
    """Before the last read the same producer takes its old open record into its next transaction, at the same epoch."""
    topic, client = scene.topic(), scene.client()
    hang = client.write(topic, 0)

    def go_on() -> None:
        client.add(topic, [0])
        client.write(topic, 0, sequence=1)
        changed(scene, hang)

    return go_on, When.BEFORE_LAST_READ


@MOMENTS.add()
def topic_made_again_in_mid_proof(scene: Scene) -> Change:
    """Before the last read the topic is deleted and created again, with a live transaction at the same offset."""
    topic, client = scene.topic(), scene.client()
    client.write(topic, 0)

    def make_again() -> None:
        scene.cluster.topics.delete(topic)
        scene.cluster.topics.create(topic)
        changed(scene, client.open(topic, 0))

    return make_again, When.BEFORE_LAST_READ


@MOMENTS.add()
def topic_deleted_in_mid_scan(scene: Scene) -> Change:
    """A topic with a hang is deleted after the metadata were read and before its partitions are."""
    hang = plant_hang(scene.bootstrap, scene.topic(), 0, scene.name("id"))
    return lambda: scene.cluster.topics.delete(hang.topic), When.BEFORE_READING


@MOMENTS.add()
def topic_deleted_in_mid_proof(scene: Scene) -> Change:
    """A topic with a hang is deleted between the two reads of its partition."""
    hang = plant_hang(scene.bootstrap, scene.topic(), 0, scene.name("id"))
    scene.transactions_come_and_go = True
    return lambda: scene.cluster.topics.delete(hang.topic), When.IN_MID_PROOF


@MOMENTS.add()
def partitions_added(scene: Scene) -> Change:
    """A topic grows in mid-scan and a transaction hangs on the new partition; the next cycle must see it."""
    topic = scene.topic()

    def grow() -> None:
        scene.cluster.topics.grow(topic, 3)
        scene.hanging(plant_hang(scene.bootstrap, topic, 2, scene.name("id")))

    return grow, When.BEFORE_READING_IF_IT_LOOKS_AGAIN


@RESTLESS.add(is_racy=True)
def rapid_commits(scene: Scene) -> None:
    """Hundreds of transactions on three partitions are committed and aborted while a detector looks without pause."""
    scene.topic(partitions=3)
    scene.transactions_come_and_go = True
    scene.truth_in_words = "live, come and go"


@RESTART.add(is_racy=True)
def coordinator_loading(scene: Scene) -> None:
    """The only broker is killed and comes back while a detector looks: coordinators answer before they have loaded."""
    topic = scene.topic(partitions=2)
    loading = [Lacking.LOADING]
    scene.expect(scene.client("live").open(topic, 0), Truth.LIVE, loading, may_be_known=True)
    hang = plant_hang(scene.bootstrap, topic, 1, scene.name("hang"))
    scene.expect(hang, Truth.HANGING, loading, may_be_known=True)


def at_the_moment(play: Play, situation: Situation, door: GoBetween) -> None:
    """Make the change within the first look of each detector; the first one has the scene, the others a twin."""
    scene = play.scenes[situation.name]
    for number, detector in enumerate(play.detectors):
        planted = scene if number == 0 else scene.make_twin(detector.name)
        change, when = situation.plant(planted)
        if when is When.BEFORE_READING_IF_IT_LOOKS_AGAIN and not detector.keeps_looking:
            change()
            play.ask([planted], detectors=[detector])
        else:
            moment = Moment(*detector.moments[when], change)
            door.await_moment(moment)
            play.ask([planted], detectors=[detector], bootstrap=door.address)
            if not moment.has_come and has_crashed(planted, detector):
                continue  # whatever is true: it has not got as far as this
            _must_have_come(moment)
        planted.verify()


def has_crashed(scene: Scene, detector: Detector) -> bool:
    """True if the detector has ended with an error instead of its last answer."""
    return scene.responses[detector.name][-1].death is not None


def _must_have_come(moment: Moment) -> None:
    if moment.failure is not None:
        raise moment.failure
    assert moment.has_come, f"request {moment.nth} of API {moment.api_key} never came"


def without_rest(play: Play, scene: Scene) -> None:
    """Commit and abort while each detector looks."""
    scene.situation.plant(scene)
    (topic,) = scene.topics
    transactions = steps.Transactions(scene.bootstrap, scene.name("id"), [(topic, p) for p in range(3)])
    for detector in play.detectors:
        wanted = LOOKS_OF_A_DAEMON if detector.keeps_looking else LOOKS
        enough = threading.Event()

        def commit_rapidly(enough: threading.Event = enough) -> int:
            turn = 0
            while turn < COMMITS or not enough.is_set():
                transactions.run(commit=turn % 7 != 0)
                turn += 1
            return turn

        with ThreadPoolExecutor(1) as pool, detector.watching(play.question([scene])) as look:
            writing = pool.submit(commit_rapidly)
            looks = 0
            try:
                while looks < wanted or not writing.done():
                    scene.hear(detector.name, [look()])
                    looks += 1
                    if looks >= wanted:
                        enough.set()
            finally:
                enough.set()
            print(f"{writing.result()} transactions, {looks} looks of {detector.name}")


def through_a_restart(play: Play, scene: Scene, door: GoBetween, detector: Detector) -> None:
    """Kill the broker and start it while a detector looks: all the time, or held before it lists.

    The connection of one that looks once waits in the go-between and is served first.
    """
    (broker,) = play.cluster.brokers
    if detector.keeps_looking:
        with detector.watching(play.question([scene], request_timeout_ms=1000)) as look:
            scene.hear(detector.name, [look()])
            broker.kill()
            broker.launch()
            quiet = 0
            while quiet < QUIET_LOOKS:
                try:
                    scene.hear(detector.name, [response := look()])
                except UnreachableError:
                    time.sleep(0.01)
                    continue
                own = [says for row, says in response.rows.items() if row[0] in scene.topics]
                is_quiet = len(own) == len(scene.expected) and Says.UNKNOWN not in own
                quiet = quiet + 1 if is_quiet else 0
        return
    is_asked, is_back = threading.Event(), threading.Event()

    def wait_for_restart() -> None:
        is_asked.set()
        is_back.wait()

    door.await_moment(Moment(LIST_TRANSACTIONS, 1, wait_for_restart))
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(play.ask, [scene], detectors=[detector], bootstrap=door.address, patience_s=30)
        try:
            waiting.until(lambda: is_asked.is_set() or asking.done(), patience_s=30)
            if is_asked.is_set():
                broker.kill()
                broker.launch()  # by this thread: the kernel ends a broker with the thread that started it
        finally:
            is_back.set()
        asking.result()
    assert is_asked.is_set() or has_crashed(scene, detector), f"{detector.name} does not list"
    play.cluster.wait_until_serving()


def lengthen_loading(bootstrap: str, transactional_id: str) -> None:
    """Fill the id's partition of `__transaction_state` with tombstones of ids that never were: loading reads them all."""
    with steps.state_writer(bootstrap, transactional_id) as write:
        for number in range(TOMBSTONES):
            write(f"never-{number}", None)


def timeline(play: Play, door: GoBetween) -> None:
    """One situation after another; the restart last."""
    for scene in play.some(MOMENTS.situations):
        with failing_alone(scene):
            at_the_moment(play, scene.situation, door)
    for scene in play.some(RESTLESS.situations):
        with failing_alone(scene):
            without_rest(play, scene)
    scenes = play.some(RESTART.situations)
    play.plant(scenes)
    for scene in scenes:
        with failing_alone(scene):
            lengthen_loading(scene.bootstrap, scene.name("live"))
            for detector in play.detectors:
                through_a_restart(play, scene, door, detector)
    play.verify(scenes)


def perform(version: str, detectors: Sequence[Detector]) -> Performance:
    door = GoBetween()
    cluster = TwoDoorCluster(version, properties=HANGS_CAN_BE_PLANTED, advertised_ports={1: door.port})
    door.lead_to(cluster.door_ports[1])
    situations = [*MOMENTS.situations, *RESTLESS.situations, *RESTART.situations]
    try:
        return perform_stage(cluster, situations, detectors, lambda play: timeline(play, door))
    finally:
        door.close()
