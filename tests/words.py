"""Measures what each word of the exporter rests on: one fact after the other is taken away, on a cluster with a hang.

`make generate` writes the table into tests/verification/README.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple
from unittest.mock import patch

from exporter.config.loading import load
from exporter.doctor.diagnose import diagnose
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, TransactionRow
from exporter.kafka.collect import log_reader
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.preconditions import preconditions
from exporter.kafka.errors import ErrorCode
from exporter.publication.page.summary import Severity, summarize
from exporter.recovery.plan import Action, plan_for, refusal
from exporter.snapshot import STATE_TOPIC
from exporter.status import ClusterStatus, ProofStatus
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import Acl, Model, Partition, QuorumState
from tests.kafka.loopback import HOST
from tests.kafka.scene import POLICY, UNKNOWN, collector_of, scene

CLOSED_PORT: Final = 1
NODES: Final = (1, 2)
DESCRIBE, DENY, ALLOW = 8, 2, 3


class Words(NamedTuple):
    """What is said of one cluster."""

    doctor: str
    """`provable`."""
    page: str
    """The colour of the headline of a cluster where nothing hangs, by its last check; and its title."""
    coverage: str
    verdict: str
    """On a hang whose producer id no coordinator knows, with its reason."""
    plan: str
    """Of its abort: `writes` or `refuses`; `none` without a row."""


class Fact(NamedTuple):
    """One thing that words rest on."""

    name: str
    take_away: Callable[[FakeCluster], None]
    settings: tuple[tuple[str, str], ...] = ()


def _nothing(_: FakeCluster) -> None:
    pass


def _broker_down(cluster: FakeCluster) -> None:
    cluster.ports[2] = CLOSED_PORT


def _read_refused(cluster: FakeCluster) -> None:
    cluster.model.unreadable_topics = {"hung", "lively"}


def _topic_hidden(cluster: FakeCluster) -> None:
    """A topic that no process has seen yet."""
    cluster.model.acls = [Acl(DESCRIBE, ALLOW, "lively", resource=2)]
    cluster.model.hidden_topics = {(node, "lively") for node in NODES}


def _acls_unread(cluster: FakeCluster) -> None:
    cluster.model.acls = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _acls_not_listed(cluster: FakeCluster) -> None:
    cluster.model.acls = ErrorCode.UNKNOWN_SERVER_ERROR


def _state_topic_hidden(cluster: FakeCluster) -> None:
    cluster.model.hidden_topics = {(node, STATE_TOPIC) for node in NODES}


def _state_topic_absent(cluster: FakeCluster) -> None:
    del cluster.model.topics[STATE_TOPIC]
    cluster.model.transactions.clear()


def _loading(cluster: FakeCluster) -> None:
    cluster.model.unloaded = {0}


def _offline(cluster: FakeCluster) -> None:
    cluster.model.topics[STATE_TOPIC][0] = Partition(leader=-1)


def _ids_hidden(cluster: FakeCluster) -> None:
    cluster.model.may_describe_ids = False


def _one_id_denied(cluster: FakeCluster) -> None:
    cluster.model.acls, cluster.model.hidden_ids = [Acl(DESCRIBE, DENY, "secret")], {"secret"}


def _cut_off(cluster: FakeCluster) -> None:
    cluster.model.quorum = QuorumState(behind_ms={2: 60_000})


def _one_address(cluster: FakeCluster) -> None:
    cluster.ports[2] = cluster.ports[1]


def _too_old(cluster: FakeCluster) -> None:
    for node in NODES:
        for api in ("ListTransactions", "DescribeTransactions"):
            del cluster.offered[node][api]


def _replica_unaware(cluster: FakeCluster) -> None:
    hung = cluster.model.topics.get("hung")
    if hung:
        hung[0].followers = (2,)

    def forget(received: object, response: object) -> None:
        if getattr(received, "api", "") != "DescribeProducers" or getattr(received, "node", 0) != 2:
            return
        for topic in response.topics:  # type: ignore[attr-defined]
            for partition in topic.partitions if topic.name == "hung" else ():
                partition.active_producers = [
                    one for one in partition.active_producers if one.producer_id != UNKNOWN[2]
                ]

    cluster.on_response = forget


FACTS: Final = (
    Fact("nothing", _nothing),
    Fact("a response of every broker", _broker_down),
    Fact("READ on every topic", _read_refused),
    Fact("DESCRIBE on every topic", _topic_hidden),
    Fact("`scan.topics` includes a topic", _nothing, (("scan.topics.include", "nothing-like-this"),)),
    Fact("DESCRIBE on the cluster: the ACLs can be read", _acls_unread),
    Fact("an authorizer that lists ACLs", _acls_not_listed),
    Fact("DESCRIBE on `__transaction_state`", _state_topic_hidden),
    Fact("`__transaction_state` is shown", _state_topic_absent),
    Fact("every partition of it has a leader", _offline),
    Fact("every partition of it is loaded", _loading),
    Fact("DESCRIBE on every transactional id", _ids_hidden),
    Fact("no DENY on one of them", _one_id_denied),
    Fact("every leader is confirmed", _cut_off),
    Fact("an address for each broker", _one_address),
    Fact("Kafka 3.0 or later", _too_old),
    Fact("every in-sync replica knows the producer", _replica_unaware),
)


def words_without(fact: Fact) -> Words:
    """What is said when this fact is missing."""
    with FakeCluster(_calm(scene()), nodes=2) as cluster, _collector(cluster, fact) as collector:
        doctor, page = _calm_words(collector)
    with (
        FakeCluster(scene(), nodes=2) as cluster,
        _collector(cluster, fact) as collector,
        patch.object(log_reader, "read_piece", _nothing_logged),  # the fake broker has no logs
    ):
        evaluation = _evaluated(collector, search_logs=True)
    coverage = "complete" if evaluation.snapshot.is_complete else "incomplete"
    row = next((row for row in evaluation.suspects if _is_wanted(row)), None)
    return Words(doctor, page, coverage, _verdict(row), _plan(row))


async def _nothing_logged(*_: object) -> tuple[int, int]:
    """(bytes, high watermark) of an empty log."""
    return 0, 0


@contextmanager
def _collector(cluster: FakeCluster, fact: Fact) -> Iterator[Collector]:
    """It knew every address before the fact was taken away."""
    servers = ",".join(f"{HOST}:{port}" for port in cluster.ports.values())
    flags = {"kafka.bootstrap.servers": servers, "kafka.request_timeout": "2s", **dict(fact.settings)}
    settings = load(file=None, environment={}, flags=flags).settings
    with collector_of(cluster) as collector:
        collector.use(settings.kafka, settings.scan, reconnect=False)
        fact.take_away(cluster)
        yield collector


def _calm(model: Model) -> Model:
    for partitions in model.topics.values():
        for partition in partitions:
            partition.producers.clear()
    return model


def _evaluated(collector: Collector, *, search_logs: bool) -> Evaluation:
    return evaluate(collector.collect(seen_before=None, search_logs=search_logs), Memory(), POLICY)


def _calm_words(collector: Collector) -> tuple[str, str]:
    """(`provable` of doctor, the headline of the page)."""
    evaluation = _evaluated(collector, search_logs=False)
    diagnosis = diagnose(evaluation.snapshot, collector.query(preconditions))
    proof = ProofStatus(diagnosis.provable, diagnosis.level, diagnosis.sentence, evaluation.snapshot.finished_at_ms)
    status = ClusterStatus(interval_ms=30_000, stale_after_cycles=3, last_cycle_succeeded=True, proof=proof)
    summary = summarize(evaluation, status)
    colour = "green" if summary.level is Severity.GOOD else "not green"
    return diagnosis.provable.value, f"{colour}: {summary.title.replace('15 partitions', 'N partitions')}"


def _is_wanted(row: TransactionRow) -> bool:
    """The hang of an unknown id; or what offsets show of its partition."""
    return row.key[:3] == UNKNOWN or (row.key[:2] == UNKNOWN[:2] and not row.has_producer)


def _verdict(row: TransactionRow | None) -> str:
    if row is None:
        return "not seen"
    reason = row.inconclusive_reason
    return f"`{row.verdict.label}`" if reason is None else f"`{row.verdict.label}` (`{reason.value}`)"


def _plan(row: TransactionRow | None) -> str:
    if row is None:
        return "none"
    return "writes" if refusal(plan_for(Action.ABORT, row), None) is None else "refuses"


def table() -> str:
    """The table of tests/verification/README.md."""
    lines = [
        "| taken away | `doctor` can prove | page, where nothing hangs | coverage | a hang of an unknown id | its abort |",
        "|---|---|---|---|---|---|",
    ]
    for fact in FACTS:
        words = words_without(fact)
        colour, _, _ = words.page.partition(":")
        lines.append(f"| {fact.name} | {' | '.join(words._replace(page=colour))} |")
    return "\n".join(lines) + "\n"
