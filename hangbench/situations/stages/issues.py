"""Situations of Kafka's own faults: brokers that have one leave something behind, mended ones do not."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence

from hangbench.detector import Detector
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.kafka.planting import init_producer_id, now_ms, write_marker
from hangbench.kafka.wire import BrokerRefused
from hangbench.play import Performance, Play
from hangbench.play import perform as perform_stage
from hangbench.situations import steps
from hangbench.situations.ground import described, open_entries, until
from hangbench.situations.scene import Scene
from hangbench.situations.words import Collection, Lacking, Truth

ISSUES = Collection("issues")

INVALID_TXN_STATE = 48
TRANSACTION_VERSION = 2
LAST_EPOCH = 2**15 - 2
SHORT_MS = 1000
PATIENCE_S = 5.0
"""Five times the time-out, in which a coordinator looks 25 times."""
EMPTY, NO_PARTITIONS = 0, -1
PROPERTIES: Properties = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
"""Otherwise as Kafka comes: partitions verify transactions, where they can."""


@ISSUES.add(issue="KAFKA-14402")
def late_write_is_let_in(scene: Scene) -> None:
    """A record for a partition that its transaction never added: since 3.6 the leader asks the coordinator (KIP-890)."""
    topic, client = scene.topic(), scene.client()
    try:
        scene.hanging(client.write(topic, 0))
    except BrokerRefused as refusal:
        if refusal.error_code != INVALID_TXN_STATE:
            raise
    else:
        scene.fault = "the leader has let it in: it hangs"


@ISSUES.add(issue="KAFKA-19999", since="4.2")
def marker_is_sent_again(scene: Scene) -> None:
    """A COMMIT marker was written and the response lost: its coordinator sends it again, and the leader must accept it."""
    topic, client = scene.topic(), scene.client()
    scene.closed(client.open(topic, 0))
    write_marker(
        scene.bootstrap,
        topic,
        0,
        client.producer_id,
        client.producer_epoch + 1,
        commit=True,
        coordinator_epoch=0,
        transaction_version=TRANSACTION_VERSION,
    )
    client.end(commit=True, version_cap=steps.EPOCH_BUMPING_VERSION)
    state = steps.state_once_clear(scene.bootstrap, client.transactional_id)
    if state != "CompleteCommit":
        scene.fault = f"the leader has refused it: the coordinator stays in {state}"
        listed = described(scene.bootstrap, client.transactional_id)
        assert listed is not None
        assert listed.partitions == {(topic, 0)}


@ISSUES.add(issue="KAFKA-20090", since="4.0")
def epochs_are_used_up(scene: Scene) -> None:
    """A transaction timed out at the last epoch, and its client asks late for the abort: it must get a new producer id."""
    topic, name = scene.topic(), scene.name("id")
    begin_at_the_last_epoch(scene, name)
    client = scene.client(timeout_ms=SHORT_MS)
    assert client.producer_epoch == LAST_EPOCH
    planted = client.open(topic, 0)
    if not ends(scene.bootstrap, topic):  # 4.0 has raised the epoch in memory, and cannot write that
        scene.expect(planted, Truth.HANGING, [Lacking.MAY_BE_FENCED])
        scene.fault = f"its coordinator cannot abort at epoch {LAST_EPOCH}: it is open for ever"
        return
    again = client.ended(commit=False)
    planted = again.open(topic, 0)
    if not ends(scene.bootstrap, topic):
        scene.expect(planted, Truth.OVERDUE)
        scene.fault = f"its coordinator cannot abort at epoch {again.producer_epoch}: it is open for ever"
    else:
        scene.closed(planted)


def ends(bootstrap: str, topic: str) -> bool:
    """Whether its coordinator aborts what is open; waits for several times its time-out."""
    deadline = time.monotonic() + PATIENCE_S
    until(lambda: not open_entries(bootstrap, topic, 0) or time.monotonic() > deadline, "its coordinator aborts it")
    return not open_entries(bootstrap, topic, 0)


def begin_at_the_last_epoch(scene: Scene, transactional_id: str) -> None:
    """Write the coordinator's own record of an id that is one epoch from the last, and have it read that by a restart."""
    producer_id, _ = init_producer_id(scene.bootstrap, transactional_id, timeout_ms=SHORT_MS)
    now = now_ms()
    steps.write_state_record(
        scene.bootstrap,
        transactional_id,
        struct.pack(">hqhibiqq", 0, producer_id, LAST_EPOCH - 1, SHORT_MS, EMPTY, NO_PARTITIONS, now, now),
    )
    (broker,) = scene.cluster.brokers
    broker.stop()
    broker.start()


def timeline(play: Play) -> None:
    """Plant all, ask, and check the truth once more."""
    scenes = play.some(ISSUES.situations)
    play.plant(scenes)
    play.ask(scenes, rounds=3, pause_s=0.3, grace_ms=steps.SHORT_GRACE_MS)
    play.verify(scenes)


def perform(version: str, detectors: Sequence[Detector]) -> Performance:
    return perform_stage(KafkaCluster(version, properties=PROPERTIES), ISSUES.situations, detectors, timeline)
