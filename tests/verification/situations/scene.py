"""Holds one situation on one broker version: what was planted, what was seen, and whether that is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from examples.workload.planting import PlantedTransaction
from exporter.evaluation.evaluate import all_rows
from exporter.evaluation.verdicts import Evaluation, InconclusiveReason, Verdict
from exporter.snapshot import PartitionResult
from tests.brokers.cluster import KafkaCluster
from tests.verification.situations import ground
from tests.verification.situations.java_tool import JavaAnswer
from tests.verification.situations.steps import Client
from tests.verification.situations.words import INVISIBLE, WANTS_A_PERSON, Expected, Key, Score, Situation, Truth

Judged = tuple[Verdict, InconclusiveReason | None]

HANGING = frozenset({Verdict.HANGING_NOT_IN_TRANSACTION})
UNKNOWN = frozenset({Verdict.HANGING_NO_TRANSACTIONAL_ID})
OPEN = frozenset({Verdict.OPEN_WITHIN_TIMEOUT})


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


@dataclass(slots=True)
class Scene:
    """A situation is planted here: it takes topics and names from here, and writes down what is true."""

    situation: Situation
    cluster: KafkaCluster
    expected: list[Expected] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)
    may_show: frozenset[Verdict] = frozenset()
    """Verdicts of transactions that come and go: not expected, not surprising."""
    sights: list[Sight] = field(default_factory=list)
    java: JavaAnswer | None = None
    failure: str | None = None
    """Why this scene proves nothing: planting failed, or the truth is another one."""
    twin: Scene | None = None
    """Planted once more for Kafka's tool, where scanning uses up what was planted."""
    suffix: str = ""
    truth_in_words: str | None = None
    """Where transactions come and go."""
    meanwhile_happens: Callable[[], object] | None = None
    """A second half that happens later in the stage."""
    bootstrap_of_truth: str | None = None
    """Where the truth is read, where not every broker knows it."""
    must_be_incomplete: bool = False
    """Something is hidden, and coverage must say so."""

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def name(self, what: str = "") -> str:
        """A name for a topic or an id that no other scene has."""
        return "-".join(part for part in (self.situation.name.replace(" ", "-"), what, self.suffix) if part)

    def topic(self, what: str = "", *, partitions: int = 1) -> str:
        """A new topic, whose rows belong to this scene."""
        return self.own(self.cluster.topics.create(self.name(what), partitions=partitions))

    def own(self, topic: str) -> str:
        self.topics.add(topic)
        return topic

    def client(self, what: str = "id", *, timeout_ms: int = 600_000) -> Client:
        """A transactional client of its own."""
        return Client.begin(self.bootstrap, self.name(what), timeout_ms=timeout_ms)

    def expect(
        self,
        planted: PlantedTransaction,
        truth: Truth,
        verdicts: Iterable[Verdict] = (),
        *reasons: InconclusiveReason,
        first: Iterable[Verdict] = (),
        unread: str | None = None,
    ) -> None:
        """Record the truth of a transaction and the verdicts that the exporter must give."""
        self.own(planted.topic)
        self.expected.append(
            Expected(
                key=(planted.topic, planted.partition, planted.producer_id),
                truth=truth,
                producer_epoch=planted.producer_epoch,
                transactional_id=planted.transactional_id,
                verdicts=frozenset(verdicts) | ({Verdict.INCONCLUSIVE} if reasons else set()),
                first=frozenset(first),
                reasons=frozenset(reasons),
                unread=unread,
            )
        )

    def hanging(self, planted: PlantedTransaction, verdicts: Iterable[Verdict] = HANGING) -> None:
        self.expect(planted, Truth.HANGING, verdicts)

    def live(self, planted: PlantedTransaction) -> None:
        self.expect(planted, Truth.LIVE, OPEN)

    def closed(self, planted: PlantedTransaction) -> None:
        self.expect(planted, Truth.CLOSED)

    def verify(self) -> None:
        """Hold what was written down against the brokers' own answers."""
        for expected in self.expected:
            if (
                self.failure is None
                and (problem := ground.contradiction(self.bootstrap_of_truth or self.bootstrap, expected)) is not None
            ):
                self.failure = f"the truth is another one: {problem}"

    def see(self, evaluation: Evaluation) -> None:
        """Note what this cycle shows of the scene."""
        partitions = evaluation.snapshot.partitions
        mine = [row for row in range(len(partitions)) if partitions.name(row)[0] in self.topics]
        self.sights.append(
            Sight(
                verdicts={
                    (row.topic, row.partition, row.producer_id): (row.verdict, row.inconclusive_reason)
                    for row in all_rows(evaluation)
                    if row.topic in self.topics and row.has_producer
                },
                by_offsets={
                    (row.topic, row.partition): (row.verdict, row.inconclusive_reason)
                    for row in all_rows(evaluation)
                    if row.topic in self.topics and not row.has_producer
                },
                unread={
                    partitions.name(row): partitions.reasons[int(partitions.reason[row])]
                    for row in mine
                    if partitions.answer[row] != PartitionResult.READ
                },
                topics=frozenset(partitions.name(row)[0] for row in mine),
                is_complete=evaluation.snapshot.is_complete,
            )
        )

    def make_twin(self) -> Scene:
        """The same situation once more."""
        self.twin = Scene(self.situation, self.cluster, suffix="twin")
        return self.twin

    @property
    def meanwhile(self) -> str:
        """What earlier cycles than the last one said, where it was something else."""
        last = set(self.sights[-1].verdicts.values()) if self.sights else set()
        verdicts = {_label(s) for sight in self.sights[:-1] for s in sight.verdicts.values() if s not in last}
        return ", ".join(sorted(verdicts))

    @property
    def truth(self) -> str:
        """In words, for the table."""
        if self.truth_in_words is not None:
            return self.truth_in_words
        counts: dict[str, int] = {}
        for expected in self.expected:
            counts[expected.truth.value] = counts.get(expected.truth.value, 0) + 1
        if not counts:
            return Truth.CLOSED.value
        return ", ".join(word if count == 1 else f"{count} {word}" for word, count in counts.items())


def score_ours(scene: Scene) -> Score:
    """Right if the last cycle gives the required verdict, and no cycle called a transaction hanging that is not."""
    assert scene.sights, "the scene was never scanned"
    false = [
        f"FALSE {verdict.label}"
        for sight in scene.sights
        for key, (verdict, _) in sight.verdicts.items()
        if verdict.is_hanging and Truth.HANGING not in {e.truth for e in scene.expected if e.key == key}
    ]
    false += false_by_offsets(scene)
    if false:
        return Score(is_right=False, words=", ".join(dict.fromkeys(false)))
    last = scene.sights[-1]
    problems = [problem for e in scene.expected if (problem := _problem(e, last)) is not None]
    problems += [
        f"at first {scene.sights[0].verdicts.get(e.key)}" for e in scene.expected if _is_wrong_at_first(e, scene)
    ]
    if scene.must_be_incomplete and last.is_complete:
        problems.append("coverage is said to be complete")
    surprising = {verdict for sight in scene.sights for verdict, _ in _unexpected(scene, sight)} - scene.may_show
    problems += [f"unexpected {verdict.label}" for verdict in sorted(surprising)]
    words = problems or [_words(e, scene) for e in scene.expected] or ["nothing open"]
    return Score(is_right=not problems, words=_counted(words))


def false_by_offsets(scene: Scene) -> list[str]:
    """Every hang that offsets are said to prove on a partition where none is."""
    hanging = {e.key[:2] for e in scene.expected if e.truth is Truth.HANGING}
    return [
        f"FALSE {verdict.label}"
        for sight in scene.sights
        for partition, (verdict, _) in sight.by_offsets.items()
        if verdict.is_hanging and partition not in hanging
    ]


def hangs_by_offsets(scene: Scene) -> tuple[int, int]:
    """(proved in the last cycle, all) partitions with a hang beside which no active transaction includes the partition."""
    active = {e.key[:2] for e in scene.expected if e.truth not in {Truth.HANGING, Truth.CLOSED}}
    active |= {e.key[:2] for e in scene.expected if Verdict.HANGING_STALE_EPOCH in e.verdicts or e.reasons}
    alone = {e.key[:2] for e in scene.expected if e.truth is Truth.HANGING and e.unread is None} - active
    last = scene.sights[-1].by_offsets
    proved = sum(partition in last and last[partition][0].is_hanging for partition in alone)
    return proved, len(alone)


def _unexpected(scene: Scene, sight: Sight) -> list[Judged]:
    keys = {e.key for e in scene.expected}
    return [verdict for key, verdict in sight.verdicts.items() if key not in keys]


def _problem(expected: Expected, sight: Sight) -> str | None:
    topic, partition, _ = expected.key
    verdict = sight.verdicts.get(expected.key)
    if verdict is not None:
        is_right = verdict[0] in expected.verdicts and (verdict[1] is None or verdict[1] in expected.reasons)
        return None if is_right else f"wrongly {_label(verdict)}"
    if expected.unread == INVISIBLE:
        return None if topic not in sight.topics else f"{topic} should be invisible"
    if expected.unread is not None:
        why = sight.unread.get((topic, partition))
        return None if why == expected.unread else f"unread for another reason: {why}"
    is_missed = expected.truth is not Truth.CLOSED and bool(expected.verdicts)
    return f"missed {expected.truth.value}" if is_missed else None


def _is_wrong_at_first(expected: Expected, scene: Scene) -> bool:
    verdict = scene.sights[0].verdicts.get(expected.key)
    return bool(expected.first) and (verdict is None or verdict[0] not in expected.first)


def _words(expected: Expected, scene: Scene) -> str:
    last = scene.sights[-1].verdicts.get(expected.key)
    if last is not None:
        first = scene.sights[0].verdicts.get(expected.key)
        return _label(last) if first in {None, last} or not expected.first else f"{_label(first)}, then {_label(last)}"
    if expected.unread == INVISIBLE:
        return "cannot see the topic"
    return "nothing open" if expected.unread is None else f"partition unread ({expected.unread})"


def _label(label: Judged) -> str:
    verdict, reason = label
    return verdict.label if reason is None else f"{verdict.label} ({reason.value})"


def score_java(scene: Scene) -> Score:
    """Right when it names every hanging transaction and no other, and nothing else was wrong that it passes over."""
    scene = scene.twin or scene
    answer = scene.java
    assert answer is not None, "the tool was never asked"
    if answer.death is not None:
        return Score(is_right=False, words=f"died: {answer.death}")
    named = {key for key in answer.hanging if key[0] in scene.topics}
    hanging = {e.key for e in scene.expected if e.truth is Truth.HANGING}
    visible = [e for e in scene.expected if e.unread != INVISIBLE]
    wrong = ["FALSE HANGING"] * len(named - hanging)
    wrong += [f"missed {e.truth.value}" for e in visible if e.truth in WANTS_A_PERSON and e.key not in named]
    unseen = [] if len(visible) == len(scene.expected) else ["cannot see the topic"]
    return Score(is_right=not wrong, words=_counted((wrong or ["right"]) + unseen))


def _counted(words: list[str]) -> str:
    counts = {word: words.count(word) for word in dict.fromkeys(words)}
    return ", ".join(word if count == 1 else f"{count} × {word}" for word, count in counts.items())  # noqa: RUF001
