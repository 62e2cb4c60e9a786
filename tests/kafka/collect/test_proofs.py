"""When a cycle may and may not conclude while coordinators load, move and hide data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from exporter.evaluation.gaps import gaps
from exporter.evaluation.verdicts import InconclusiveReason, Verdict
from exporter.kafka.errors import ErrorCode
from exporter.snapshot import STATE_TOPIC, SecondRead
from tests.kafka.fake_broker import FakeCluster, Fault, Received
from tests.kafka.fake_model import Model, Partition
from tests.kafka.scene import (
    ALIVE,
    HANGING,
    UNKNOWN,
    collected,
    collector_of,
    evaluated,
    inconclusive,
    nth,
    only_unknown_is_inconclusive,
    scene,
    second_read,
    spare_state_partition,
    verdicts,
)

LISTS_BEFORE_THE_PROOF = 2


def test_a_broker_restarted_and_not_loaded_proves_nothing() -> None:
    """ListTransactions with NONE and no ids while a probe says COORDINATOR_LOAD_IN_PROGRESS: inconclusive, loading."""
    model = scene()
    model.unloaded = set(range(8))
    evaluation = evaluated(collected(model))

    everything = HANGING | ALIVE  # also those that live: no coordinator says so at the moment
    assert inconclusive(evaluation) == dict.fromkeys(everything, InconclusiveReason.LOADING)


def test_one_partition_not_loaded_prevents_the_proof_for_unlisted_producers() -> None:
    """An unlisted producer id may be owned by any partition; one that is listed has its owner's partition alone."""
    model = scene()
    model.unloaded = {spare_state_partition(model)}

    only_unknown_is_inconclusive(collected(model), InconclusiveReason.LOADING)


@pytest.mark.parametrize("at_first", [True, False], ids=["only at first", "only at last"])
def test_the_probes_must_pass_before_and_after_the_listing(*, at_first: bool) -> None:
    """A partition that was loading at either time may have left ids out of the listing in between."""
    model = scene()
    loading = {spare_state_partition(model)}
    model.unloaded = loading if at_first else set()

    def turn() -> None:
        model.unloaded = set() if at_first else loading

    snapshot = collected(model, on_request=nth(LISTS_BEFORE_THE_PROOF + 1, "ListTransactions", turn))

    only_unknown_is_inconclusive(snapshot, InconclusiveReason.LOADING)


@pytest.mark.parametrize("fault", [Fault.CLOSED, ErrorCode.KAFKA_STORAGE_ERROR], ids=["no answer", "another error"])
def test_a_probe_without_a_proper_response_proves_nothing(fault: Fault | ErrorCode) -> None:
    """Only TRANSACTIONAL_ID_NOT_FOUND counts: a probe that is lost, or answered with any other error, does not."""
    model = scene()
    spare = spare_state_partition(model)
    spare_node = model.topics[STATE_TOPIC][spare].leader
    owners = {model.coordinator_of(transaction)[0] for transaction in model.transactions}

    def fail_probes(received: Received) -> Fault | ErrorCode | None:
        ids = received.request.transactional_ids if received.api == "DescribeTransactions" else ()
        is_probe = bool(ids) and not set(ids) & set(model.transactions)
        return fault if is_probe and received.node == spare_node else None

    reasons = inconclusive(evaluated(collected(model, on_request=fail_probes)))
    assert reasons[UNKNOWN] is InconclusiveReason.COORDINATOR_UNANSWERED
    assert set(reasons) <= set(HANGING)
    assert owners


def test_hidden_ids_prove_nothing() -> None:
    """Without DESCRIBE on transactional ids the listing is empty without an error; the probes show it."""
    model = scene()
    model.may_describe_ids = False
    evaluation = evaluated(collected(model))

    assert inconclusive(evaluation) == dict.fromkeys(HANGING | ALIVE, InconclusiveReason.TRANSACTIONAL_IDS_HIDDEN)


def test_an_offline_state_partition_proves_nothing() -> None:
    """A partition of __transaction_state without a leader shortens the listings without an error."""
    model = scene()
    model.topics[STATE_TOPIC][spare_state_partition(model)].leader = -1

    only_unknown_is_inconclusive(collected(model), InconclusiveReason.STATE_PARTITION_OFFLINE)


@pytest.mark.parametrize(
    ("leader", "epoch"), [(2, 1), (1, 1)], ids=["to another node", "away and back: only the epoch tells"]
)
def test_a_coordinator_that_moves_between_the_probes_proves_nothing(leader: int, epoch: int) -> None:
    """Leader and leader epoch of every state partition must be the same before and after the listing."""
    model = scene()
    moving = model.topics[STATE_TOPIC][0]

    def move() -> None:
        moving.leader, moving.leader_epoch = leader, epoch

    snapshot = collected(model, on_request=nth(LISTS_BEFORE_THE_PROOF + 1, "ListTransactions", move))

    reasons = inconclusive(evaluated(snapshot))
    assert set(reasons.values()) == {InconclusiveReason.COORDINATOR_MOVED}
    owned = {("hung", 1, 12): "ended", ("hung", 1, 13): "elsewhere", ("mixed", 1, 14): "newer"}
    assert set(reasons) == {UNKNOWN} | {row for row, owner in owned.items() if model.coordinator_of(owner)[0] == 0}


def test_leaders_that_no_response_names_again_have_not_moved() -> None:
    """Without a second response nothing is proved; the sentence does not say that the coordinators changed."""
    model, listed = scene(), Counter[str]()

    def lose_the_leaders(received: Received) -> Fault | None:
        listed[received.api] += 1
        is_after_the_listing = listed["ListTransactions"] > LISTS_BEFORE_THE_PROOF
        names = [topic.name for topic in received.request.topics or ()] if received.api == "Metadata" else []
        return Fault.CLOSED if is_after_the_listing and names == [STATE_TOPIC] else None

    snapshot = collected(model, on_request=lose_the_leaders)

    reasons = set(inconclusive(evaluated(snapshot)).values())
    assert reasons == {InconclusiveReason.TRANSACTION_STATE_UNKNOWN}
    said = "; ".join(gaps(snapshot))
    assert "partitions of __transaction_state are without a response that names their leaders" in said
    assert "moving" not in said


def test_a_topic_hidden_at_the_coordinator_spares_only_what_rests_on_partitions() -> None:
    """A coordinator leaves hidden topics out of descriptions: its active transactions then say nothing about them."""
    model = scene()
    coordinator = model.coordinator_of("elsewhere")[1]
    other = 3 - coordinator
    model.hidden_topics = {(coordinator, "hung")}
    for partition in model.topics["hung"]:
        partition.leader = other
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        cluster.on_response = _metadata_but_the_coordinator_s_own_from(other, cluster)
        snapshot = collector.collect(seen_before=None)

    evaluation = evaluated(snapshot)
    assert inconclusive(evaluation) == {("hung", 1, 13): InconclusiveReason.TOPICS_HIDDEN}
    assert verdicts(evaluation)["hung", 1, 12] is Verdict.HANGING_NOT_IN_TRANSACTION


def _metadata_but_the_coordinator_s_own_from(node: int, cluster: FakeCluster) -> Callable[[Received, Any], None]:
    """Metadata as `node` sees it, except between the proof's listings and its second read of the ACLs."""
    listings_up_to_the_proof = 2 * 2  # of two nodes: the general one, and the proof's
    acls_up_to_the_listings = 2

    def on_response(received: Received, response: Any) -> None:
        apis = Counter(request.api for request in cluster.received)
        as_coordinator = apis["ListTransactions"] == listings_up_to_the_proof and (
            apis["DescribeAcls"] == acls_up_to_the_listings
        )
        if received.api == "Metadata" and not as_coordinator:
            response.topics = cluster.answers.metadata(node, received.request, received.request.version).topics

    return on_response


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, InconclusiveReason.IDS_MAY_BE_DENIED),
        (ErrorCode.UNKNOWN_SERVER_ERROR, InconclusiveReason.ACLS_NOT_LISTED),
        (ErrorCode.UNSUPPORTED_VERSION, InconclusiveReason.ACLS_NOT_LISTED),
        (ErrorCode.REQUEST_TIMED_OUT, InconclusiveReason.COORDINATOR_UNANSWERED),
    ],
)
def test_acls_that_are_not_read_leave_an_unknown_id_unverified(error: ErrorCode, reason: InconclusiveReason) -> None:
    """An ACL may hide one id, so an unlisted producer is never proved to hang, and the real cause is named."""
    model = scene()
    model.acls = error

    assert inconclusive(evaluated(collected(model))) == {UNKNOWN: reason}


def test_a_transaction_that_ends_while_it_is_verified_is_dropped() -> None:
    """A transaction that the second read no longer shows has ended: it has no row."""
    model = scene()
    hung = model.topics["hung"][0]

    def end() -> None:
        hung.producers[0] = replace(hung.producers[0], start_offset=-1)

    snapshot = collected(model, on_request=nth(LISTS_BEFORE_THE_PROOF + 1, "ListTransactions", end))

    assert UNKNOWN not in verdicts(evaluated(snapshot))
    assert snapshot.is_complete


@pytest.mark.parametrize(
    "moved",
    [{"epoch": 1}, {"last_sequence": 1}, {"last_timestamp_ms": 1}],
    ids=["a newer epoch", "a producer that goes on", "the same with a record that was sent again"],
)
def test_an_entry_that_moves_between_the_reads_is_changed(moved: dict[str, int]) -> None:
    """The same start offset proves nothing in this cycle: a next transaction may have taken the records along."""
    model = scene()
    hung = model.topics["hung"][0]

    def move() -> None:
        hung.producers[0] = replace(hung.producers[0], **moved)

    snapshot = collected(model, on_request=nth(3, "ListTransactions", move))

    assert inconclusive(evaluated(snapshot)) == {UNKNOWN: InconclusiveReason.CHANGED_BETWEEN_READS}
    assert second_read(snapshot, UNKNOWN) is SecondRead.CHANGED


def test_a_topic_made_again_after_the_scan_proves_nothing() -> None:
    """The same producer is open there at the same offset: the transaction that was scanned is gone with its topic."""
    model = scene()

    def make_again() -> None:
        model.topic_ids["hung"] = UUID(int=99)

    snapshot = collected(model, on_request=nth(1, "ListTransactions", make_again))

    assert second_read(snapshot, UNKNOWN) is SecondRead.CHANGED
    assert inconclusive(evaluated(snapshot))[UNKNOWN] is InconclusiveReason.CHANGED_BETWEEN_READS


def test_without_the_state_topic_nothing_is_proved() -> None:
    """No coordinator was asked: a proxy may hide the topic, and the transaction may be alive."""
    model = Model(topics={"hung": [Partition(1, producers=scene().topics["hung"][0].producers)]})
    snapshot = collected(model)

    assert inconclusive(evaluated(snapshot)) == {UNKNOWN: InconclusiveReason.TRANSACTION_STATE_ABSENT}
    assert not snapshot.is_complete
    assert not any("transaction_state_absent" in gap for gap in gaps(snapshot)), "a sentence, not a code"


def test_a_hidden_state_topic_proves_nothing() -> None:
    """Without DESCRIBE on __transaction_state the coordinators are unknown, however healthy their responses."""
    model = scene()
    model.hidden_topics = {(node, STATE_TOPIC) for node in (1, 2)}
    evaluation = evaluated(collected(model))

    assert set(inconclusive(evaluation).values()) == {InconclusiveReason.TRANSACTION_STATE_HIDDEN}
    assert set(inconclusive(evaluation)) == set(HANGING)
