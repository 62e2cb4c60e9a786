"""Judges the exporter's verdicts in a situation: more strictly than HangBench, by verdict, reason and cycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.evaluation.evaluate import all_rows
from exporter.evaluation.verdicts import Evaluation, InconclusiveReason, Verdict
from exporter.snapshot import PartitionResult
from hangbench.judge import counted
from hangbench.situations.scene import Scene
from hangbench.situations.words import Expected, Key, Truth
from tests.verification.situations.exporter import EXPORTER
from tests.verification.situations.words import INVISIBLE, MAY_SHOW, RightAnswer, right_answer

Judged = tuple[Verdict, InconclusiveReason | None]


@dataclass(frozen=True, slots=True)
class Score:
    """An answer, and whether it is right."""

    is_right: bool
    words: str


@dataclass(frozen=True, slots=True)
class Sight:
    """What one cycle of the exporter showed of a scene."""

    verdicts: Mapping[Key, Judged]
    by_offsets: Mapping[tuple[str, int], Judged]
    """What holds the last stable offset of partitions whose producers may not be read."""
    unread: Mapping[tuple[str, int], str]
    """Partitions of the scene that could not be read: why."""
    topics: frozenset[str]
    """Those that the snapshot knows."""
    is_complete: bool
    """What is said of coverage."""


def sights_of(scene: Scene) -> list[Sight]:
    """Cycle after cycle."""
    found = []
    for response in scene.responses.get(EXPORTER, []):
        assert isinstance(response.detail, Evaluation)
        found.append(sight(response.detail, scene.topics))
    return found


def sight(evaluation: Evaluation, topics: set[str]) -> Sight:
    """What a cycle shows of these topics."""
    partitions = evaluation.snapshot.partitions
    mine = [row for row in range(len(partitions)) if partitions.name(row)[0] in topics]
    rows = [row for row in all_rows(evaluation) if row.topic in topics]
    return Sight(
        verdicts={
            (row.topic, row.partition, row.producer_id): (row.verdict, row.inconclusive_reason)
            for row in rows
            if row.has_producer
        },
        by_offsets={
            (row.topic, row.partition): (row.verdict, row.inconclusive_reason) for row in rows if not row.has_producer
        },
        unread={
            partitions.name(row): partitions.reasons[int(partitions.reason[row])]
            for row in mine
            if partitions.answer[row] != PartitionResult.READ
        },
        topics=frozenset(partitions.name(row)[0] for row in mine),
        is_complete=evaluation.snapshot.is_complete,
    )


def meanwhile(scene: Scene) -> str:
    """What earlier cycles than the last one said, where it was something else."""
    sights = sights_of(scene)
    last = set(sights[-1].verdicts.values()) if sights else set()
    verdicts = {_label(s) for each in sights[:-1] for s in each.verdicts.values() if s not in last}
    return ", ".join(sorted(verdicts))


def score_exporter(scene: Scene) -> Score:
    """How right the exporter was in a scene."""
    return score(scene, sights_of(scene))


def score(scene: Scene, sights: list[Sight]) -> Score:
    """Right if the last cycle gives the required verdict, and no cycle called a transaction hanging that is not."""
    assert sights, "the scene was never scanned"
    hanging = {e.key for e in scene.expected if e.truth is Truth.HANGING}
    false = [
        f"FALSE {verdict.label}"
        for each in sights
        for key, (verdict, _) in each.verdicts.items()
        if verdict.is_hanging and key not in hanging
    ]
    false += false_by_offsets(scene, sights)
    if false:
        return Score(is_right=False, words=", ".join(dict.fromkeys(false)))
    name, last = scene.situation.name, sights[-1]
    pairs = [(e, right_answer(name, e)) for e in scene.expected]
    problems = [problem for e, want in pairs if (problem := _problem(e, want, last)) is not None]
    problems += [
        f"at first {sights[0].verdicts.get(e.key)}" for e, want in pairs if _is_wrong_at_first(e, want, sights)
    ]
    if scene.must_be_incomplete and last.is_complete:
        problems.append("coverage is said to be complete")
    may_show = MAY_SHOW.get(name, frozenset())
    surprising = {verdict for each in sights for verdict, _ in _unexpected(scene, each)} - may_show
    problems += [f"unexpected {verdict.label}" for verdict in sorted(surprising)]
    words = problems or [_words(e, want, sights) for e, want in pairs] or ["nothing open"]
    return Score(is_right=not problems, words=counted(words))


def false_by_offsets(scene: Scene, sights: list[Sight]) -> list[str]:
    """Every hang that offsets are said to prove on a partition where none is."""
    hanging = {e.key[:2] for e in scene.expected if e.truth is Truth.HANGING}
    return [
        f"FALSE {verdict.label}"
        for each in sights
        for partition, (verdict, _) in each.by_offsets.items()
        if verdict.is_hanging and partition not in hanging
    ]


def hangs_by_offsets(scene: Scene) -> tuple[int, int]:
    """(proved in the last cycle, all) partitions with a hang beside which no active transaction includes the partition."""
    pairs = [(e, right_answer(scene.situation.name, e)) for e in scene.expected]
    active = {e.key[:2] for e, _ in pairs if e.truth not in {Truth.HANGING, Truth.CLOSED}}
    active |= {e.key[:2] for e, want in pairs if Verdict.HANGING_STALE_EPOCH in want.verdicts or want.reasons}
    alone = {e.key[:2] for e, want in pairs if e.truth is Truth.HANGING and want.unread is None} - active
    last = sights_of(scene)[-1].by_offsets
    proved = sum(partition in last and last[partition][0].is_hanging for partition in alone)
    return proved, len(alone)


def _unexpected(scene: Scene, sight: Sight) -> list[Judged]:
    keys = {e.key for e in scene.expected}
    return [verdict for key, verdict in sight.verdicts.items() if key not in keys]


def _problem(expected: Expected, want: RightAnswer, sight: Sight) -> str | None:
    topic, partition, _ = expected.key
    verdict = sight.verdicts.get(expected.key)
    if verdict is not None:
        is_right = verdict[0] in want.verdicts and (verdict[1] is None or verdict[1] in want.reasons)
        return None if is_right else f"wrongly {_label(verdict)}"
    if want.unread == INVISIBLE:
        return None if topic not in sight.topics else f"{topic} should be invisible"
    if want.unread is not None:
        why = sight.unread.get((topic, partition))
        return None if why == want.unread else f"unread for another reason: {why}"
    is_missed = expected.truth is not Truth.CLOSED and bool(want.verdicts)
    return f"missed {expected.truth.value}" if is_missed else None


def _is_wrong_at_first(expected: Expected, want: RightAnswer, sights: list[Sight]) -> bool:
    verdict = sights[0].verdicts.get(expected.key)
    return bool(want.first) and (verdict is None or verdict[0] not in want.first)


def _words(expected: Expected, want: RightAnswer, sights: list[Sight]) -> str:
    last = sights[-1].verdicts.get(expected.key)
    if last is not None:
        first = sights[0].verdicts.get(expected.key)
        return _label(last) if first in {None, last} or not want.first else f"{_label(first)}, then {_label(last)}"
    if want.unread == INVISIBLE:
        return "cannot see the topic"
    return "nothing open" if want.unread is None else f"partition unread ({want.unread})"


def _label(label: Judged) -> str:
    verdict, reason = label
    return verdict.label if reason is None else f"{verdict.label} ({reason.value})"
