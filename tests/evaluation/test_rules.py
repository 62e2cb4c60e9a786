"""One table of verdicts: each row runs every predicate, and has a sentence that says what it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from exporter.evaluation import rules
from exporter.evaluation.evidence import Evidence
from exporter.evaluation.possible_owners import RememberedOffset
from exporter.evaluation.verdicts import InconclusiveReason, Policy, Verdict
from exporter.snapshot import (
    NO_PRODUCER_ID,
    TIMEOUT_MS_TWO_PHASE_COMMIT,
    CoordinatorTransaction,
    HeldOffset,
    IdVisibility,
    SecondRead,
    TransactionKey,
)
from tests.evaluation.builders import MINUTE_MS, NOW_MS, TOPIC, evidence, listed, remembered, transaction

POLICY = Policy(overdue_slack_ms=30_000, stuck_after_ms=60_000)

PREDICATES: dict[str, Callable[[Evidence], bool]] = {
    "prepared": rules.is_prepared_two_phase_commit,
    "overdue": lambda e: rules.is_overdue_at_coordinator(e, POLICY),
    "within_timeout": lambda e: rules.is_open_within_timeout(e, POLICY),
    "clock_unverified": lambda e: rules.is_clock_unverified(e, POLICY),
    "marker_refused": rules.is_marker_refused,
    "may_be_fenced": rules.may_be_fenced,
    "stuck": lambda e: rules.is_stuck_completing(e, POLICY),
    "completing": rules.is_completing,
    "diverged": rules.is_replica_diverged,
    "stale_epoch": rules.is_hanging_stale_epoch,
    "not_in_transaction": rules.is_hanging_not_in_transaction,
    "no_id": rules.is_hanging_no_transactional_id,
}


class Row(NamedTuple):
    sentence: str
    evidence: Evidence
    true: set[str]
    """The predicates that hold."""
    missing: InconclusiveReason | None
    """The result of `missing_proof`; NOT_A_CONTRADICTION where it is not called."""
    verdict: Verdict


NOT_A_CONTRADICTION = InconclusiveReason.ID_LISTED_NOT_DESCRIBED
ELSEWHERE = frozenset({("orders", 1)})


def began(milliseconds_ago: int) -> int:
    return NOW_MS - milliseconds_ago


OWNED = [
    Row(
        "the coordinator owns it and it is a second old",
        evidence(transaction()),
        {"within_timeout"},
        NOT_A_CONTRADICTION,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "past its time-out, within the slack that the coordinator's scan needs",
        evidence(transaction(start_ms=began(MINUTE_MS + 30_000))),
        {"within_timeout"},
        NOT_A_CONTRADICTION,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "a millisecond past its time-out and the slack: its coordinator should have aborted it",
        evidence(transaction(start_ms=began(MINUTE_MS + 30_001))),
        {"overdue"},
        NOT_A_CONTRADICTION,
        Verdict.OVERDUE_AT_COORDINATOR,
    ),
    Row(
        "past its time-out and the slack at a broker that is not confirmed to be its coordinator any more",
        evidence(transaction(start_ms=began(MINUTE_MS + 30_001)), unconfirmed="broker 1 is cut off"),
        set(),
        InconclusiveReason.LEADERSHIP_UNCONFIRMED,
        Verdict.INCONCLUSIVE,
    ),
    Row(
        "prepared for two-phase commit years ago: its time-out is no time-out",
        evidence(transaction(timeout_ms=TIMEOUT_MS_TWO_PHASE_COMMIT, start_ms=began(TIMEOUT_MS_TWO_PHASE_COMMIT * 9))),
        {"prepared", "overdue"},
        NOT_A_CONTRADICTION,
        Verdict.PREPARED_TWO_PHASE_COMMIT,
    ),
    Row(
        "its coordinator describes it without a start, so that no time-out can have passed",
        evidence(transaction(start_ms=None)),
        {"within_timeout"},
        NOT_A_CONTRADICTION,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "its coordinator describes it without a time-out",
        evidence(transaction(timeout_ms=-1, start_ms=began(10 * MINUTE_MS))),
        {"within_timeout"},
        NOT_A_CONTRADICTION,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "listed as Ongoing and first seen in this cycle: it was not described, and nothing is amiss",
        evidence(listed()),
        {"within_timeout"},
        NOT_A_CONTRADICTION,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "past its time-out by an exporter's clock that cannot be compared with the brokers'",
        evidence(transaction(start_ms=began(10 * MINUTE_MS)), is_clock_sure=False),
        {"clock_unverified"},
        InconclusiveReason.CLOCK_UNVERIFIED,
        Verdict.INCONCLUSIVE,
    ),
    Row(
        "within its time-out by an exporter's clock that is known to be behind",
        evidence(transaction(), is_clock_sure=False, is_clock_behind=True),
        {"clock_unverified"},
        InconclusiveReason.CLOCK_UNVERIFIED,
        Verdict.INCONCLUSIVE,
    ),
    Row(
        "watched for longer than its time-out and the slack: no clock is needed",
        evidence(transaction(start_ms=began(10 * MINUTE_MS)), is_clock_sure=False, watched_ms=MINUTE_MS + 30_001),
        {"overdue", "clock_unverified"},
        InconclusiveReason.CLOCK_UNVERIFIED,
        Verdict.OVERDUE_AT_COORDINATOR,
    ),
    Row(
        "listed as Ongoing for the second time, and its description was not to be had",
        evidence(listed(), was_seen_before=True),
        set(),
        InconclusiveReason.ID_LISTED_NOT_DESCRIBED,
        Verdict.INCONCLUSIVE,
    ),
]

OWNED.append(
    Row(
        "listed as Ongoing and first seen in this cycle, but asked for and not described",
        evidence(listed(), is_unclear=True),
        set(),
        InconclusiveReason.ID_LISTED_NOT_DESCRIBED,
        Verdict.INCONCLUSIVE,
    )
)

COMPLETING = [
    Row(
        "its commit is decided and the marker on its way",
        evidence(transaction("PrepareCommit")),
        {"completing"},
        NOT_A_CONTRADICTION,
        Verdict.COMPLETING,
    ),
    Row(
        "completed at an older epoch than the partition has seen: its marker is refused, which takes time to show",
        evidence(transaction("PrepareCommit", producer_epoch=2)),
        {"completing", "marker_refused"},
        NOT_A_CONTRADICTION,
        Verdict.COMPLETING,
    ),
    Row(
        "the same for a while: nothing will ever come of it",
        evidence(transaction("PrepareCommit", producer_epoch=2), completing_ms=60_001),
        {"completing", "stuck", "marker_refused"},
        NOT_A_CONTRADICTION,
        Verdict.STUCK_COMPLETING,
    ),
    Row(
        "TransactionVersion 2: the coordinator is an epoch ahead as soon as it prepares",
        evidence(transaction("PrepareAbort", producer_epoch=4)),
        {"completing"},
        NOT_A_CONTRADICTION,
        Verdict.COMPLETING,
    ),
    Row(
        "a time-out fences and then prepares: two epochs ahead, and this partition's marker is still owed",
        evidence(transaction("PrepareAbort", producer_epoch=5)),
        {"completing"},
        NOT_A_CONTRADICTION,
        Verdict.COMPLETING,
    ),
    Row(
        "seen completing for exactly as long as allowed",
        evidence(transaction("PrepareCommit"), completing_ms=60_000),
        {"completing"},
        NOT_A_CONTRADICTION,
        Verdict.COMPLETING,
    ),
    Row(
        "seen completing for longer: the coordinator may have given up",
        evidence(transaction("PrepareCommit"), completing_ms=60_001),
        {"completing", "stuck"},
        NOT_A_CONTRADICTION,
        Verdict.STUCK_COMPLETING,
    ),
    Row(
        "listed as completing and first seen in this cycle",
        evidence(listed("PrepareCommit")),
        {"completing"},
        NOT_A_CONTRADICTION,
        Verdict.COMPLETING,
    ),
    Row(
        "a fence that is being written counts as completing",
        evidence(transaction("PrepareEpochFence", producer_epoch=4)),
        {"completing"},
        NOT_A_CONTRADICTION,
        Verdict.COMPLETING,
    ),
]

HANGING = [
    Row(
        "no coordinator knows the producer id, and nothing can be hidden",
        evidence(None),
        {"no_id"},
        None,
        Verdict.HANGING_NO_TRANSACTIONAL_ID,
    ),
    Row(
        "the id is Empty: it has no transaction at all",
        evidence(transaction("Empty", partitions=frozenset(), start_ms=None)),
        {"not_in_transaction"},
        None,
        Verdict.HANGING_NOT_IN_TRANSACTION,
    ),
    Row(
        "listed Empty, its description was not needed",
        evidence(listed("Empty")),
        {"not_in_transaction"},
        None,
        Verdict.HANGING_NOT_IN_TRANSACTION,
    ),
    Row(
        "the commit is complete and this partition is still open",
        evidence(transaction("CompleteCommit", partitions=frozenset())),
        {"not_in_transaction"},
        None,
        Verdict.HANGING_NOT_IN_TRANSACTION,
    ),
    Row(
        "the abort is complete and this partition is still open",
        evidence(transaction("CompleteAbort", partitions=frozenset())),
        {"not_in_transaction"},
        None,
        Verdict.HANGING_NOT_IN_TRANSACTION,
    ),
    Row(
        "Ongoing, but elsewhere",
        evidence(transaction(partitions=ELSEWHERE)),
        {"not_in_transaction"},
        None,
        Verdict.HANGING_NOT_IN_TRANSACTION,
    ),
    Row(
        "preparing, this partition's marker acknowledged, and still open",
        evidence(transaction("PrepareCommit", partitions=ELSEWHERE)),
        {"not_in_transaction"},
        None,
        Verdict.HANGING_NOT_IN_TRANSACTION,
    ),
    Row(
        "Ongoing here two epochs on: the new transaction's marker would close the old records",
        evidence(transaction(producer_epoch=5)),
        {"stale_epoch"},
        None,
        Verdict.HANGING_STALE_EPOCH,
    ),
    Row(
        "Ongoing here at the next epoch, at which the id was found without a transaction before",
        evidence(transaction(producer_epoch=4), remembered=remembered(superseded_epoch=3)),
        {"stale_epoch"},
        None,
        Verdict.HANGING_STALE_EPOCH,
    ),
    Row(
        "the exporter's own clock is known to be behind, and this proof needs no clock",
        evidence(None, is_clock_sure=False, is_clock_behind=True),
        {"no_id"},
        None,
        Verdict.HANGING_NO_TRANSACTIONAL_ID,
    ),
    Row(
        "an ACL may hide other ids, but this one is listed",
        evidence(transaction("Empty", partitions=frozenset()), id_visibility=IdVisibility.ACLS_UNREAD),
        {"not_in_transaction"},
        None,
        Verdict.HANGING_NOT_IN_TRANSACTION,
    ),
    Row(
        "topics may be hidden in descriptions, but an Empty id needs no description",
        evidence(listed("Empty"), is_topic_hidden=True),
        {"not_in_transaction"},
        None,
        Verdict.HANGING_NOT_IN_TRANSACTION,
    ),
]


DIVERGED = [
    Row(
        "the leader shows it open, a follower has its end: an abort could hide committed records",
        evidence(transaction("CompleteCommit", partitions=frozenset()), diverged_replicas=(2,)),
        {"not_in_transaction", "diverged"},
        None,
        Verdict.REPLICA_DIVERGED,
    ),
    Row(
        "one follower has its end, and another in-sync one is silent",
        evidence(transaction("Empty", partitions=frozenset()), diverged_replicas=(2,), silent_replicas=(3,)),
        {"not_in_transaction", "diverged"},
        None,
        Verdict.REPLICA_DIVERGED,
    ),
    Row(
        "a follower has its end, but the proof against the coordinator is not complete",
        evidence(None, diverged_replicas=(2,), proof_failure="loading"),
        {"no_id", "diverged"},
        InconclusiveReason.LOADING,
        Verdict.INCONCLUSIVE,
    ),
    Row(
        "the coordinator owns it: a follower that is ahead of what was read here is no divergence",
        evidence(transaction(), diverged_replicas=(2,)),
        {"within_timeout"},
        NOT_A_CONTRADICTION,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
]


def unproved(sentence: str, reason: InconclusiveReason, **fields: object) -> Row:
    return Row(sentence, evidence(None, **fields), {"no_id"}, reason, Verdict.INCONCLUSIVE)


INCONCLUSIVE = [
    unproved("the coordinators were not asked for a proof", InconclusiveReason.NOT_ASKED, was_asked=False),
    unproved("ids are hidden", InconclusiveReason.TRANSACTIONAL_IDS_HIDDEN, proof_failure="transactional_ids_hidden"),
    unproved("a coordinator is loading", InconclusiveReason.LOADING, proof_failure="loading"),
    unproved("a coordinator moved", InconclusiveReason.COORDINATOR_MOVED, proof_failure="coordinator_moved"),
    unproved(
        "partitions were added to __transaction_state",
        InconclusiveReason.NOT_COORDINATOR,
        proof_failure="not_coordinator",
    ),
    unproved(
        "an address leads to another broker",
        InconclusiveReason.ADDRESS_OF_ANOTHER_BROKER,
        proof_failure="address_of_another_broker",
    ),
    unproved(
        "a broker of Kafka 2.8",
        InconclusiveReason.TRANSACTIONS_NOT_OFFERED,
        proof_failure="transactions_not_offered",
    ),
    unproved(
        "no broker shows __transaction_state",
        InconclusiveReason.TRANSACTION_STATE_ABSENT,
        proof_failure="transaction_state_absent",
    ),
    unproved(
        "the authorizer lists no ACLs", InconclusiveReason.ACLS_NOT_LISTED, id_visibility=IdVisibility.ACLS_NOT_LISTED
    ),
    unproved(
        "a coordinator did not show the ACLs",
        InconclusiveReason.COORDINATOR_UNANSWERED,
        id_visibility=IdVisibility.NOT_ANSWERED,
    ),
    unproved(
        "a coordinator is silent", InconclusiveReason.COORDINATOR_UNANSWERED, proof_failure="coordinator_unanswered"
    ),
    unproved(
        "a partition of __transaction_state has no leader",
        InconclusiveReason.STATE_PARTITION_OFFLINE,
        proof_failure="state_partition_offline",
    ),
    unproved(
        "__transaction_state is hidden",
        InconclusiveReason.TRANSACTION_STATE_HIDDEN,
        proof_failure="transaction_state_hidden",
    ),
    unproved(
        "no response about __transaction_state",
        InconclusiveReason.TRANSACTION_STATE_UNKNOWN,
        proof_failure="transaction_state_unknown",
    ),
    unproved("the id changed while asked for", InconclusiveReason.CHANGED_WHILE_ASKED, is_unclear=True),
    unproved("the second read failed", InconclusiveReason.SECOND_READ_FAILED, second_read=SecondRead.UNREAD),
    unproved(
        "another epoch at the second read", InconclusiveReason.CHANGED_BETWEEN_READS, second_read=SecondRead.CHANGED
    ),
    unproved("there was no second read", InconclusiveReason.CHANGED_BETWEEN_READS, second_read=SecondRead.NOT_ASKED),
    unproved(
        "an ACL may hide just this id",
        InconclusiveReason.IDS_MAY_BE_DENIED,
        id_visibility=IdVisibility.ACLS_UNREAD,
        watched_ms=10**9,
    ),
    unproved(
        "some ids are not granted",
        InconclusiveReason.IDS_VISIBLE_BY_NAME_ONLY,
        id_visibility=IdVisibility.BY_NAME_ONLY,
    ),
    unproved(
        "the leader may be cut off", InconclusiveReason.LEADERSHIP_UNCONFIRMED, second_read=SecondRead.UNCONFIRMED
    ),
    unproved("an in-sync replica is silent", InconclusiveReason.REPLICA_UNREAD, silent_replicas=(2,)),
    unproved("an in-sync replica does not know it", InconclusiveReason.REPLICA_UNAWARE, unaware_replicas=(2,)),
    unproved(
        "one is silent, and one does not know it",
        InconclusiveReason.REPLICA_UNREAD,
        silent_replicas=(2,),
        unaware_replicas=(3,),
    ),
    Row(
        "Ongoing here at the next epoch: this may be a fence that the coordinator cannot write",
        evidence(transaction(producer_epoch=4)),
        {"stale_epoch", "may_be_fenced"},
        InconclusiveReason.MAY_BE_FENCED,
        Verdict.INCONCLUSIVE,
    ),
    Row(
        "the same, though it was superseded at another epoch of its records",
        evidence(transaction(producer_epoch=4), remembered=remembered(superseded_epoch=2)),
        {"stale_epoch", "may_be_fenced"},
        InconclusiveReason.MAY_BE_FENCED,
        Verdict.INCONCLUSIVE,
    ),
    Row(
        "Ongoing elsewhere, by a description that may leave this topic out",
        evidence(transaction(partitions=ELSEWHERE), is_topic_hidden=True),
        {"not_in_transaction"},
        InconclusiveReason.TOPICS_HIDDEN,
        Verdict.INCONCLUSIVE,
    ),
    Row(
        "the partition has seen a newer epoch than the coordinator shows",
        evidence(transaction(producer_epoch=2)),
        set(),
        InconclusiveReason.COORDINATOR_BEHIND,
        Verdict.INCONCLUSIVE,
    ),
    Row(
        "a state that a later Kafka invented",
        evidence(transaction("Pondering")),
        set(),
        InconclusiveReason.UNKNOWN_STATE,
        Verdict.INCONCLUSIVE,
    ),
    Row(
        "Dead is a state that no coordinator should list",
        evidence(transaction("Dead")),
        set(),
        InconclusiveReason.UNKNOWN_STATE,
        Verdict.INCONCLUSIVE,
    ),
]


def by_offsets(*active: CoordinatorTransaction, before: RememberedOffset | None = None, **fields: Any) -> Evidence:
    """The same partition, where this principal may not read the producers; `active` are on it."""
    known: dict[str, Any] = {
        "key": TransactionKey(TOPIC, 0, NO_PRODUCER_ID, 100),
        "producer_epoch": -1,
        "was_seen_before": True,
        "held_offset": HeldOffset(leader_epoch=4, described=(active, active), later=active),
        "remembered_offset": before,
        "cluster_time_ms": NOW_MS,
    }
    return rules.with_offset_facts(evidence(None, **{**known, **fields}))


EARLIER = RememberedOffset(leader_epoch=4, starts={7: began(MINUTE_MS)})
"""Another transaction of producer 7 was on the partition, and the last stable offset stood where it stands."""
BY_OFFSETS = [
    Row(
        "the last stable offset stands, and no coordinator has an active transaction on the partition",
        by_offsets(),
        {"no_id"},
        None,
        Verdict.HANGING_BY_OFFSETS,
    ),
    Row(
        "first seen in this cycle: nothing was asked yet",
        by_offsets(was_seen_before=False, was_asked=False, second_read=SecondRead.NOT_ASKED),
        {"no_id"},
        InconclusiveReason.NOT_ASKED,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "an active transaction on the partition may own it",
        by_offsets(transaction()),
        {"no_id"},
        InconclusiveReason.OWNER_UNKNOWN,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "it may own it, and the proof is not whole",
        by_offsets(transaction(), proof_failure="loading"),
        {"no_id"},
        InconclusiveReason.LOADING,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "its producer has completed a transaction there since: its marker would have ended the open records",
        by_offsets(transaction(), before=EARLIER),
        {"no_id"},
        None,
        Verdict.HANGING_BY_OFFSETS,
    ),
    Row(
        "the same in another leader epoch, whose log may lack that marker",
        by_offsets(transaction(), before=replace(EARLIER, leader_epoch=3)),
        {"no_id"},
        InconclusiveReason.OWNER_UNKNOWN,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "the same by coordinators that are not proved",
        by_offsets(transaction(), before=EARLIER, proof_failure="coordinator_moved"),
        {"no_id"},
        InconclusiveReason.COORDINATOR_MOVED,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "one of two has completed a transaction, and the other may own it",
        by_offsets(transaction(), transaction(producer_id=8), before=EARLIER),
        {"no_id"},
        InconclusiveReason.OWNER_UNKNOWN,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "a producer that began after the proof may have taken the records into its transaction",
        by_offsets(transaction(), before=RememberedOffset(leader_epoch=4, was_proved=True)),
        {"no_id"},
        InconclusiveReason.OWNER_UNKNOWN,
        Verdict.INCONCLUSIVE,
    ),
    Row(
        "the only one that may own it is past its time-out",
        by_offsets(transaction(start_ms=began(2 * MINUTE_MS))),
        {"no_id"},
        InconclusiveReason.OWNER_UNKNOWN,
        Verdict.INCONCLUSIVE,
    ),
    Row(
        "it seems past its time-out by the exporter's own clock, which may be ahead",
        by_offsets(transaction(start_ms=began(2 * MINUTE_MS)), is_clock_sure=False),
        {"no_id"},
        InconclusiveReason.OWNER_UNKNOWN,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "this process has watched it for longer than that time-out",
        by_offsets(transaction(start_ms=began(2 * MINUTE_MS)), is_clock_sure=False, watched_ms=MINUTE_MS + 30_001),
        {"no_id"},
        InconclusiveReason.OWNER_UNKNOWN,
        Verdict.INCONCLUSIVE,
    ),
    Row(
        "the only one that may own it is prepared for two-phase commit: its time-out is no time-out",
        by_offsets(
            transaction(timeout_ms=TIMEOUT_MS_TWO_PHASE_COMMIT, start_ms=began(TIMEOUT_MS_TWO_PHASE_COMMIT * 9)),
        ),
        {"no_id"},
        InconclusiveReason.OWNER_UNKNOWN,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "it was watched for longer than the time-out of one whose start is not known, which may have begun just now",
        by_offsets(transaction(start_ms=None), is_clock_sure=False, watched_ms=MINUTE_MS + 30_001),
        {"no_id"},
        InconclusiveReason.OWNER_UNKNOWN,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "its producer was excluded in another leader epoch, and the coordinators of this cycle are not proved",
        by_offsets(
            transaction(),
            before=RememberedOffset(leader_epoch=3, excluded=frozenset({7}), was_proved=True),
            proof_failure="coordinator_moved",
        ),
        {"no_id"},
        InconclusiveReason.COORDINATOR_MOVED,
        Verdict.OPEN_WITHIN_TIMEOUT,
    ),
    Row(
        "a coordinator may leave this topic out of its descriptions",
        by_offsets(is_topic_hidden=True),
        {"no_id"},
        InconclusiveReason.TOPICS_HIDDEN,
        Verdict.INCONCLUSIVE,
    ),
    Row(
        "an id may be hidden",
        by_offsets(id_visibility=IdVisibility.ACLS_UNREAD),
        {"no_id"},
        InconclusiveReason.IDS_MAY_BE_DENIED,
        Verdict.INCONCLUSIVE,
    ),
]


ROWS = (*OWNED, *COMPLETING, *HANGING, *DIVERGED, *INCONCLUSIVE, *BY_OFFSETS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.sentence)
def test_every_predicate_and_the_verdict(row: Row) -> None:
    """Each situation makes exactly these predicates true, misses exactly this of a proof, and gets this verdict."""
    assert {name for name, holds in PREDICATES.items() if holds(row.evidence)} == row.true
    assert rules.missing_proof(row.evidence, POLICY) is row.missing
    assert rules.verdict_of(row.evidence, POLICY) is row.verdict


def test_every_reason_occurs_in_the_table() -> None:
    # What was not examined has no evidence at all.
    elsewhere = {InconclusiveReason.ID_LISTED_NOT_DESCRIBED, InconclusiveReason.NOT_EXAMINED}
    assert {row.missing for row in [*OWNED, *INCONCLUSIVE, *BY_OFFSETS]} - {None} | elsewhere == set(InconclusiveReason)


def test_every_verdict_occurs_in_the_table() -> None:
    without = set(Verdict) - {row.verdict for row in ROWS}
    assert not without, f"add a row above for each of {without}"
