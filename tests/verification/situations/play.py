"""Runs a stage: plants its situations, scans them, runs Kafka's tool, compares the truth with the brokers."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

from exporter.capsules.cycle import RecordedCycle
from exporter.capsules.file import Capsule, expected_of, pack
from exporter.capsules.recording import RecordingReader
from exporter.capsules.sharing import anonymous
from exporter.config.loading import environment_name, load
from exporter.cycle import EvaluationInput
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.scan import LeaderScan
from exporter.kafka.collect.scan_requests import Rows
from exporter.kafka.errors import ErrorCode
from exporter.transaction_log.journal import NO_JOURNAL
from tests.brokers.cluster import KafkaCluster
from tests.brokers.second_door import PASSWORD
from tests.verification.situations.java_tool import PATIENCE_S, JavaAnswer, find_hanging
from tests.verification.situations.scene import Scene
from tests.verification.situations.words import Situation

REQUEST_TIMEOUT_MS = 5000


class Watch:
    """The exporter's collector and its memory, cycle after cycle, as the daemon runs them; `user` logs in by password.

    `clock_ahead_s`: how far the exporter's wall clock is ahead of the brokers'.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        user: str | None = None,
        policy: Policy | None = None,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        clock_ahead_s: float = 0.0,
    ) -> None:
        flags = {"kafka.bootstrap.servers": bootstrap, "kafka.request.timeout.ms": str(request_timeout_ms)}
        environment: dict[str, str] = {}
        if user is not None:
            flags |= {
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.username": user,
            }
            environment[environment_name("kafka.sasl.password")] = PASSWORD
        settings = load(file=None, environment=environment, flags=flags).settings
        kind = Collector if self.capsules is None else RecordingReader
        self._collector = kind.opened(settings.kafka, settings.scan, wall_clock=lambda: time.time() + clock_ahead_s)
        self.recorded: list[tuple[RecordedCycle, bytes]] = []
        self._policy = policy or Policy()
        self._memory = Memory()

    may_read = True
    """False: every leader refuses DescribeProducers, as it does to a user with DESCRIBE and without READ."""

    capsules: Path | None = None
    """Folder for a capsule of each scan; None: nothing is recorded."""

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._collector.close()

    def cycle(self) -> Evaluation:
        """One cycle with what earlier ones left in memory."""
        with nullcontext() if self.may_read else patch.object(LeaderScan, "add", _refused):
            if isinstance(self._collector, RecordingReader):
                known = EvaluationInput(memory=self._memory, policy=self._policy)
                evaluation = self._collector.cycle(known, lambda _: NO_JOURNAL)
                self.recorded.append((self._collector.ring[-1].recorded(()), expected_of(evaluation)))
            else:
                snapshot = self._collector.collect(seen_before=self._memory.seen)
                evaluation = evaluate(snapshot, self._memory, self._policy)
        self._memory = evaluation.memory
        return evaluation


def _refused(scan: LeaderScan, rows: Rows, _answer: object) -> None:
    scan.refuse(rows, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


class Play:
    """The scenes of one stage on one booted cluster."""

    def __init__(self, cluster: KafkaCluster, situations: Iterable[Situation], folder: Path) -> None:
        self.cluster = cluster
        self.scenes = {s.name: Scene(s, cluster) for s in situations if s.is_for(cluster.version)}
        self._folder = folder

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

    def scan(
        self,
        scenes: Iterable[Scene],
        *,
        cycles: int = 2,
        pause_s: float = 0.0,
        bootstrap: str | None = None,
        user: str | None = None,
        policy: Policy | None = None,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        clock_ahead_s: float = 0.0,
    ) -> None:
        """Run this many cycles of the exporter, recorded by all of these scenes."""
        watched = list(scenes)
        where = bootstrap or self.cluster.bootstrap
        with Watch(
            where, user=user, policy=policy, request_timeout_ms=request_timeout_ms, clock_ahead_s=clock_ahead_s
        ) as watch:
            for cycle in range(cycles):
                if cycle:
                    time.sleep(pause_s)
                evaluation = watch.cycle()
                for scene in watched:
                    scene.see(evaluation)
            if Watch.capsules is not None:
                _write_capsule(Watch.capsules, watch, f"{self.cluster.version}-{watched[0].situation.name}", watched)

    def ask_java(
        self,
        scenes: Iterable[Scene],
        *,
        bootstrap: str | None = None,
        arguments: Sequence[str] = ("--broker-id", "1"),
        client_properties: str = "",
        patience_s: int = PATIENCE_S,
    ) -> JavaAnswer:
        """One run of Kafka's tool, noted by all of these scenes; none where only capsules are made."""
        if Watch.capsules is not None:
            return JavaAnswer(hanging=frozenset(), death=None)
        answer = find_hanging(
            self.cluster,
            bootstrap or self.cluster.bootstrap,
            arguments=arguments,
            client_properties=client_properties,
            patience_s=patience_s,
            folder=self._folder,
        )
        for scene in scenes:
            scene.java = answer
        return answer


def _write_capsule(folder: Path, watch: Watch, name: str, scenes: Sequence[Scene]) -> None:
    """Writes the cycles of a scan with other names, which keeps paths of this machine out, and its situations."""
    cycles, expected = zip(*watch.recorded, strict=True)
    situations = ", ".join(scene.situation.name for scene in scenes)
    capsule = Capsule(cycles=cycles, expected=expected, incident=f"of the situations {situations}")
    number = len(list(folder.glob(f"{name.replace(' ', '-')}*.zip"))) + 1
    path = folder / f"{name.replace(' ', '-')}{'' if number == 1 else f'-{number}'}.zip"
    path.write_bytes(pack(anonymous(capsule)))


@contextmanager
def failing_alone(scene: Scene) -> Iterator[None]:
    """What goes wrong here costs this scene only."""
    try:
        yield
    except Exception:  # noqa: BLE001 - reported by the scene's own test
        scene.failure = scene.failure or traceback.format_exc()


Performance = Mapping[str, Scene]
"""The scenes of a stage by the names of their situations, after the play."""


def perform(cluster: KafkaCluster, situations: Iterable[Situation], timeline: Callable[[Play], None]) -> Performance:
    """Run the timeline of a stage on a cluster that is not booted yet."""
    with tempfile.TemporaryDirectory(prefix="situations-") as folder, cluster:
        play = Play(cluster, situations, Path(folder))
        timeline(play)
        return play.scenes
