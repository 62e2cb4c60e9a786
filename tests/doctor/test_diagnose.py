"""Each fault is a finding with its consequence, and the sentence claims no more than what could be proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from exporter.doctor.acls import of_groups
from exporter.doctor.diagnose import diagnose, unreachable
from exporter.doctor.findings import Diagnosis, Finding, FindingLevel
from exporter.doctor.remedies import acl_lines, strimzi_rules
from exporter.doctor.topics import of_visible_topics
from exporter.kafka.collect.preconditions import preconditions
from exporter.kafka.errors import ErrorCode
from exporter.snapshot import STATE_TOPIC, Acls, DenyRule, Preconditions, Provable, Resource, StateTopic
from exporter.snapshot.proof import FAILURES_IN_WORDS
from tests.evaluation.builders import snapshot
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import DENY_DESCRIBE, Acl, QuorumState
from tests.kafka.scene import collector_of, scene

NOT_OFFERED_BY_THE_FAKE = "consumer groups"
CLOSED_PORT = 1
OF_STATE_PARTITIONS = f"except those of transactional ids that belong to {{}} of 8 partitions of {STATE_TOPIC}."
TOOL = "kafka-acls.sh --bootstrap-server kafka:9092 --command-config admin.properties"
ALL = "Hangs can be proved on all 4 visible topics (Kafka's internal ones included)"
PROVES_ALL = f"{ALL}."
ALL_BUT_UNKNOWN = f"{ALL}, except those of producers that no coordinator knows."


def diagnosed(change: Callable[[FakeCluster], None], principal: str | None = None) -> Diagnosis:
    """Of a cluster of two nodes to which this has happened, once the exporter knew its bootstrap addresses."""
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster, request_timeout_s=2) as collector:
        change(cluster)
        snapshot = collector.collect()
        return diagnose(snapshot, collector.query(preconditions), principal=principal)


def not_ok(diagnosis: Diagnosis) -> dict[str, FindingLevel]:
    worst: dict[str, FindingLevel] = {}
    for finding in diagnosis.findings:
        if (
            finding.level is not FindingLevel.OK
            and finding.check != NOT_OFFERED_BY_THE_FAKE
            and worst.get(finding.check) != FindingLevel.MISSING
        ):
            worst[finding.check] = finding.level
    return worst


def of(diagnosis: Diagnosis, check: str) -> Finding:
    return next(
        finding for finding in diagnosis.findings if finding.check == check and finding.level is not FindingLevel.OK
    )


def result_of(diagnosis: Diagnosis, check: str) -> str:
    return next(finding.result for finding in diagnosis.findings if finding.check == check)


def test_what_this_machine_or_prometheus_lacks_changes_no_proof() -> None:
    """It is in the sentence, and `doctor` ends with status 4."""
    nobody = Finding(check="Prometheus", level=FindingLevel.MISSING, result="it does not respond")
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster, request_timeout_s=2) as collector:
        found = diagnose(collector.collect(), collector.query(preconditions), local=(nobody,))

    assert (found.sentence, found.provable) == (f"{PROVES_ALL} Missing: Prometheus.", Provable.ALL)
    assert found.problems == ("Prometheus",)


def test_a_healthy_cluster_proves_everything() -> None:
    """Both brokers with release and latency, no finding that is not ok."""
    found = diagnosed(lambda _: None)

    assert (found.sentence, not_ok(found), found.provable) == (PROVES_ALL, {}, Provable.ALL)
    assert "2 of 2 addresses respond: 1 at 127.0.0.1:" in found.findings[0].result
    assert "(APIs of Kafka " in found.findings[0].result
    assert result_of(found, "topics") == "4 topics, all visible"
    assert result_of(found, "transactional ids") == "all visible"


def _broker_down(cluster: FakeCluster) -> None:
    cluster.ports[2] = CLOSED_PORT


def _loading(cluster: FakeCluster) -> None:
    cluster.model.unloaded = {0, 3}


def _cut_off(cluster: FakeCluster) -> None:
    cluster.model.quorum = QuorumState(behind_ms={2: 60_000})


def _clock(cluster: FakeCluster) -> None:
    cluster.model.quorum = QuorumState(clock_ahead_ms=600_000)


def _ids_hidden(cluster: FakeCluster) -> None:
    cluster.model.may_describe_ids = False


def _deny(cluster: FakeCluster) -> None:
    cluster.model.acls = [DENY_DESCRIBE]
    cluster.model.hidden_ids = {DENY_DESCRIBE.name}


def _deny_others(cluster: FakeCluster) -> None:
    cluster.model.acls = [DENY_DESCRIBE]


def _acls_not_listed(cluster: FakeCluster) -> None:
    cluster.model.acls = ErrorCode.UNKNOWN_SERVER_ERROR


def _acls_unread(cluster: FakeCluster) -> None:
    cluster.model.acls = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _configs_refused(cluster: FakeCluster) -> None:
    cluster.model.max_timeout_ms = None


def _topic_refused(cluster: FakeCluster) -> None:
    cluster.model.unreadable_topics = {"hung"}


def _no_state_topic(cluster: FakeCluster) -> None:
    del cluster.model.topics[STATE_TOPIC]
    cluster.model.transactions.clear()
    for partitions in cluster.model.topics.values():
        for partition in partitions:
            partition.producers.clear()


def _state_topic_hidden(cluster: FakeCluster) -> None:
    cluster.model.hidden_topics = {(node, STATE_TOPIC) for node in (1, 2)}


def _too_old(cluster: FakeCluster) -> None:
    del cluster.offered[2]["DescribeProducers"]


def _kafka_2_8(cluster: FakeCluster) -> None:
    for node in (1, 2):
        for api in ("ListTransactions", "DescribeTransactions", "DescribeQuorum"):
            cluster.offered[node].pop(api, None)


def _by_name_only(cluster: FakeCluster) -> None:
    cluster.model.acls = [Acl(8, 3, "secret")]
    cluster.model.hidden_ids = {"secret"}


FAULTS: dict[str, tuple[Callable[[FakeCluster], None], dict[str, FindingLevel], str]] = {
    "broker down": (
        _broker_down,
        {"brokers": FindingLevel.MISSING, "partitions": FindingLevel.MISSING, "coordinators": FindingLevel.MISSING}
        | {"broker settings": FindingLevel.LIMITED, "transactional ids": FindingLevel.MISSING},
        "No hang can be proved: all 4 visible topics could not be read completely.",
    ),
    "coordinator loading": (
        _loading,
        {"coordinators": FindingLevel.MISSING},
        f"{ALL}, {OF_STATE_PARTITIONS.format(2)} Missing: coordinators.",
    ),
    "ids hidden": (
        _ids_hidden,
        {"transactional ids": FindingLevel.MISSING},
        "No hang can be proved: transactional ids are hidden.",
    ),
    "a DENY": (
        _deny,
        {"transactional ids": FindingLevel.MISSING},
        f"{ALL_BUT_UNKNOWN} Missing: transactional ids.",
    ),
    "a DENY for others": (_deny_others, {}, PROVES_ALL),
    "ids by name only": (
        _by_name_only,
        {"transactional ids": FindingLevel.MISSING},
        f"{ALL_BUT_UNKNOWN} Missing: transactional ids.",
    ),
    "ACLs unread": (
        _acls_unread,
        {"ACLs": FindingLevel.MISSING, "topics": FindingLevel.MISSING, "transactional ids": FindingLevel.MISSING},
        f"{ALL_BUT_UNKNOWN} Missing: ACLs, topics, transactional ids.",
    ),
    "ACLs not listed": (
        _acls_not_listed,
        {"ACLs": FindingLevel.MISSING, "topics": FindingLevel.MISSING, "transactional ids": FindingLevel.MISSING},
        f"{ALL_BUT_UNKNOWN} Missing: ACLs, topics, transactional ids.",
    ),
    "clock": (_clock, {"clock": FindingLevel.LIMITED}, PROVES_ALL),
    "settings refused": (_configs_refused, {"broker settings": FindingLevel.LIMITED}, PROVES_ALL),
    "Kafka 2.8": (
        _kafka_2_8,
        {"coordinators": FindingLevel.MISSING},
        f"No hang can be proved: {STATE_TOPIC} is {FAILURES_IN_WORDS['transactions_not_offered']}.",
    ),
    "topic refused": (
        _topic_refused,
        {"partitions": FindingLevel.LIMITED},
        f"{ALL}, on 1 by offsets alone.",
    ),
    "no state topic": (
        _no_state_topic,
        {"transaction log": FindingLevel.MISSING},
        f"No hang can be proved: brokers show no topic {STATE_TOPIC}.",
    ),
    "state topic hidden": (
        _state_topic_hidden,
        {"transaction log": FindingLevel.MISSING},
        f"No hang can be proved: {STATE_TOPIC} is not visible.",
    ),
    "broker too old": (
        _too_old,
        {"partitions": FindingLevel.LIMITED},
        f"{ALL}, on 4 by offsets alone.",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_a_finding_and_limits_the_sentence(name: str) -> None:
    """Only what the fault affects is not ok; a finding that is missing has a consequence."""
    fault, problems, sentence = FAULTS[name]

    found = diagnosed(fault)

    assert not_ok(found) == problems
    assert found.sentence == sentence
    words = {Provable.NONE: "No hang can be proved: ", Provable.SOME: "Missing: ", Provable.ALL: ALL}
    assert words[found.provable] in found.sentence
    assert (found.provable is Provable.ALL) == (FindingLevel.MISSING not in problems.values())
    assert all(
        each.consequence or each.check == "brokers" for each in found.findings if each.level is FindingLevel.MISSING
    )


def test_a_broker_that_is_cut_off_from_its_controller_is_named() -> None:
    """It responds to everything, and proves nothing."""
    found = diagnosed(_cut_off)

    assert not_ok(found)["brokers"] is FindingLevel.MISSING
    assert "broker 2 had not caught up" in of(found, "brokers").result
    assert "8 partitions" in found.sentence


def test_a_rule_that_denies_others_is_not_to_be_removed() -> None:
    """It hides nothing from the exporter: the id that it names is visible."""
    found = diagnosed(_deny_others, principal="User:watcher")

    assert found.provable is Provable.ALL
    assert acl_lines(found.findings, principal="User:watcher", bootstrap="kafka:9092") == ()


def test_a_rule_that_denies_what_the_exporter_does_not_need_is_not_to_be_removed() -> None:
    """READ on a group keeps others from consuming; DescribeConfigs matters on the cluster alone."""
    topic, group, on_cluster = 2, 3, 4
    read, describe_configs = 3, 10

    def change(cluster: FakeCluster) -> None:
        _configs_refused(cluster)
        denied = [(read, group), (describe_configs, topic), (describe_configs, group), (describe_configs, on_cluster)]
        cluster.model.acls = [Acl(operation, 2, f"r{kind}", resource=kind) for operation, kind in denied]

    found = diagnosed(change)

    lines = acl_lines(found.findings, principal="User:x", bootstrap="kafka:9092")
    assert [line.removeprefix(f"{TOOL} ") for line in lines if "--remove" in line] == [
        "--remove --force --deny-principal User:x --operation DescribeConfigs --cluster"
    ]
    assert not_ok(found) == {"broker settings": FindingLevel.LIMITED}


def test_lines_for_an_administrator_are_quoted_and_each_is_there_once() -> None:
    """Names go to a shell; a grant on every topic includes one on a single topic; a DENY is removed first."""
    denied = diagnosed(_deny)
    hidden = diagnosed(_state_topic_hidden)

    removal = f"{TOOL} --remove --force --deny-principal User:x --operation Describe --transactional-id id"
    assert acl_lines(denied.findings, principal=None, bootstrap="kafka:9092") == (removal,)
    who = """'User:CN=it'"'"'s me'"""
    read = f"{TOOL} --add --allow-principal {who} --operation Read --topic {STATE_TOPIC}"
    assert acl_lines(hidden.findings, principal="User:CN=it's me", bootstrap="kafka:9092")[0] == read
    assert strimzi_rules(hidden.findings)[:4] == (
        "- resource:",
        "    type: topic",
        f'    name: "{STATE_TOPIC}"',
        "    patternType: literal",
    )


@pytest.mark.parametrize("fault", [_no_state_topic, _loading, _kafka_2_8])
def test_ids_are_not_all_visible_without_every_coordinator(fault: Callable[[FakeCluster], None]) -> None:
    """No ACL hides an id, and a coordinator that is missing shows none of its own."""
    found = diagnosed(fault)

    assert result_of(found, "transactional ids") == "no ACL hides one; whether the coordinators show all is unknown"


def test_topics_are_not_all_visible_where_one_may_be_hidden_by_a_proxy() -> None:
    """A proxy that hides the coordinators' topic may hide others."""
    found = diagnosed(_no_state_topic)

    assert result_of(found, "topics") == "3 topics, no ACL hides one; whether a proxy does is unknown"


GROUP_DENIED = DenyRule(
    principal="User:x", host="*", operation="Describe", resource=Resource.GROUP, name="billing", is_prefixed=False
)
NOT_REFUSED = Preconditions(contacts=(), state_topic=StateTopic.PRESENT, groups_hidden="")


@pytest.mark.parametrize(
    ("acls", "result"),
    [
        (Acls(), "all visible"),
        (Acls(has_authorizer=False), "all visible"),
        (Acls(denied=(replace(GROUP_DENIED, operation="Read"),)), "all visible"),
        (Acls(denied=(GROUP_DENIED,)), "an ACL hides some: DENY DESCRIBE on group billing for User:x"),
        (Acls(unread="CLUSTER_AUTHORIZATION_FAILED"), "visible, but whether an ACL hides some is unknown"),
    ],
)
def test_groups_are_all_visible_only_if_no_acl_may_hide_one(acls: Acls, result: str) -> None:
    """A made-up group that is shown says nothing about a group that an ACL names."""
    found = of_groups(replace(NOT_REFUSED, acls=acls))

    assert found.result == result
    assert found.level is (FindingLevel.OK if result == "all visible" else FindingLevel.LIMITED)
    assert found.denied_by == tuple(rule for rule in acls.denied if rule.operation != "Read")


def test_without_a_broker_nothing_is_claimed() -> None:
    """The reason of each address is the finding."""
    found = unreachable("no broker responded: broker at kafka:9092 cannot be connected to")

    assert (found.sentence, found.provable) == ("No hang can be proved: no broker responds.", Provable.NONE)
    assert "kafka:9092" in found.findings[0].result


def test_a_topic_that_a_rule_hides_is_said_by_the_rule() -> None:
    """A login with READ on every topic does not lack DESCRIBE."""
    rule = replace(GROUP_DENIED, resource=Resource.TOPIC, name="payments")
    pre = replace(
        NOT_REFUSED, acls=Acls(denied=(rule,)), hidden_topics="some topics may not be visible: needs DESCRIBE"
    )

    (found,) = of_visible_topics(snapshot([]), pre)

    assert found.result == "an ACL hides some: DENY DESCRIBE on topic payments for User:x"
    assert (found.grants, found.denied_by) == ((), (rule,))
    assert strimzi_rules([found]) == ("# remove DENY DESCRIBE on topic payments for User:x",)
