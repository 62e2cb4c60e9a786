"""A hanging verdict needs leaders that the controller, through them, and the other brokers confirm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest

from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.gaps import gaps
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import InconclusiveReason, Policy, Verdict
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import ErrorCode
from exporter.kafka.leadership.confirm import PAST_DEADLINE, Claim, unconfirmed
from exporter.kafka.state_partitions import other_coordinator
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, STATE_TOPIC, Snapshot
from tests.evaluation.builders import transaction
from tests.kafka.fake_broker import FakeCluster, Fault, Received
from tests.kafka.fake_model import Model, Partition, Producer, QuorumState
from tests.kafka.scene import (
    ALIVE,
    HANGING,
    UNKNOWN,
    collected,
    collector_of,
    evaluated,
    inconclusive,
    nth,
    scene,
    verdicts,
)

UNCONFIRMED = InconclusiveReason.LEADERSHIP_UNCONFIRMED
OFFERED_NOWHERE = ErrorCode.UNSUPPORTED_VERSION


def quorum_from(node: int, fault: Fault | ErrorCode) -> Callable[[Received], Fault | ErrorCode | None]:
    return lambda received: fault if received.api == "DescribeQuorum" and received.node == node else None


def metadata_of(nodes: set[int], change: Callable[[Any], None]) -> Callable[[Received, Any], None]:
    """From the second listing on these nodes' metadata are changed: all that rests on them has been read by then."""
    listings = 0

    def on_response(received: Received, response: Any) -> None:
        nonlocal listings
        listings += received.api == "ListTransactions"
        if received.api == "Metadata" and received.node in nodes and listings >= 2 * 2:
            change(response)

    return on_response


def newer_epoch(answer: Any) -> None:
    for topic in answer.topics:
        for partition in topic.partitions:
            partition.leader_epoch += 1


def test_a_cluster_in_touch_confirms_every_leader() -> None:
    """Nothing is unconfirmed, and every hang is proved."""
    snapshot = collected(scene())

    assert snapshot.proof is not None
    assert snapshot.proof.unconfirmed == ()
    assert verdicts(evaluated(snapshot)) == HANGING | ALIVE


@pytest.mark.parametrize(
    "fault", [Fault.CLOSED, ErrorCode.KAFKA_STORAGE_ERROR, 7], ids=["closed", "refused", "timed out"]
)
def test_a_broker_that_cannot_reach_its_controller_proves_nothing_that_it_leads(fault: Fault | ErrorCode) -> None:
    """Node 2 leads hung-1 and half of the state partitions: only what rests on node 1 alone could be proved."""
    snapshot = collected(scene(), on_request=quorum_from(2, fault))

    reasons = inconclusive(evaluated(snapshot))
    assert reasons[UNKNOWN] is UNCONFIRMED
    assert reasons["hung", 1, 12] is UNCONFIRMED
    assert set(reasons.values()) == {UNCONFIRMED}


@pytest.mark.parametrize(("behind_ms", "confirmed"), [(1900, True), (2100, False)])
def test_a_broker_that_has_not_caught_up_with_the_controllers_log_is_not_confirmed(
    behind_ms: int, *, confirmed: bool
) -> None:
    """Two seconds: brokers fetch every half second when nothing happens."""
    model = scene()
    model.quorum = QuorumState(behind_ms={1: 0, 2: behind_ms})

    assert (("hung", 1, 12) in inconclusive(evaluated(collected(model)))) is not confirmed


@pytest.mark.parametrize("node", [1, 2])
def test_a_newer_epoch_anywhere_contradicts(node: int) -> None:
    """A new leader acts on its own metadata: a broker that names a newer epoch contradicts the old leader."""
    all_unconfirmed_or_moved(collected(scene(), on_response=metadata_of({node}, newer_epoch)))


@pytest.mark.parametrize(
    ("epoch", "leader", "sentence"),
    [
        (5, 1, None),
        (4, 2, None),
        (5, 2, "broker 2 names leader 2 at epoch 5, not 1 at 5"),
        (6, 1, "broker 2 names leader 1 at epoch 6, not 1 at 5"),
        (6, 2, "broker 2 names leader 2 at epoch 6, not 1 at 5"),
    ],
)
def test_one_other_broker_contradicts_by_a_newer_epoch_or_by_another_leader(
    epoch: int, leader: int, sentence: str | None
) -> None:
    class View:
        def row(self, *_: object) -> int:
            return 0

        def topic_id_of(self, _: str) -> str:
            return ""

        def leader_of(self, *_: object) -> tuple[int, int]:
            return leader, epoch

    claim = Claim(topic="t", partition=0, leader=1, leader_epoch=5)
    assert claim.contradiction(cast("Topology", View()), 2) == sentence


def all_unconfirmed_or_moved(snapshot: Snapshot) -> None:
    reasons = inconclusive(evaluated(snapshot))
    assert set(reasons) == set(HANGING)
    allowed = {UNCONFIRMED, InconclusiveReason.COORDINATOR_MOVED, InconclusiveReason.CHANGED_BETWEEN_READS}
    assert set(reasons.values()) <= allowed


def test_another_topic_id_anywhere_contradicts() -> None:
    """The topic was made again: what was read is of another topic of that name."""

    def made_again(answer: Any) -> None:
        for topic in answer.topics:
            topic.topic_id = UUID(int=7)

    all_unconfirmed_or_moved(collected(scene(), on_response=metadata_of({2}, made_again)))


def test_a_topic_that_a_broker_does_not_know_contradicts() -> None:
    """It may be deleted; where it is only not shown, for lack of DESCRIBE, that broker has no say."""

    def unknown(answer: Any, code: int) -> None:
        for topic in answer.topics:
            topic.error_code, topic.partitions = code, []

    deleted = metadata_of({2}, lambda answer: unknown(answer, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    all_unconfirmed_or_moved(collected(scene(), on_response=deleted))


def test_without_describe_on_the_cluster_most_brokers_must_agree() -> None:
    """The controller's refusal proves touch; two of two brokers name the same leaders."""
    model = scene()
    model.quorum = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    assert verdicts(evaluated(collected(model))) == HANGING | ALIVE


@pytest.mark.parametrize("quorum", [OFFERED_NOWHERE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
def test_half_of_the_brokers_are_not_most(quorum: int) -> None:
    """Two brokers, one of which is silent when it is to confirm: without the controller's word nothing is proved."""
    model = scene()
    model.quorum = quorum
    alone_at_the_end = metadata_unanswered_at_the_end(2)

    reasons = inconclusive(evaluated(collected(model, on_request=alone_at_the_end)))

    assert reasons
    assert set(reasons.values()) <= {UNCONFIRMED, InconclusiveReason.COORDINATOR_UNANSWERED}


def metadata_unanswered_at_the_end(node: int) -> Callable[[Received], Fault | None]:
    reads = 0

    def on_request(received: Received) -> Fault | None:
        nonlocal reads
        reads += received.api == "ListTransactions"
        return Fault.CLOSED if received.api == "Metadata" and received.node == node and reads >= 2 * 2 else None

    return on_request


def test_where_a_broker_is_silent_the_others_must_have_caught_up_meanwhile() -> None:
    """Node 1 leads nothing and does not answer: it may be the new leader, unless the controllers' log says otherwise."""
    hung = Model(
        topics={
            STATE_TOPIC: [Partition(2)],
            "hung": [Partition(2, producers=[Producer(11, 5)])],
        }
    )
    times = iter([400, 400, *[0] * 20])

    with FakeCluster(hung, nodes=2) as cluster, collector_of(cluster) as collector:

        def on_request(received: Received) -> Fault | None:
            if received.api == "DescribeQuorum":
                hung.quorum = QuorumState(behind_ms={2: next(times)})
            return Fault.CLOSED if received.node == 1 else None

        cluster.on_request = on_request
        evaluation = evaluated(collector.collect(seen_before=None))
        count = sum(request.api == "DescribeQuorum" for request in cluster.received)

    assert verdicts(evaluation) == {("hung", 0, 11): Verdict.HANGING_NO_TRANSACTIONAL_ID}
    assert count >= 3, "asked on until it had caught up"


def test_one_broker_alone_is_enough() -> None:
    """A cluster of one broker has no other broker to query."""
    model = Model(topics={STATE_TOPIC: [Partition(1)], "hung": [Partition(1, producers=[Producer(11, 5)])]})
    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        reported = verdicts(evaluated(collector.collect(seen_before=None)))

    assert reported == {("hung", 0, 11): Verdict.HANGING_NO_TRANSACTIONAL_ID}


def test_a_topic_made_again_before_the_last_read_is_a_changed_entry() -> None:
    """The same name, offset, producer and epoch; the topic id is another."""
    model = scene()

    def make_again() -> None:
        model.topic_ids["hung"] = UUID(int=99)

    snapshot = collected(model, on_request=nth(3, "ListTransactions", make_again))

    assert inconclusive(evaluated(snapshot))[UNKNOWN] is InconclusiveReason.CHANGED_BETWEEN_READS


def test_an_in_sync_follower_that_does_not_agree_leaves_a_hang_unverified() -> None:
    """It may have the marker that the leader lost; only what it shows as ended counts against the leader."""
    model = scene()
    model.topics["hung"][0].followers = (2,)
    assert verdicts(evaluated(collected(model)))[UNKNOWN] is Verdict.HANGING_NO_TRANSACTIONAL_ID

    def empty(received: Received, response: Any) -> None:
        for topic in response.topics if received.api == "DescribeProducers" and received.node == 2 else ():
            for partition in topic.partitions if topic.name == "hung" else ():
                partition.active_producers = [
                    producer for producer in partition.active_producers if producer.producer_id != UNKNOWN[2]
                ]

    snapshot = collected(model, on_response=empty)
    assert inconclusive(evaluated(snapshot)) == {UNKNOWN: InconclusiveReason.REPLICA_UNAWARE}
    assert snapshot.is_complete, "everything was read"


def test_coverage_is_not_complete_where_a_second_read_failed() -> None:
    """A hang that is inconclusive for want of a read is a gap, and the log and the page say so."""
    listings = 0

    def fail_last(received: Received) -> ErrorCode | None:
        nonlocal listings
        listings += received.api == "ListTransactions"
        is_last = received.api == "DescribeProducers" and listings >= 2 * 2
        return ErrorCode.KAFKA_STORAGE_ERROR if is_last else None

    snapshot = collected(scene(), on_request=fail_last)

    assert inconclusive(evaluated(snapshot))[UNKNOWN] is InconclusiveReason.SECOND_READ_FAILED
    assert not snapshot.is_complete
    assert any("second time" in sentence for sentence in gaps(snapshot))


KEPT = ("mixed", 0, 1)


def kept_too_long(state: str) -> Model:
    """`scene`, and one transaction that is past its time-out, or whose outcome was decided."""
    model = scene()
    kept = model.transactions["alive"]
    kept.state, kept.start_ms = state, kept.start_ms - 10**6
    return model


@pytest.mark.parametrize(
    ("state", "confirmed", "unconfirmed"),
    [
        ("Ongoing", Verdict.OVERDUE_AT_COORDINATOR, Verdict.INCONCLUSIVE),
        ("PrepareAbort", Verdict.STUCK_COMPLETING, Verdict.COMPLETING),
    ],
)
def test_overdue_and_stuck_need_a_confirmed_coordinator(state: str, confirmed: Verdict, unconfirmed: Verdict) -> None:
    """One that is cut off describes for ever what its successor has ended."""
    with FakeCluster(kept_too_long(state), nodes=2) as cluster, collector_of(cluster) as collector:
        policy = Policy(stuck_after_ms=-1)
        first = evaluate(collector.collect(seen_before=None), Memory(), policy)
        snapshot = collector.collect(seen_before=first.memory.seen)
        assert verdicts(evaluate(snapshot, first.memory, policy))[KEPT] is confirmed
        assert not any(snapshot.open_transactions.unconfirmed)

        # Its partition is led by node 2, its coordinator is either: both are out of touch.
        cluster.on_request = lambda received: Fault.CLOSED if received.api == "DescribeQuorum" else None
        snapshot = collector.collect(seen_before=first.memory.seen)
        evaluation = evaluate(snapshot, first.memory, policy)

    assert verdicts(evaluation)[KEPT] is unconfirmed
    assert not snapshot.is_complete
    undecided = [gap for gap in gaps(snapshot) if "overdue and stuck" in gap]
    assert undecided
    assert all("cannot be decided for the transaction on " in gap for gap in undecided)
    (row,) = (each for each in all_rows(evaluation) if (each.topic, each.partition, each.producer_id) == KEPT)
    assert (row.inconclusive_reason is UNCONFIRMED) is (unconfirmed is Verdict.INCONCLUSIVE)


def test_where_no_transaction_is_too_long_no_broker_is_asked_to_confirm() -> None:
    """Long transactions that are within their time-outs cost nothing more."""
    model = Model(
        topics={STATE_TOPIC: [Partition(1)], "t": [Partition(1, producers=[Producer(1, 0)])]},
        transactions={"a": replace(scene().transactions["alive"], partitions={("t", 0)})},
    )
    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        collector.collect(seen_before=None)
        cluster.restart_numbers()
        collector.collect(seen_before=None)
        assert not {"DescribeQuorum", "DescribeAcls"} & {request.api for request in cluster.received}
        assert [request.api for request in cluster.received].count("Metadata") == 1


class Ending:
    """An inquiry whose time is over after so many looks at it."""

    brokers: Mapping[int, Any] = {}

    def __init__(self, looks: int) -> None:
        self._left = looks

    def remaining_s(self) -> float:
        self._left -= 1
        return float(self._left)

    async def gather(self, coroutines: Iterable[Any]) -> list[Any]:
        assert list(coroutines) == []
        return []


def test_leaders_that_are_not_compared_before_the_deadline_are_not_confirmed() -> None:
    """Fifty thousand in a cluster of a hundred brokers are seconds of work in which nothing else is done."""
    claims = [Claim(topic="t", partition=partition, leader=1, leader_epoch=0, topic_id="") for partition in range(5)]

    against = asyncio.run(unconfirmed(cast("ClusterClient", Ending(3)), claims))

    assert [why == PAST_DEADLINE for why in against.values()] == [False, False, True, True, True]


def test_a_state_partition_without_a_leader_confirms_nothing_and_names_no_id() -> None:
    """The sentence is a gap of the coverage, which readers without a right to the ids see, too."""
    why = other_coordinator(
        transaction("PrepareCommit"), Claim(topic=STATE_TOPIC, partition=0, leader=NO_LEADER, leader_epoch=-1)
    )

    assert why == "the metadata names no coordinator for its transactional id"


def test_a_login_that_does_not_see_the_state_topic_is_told_the_right_that_it_lacks() -> None:
    """The sentence about metadata without a coordinator would name a fault of the cluster."""
    model = kept_too_long("PrepareAbort")
    model.hidden_topics |= {(node, STATE_TOPIC) for node in (1, 2)}
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        first = evaluate(collector.collect(seen_before=None), Memory(), Policy())
        snapshot = collector.collect(seen_before=first.memory.seen)

    (undecided,) = (gap for gap in gaps(snapshot) if "overdue and stuck" in gap)
    assert "__transaction_state is not visible (needs DESCRIBE on it)" in undecided
