"""Data without a grant never looks healthy and never hanging: real brokers with the StandardAuthorizer.

The client speaks PLAINTEXT, so it is User:ANONYMOUS; ACLs are made against that principal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from examples.workload.producers import OpenTransaction, run_transaction
from exporter.evaluation.verdicts import Evaluation, InconclusiveReason, StartSource, Verdict
from exporter.snapshot import PartitionResult
from hangbench.kafka.acls import acls_until_the_end
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import plant_hang, plant_hang_without_id
from tests.conftest import FreshName
from tests.marks import starts
from tests.watching import Watch, rows_on

ANYBODY_WITHOUT_ACL = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "transaction.partition.verification.enable": "false",
}
CLUSTER = ResourceType.BROKER  # librdkafka's word for the resource that Kafka calls Cluster
BUSY_PRODUCER = suppress(KafkaException)
"""A producer that looks for its coordinator while its id is hidden, as on a busy machine, cannot end its transaction."""


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
@starts("broker")
def guarded(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A broker that allows everything for which no ACL exists."""
    with KafkaCluster(request.param, properties=ANYBODY_WITHOUT_ACL) as cluster:
        yield cluster


@pytest.fixture
def acl(guarded: KafkaCluster) -> Iterator[Callable[..., None]]:
    """Makes ACLs on the guarded broker, and removes all of them after the test."""
    with acls_until_the_end(guarded.bootstrap) as create:

        def make(
            resource: ResourceType,
            name: str,
            operation: AclOperation,
            permission: AclPermissionType,
            *,
            principal: str = "User:ANONYMOUS",
            pattern: ResourcePatternType = ResourcePatternType.LITERAL,
        ) -> None:
            create([AclBinding(resource, name, pattern, principal, "*", operation, permission)])

        yield make


def answer_on(evaluation: Evaluation, topic: str) -> tuple[PartitionResult, str | None]:
    """(answer, reason) of partition 0 of a topic."""
    partitions = evaluation.snapshot.partitions
    (row,) = [row for row in range(len(partitions)) if partitions.name(row) == (topic, 0)]
    index = int(partitions.reason[row])
    return PartitionResult(int(partitions.answer[row])), None if index < 0 else partitions.reasons[index]


def until_seen(watch: Watch, seen: Callable[[Evaluation], bool]) -> Evaluation:
    """The first evaluation that shows what an ACL brings: brokers take it over within moments."""
    for _ in range(500):
        evaluation = watch.cycle()
        if seen(evaluation):
            return evaluation
    raise AssertionError("the ACL had no visible effect in 500 cycles")


def test_a_topic_without_read_is_read_by_offsets_and_costs_nothing_else(
    guarded: KafkaCluster, acl: Callable[..., None], fresh_name: FreshName
) -> None:
    """Without READ on one topic its offsets are read, and Kafka's own word is kept; all others are read."""
    closed = guarded.topics.create(fresh_name("closed"))
    open_ = guarded.topics.create(fresh_name("open"))
    plant_hang(guarded.bootstrap, open_, 0, fresh_name("hang"))
    acl(ResourceType.TOPIC, closed, AclOperation.DESCRIBE, AclPermissionType.ALLOW)

    with Watch(guarded.bootstrap) as watch:
        evaluation = until_seen(watch, lambda e: answer_on(e, closed)[0] is not PartitionResult.READ)

    assert answer_on(evaluation, closed) == (PartitionResult.BY_OFFSETS, "TOPIC_AUTHORIZATION_FAILED")
    assert answer_on(evaluation, open_) == (PartitionResult.READ, None)
    assert np.count_nonzero(evaluation.snapshot.partitions.answer != PartitionResult.READ) == 1
    assert evaluation.snapshot.is_complete
    assert rows_on(evaluation, open_)[0].verdict.is_hanging
    assert not rows_on(evaluation, closed)


def test_an_old_hang_stays_old_when_its_proof_goes_missing(
    guarded: KafkaCluster, acl: Callable[..., None], fresh_name: FreshName
) -> None:
    """Three days by its last write. Without the ids nothing is proved, and it is as old and as late as before."""
    topic = guarded.topics.create(fresh_name("topic"))
    three_days_ago_ms = int(time.time() * 1000) - 3 * 86_400_000
    plant_hang_without_id(guarded.bootstrap, topic, 0, producer_id=8_100_000_077, timestamp_ms=three_days_ago_ms)

    with Watch(guarded.bootstrap) as watch:
        proved = rows_on(watch.cycle(), topic)[0]
        acl(ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL, AclPermissionType.ALLOW, principal="User:somebody")
        unproved = rows_on(until_seen(watch, lambda e: not rows_on(e, topic)[0].verdict.is_hanging), topic)[0]

    assert proved.verdict is Verdict.HANGING_NO_TRANSACTIONAL_ID
    assert unproved.verdict is Verdict.INCONCLUSIVE
    starts = [(row.start_ms, row.start_source, row.is_late) for row in (proved, unproved)]
    assert starts == [(three_days_ago_ms, StartSource.LAST_WRITE, True)] * 2


def test_hidden_transactional_ids_make_a_live_transaction_inconclusive(
    guarded: KafkaCluster, acl: Callable[..., None], fresh_name: FreshName
) -> None:
    """If ids are hidden, Kafka's own tool calls a live transaction hanging; the exporter names the missing grant."""
    topic = guarded.topics.create(fresh_name("topic"))

    with (
        BUSY_PRODUCER,
        Watch(guarded.bootstrap) as watch,
        OpenTransaction(guarded.bootstrap, fresh_name("live"), [(topic, 0)]),
    ):
        assert rows_on(watch.cycle(), topic)[0].verdict is Verdict.OPEN_WITHIN_TIMEOUT
        acl(ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL, AclPermissionType.ALLOW, principal="User:somebody")
        row = rows_on(
            until_seen(watch, lambda e: rows_on(e, topic)[0].verdict is not Verdict.OPEN_WITHIN_TIMEOUT), topic
        )[0]
        # Lets the producer end its transaction.
        acl(ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL, AclPermissionType.ALLOW)
        until_seen(watch, lambda e: rows_on(e, topic)[0].verdict is Verdict.OPEN_WITHIN_TIMEOUT)

    assert row.verdict is Verdict.INCONCLUSIVE
    assert row.inconclusive_reason is InconclusiveReason.TRANSACTIONAL_IDS_HIDDEN
    assert "DESCRIBE on every transactional id" in row.reason


def test_a_deny_on_one_id_keeps_its_live_transaction_from_being_called_hanging(
    guarded: KafkaCluster, acl: Callable[..., None], fresh_name: FreshName
) -> None:
    """A DENY hides one id while made-up ids are visible; the ACLs name that id, and it is refused."""
    topic = guarded.topics.create(fresh_name("topic"))
    name = fresh_name("denied")

    with BUSY_PRODUCER, Watch(guarded.bootstrap) as watch, OpenTransaction(guarded.bootstrap, name, [(topic, 0)]):
        acl(ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL, AclPermissionType.ALLOW)
        acl(ResourceType.TRANSACTIONAL_ID, name, AclOperation.DESCRIBE, AclPermissionType.DENY)
        row = rows_on(
            until_seen(watch, lambda e: rows_on(e, topic)[0].verdict is not Verdict.OPEN_WITHIN_TIMEOUT), topic
        )[0]

    assert row.inconclusive_reason is InconclusiveReason.IDS_VISIBLE_BY_NAME_ONLY


def test_readable_acls_without_a_deny_prove_an_unlisted_producer_hanging(
    guarded: KafkaCluster, acl: Callable[..., None], fresh_name: FreshName
) -> None:
    """An authorizer with readable ACLs, without a DENY on ids, leaves the proof complete."""
    topic = guarded.topics.create(fresh_name("topic"))
    run_transaction(guarded.bootstrap, fresh_name("makes-state-topic"), [(topic, 0)])
    acl(ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL, AclPermissionType.ALLOW)
    plant_hang_without_id(guarded.bootstrap, topic, 0, producer_id=8_400_000_001)

    with Watch(guarded.bootstrap) as watch:
        row = rows_on(watch.cycle(), topic)[0]

    assert row.verdict is Verdict.HANGING_NO_TRANSACTIONAL_ID


def test_many_acls_and_a_deny_for_somebody_else_hide_nothing(
    guarded: KafkaCluster, acl: Callable[..., None], fresh_name: FreshName
) -> None:
    """1,100 ids and prefixes of applications, and a rule about another principal: each has its probe."""
    topic = guarded.topics.create(fresh_name("topic"))
    run_transaction(guarded.bootstrap, fresh_name("makes-state-topic"), [(topic, 0)])
    acl(ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL, AclPermissionType.ALLOW)
    acl(ResourceType.TRANSACTIONAL_ID, "app-7", AclOperation.DESCRIBE, AclPermissionType.DENY, principal="User:other")
    patterns = (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED)
    rule = ("User:app", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    bindings = [
        AclBinding(ResourceType.TRANSACTIONAL_ID, f"app-{number}", patterns[number % 2], *rule)
        for number in range(1_100)
    ]
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap})
    for made in admin.create_acls(bindings).values():
        made.result(30)
    plant_hang_without_id(guarded.bootstrap, topic, 0, producer_id=8_450_000_001)

    with Watch(guarded.bootstrap) as watch:
        row = rows_on(watch.cycle(), topic)[0]

    assert row.verdict is Verdict.HANGING_NO_TRANSACTIONAL_ID


def test_unreadable_acls_leave_an_unlisted_producer_inconclusive(
    guarded: KafkaCluster, acl: Callable[..., None], fresh_name: FreshName
) -> None:
    """Without DESCRIBE on the cluster a DENY cannot be ruled out, and the limit cannot be read: both are said."""
    topic = guarded.topics.create(fresh_name("topic"))
    run_transaction(guarded.bootstrap, fresh_name("makes-state-topic"), [(topic, 0)])
    plant_hang_without_id(guarded.bootstrap, topic, 0, producer_id=8_500_000_001)
    acl(CLUSTER, "kafka-cluster", AclOperation.ALL, AclPermissionType.ALLOW)  # first: the broker is ANONYMOUS as well
    for operation in (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
        acl(CLUSTER, "kafka-cluster", operation, AclPermissionType.DENY)

    with Watch(guarded.bootstrap) as watch:
        evaluation = until_seen(watch, lambda e: e.max_timeout_is_fallback)
        row = rows_on(evaluation, topic)[0]

    assert row.inconclusive_reason is InconclusiveReason.IDS_MAY_BE_DENIED
    assert [reason for _, reason in evaluation.snapshot.max_timeout.unread] == ["CLUSTER_AUTHORIZATION_FAILED"]


def test_a_hidden_state_topic_leaves_every_unverified_transaction_inconclusive(
    guarded: KafkaCluster, acl: Callable[..., None], fresh_name: FreshName
) -> None:
    """Without DESCRIBE on __transaction_state the coordinators are unknown."""
    topic = guarded.topics.create(fresh_name("topic"))
    plant_hang(guarded.bootstrap, topic, 0, fresh_name("hang"))
    acl(ResourceType.TOPIC, "__transaction_state", AclOperation.ALL, AclPermissionType.ALLOW, principal="User:somebody")

    with Watch(guarded.bootstrap) as watch:
        row = rows_on(until_seen(watch, lambda e: not rows_on(e, topic)[0].verdict.is_hanging), topic)[0]

    assert row.inconclusive_reason is InconclusiveReason.TRANSACTION_STATE_HIDDEN
