"""Runs situations side by side on one broker: cycles of the exporter until it names the truth, then `why`."""

from __future__ import annotations

import json
import tempfile
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from exporter.baseline import Baseline, UsualDuration
from exporter.config.loading import load
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy
from exporter.kafka.collect.collector import Collector
from hangbench.kafka.cluster import KafkaCluster
from hangbench.parties.ground import Probe
from hangbench.parties.play import PROPERTIES, confirm, make_offsets_topic
from hangbench.parties.scene import Scene
from hangbench.parties.words import Cause, Situation, Standstill, Standstills
from tests.real_brokers.exporting import called
from tests.verification.standstill import view
from tests.verification.standstill.differences import DIFFERENCES

SHORT: Final = Policy(blocked_after_ms=1000, owner_silent_after_ms=2000, stuck_after_ms=2000)
"""The bench's settings: with the defaults of 30 s and a minute it would take as long."""
PATIENT: Final = Policy(blocked_after_ms=600_000)
"""Settings for a transaction that must not count: no play takes ten minutes."""
LIMIT_S: Final = 90.0
"""The exporter must name the truth in this time after the situation was made."""
WATCHED_S: Final = 4.0
"""A phase is watched for this long at least: longer than each of the settings above."""
CYCLES: Final = 3
"""The number of cycles, one after the other, that must be right."""
PAUSE_S: Final = 0.3
WHY_S: Final = 2.0
"""The time for commands between two cycles."""
PLANTERS: Final = 4


@dataclass(slots=True)
class Result:
    """The result of one situation on one version: what was named in its last phase, and everything that was wrong."""

    situation: Situation
    truth: list[Standstills] = field(default_factory=list)
    """The truth of each phase."""
    right_after_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    because: str = ""
    """The reason of a known difference that was seen."""
    differs: list[str] = field(default_factory=list)
    """The known differences, in words."""
    failure: str = ""
    """A traceback, where the situation could not be made or its truth is another one."""

    @property
    def is_as_expected(self) -> bool:
        """True if the exporter named the truth, or differs from it as is known."""
        return not self.failure and not self.wrong


class Exporter:
    """The collector and two memories, cycle after cycle: one with short settings, one with PATIENT."""

    def __init__(self, bootstrap: str) -> None:
        flags = {"kafka.bootstrap.servers": bootstrap, "kafka.request.timeout.ms": "5000"}
        settings = load(file=None, environment={}, flags=flags).settings
        self._collector = Collector.opened(settings.kafka, settings.scan)
        self._memory = {False: Memory(), True: Memory()}

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *_: object) -> None:
        self._collector.close()

    def cycle(self, usual_ids: Iterable[str]) -> Mapping[bool, Evaluation]:
        """Runs one cycle; returns whether the settings are PATIENT -> its evaluation."""
        memory = self._memory[False]
        snapshot = self._collector.collect(seen_before=memory.seen, completing=memory.completing)
        usual = UsualDuration(of="the bench", threshold_ms=500, p99_ms=100, samples=1000)
        baseline = Baseline(
            cluster_ids=frozenset({snapshot.cluster_id}),
            transactional_ids={(snapshot.cluster_id, name): usual for name in usual_ids},
        )
        found = {
            is_patient: evaluate(snapshot, known, PATIENT if is_patient else SHORT, baseline=baseline)
            for is_patient, known in self._memory.items()
        }
        self._memory = {is_patient: evaluation.memory for is_patient, evaluation in found.items()}
        return found


class Act:
    """One scene on its way through its phases: made, watched, asked for, and on to the next phase."""

    def __init__(self, scene: Scene, probe: Probe, folder: Path) -> None:
        self.scene, self.result = scene, Result(scene.situation)
        self.is_made = self.is_over = False
        self._probe, self._folder = probe, folder
        self._begun_s = self._right_s = 0.0
        self._cycles = 0
        self._seen: Standstills = frozenset()

    def go_on(self) -> None:
        """Makes the next phase and compares its truth with the brokers; a scene without one is over."""
        scene = self.scene
        with FailingAlone(self):
            scene.steps = scene.steps or scene.situation.make(scene)
            try:
                next(scene.steps)
            except StopIteration:
                self.is_over = True
                return
            confirm(scene, self._probe)
            self.result.truth.append(scene.truth)
            self._begun_s, self._cycles, self.is_made = time.monotonic(), 0, True

    @property
    def expected(self) -> Standstills:
        """The exporter's view that is waited for: the truth, or what is known to be said instead."""
        difference = DIFFERENCES.get(self.scene.situation.name)
        return self.scene.truth if difference is None else difference.of_exporter(self.scene.truth)

    def before_cycle(self) -> None:
        """Takes the step that the scene wants before each cycle."""
        if self.scene.each_cycle is not None:
            with FailingAlone(self):
                self.scene.each_cycle()

    def see(self, found: Standstills) -> None:
        """Counts the cycles that are right, and notes whoever is named without a reason."""
        self._seen = frozenset(standstill for standstill in found if self.scene.is_own(standstill))
        allowed = {standstill.where for standstill in self.expected}
        for each in self._seen:
            if each.where not in allowed and (words := f"extra: {_in_words(each)}") not in self.result.wrong:
                self.result.wrong.append(words)
        if self._seen != self.expected:
            self._cycles = 0
            if time.monotonic() - self._begun_s > LIMIT_S:
                self._give_up()
            return
        if not self._cycles:
            self._right_s = time.monotonic()
        self._cycles += 1

    def _give_up(self) -> None:
        missing, extra = self.expected - self._seen, self._seen - self.expected
        words = [*(f"missing: {_in_words(each)}" for each in missing), *(f"extra: {_in_words(each)}" for each in extra)]
        self.result.wrong += words
        self.is_over = True

    @property
    def is_settled(self) -> bool:
        """True if the exporter has been right for long enough."""
        return not self.is_over and self._cycles >= CYCLES and time.monotonic() - self._begun_s > WATCHED_S

    def ask(self) -> None:
        """Asks `why` about every group and every owner, then goes on."""
        with FailingAlone(self):
            self.result.right_after_s.append(self._right_s - self._begun_s)
            self._ask()
        if not self.is_over:
            self.go_on()

    def _ask(self) -> None:
        scene, result = self.scene, self.result
        expected = frozenset(standstill.for_one_look for standstill in scene.truth)
        found: set[Standstill] = set()
        for group in scene.groups:
            found |= view.of_why(group, self._why("--group", group))
        stuck = {each.party for each in scene.truth if each.behind is None and each.cause is Cause.STUCK_AT_COORDINATOR}
        holders = {each.behind for each in scene.truth if each.behind is not None}
        for owner in sorted(stuck | holders):
            answer = self._why("--transactional-id", owner)
            found |= view.of_why(owner, answer)
            shown = {each.place for each in view.held_by(answer)}
            unseen = {each.place for each in scene.truth if each.behind == owner} - shown
            result.wrong += [f"why --transactional-id {owner} does not show {place}" for place in unseen]
        result.wrong += [f"why misses {_in_words(each)}" for each in expected - found]
        result.wrong += [f"why adds {_in_words(each)}" for each in found - expected]
        difference = DIFFERENCES.get(scene.situation.name)
        if difference is not None:
            result.because = difference.because
            words = _compared("the exporter", scene.truth, difference.of_exporter(scene.truth))
            own = scene.name()
            result.differs += [each.replace(f" on {own}-", " on partition ").replace(f"{own}-", "") for each in words]

    def _why(self, *question: str) -> dict[str, object]:
        policy = PATIENT if self.scene.situation.patient else SHORT
        young = ("--blocked.after", f"{policy.blocked_after_ms // 1000}s")
        where = ("--bootstrap-server", self.scene.bootstrap)
        done = called(self._folder, "why", *where, *young, *question, "--format", "json")
        if "no group" in done.stderr:  # its topic is deleted, and all its offsets with it
            return {"lag": 0, "holds": [], "stuck": []}
        assert done.returncode in {0, 4}, f"why {question}: {done.returncode} {done.stdout}{done.stderr}"
        answer: dict[str, object] = json.loads(done.stdout)
        assert (done.returncode == 4) == bool(answer["unknown"]), done.stdout
        return answer


class FailingAlone:
    """Ends one scene where something goes wrong in it, and none of the others."""

    def __init__(self, act: Act) -> None:
        self._act = act

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        self._act.result.failure = traceback.format_exc()
        self._act.is_over = True
        return True


def _compared(who: str, right: Standstills, said: Standstills) -> list[str]:
    return [
        *(f"{who} misses {_in_words(each)}" for each in sorted(right - said, key=_in_words)),
        *(f"{who} adds {_in_words(each)}" for each in sorted(said - right, key=_in_words)),
    ]


def _in_words(standstill: Standstill) -> str:
    topic, partition = standstill.place
    behind = "" if standstill.behind is None else f" behind {standstill.behind}"
    return f"{standstill.party} on {topic}-{partition}, {standstill.cause.value}{behind}"


def play(version: str, situations: Iterable[Situation]) -> Mapping[str, Result]:
    """Plays these situations on a broker of this version; returns name -> result, without those that it cannot play."""
    chosen = [situation for situation in situations if situation.is_for(version)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="standstill-")))
        cluster = stack.enter_context(KafkaCluster(version, properties=PROPERTIES))
        plain = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0})
        probe = Probe(cluster.bootstrap)
        acts = [Act(Scene(situation, cluster, plain), probe, folder) for situation in chosen]
        for act in acts:
            stack.enter_context(act.scene.stack)
        if acts:
            make_offsets_topic(acts[0].scene)
        exporter = stack.enter_context(Exporter(cluster.bootstrap))
        for is_alone in (False, True):
            together = [act for act in acts if act.scene.situation.alone == is_alone]
            with ThreadPoolExecutor(PLANTERS) as pool:
                _watch(exporter, together, pool)
    return {act.result.situation.name: act.result for act in acts}


def _watch(exporter: Exporter, acts: Sequence[Act], pool: ThreadPoolExecutor) -> None:
    """Makes all scenes, those with short time-outs last, and runs cycles until every scene is over.

    `why` runs when all are made: it is called in this process, and takes its environment and output.
    """
    by_lateness = sorted(acts, key=lambda act: act.scene.situation.late)
    making = [pool.submit(act.go_on) for act in by_lateness]
    while not all(act.is_over for act in acts):
        running = [act for act in acts if act.is_made and not act.is_over]
        for act in running:
            act.before_cycle()
        cycle = exporter.cycle({name for act in running for name in act.scene.usual_ids})
        found = {is_patient: view.of_exporter(evaluation) for is_patient, evaluation in cycle.items()}
        for act in running:
            act.see(found[act.scene.situation.patient])
        began_s = time.monotonic()
        for act in sorted(running, key=lambda act: not act.scene.situation.late):
            if all(made.done() for made in making) and act.is_settled and time.monotonic() - began_s < WHY_S:
                act.ask()
        time.sleep(PAUSE_S)
    for act in acts:
        act.scene.stack.close()  # its clients must not meet the restart of the broker
