"""Hidden topics and ids are reported, and metadata and clock come from a current broker."""

from __future__ import annotations

import time
from typing import Any

import pytest

from exporter.config.loading import load
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import InconclusiveReason, Policy, Verdict
from exporter.kafka.errors import ErrorCode
from exporter.kafka.leadership.metadata_source import CHECKED_EVERY_CYCLES
from exporter.snapshot import STATE_TOPIC, ClockSource, ClusterIdentity
from tests.kafka.fake_broker import FakeCluster, Fault, Received
from tests.kafka.fake_model import ALLOW_DESCRIBE_ALL, CLUSTER_ID, Acl, Model, Partition, QuorumState, Transaction
from tests.kafka.scene import UNKNOWN, collected, collector_of, evaluated, inconclusive, scene, verdicts

HOUR_MS = 3_600_000
PREFIXED = 4


class EveryTopic(set[tuple[int, str]]):
    """A user without any grant sees none of these, which are topics of every name."""

    def __contains__(self, _: object) -> bool:
        return True


@pytest.mark.parametrize("topics", [{}, {STATE_TOPIC: [Partition(1)]}], ids=["none", "the coordinators' topic alone"])
@pytest.mark.parametrize(
    ("acls", "hidden", "complete"),
    [
        (ErrorCode.SECURITY_DISABLED, set(), True),
        ([], set(), True),
        ([], EveryTopic(), False),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, set(), False),
    ],
    ids=["no authorizer", "a superuser", "no grant on topics", "no grant at all"],
)
def test_a_cluster_that_shows_no_topic_is_complete_where_no_acl_hides_one(
    acls: Any, hidden: set[tuple[int, str]], topics: dict[str, list[Partition]], *, complete: bool
) -> None:
    """Without any grant a new cluster and a full one look the same; the ACLs, and made-up names, tell them apart."""
    with FakeCluster(Model(acls=acls, topics=topics)) as cluster, collector_of(cluster) as collector:
        collector.collect()
        cluster.model.hidden_topics = hidden
        snapshot = collector.collect()

    said = any("needs DESCRIBE on the topics to be watched" in gap for gap in snapshot.visibility.gaps)
    assert (snapshot.is_complete, said) == (complete, not complete)


@pytest.mark.parametrize("is_answered", [True, False])
def test_topics_that_a_grant_shows_within_a_cycle_are_missed_in_it(*, is_answered: bool) -> None:
    """The metadata came before the grant, and the ACLs after it; the next cycle reads the topics."""
    model = Model(acls=[], topics={STATE_TOPIC: [Partition(1)], "t": [Partition(1)]}, hidden_topics={(1, "t")})

    after = list[str]()

    def granted(received: Received) -> Fault | None:
        """The first request after the ACLs is for made-up names."""
        if received.api == "DescribeAcls":
            model.hidden_topics = set()
        if not model.hidden_topics:
            after.append(received.api)
        return Fault.CLOSED if after[-2:] == ["Metadata", "Metadata"] and not is_answered else None

    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        cluster.on_request = granted
        (gap,) = collector.collect().visibility.gaps
        cluster.on_request = lambda _: None
        following = collector.collect()

    late = "topics became visible while this cycle was running: t"
    assert gap == (late if is_answered else "whether topics are visible is unknown: no broker responded")
    assert following.is_complete


def test_a_topic_that_was_visible_and_is_hidden_is_missed() -> None:
    """Until it is seen again, or a broker says that it does not exist."""
    model = Model(topics={STATE_TOPIC: [Partition(1)], "t": [Partition(1)], "u": [Partition(1)]})
    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        assert collector.collect().is_complete
        model.hidden_topics = {(1, "u")}
        for _ in range(2):
            snapshot = collector.collect()
            assert snapshot.visibility.hidden_topics == ("u",)
            assert not snapshot.is_complete
        model.hidden_topics = set()
        assert collector.collect().is_complete
        del model.topics["u"]
        assert collector.collect().is_complete


@pytest.mark.parametrize(("cluster_id", "missed"), [(CLUSTER_ID, ("u",)), ("another", ())])
def test_a_topic_that_was_visible_before_a_restart_and_is_hidden_is_missed(
    cluster_id: str, missed: tuple[str, ...]
) -> None:
    """Grants change where a deployment does."""
    model = Model(topics={STATE_TOPIC: [Partition(1)], "t": [Partition(1)], "u": [Partition(1)]})
    model.hidden_topics = {(1, "u")}
    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        known = ClusterIdentity(cluster_id=cluster_id, topic_ids=dict.fromkeys((STATE_TOPIC, "t", "u", "deleted"), ""))
        collector.recall(known, is_required=False)
        for _ in range(2):
            assert collector.collect().visibility.hidden_topics == missed


def test_other_credentials_that_see_fewer_topics_are_reported() -> None:
    model = Model(topics={STATE_TOPIC: [Partition(1)], "t": [Partition(1)], "u": [Partition(1)]})
    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        collector.collect()
        model.hidden_topics = {(1, "u")}
        servers = ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values())
        settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": servers}).settings
        collector.use(settings.kafka, settings.scan, reconnect=True)
        assert collector.collect().visibility.hidden_topics == ("u",)


def test_a_state_topic_without_describe_is_a_gap_though_nothing_is_open() -> None:
    """Nobody would know the coordinators when it matters."""
    model = Model(topics={STATE_TOPIC: [Partition(1)], "t": [Partition(1)]}, hidden_topics={(1, STATE_TOPIC)})
    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        for _ in range(2):
            assert any(STATE_TOPIC in gap for gap in collector.collect().visibility.gaps)


def test_a_state_topic_that_must_exist_is_missed() -> None:
    """Transactions are open, and the coordinators' topic is not there."""
    model = scene()
    del model.topics[STATE_TOPIC]
    model.transactions.clear()

    assert any("brokers show no topic" in gap for gap in collected(model).visibility.gaps)


MANY = [ALLOW_DESCRIBE_ALL, *(Acl(8, 3, f"app-{number}") for number in range(5000))]
MANY_PREFIXES = [Acl(8, 3, f"app-{number}/", PREFIXED) for number in range(5000)]


@pytest.mark.parametrize(
    ("acls", "hidden", "reason"),
    [
        ([ALLOW_DESCRIBE_ALL], set(), None),
        ([], set(), None),
        ([Acl(8, 3, "kept-", PREFIXED)], set(), None),
        ([Acl(8, 3, "kept-", PREFIXED)], {"kept-"}, InconclusiveReason.IDS_VISIBLE_BY_NAME_ONLY),
        ([Acl(8, 3, "one")], {"one"}, InconclusiveReason.IDS_VISIBLE_BY_NAME_ONLY),
        ([ALLOW_DESCRIBE_ALL, Acl(8, 2, "one")], {"one"}, InconclusiveReason.IDS_VISIBLE_BY_NAME_ONLY),
        ([ALLOW_DESCRIBE_ALL, Acl(8, 2, "one")], set(), None),
        ([ALLOW_DESCRIBE_ALL, Acl(8, 2, "some-", PREFIXED)], {"some-"}, InconclusiveReason.IDS_VISIBLE_BY_NAME_ONLY),
        (MANY, set(), None),
        ([*MANY, Acl(8, 2, "app-999")], {"app-999"}, InconclusiveReason.IDS_VISIBLE_BY_NAME_ONLY),
        (MANY_PREFIXES, {"app-4999/"}, InconclusiveReason.IDS_VISIBLE_BY_NAME_ONLY),
        ([ALLOW_DESCRIBE_ALL, Acl(4, 2, "one")], set(), None),
    ],
    ids=[
        "a literal *",
        "no ACL",
        "a prefix, visible",
        "a prefix, hidden",
        "an id, hidden",
        "a DENY",
        "a DENY for another principal",
        "a DENY of a prefix",
        "5,000 ACLs",
        "5,000 ACLs, and a DENY of one of their ids",
        "5,000 prefixes, one hidden",
        "a DENY of WRITE",
    ],
)
def test_every_pattern_that_the_acls_name_is_tried(
    acls: list[Acl], hidden: set[str], reason: InconclusiveReason | None
) -> None:
    """Made-up ids are visible in each case; only ids like those that an ACL names may be hidden."""
    model = scene()
    model.acls = acls

    def hide(received: Received, response: Any) -> None:
        for row in response.transaction_states if received.api == "DescribeTransactions" else ():
            if any(row.transactional_id.startswith(name) for name in hidden):
                row.error_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    evaluation = evaluated(collected(model, on_response=hide))

    assert inconclusive(evaluation) == ({} if reason is None else {UNKNOWN: reason})


def test_the_probe_for_a_prefix_avoids_longer_prefixes() -> None:
    """All usual continuations of a prefix are granted to this principal, and the others are hidden."""
    model = scene()
    usual = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    model.acls = [Acl(8, 3, name, PREFIXED) for name in usual]

    def hide(received: Received, response: Any) -> None:
        for row in response.transaction_states if received.api == "DescribeTransactions" else ():
            if row.transactional_id[0] not in usual:
                row.error_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    evaluation = evaluated(collected(model, on_response=hide))

    assert inconclusive(evaluation) == {UNKNOWN: InconclusiveReason.IDS_VISIBLE_BY_NAME_ONLY}


def test_metadata_are_not_taken_from_a_broker_that_is_cut_off() -> None:
    """Node 1 is queried first, is cut off, and hides a topic: node 2's metadata is used, in the next cycles as well."""
    model = scene()

    def hide(received: Received, response: Any) -> None:
        if received.api == "Metadata" and received.node == 1:
            response.topics = [topic for topic in response.topics if topic.name != "lively"]

    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        cluster.on_response = hide
        cluster.on_request = lambda received: (
            Fault.CLOSED if received.api == "DescribeQuorum" and received.node == 1 else None
        )
        for _ in range(CHECKED_EVERY_CYCLES + 2):
            assert "lively" in collector.collect().partitions.topics


def test_where_no_broker_is_in_touch_coverage_is_not_complete() -> None:
    """Their metadata are used all the same, and said to be uncertain: in every cycle, until a check finds one in touch."""
    model = Model(topics={STATE_TOPIC: [Partition(1)], "t": [Partition(1)]})
    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        cluster.on_request = lambda received: Fault.CLOSED if received.api == "DescribeQuorum" else None
        for _ in range(CHECKED_EVERY_CYCLES + 1):
            snapshot = collector.collect()
            assert not snapshot.is_complete
            assert any("current metadata" in gap for gap in snapshot.visibility.gaps)
        cluster.on_request = lambda _asked: None
        assert [collector.collect().is_complete for _ in range(CHECKED_EVERY_CYCLES)][-1]


def test_a_state_topic_that_could_not_be_requested_is_not_assumed_to_exist() -> None:
    """Unknown is not complete: that request is sent every third cycle only."""
    model = Model(topics={STATE_TOPIC: [Partition(1)], "t": [Partition(1)]}, hidden_topics={(1, STATE_TOPIC)})
    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        metadata_requests = 0

        def close_the_second(received: Received) -> Fault | None:
            nonlocal metadata_requests
            metadata_requests += received.api == "Metadata"
            return Fault.CLOSED if received.api == "Metadata" and metadata_requests > 1 else None

        cluster.on_request = close_the_second
        assert not collector.collect().is_complete
        cluster.on_request = lambda _asked: None
        assert not collector.collect().is_complete


def owned(start_ms: int) -> Model:
    model = Model(topics={STATE_TOPIC: [Partition(1)], "t": scene().topics["hung"][:1]})
    model.transactions["id"] = Transaction(UNKNOWN[2], start_ms=start_ms, partitions={("t", 0)})
    return model


@pytest.mark.parametrize("off_ms", [-HOUR_MS, 0, HOUR_MS])
@pytest.mark.parametrize(
    ("age_ms", "verdict"), [(5_000, Verdict.OPEN_WITHIN_TIMEOUT), (600_000, Verdict.OVERDUE_AT_COORDINATOR)]
)
def test_the_exporter_s_clock_changes_no_verdict(off_ms: int, age_ms: int, verdict: Verdict) -> None:
    """The controller's clock is read; it decides about a time-out of one minute, whatever the exporter's clock shows."""
    model = owned(time.time_ns() // 1_000_000 - age_ms)
    with (
        FakeCluster(model) as cluster,
        collector_of(cluster, wall_clock=lambda: time.time() + off_ms / 1000) as collector,
    ):
        snapshot = collector.collect(seen_before=None)

    assert snapshot.clock_source is ClockSource.CONTROLLER
    assert list(verdicts(evaluated(snapshot)).values()) == [verdict]


@pytest.mark.parametrize(("off_ms", "age_ms"), [(HOUR_MS, 5_000), (-HOUR_MS, 5_000), (-HOUR_MS, 600_000)])
def test_without_the_controllers_clock_no_verdict_rests_on_the_exporter_s(off_ms: int, age_ms: int) -> None:
    """The exporter's clock says overdue, or shows less than a coordinator has already written: neither verdict is given."""
    model = owned(time.time_ns() // 1_000_000 - age_ms)
    model.quorum = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with (
        FakeCluster(model) as cluster,
        collector_of(cluster, wall_clock=lambda: time.time() + off_ms / 1000) as collector,
    ):
        snapshot = collector.collect(seen_before=None)

    assert snapshot.clock_source is ClockSource.EXPORTER
    assert list(inconclusive(evaluated(snapshot)).values()) == [InconclusiveReason.CLOCK_UNVERIFIED]


def test_without_the_controllers_clock_watching_makes_a_transaction_overdue() -> None:
    """Seen by one process for longer than its time-out and the slack: no wall clock is needed."""
    model = owned(time.time_ns() // 1_000_000 - 600_000)
    model.quorum = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    policy, memory = Policy(overdue_slack_ms=-59_990), Memory()
    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        verdicts = []
        for _ in range(2):
            evaluation = evaluate(collector.collect(seen_before=None), memory, policy)
            memory = evaluation.memory
            verdicts.append(Verdict.ranked(int(evaluation.transactions.verdict[0])))
            time.sleep(0.02)

    assert verdicts == [Verdict.INCONCLUSIVE, Verdict.OVERDUE_AT_COORDINATOR]


def test_the_controllers_clock_counts_for_the_cycles_until_it_is_read_again() -> None:
    """The exporter's wall clock is set back by an hour in between: ages go on as if nothing had happened."""
    model = owned(time.time_ns() // 1_000_000 - 5_000)
    model.quorum = QuorumState(clock_ahead_ms=HOUR_MS)
    model.transactions["id"].start_ms += HOUR_MS
    off_s = 0.0
    with FakeCluster(model) as cluster, collector_of(cluster, wall_clock=lambda: time.time() + off_s) as collector:
        for step_s in (0.0, -3600.0):
            off_s = step_s
            evaluation = evaluated(collector.collect(seen_before=None))
            assert 4_000 <= int(evaluation.transactions.duration_ms[0]) < 60_000
