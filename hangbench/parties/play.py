"""Plays the situations one after the other: makes each phase, confirms its truth, asks detectors about every party."""

from __future__ import annotations

import itertools
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from confluent_kafka import KafkaException, Producer

from hangbench.detector import Question
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED
from hangbench.parties.detector import Held, PartyDetector
from hangbench.parties.ground import Probe
from hangbench.parties.judge import Opinion, opinions, worst_of
from hangbench.parties.scene import Scene
from hangbench.parties.scenes import SITUATIONS
from hangbench.parties.words import OF_PARTIES, Cause, Situation
from hangbench.run import NOT_JUDGED, Result, last_line, not_judged
from hangbench.situations.steps import partition_of
from hangbench.waiting import until

PROPERTIES: Final[Properties] = {
    **HANGS_CAN_BE_PLANTED,
    "transaction.max.timeout.ms": 7_200_000,
    "transaction.two.phase.commit.enable": "true",  # unknown, and ignored, before 4.1
    "unstable.api.versions.enable": "true",
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 3,
    "share.coordinator.state.topic.replication.factor": 1,
}
YOUNG_MS: Final = 1000
YOUNG_IF_PATIENT_MS: Final = 600_000
PAUSE_S: Final = 2.0
"""Between the making and the questions: longer than YOUNG_MS."""
PATIENCE_S: Final = 30


def results(
    version: str, detectors: Sequence[PartyDetector], chosen: Sequence[Situation], report: Callable[[str], None]
) -> Iterator[Result]:
    """Every detector in every situation that this version can play."""
    left = sorted((each for each in chosen if each.is_for(version)), key=lambda each: each.alone)
    try:
        yield from _played(version, detectors, left, report)
    except Exception:  # noqa: BLE001 - brokers that do not come up say nothing about a detector
        why = last_line(traceback.format_exc())
        report(f"{version}: {len(left)} not played: {why}")
        for situation, detector in itertools.product(left, detectors):
            yield not_judged(version, OF_PARTIES, situation.name, detector.name, why)


def _played(
    version: str, detectors: Sequence[PartyDetector], left: list[Situation], report: Callable[[str], None]
) -> Iterator[Result]:
    """Takes each situation out of `left` when it has its results."""
    with KafkaCluster(version, properties=PROPERTIES) as cluster:
        plain = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0})
        make_offsets_topic(Scene(SITUATIONS[0], cluster, plain))
        for situation in tuple(left):
            scene = Scene(situation, cluster, plain)
            began_s = time.monotonic()
            with scene.stack:
                act = PartyAct(scene, detectors)
                act.play()
            report(f"{version} {situation.name}: {act.failure or 'played'}, {time.monotonic() - began_s:.0f} s")
            left.remove(situation)
            yield from act.results()


class PartyAct:
    """One scene, from its first phase to its last, and what the detectors said of it."""

    def __init__(self, scene: Scene, detectors: Sequence[PartyDetector]) -> None:
        self._scene, self._detectors = scene, detectors
        self._probe = Probe(scene.bootstrap)
        self._opinions: dict[str, list[Opinion]] = {each.name: [] for each in detectors}
        self._seconds = dict.fromkeys(self._opinions, 0.0)
        self._truths: list[str] = []
        self.failure = ""

    def play(self) -> None:
        """Never raises: what goes wrong costs this scene only."""
        try:
            for _ in self._scene.situation.make(self._scene):
                confirm(self._scene, self._probe)
                self._truths.append(", ".join(sorted(each.cause.value for each in self._scene.truth)) or "nobody")
                self._ask()
        except Exception:  # noqa: BLE001 - reported as the failure of the scene
            self.failure = last_line(traceback.format_exc())

    def _ask(self) -> None:
        scene = self._scene
        for _ in range(2):  # clients that work all the time do so while the phase becomes old enough
            self._work()
            time.sleep(PAUSE_S / 2)
        young_ms = YOUNG_IF_PATIENT_MS if scene.situation.patient else YOUNG_MS
        question = Question(
            bootstrap=scene.bootstrap, cluster=scene.cluster, situations=(scene.situation.name,), patience_s=PATIENCE_S
        )
        for detector in self._detectors:
            for party in (*scene.groups, *sorted(scene.owners)):
                self._work()
                is_group = party in scene.groups
                about = {"group" if is_group else "transactional_id": party}
                answer = detector.ask(question, **about, young_ms=young_ms)
                self._opinions[detector.name] += opinions(_held(scene, party, is_group=is_group), answer)
                self._seconds[detector.name] = answer.seconds

    def _work(self) -> None:
        if self._scene.each_cycle is not None:
            self._scene.each_cycle()

    def results(self) -> Iterator[Result]:
        for detector in self._detectors:
            found = worst_of(self._opinions[detector.name])
            yield Result(
                kafka=self._scene.cluster.version,
                stage=OF_PARTIES,
                situation=self._scene.situation.name,
                detector=detector.name,
                truth=", then ".join(self._truths),
                judgement=NOT_JUDGED if self.failure else found.judgement.value,
                words=self.failure or found.words,
                seconds=round(self._seconds[detector.name], 3),
            )


def _held(scene: Scene, party: str, *, is_group: bool) -> Held:
    """The truth about one party. What cannot start stands still by itself, behind no other id."""
    own = (each for each in scene.truth if each.party == party)
    return {
        each.place: each.behind
        for each in own
        if is_group or (each.cause is Cause.STUCK_AT_COORDINATOR and each.behind is None)
    }


def confirm(scene: Scene, probe: Probe) -> None:
    """Compares the written truth with the brokers. Raises AssertionError."""
    for standstill in scene.truth:
        has_position = scene.groups.get(standstill.party, False)
        problem = probe.contradiction(standstill, has_position=has_position)
        assert problem is None, f"the truth is another one: {problem}"
    named = {standstill.where for standstill in scene.truth}
    for group, has_position in scene.groups.items():
        for place in scene.places if has_position else ():
            position = None if (group, place) in named else probe.position(group, place)
            is_held = position is not None and not scene.is_moving and probe.is_held(place, position)
            assert not is_held, f"the truth is another one: {group} stands still on {place} at {position}"


def make_offsets_topic(scene: Scene) -> None:
    """Has the broker make `__consumer_offsets`, and waits until each of its partitions takes a commit."""
    place = scene.cluster.topics.create("first"), 0
    homes = {partition_of(scene.name(f"first-{number}")): f"first-{number}" for number in range(100)}

    def is_committed(group: str) -> bool:
        try:
            scene.position(place, 0, what=group)
        except KafkaException:
            return False
        return True

    for group in homes.values():
        until(partial(is_committed, group))
    scene.groups.clear()
