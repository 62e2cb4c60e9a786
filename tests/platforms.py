"""Plays platforms that offer less than Apache Kafka, in the shapes that their sources and documents describe.

Each has the transactions of `tests/kafka/scene.py`: four hangs, and live ones of every kind. `make generate` writes the
table of docs/platforms.md.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from exporter.doctor.diagnose import diagnose
from exporter.doctor.findings import Diagnosis
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation
from exporter.kafka.collect.preconditions import preconditions
from exporter.kafka.errors import ErrorCode
from exporter.snapshot import STATE_TOPIC
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import Model, Partition, Producer, Transaction
from tests.kafka.scene import BY_OFFSETS, HANGING, POLICY, collector_of, scene

NODES: Final = (1, 2)
RUN: Final = "run on the real thing"
STAND_IN: Final = "run on a stand-in"
DOCUMENTS: Final = "from its documents or source"
CYCLES: Final = 2


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform as it is known."""

    name: str
    known: str
    shape: Callable[[FakeCluster], None]
    raises: str
    """It says what would raise the level; it is empty where nothing would, or nothing needs to."""


@dataclass(frozen=True, slots=True)
class Played:
    """What two cycles and `doctor` said of a platform."""

    diagnosis: Diagnosis
    evaluation: Evaluation

    def false_hangs(self) -> list[str]:
        """Every hanging verdict on what does not hang."""
        false = []
        for row in self.evaluation.suspects:
            place = (row.topic, row.partition)
            known = HANGING.get((*place, row.producer_id)) if row.has_producer else BY_OFFSETS.get(place)
            if row.verdict.is_hanging and (known is None or not known.is_hanging):
                false.append(f"{row.topic}-{row.partition}: {row.verdict.label}")
        return false

    def live(self) -> set[tuple[str, int]]:
        """Partitions with something that is shown as live."""
        rows = all_rows(self.evaluation)
        return {(row.topic, row.partition) for row in rows if not row.verdict.is_suspect}

    def hangs_proved(self) -> int:
        """Proved hangs."""
        return sum(row.verdict.is_hanging for row in self.evaluation.suspects)


def _apache(_: FakeCluster) -> None:
    pass


def _lacking(*apis: str) -> Callable[[FakeCluster], None]:
    def shape(cluster: FakeCluster) -> None:
        for node in NODES:
            for api in apis:
                cluster.offered[node].pop(api, None)

    return shape


def _zookeeper(cluster: FakeCluster) -> None:
    cluster.model.quorum = int(ErrorCode.UNSUPPORTED_VERSION)


def _without_state_topic(*apis: str) -> Callable[[FakeCluster], None]:
    """Coordinators have no topic, and any broker lists what each of them has."""

    def shape(cluster: FakeCluster) -> None:
        cluster.model.topics.pop(STATE_TOPIC, None)
        cluster.model.coordinator_without_topic = 2
        cluster.model.does_any_node_list = True
        _zookeeper(cluster)
        _lacking(*apis)(cluster)

    return shape


def _without_read(cluster: FakeCluster) -> None:
    cluster.model.unreadable_topics = set(cluster.model.topics)


def _acls_not_listed(cluster: FakeCluster) -> None:
    cluster.model.acls = int(ErrorCode.UNKNOWN_SERVER_ERROR)


def _without_read_or_acls(cluster: FakeCluster) -> None:
    _without_read(cluster)
    _acls_not_listed(cluster)


_READ = "READ on the topics"
_CONNECT = "nothing: it has no topic `__transaction_state`"
PLATFORMS: Final = (
    Platform("Apache Kafka 3.0 or later with KRaft", f"{RUN} (4.3.1, 3.9.1)", _apache, ""),
    Platform("Strimzi, Amazon MSK", f"{DOCUMENTS} (they run Apache Kafka), 2026-11", _apache, ""),
    Platform("Apache Kafka 3.0 to 3.9 with ZooKeeper", f"{RUN} (3.9.1, 3.0.2)", _zookeeper, ""),
    Platform("Apache Kafka, DESCRIBE without READ", f"{RUN} (4.3.1, 3.9.1)", _without_read, _READ),
    Platform(
        "Apache Kafka 2.8",
        f"{RUN} (2.8.2)",
        _lacking("ListTransactions", "DescribeTransactions"),
        "Kafka 3.0, which has ListTransactions and DescribeTransactions",
    ),
    Platform(
        "AutoMQ",
        f"{DOCUMENTS} (a fork of Kafka 3.9), 2026-11",
        _apache,
        "",
    ),
    Platform(
        "Apache Kafka with an authorizer that lists no ACLs (Open Policy Agent, Keycloak)",
        STAND_IN,
        _acls_not_listed,
        "an authorizer that lists them: a hang whose id is known is proved without",
    ),
    Platform("The same, DESCRIBE without READ", STAND_IN, _without_read_or_acls, _READ),
    Platform("Redpanda", f"{DOCUMENTS}, 2024-12; stand-in", _without_state_topic("WriteTxnMarkers"), _CONNECT),
    Platform("kfake, the broker of franz-go's tests", f"{RUN}, 2026-09", _without_state_topic(), _CONNECT),
    Platform("Bufstream", f"{DOCUMENTS}, 2026-11; stand-in", _without_state_topic(), _CONNECT),
    Platform(
        "WarpStream",
        f"{DOCUMENTS}, 2026-11; stand-in",
        _without_state_topic("DescribeProducers", "WriteTxnMarkers"),
        _CONNECT,
    ),
)
UNKNOWN: Final = "Confluent Cloud, Amazon MSK Serverless, Azure Event Hubs"
"""Nothing is known of the requests that they offer: run `doctor`."""


def played(platform: Platform, *, model: Callable[[], Model] = scene) -> Played:
    """Two cycles of a process that has seen the cluster before, and `doctor`."""
    with FakeCluster(model(), nodes=2) as cluster, collector_of(cluster) as collector:
        platform.shape(cluster)
        evaluation = evaluate(collector.collect(seen_before=None), Memory(), POLICY)
        for _ in range(CYCLES - 1):
            evaluation = evaluate(collector.collect(seen_before=None), evaluation.memory, POLICY)
        return Played(diagnose(evaluation.snapshot, collector.query(preconditions)), evaluation)


@dataclass(frozen=True, slots=True)
class Scattered:
    """A cluster with transactions by chance, and what is true of them."""

    model: Model
    hanging: frozenset[tuple[str, int, int]]
    """(topic, partition, producer id)."""
    live: frozenset[tuple[str, int, int]]
    hanging_by_offsets: frozenset[tuple[str, int]]
    """Partitions whose last stable offset a hang holds."""


def scattered(seed: int) -> Scattered:
    """Up to four open transactions on each of six partitions: hangs of known and unknown ids, live and completing ones."""
    chance, now_ms = random.Random(seed), time.time_ns() // 1_000_000
    model = Model(topics={STATE_TOPIC: [Partition(1 + index % 2) for index in range(5)]})
    hanging: set[tuple[str, int, int]] = set()
    live: set[tuple[str, int, int]] = set()
    by_offsets: set[tuple[str, int]] = set()
    for number in range(6):
        place = (f"t{number // 2}", number % 2)
        starts = sorted(chance.sample(range(100), chance.randint(0, 4)))
        producers = [Producer(100 * number + index, start) for index, start in enumerate(starts)]
        model.topics.setdefault(place[0], []).append(Partition(chance.choice(NODES), producers=producers))
        for producer in producers:
            key, name = (*place, producer.producer_id), f"id-{producer.producer_id}"
            fate = chance.choice(("unknown", "ended", "elsewhere", "live", "completing"))
            (live if fate in {"live", "completing"} else hanging).add(key)
            if fate == "unknown":
                continue
            state = {"ended": "CompleteAbort", "completing": "PrepareCommit"}.get(fate, "Ongoing")
            partitions = {("elsewhere", 0)} if fate == "elsewhere" else {place} if fate != "ended" else set()
            model.transactions[name] = Transaction(
                producer.producer_id, state, start_ms=now_ms, timeout_ms=600_000, partitions=partitions
            )
        if producers and (*place, producers[0].producer_id) in hanging:
            by_offsets.add(place)
    return Scattered(model, frozenset(hanging), frozenset(live), frozenset(by_offsets))


def table() -> str:
    """The table of docs/platforms.md."""
    lines = [
        "| platform | known | level | `doctor` says | what would raise it |",
        "|---|---|---|---|---|",
    ]
    before = ""
    for platform in PLATFORMS:
        diagnosis = played(platform).diagnosis
        sentence = diagnosis.sentence.replace("|", "\\|") if platform.raises else ""
        level = diagnosis.level.value.replace("_", " ")
        said = f"{level} | {sentence} | {platform.raises}"
        again = f"{level} | the same | the same" if sentence else said
        lines.append(f"| {platform.name} | {platform.known} | {again if said == before else said} |")
        before = said
    lines.append(f"| {UNKNOWN} | untried | unknown | run it | |")
    return "\n".join(lines) + "\n"
