"""Holds one situation on one cluster: what was planted, what is true of it, and what each detector said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hangbench.detector import Response
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import PlantedTransaction
from hangbench.situations import ground
from hangbench.situations.steps import Client
from hangbench.situations.words import Expected, Lacking, Situation, Truth


@dataclass(slots=True)
class Scene:
    """A situation is planted here: it takes topics and names from here, and writes down what is true."""

    situation: Situation
    cluster: KafkaCluster
    expected: list[Expected] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)
    transactions_come_and_go: bool = False
    """Transactions that are not expected may be shown, and are not hanging."""
    responses: dict[str, list[Response]] = field(default_factory=dict)
    """What each detector said, look after look, by its name."""
    failure: str | None = None
    """Why this scene proves nothing: planting failed, or the truth is another one."""
    twins: dict[str, Scene] = field(default_factory=dict)
    """Planted once more for each further detector, where a look uses up what was planted."""
    suffix: str = ""
    truth_in_words: str | None = None
    """Where transactions come and go."""
    meanwhile_happens: Callable[[], object] | None = None
    """A second half that happens later in the stage."""
    bootstrap_of_truth: str | None = None
    """Where the truth is read, where not every broker knows it."""
    fault: str | None = None
    """What these brokers have left behind by a fault of their own, in a situation of such a fault."""
    must_be_incomplete: bool = False
    """Something is hidden, and a detector must say so."""

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
        self, planted: PlantedTransaction, truth: Truth, lacking: Iterable[Lacking] = (), *, may_be_known: bool = False
    ) -> None:
        """Record the truth of a transaction, and what cannot be seen of it."""
        self.own(planted.topic)
        self.expected.append(
            Expected(
                key=(planted.topic, planted.partition, planted.producer_id),
                truth=truth,
                producer_epoch=planted.producer_epoch,
                transactional_id=planted.transactional_id,
                lacking=frozenset(lacking),
                may_be_known=may_be_known,
            )
        )

    def hanging(self, planted: PlantedTransaction) -> None:
        self.expect(planted, Truth.HANGING)

    def live(self, planted: PlantedTransaction) -> None:
        self.expect(planted, Truth.LIVE)

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

    def hear(self, detector: str, responses: Iterable[Response]) -> None:
        """Note what a detector said."""
        self.responses.setdefault(detector, []).extend(responses)

    def of(self, detector: str) -> Scene:
        """The scene that was planted for this detector."""
        return self.twins.get(detector, self)

    def make_twin(self, detector: str) -> Scene:
        """The same situation once more, for this detector."""
        self.twins[detector] = Scene(self.situation, self.cluster, suffix=f"twin-{len(self.twins) + 1}")
        return self.twins[detector]

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
