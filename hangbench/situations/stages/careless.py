"""Situations of coordinators that fail: they gave up on a marker, never time out, or remove ids at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from hangbench.detector import Detector
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, PlantedTransaction, plant_hang, write_marker
from hangbench.play import Performance, Play
from hangbench.play import perform as perform_stage
from hangbench.situations import steps
from hangbench.situations.ground import described, until, until_closed
from hangbench.situations.scene import Scene
from hangbench.situations.steps import Client
from hangbench.situations.words import Collection, Truth

IMPATIENT = Collection("careless")
"""Asked with a short grace, until that is over."""
PATIENT = Collection("careless")
"""Asked with the grace that detectors have by default."""

AHEAD = Collection("careless")
"""Asked of detectors whose clock is an hour ahead, where it can be set."""
BEHIND = Collection("careless")
"""Asked of those whose clock is an hour behind."""

HOUR_S = 3600
DAY_MS = 86_400_000
PROPERTIES: Properties = {
    **HANGS_CAN_BE_PLANTED,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": DAY_MS,
    "transactional.id.expiration.ms": 2500,  # long enough for a slow machine to begin a transaction
    "transaction.remove.expired.transaction.cleanup.interval.ms": 200,
    "transaction.two.phase.commit.enable": "true",  # unknown, and ignored, before 4.1
    "unstable.api.versions.enable": "true",
}


def decide(client: Client, topic: str, *, commit: bool, version_cap: int) -> None:
    """Ask for the end of a transaction whose marker will be refused, and wait until its coordinator has given up."""
    client.end(commit=commit, version_cap=version_cap)
    prepared = "PrepareCommit" if commit else "PrepareAbort"

    def is_prepared() -> bool:
        listed = described(client.bootstrap, client.transactional_id)
        return listed is not None and listed.state == prepared and listed.partitions == {(topic, 0)}

    until(is_prepared, f"{client.transactional_id} is {prepared} with {topic}-0 alone")


def plant_stuck(scene: Scene, topic: str, *, commit: bool, version_cap: int = 4) -> PlantedTransaction:
    client = scene.client()
    client.make_its_marker_unwelcome(topic, 0)
    planted = client.open(topic, 0)
    decide(client, topic, commit=commit, version_cap=version_cap)
    return planted


def expect_stuck(scene: Scene, planted: PlantedTransaction) -> None:
    scene.expect(planted, Truth.STUCK)


@IMPATIENT.add()
def stuck_commit(scene: Scene) -> None:
    """A COMMIT marker was refused (the partition remembers a higher coordinator epoch), and the coordinator gave up."""
    expect_stuck(scene, plant_stuck(scene, scene.topic(), commit=True))


@IMPATIENT.add()
def stuck_abort(scene: Scene) -> None:
    """An ABORT marker was refused (the partition remembers a higher coordinator epoch), and the coordinator gave up."""
    expect_stuck(scene, plant_stuck(scene, scene.topic(), commit=False))


@IMPATIENT.add()
def stuck_on_one_of_two_partitions(scene: Scene) -> None:
    """Of a transaction's two COMMIT markers one was written and one refused."""
    topic, client = scene.topic(partitions=2), scene.client()
    client.make_its_marker_unwelcome(topic, 0)
    expect_stuck(scene, client.open(topic, 0))
    scene.closed(client.open(topic, 1))
    decide(client, topic, commit=True, version_cap=4)
    until_closed(scene.bootstrap, topic, 1)


@IMPATIENT.add()
def stuck_at_an_older_epoch(scene: Scene) -> None:
    """Its coordinator commits at an older epoch than the partition has seen: the marker is refused for ever."""
    topic, client = scene.topic(), scene.client()
    client.open(topic, 0)
    newer = client.one_epoch_later().write(topic, 0)
    decide(client, topic, commit=True, version_cap=4)
    expect_stuck(scene, replace(newer, start_offset=0))


@IMPATIENT.add(since="4.0")
def stuck_transaction_version_2(scene: Scene) -> None:
    """A client of TransactionVersion 2: while completing, its coordinator is one epoch ahead of the partition."""
    topic = scene.topic()
    stuck = plant_stuck(scene, topic, commit=True, version_cap=steps.EPOCH_BUMPING_VERSION)
    listed = described(scene.bootstrap, scene.name("id"))
    assert listed is not None
    assert listed.producer_epoch == stuck.producer_epoch + 1
    expect_stuck(scene, stuck)


@IMPATIENT.add()
def stuck_and_completed_by_hand(scene: Scene) -> None:
    """Somebody wrote the marker that the coordinator could not; it still shows PrepareCommit, and nothing is open."""
    stuck = plant_stuck(scene, scene.topic(), commit=True)
    epoch = steps.HIGHER_COORDINATOR_EPOCH
    write_marker(
        scene.bootstrap, stuck.topic, 0, stuck.producer_id, stuck.producer_epoch, commit=True, coordinator_epoch=epoch
    )
    scene.closed(stuck)


@IMPATIENT.add()
def overdue(scene: Scene) -> None:
    """The coordinator does not check for timed-out transactions, and this one is past its time-out and the slack."""
    scene.expect(scene.client(timeout_ms=100).open(scene.topic(), 0), Truth.OVERDUE)


@IMPATIENT.add(since="4.1")
def prepared_for_two_phase_commit(scene: Scene) -> None:
    """A transaction of two-phase commit (KIP-939): it has no time-out, and an external coordinator decides."""
    client = steps.prepared_client(scene.bootstrap, scene.name("id"))
    scene.live(client.open(scene.topic(), 0))


@IMPATIENT.add()
def id_expired(scene: Scene) -> None:
    """The id of the hang expired at its coordinator (Apache's case: no transaction description)."""
    hang = plant_hang(scene.bootstrap, scene.topic(), 0, scene.name("id"))
    until(lambda: described(scene.bootstrap, scene.name("id")) is None, "the id expires")
    scene.hanging(hang)


@PATIENT.add()
def just_past_its_timeout(scene: Scene) -> None:
    """Past its time-out for less than the slack: coordinators look every ten seconds."""
    planted = scene.client(timeout_ms=100).open(scene.topic(), 0)
    time.sleep(0.2)
    scene.expect(planted, Truth.JUST_PAST)


@AHEAD.add()
def our_clock_an_hour_ahead(scene: Scene) -> None:
    """A live transaction of ten minutes' time-out, for a detector whose clock is an hour ahead of the brokers'."""
    scene.live(scene.client().open(scene.topic(), 0))


@BEHIND.add()
def our_clock_an_hour_behind(scene: Scene) -> None:
    """An overdue transaction, for a detector whose clock is an hour behind the brokers'."""
    overdue(scene)


def timeline(play: Play) -> None:
    """All side by side; what must wait is planted before `id_expired`, whose planting lasts longer than any slack."""
    impatient, patient = play.some(IMPATIENT.situations), play.some(PATIENT.situations)
    ahead, behind = play.some(AHEAD.situations), play.some(BEHIND.situations)
    play.plant([*ahead, *behind, *impatient, *patient])
    play.ask(patient)
    play.ask(impatient, rounds=3, pause_s=0.3, grace_ms=steps.SHORT_GRACE_MS)
    play.ask(ahead, clock_ahead_s=HOUR_S)
    play.ask(behind, clock_ahead_s=-HOUR_S, grace_ms=steps.SHORT_GRACE_MS)
    play.verify([*ahead, *behind, *impatient, *patient])


def perform(version: str, detectors: Sequence[Detector]) -> Performance:
    cluster = KafkaCluster(version, properties=PROPERTIES)
    collections = (IMPATIENT, PATIENT, AHEAD, BEHIND)
    situations = [situation for collection in collections for situation in collection.situations]
    return perform_stage(cluster, situations, detectors, timeline)
