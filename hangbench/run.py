"""Runs detectors through the situations, and gives each answer its judgement."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from hangbench.detector import Detector, Says
from hangbench.judge import Judgement, counted, score
from hangbench.play import Performance
from hangbench.situations.scene import Scene
from hangbench.situations.stages import Stage

NOT_JUDGED = "not judged"
ELSEWHERE = "where nothing was planted"
"""Stands for a situation in results: a false hang there, which no situation has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One detector in one situation."""

    kafka: str
    stage: str
    situation: str
    detector: str
    truth: str
    judgement: str
    """A Judgement's value, or NOT_JUDGED: the truth is not confirmed, or the brokers did not come up."""
    words: str
    seconds: float
    """Of its last look."""

    def document(self) -> dict[str, object]:
        return asdict(self)


def results(
    versions: Sequence[str],
    stages: Sequence[Stage],
    detectors: Sequence[Detector],
    report: Callable[[str], None],
) -> Iterator[Result]:
    """Every detector in every situation, version after version."""
    for version in versions:
        for stage in stages:
            groups = [[detector] for detector in detectors] if stage.is_used_up else [list(detectors)]
            for group in groups:
                began = time.monotonic()
                names = ", ".join(detector.name for detector in group)
                try:
                    performance = stage.perform(version, group)
                except Exception:  # noqa: BLE001 - brokers that do not come up say nothing about a detector
                    why = last_line(traceback.format_exc())
                    report(f"{version} {stage.name}: not played for {names}: {why}")
                    yield from _not_played(version, stage, group, why)
                    continue
                others = [situation.versions for situation in stage.situations if not situation.is_for(version)]
                skipped = f" ({len(others)} left out: {', '.join(dict.fromkeys(others))})" if others else ""
                count = f"{len(performance)} situation{'' if len(performance) == 1 else 's'}"
                report(f"{version} {stage.name}: {count}{skipped}, {names}, {time.monotonic() - began:.0f} s")
                yield from _judged(version, stage, performance, group)


def _not_played(version: str, stage: Stage, group: Sequence[Detector], why: str) -> Iterator[Result]:
    for situation in stage.situations:
        for detector in group:
            if situation.is_for(version):
                yield not_judged(version, stage.name, situation.name, detector.name, why)


def not_judged(version: str, stage: str, situation: str, detector: str, why: str) -> Result:
    """The result where nothing was played."""
    return Result(
        kafka=version,
        stage=stage,
        situation=situation,
        detector=detector,
        truth="",
        judgement=NOT_JUDGED,
        words=why,
        seconds=0.0,
    )


def _judged(version: str, stage: Stage, performance: Performance, group: Sequence[Detector]) -> Iterator[Result]:
    for name, played in performance.items():
        for detector in group:
            scene = played.of(detector.name)
            responses = scene.responses.get(detector.name, [])
            judgement, words = judged(scene, detector.name)
            yield Result(
                kafka=version,
                stage=stage.name,
                situation=name,
                detector=detector.name,
                truth=scene.truth,
                judgement=judgement,
                words=words,
                seconds=round(responses[-1].seconds, 3) if responses else 0.0,
            )
    for detector in group:
        words = false_elsewhere(performance, detector.name)
        if words:
            yield Result(
                kafka=version,
                stage=stage.name,
                situation=ELSEWHERE,
                detector=detector.name,
                truth="nothing is open",
                judgement=Judgement.FALSE.value,
                words=words,
                seconds=0.0,
            )


def false_elsewhere(performance: Performance, detector: str) -> str:
    """Returns in words what a detector calls hanging on topics of no situation; empty if there is nothing."""
    scenes = [scene for played in performance.values() for scene in (played, *played.twins.values())]
    planted = {topic for scene in scenes for topic in scene.topics}
    rows = {
        row
        for played in performance.values()
        for response in played.of(detector).responses.get(detector, [])
        for row, says in response.rows.items()
        if says is Says.HANGING and row[0] not in planted
    }
    return counted([f"FALSE HANGING: {topic}-{partition}" for topic, partition, _ in sorted(rows, key=str)])


def last_line(text: str) -> str:
    """What a traceback says in the end."""
    return text.strip().splitlines()[-1]


def judged(scene: Scene, detector: str) -> tuple[str, str]:
    """(judgement, words) of a detector on the scene that was planted for it."""
    responses = scene.responses.get(detector, [])
    if scene.failure is not None:
        return NOT_JUDGED, last_line(scene.failure)
    if not responses:
        return NOT_JUDGED, "it was never asked"
    found = score(
        responses,
        scene.expected,
        scene.topics,
        must_be_incomplete=scene.must_be_incomplete,
        transactions_come_and_go=scene.transactions_come_and_go,
    )
    return found.judgement.value, found.words


JUDGEMENTS = (*(judgement.value for judgement in Judgement), NOT_JUDGED)
"""From the best to the worst, and what cannot be counted."""
