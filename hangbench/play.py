"""Runs a stage: plants its situations, has detectors look at them, compares the truth with the brokers."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hangbench.detector import Detector, Question
from hangbench.kafka.cluster import KafkaCluster
from hangbench.situations.scene import Scene
from hangbench.situations.words import Situation


class Play:
    """The scenes of one stage on one booted cluster."""

    def __init__(self, cluster: KafkaCluster, situations: Iterable[Situation], detectors: Sequence[Detector]) -> None:
        self.cluster = cluster
        self.detectors = tuple(detectors)
        self.scenes = {s.name: Scene(s, cluster) for s in situations if s.is_for(cluster.version)}

    def some(self, situations: Iterable[Situation]) -> list[Scene]:
        """The scenes of these situations, where they are for this version."""
        return [self.scenes[s.name] for s in situations if s.name in self.scenes]

    def plant(self, scenes: Iterable[Scene]) -> None:
        """Plant each situation, and check its written truth."""
        planted = list(scenes)
        for scene in planted:
            with failing_alone(scene):
                scene.situation.plant(scene)
        self.verify(planted)

    def verify(self, scenes: Iterable[Scene]) -> None:
        for scene in scenes:
            with failing_alone(scene):
                scene.verify()

    def question(self, scenes: Iterable[Scene], *, bootstrap: str | None = None, **how: Any) -> Question:
        """About these scenes, to the cluster's brokers or at `bootstrap`."""
        return Question(
            bootstrap=bootstrap or self.cluster.bootstrap,
            cluster=self.cluster,
            situations=tuple(scene.situation.name for scene in scenes),
            **how,
        )

    def ask(self, scenes: Iterable[Scene], *, detectors: Sequence[Detector] | None = None, **how: Any) -> None:
        """Have every detector look; all of these scenes note what it says. `how` are fields of Question."""
        asked = list(scenes)
        question = self.question(asked, **how)
        for detector in self.detectors if detectors is None else detectors:
            with detector.watching(question) as look:
                for number in range(question.rounds + detector.extra_rounds if detector.keeps_looking else 1):
                    if number:
                        time.sleep(question.pause_s)
                    response = look()
                    for scene in asked:
                        scene.hear(detector.name, [response])


@contextmanager
def failing_alone(scene: Scene) -> Iterator[None]:
    """What goes wrong here costs this scene only."""
    try:
        yield
    except Exception:  # noqa: BLE001 - reported as the failure of the scene
        scene.failure = scene.failure or traceback.format_exc()


Performance = Mapping[str, Scene]
"""The scenes of a stage by the names of their situations, after the play."""


def perform(
    cluster: KafkaCluster,
    situations: Iterable[Situation],
    detectors: Sequence[Detector],
    timeline: Callable[[Play], None],
) -> Performance:
    """Run the timeline of a stage on a cluster that is not booted yet."""
    with cluster:
        play = Play(cluster, situations, detectors)
        timeline(play)
        return play.scenes
