"""Decides the verdict on one open transaction: named predicates, and their precedence in one function.

A predicate uses one `Evidence` and nothing else; only `verdict_of` knows their order. A `hanging_*` verdict is a proof
(docs/verdicts.md): if any part is missing, the transaction is inconclusive.
"""

from __future__ import annotations

from dataclasses import replace

from exporter.evaluation.evidence import Evidence
from exporter.evaluation.possible_owners import RememberedOffset, exclude, possible_owners
from exporter.evaluation.verdicts import InconclusiveReason, Policy, Verdict
from exporter.snapshot import (
    COMPLETING_STATES,
    TIMEOUT_MS_TWO_PHASE_COMMIT,
    CoordinatorTransaction,
    IdVisibility,
    Ownership,
    SecondRead,
)

_HIDDEN_IDS = {
    IdVisibility.ALL: None,
    IdVisibility.ACLS_UNREAD: InconclusiveReason.IDS_MAY_BE_DENIED,
    IdVisibility.ACLS_NOT_LISTED: InconclusiveReason.ACLS_NOT_LISTED,
    IdVisibility.BY_NAME_ONLY: InconclusiveReason.IDS_VISIBLE_BY_NAME_ONLY,
    IdVisibility.NOT_ANSWERED: InconclusiveReason.COORDINATOR_UNANSWERED,
}
_CONTRADICTIONS = frozenset({Ownership.UNLISTED, Ownership.NOT_IN_TRANSACTION, Ownership.STALE_EPOCH})


def verdict_of(evidence: Evidence, policy: Policy) -> Verdict:  # noqa: C901 - a precedence is a list
    """The verdict. Every precedence is here.

    A transaction that the coordinator owns is never hanging, so that comes first. Two-phase commit comes before overdue,
    because it has no real timeout. A contradiction with the coordinator is hanging only with a complete proof, so missing
    parts come before the three kinds of hanging, which exclude each other. A diverged replica comes before those: an abort
    could hide records that are committed on a follower. Of a transaction of which only the offset is known no coordinator
    can say that it owns it.
    """
    if evidence.held_offset is not None:
        return _verdict_by_offsets(evidence, policy)
    if is_prepared_two_phase_commit(evidence):
        return Verdict.PREPARED_TWO_PHASE_COMMIT
    if is_overdue_at_coordinator(evidence, policy):
        return Verdict.OVERDUE_AT_COORDINATOR
    if is_open_within_timeout(evidence, policy):
        return Verdict.OPEN_WITHIN_TIMEOUT
    if is_stuck_completing(evidence, policy):
        return Verdict.STUCK_COMPLETING
    if is_completing(evidence):
        return Verdict.COMPLETING
    if missing_proof(evidence, policy) is not None:
        return Verdict.INCONCLUSIVE
    if is_replica_diverged(evidence):
        return Verdict.REPLICA_DIVERGED
    if is_hanging_stale_epoch(evidence):
        return Verdict.HANGING_STALE_EPOCH
    if is_hanging_not_in_transaction(evidence):
        return Verdict.HANGING_NOT_IN_TRANSACTION
    if is_hanging_no_transactional_id(evidence):
        return Verdict.HANGING_NO_TRANSACTIONAL_ID
    return Verdict.INCONCLUSIVE


def _verdict_by_offsets(evidence: Evidence, policy: Policy) -> Verdict:
    if may_be_live(evidence, policy):
        return Verdict.OPEN_WITHIN_TIMEOUT
    return Verdict.HANGING_BY_OFFSETS if missing_proof(evidence, policy) is None else Verdict.INCONCLUSIVE


def may_be_live(evidence: Evidence, policy: Policy) -> bool:
    """First seen in this cycle, or a transaction within its time-out may own it, and no proof has ever excluded all."""
    if evidence.second_read is SecondRead.NOT_ASKED and not evidence.was_seen_before:
        return True
    assert evidence.offset_facts is not None
    is_any_live = any(not _is_owner_overdue(owner, evidence, policy) for owner in owners_of(evidence))
    return is_any_live and not evidence.offset_facts.was_proved


def with_offset_facts(evidence: Evidence) -> Evidence:
    """Adds what is known of an offset after this cycle. Only a whole proof adds to it: former coordinators know less."""
    held, before = evidence.held_offset, evidence.remembered_offset
    if held is None:
        return evidence
    facts = before
    if _missing_by_coordinators(evidence) is None:
        facts = exclude(held, before)
    elif before is None or before.leader_epoch != held.leader_epoch:
        facts = RememberedOffset(leader_epoch=held.leader_epoch)
    return replace(evidence, offset_facts=facts)


def owners_of(evidence: Evidence) -> tuple[CoordinatorTransaction, ...]:
    """Returns the active transactions that may own a transaction of which only the offset is known."""
    assert evidence.held_offset is not None
    assert evidence.offset_facts is not None
    return possible_owners(evidence.held_offset, evidence.offset_facts)


def _is_owner_overdue(owner: CoordinatorTransaction, evidence: Evidence, policy: Policy) -> bool:
    if owner.start_ms is None or owner.timeout_ms == TIMEOUT_MS_TWO_PHASE_COMMIT:
        return False
    age_ms = evidence.cluster_time_ms - owner.start_ms if evidence.is_clock_sure else evidence.watched_ms
    return age_ms > owner.timeout_ms + policy.overdue_slack_ms


def is_prepared_two_phase_commit(evidence: Evidence) -> bool:
    """The coordinator owns it, and its timeout is infinite (KIP-939)."""
    transaction = evidence.transaction
    return (
        evidence.ownership is Ownership.OWNED
        and transaction is not None
        and transaction.timeout_ms == TIMEOUT_MS_TWO_PHASE_COMMIT
    )


def is_overdue_at_coordinator(evidence: Evidence, policy: Policy) -> bool:
    """The coordinator owns it, and should have aborted it: its own timeout and the slack have passed."""
    return _seems_overdue(evidence, policy) and evidence.unconfirmed is None


def is_owner_unconfirmed(evidence: Evidence, policy: Policy) -> bool:
    """True if the transaction seems overdue, but the responding broker may not be its coordinator any more."""
    return _seems_overdue(evidence, policy) and evidence.unconfirmed is not None


def _seems_overdue(evidence: Evidence, policy: Policy) -> bool:
    """Compares by the cluster's clock; without it, by the time that this process has watched the transaction."""
    return _is_past_timeout(
        evidence, policy, evidence.coordinator_age_ms if evidence.is_clock_sure else evidence.watched_ms
    )


def is_clock_unverified(evidence: Evidence, policy: Policy) -> bool:
    """The coordinator owns it, and overdue or not depends on the exporter's clock, which is wrong or cannot be compared."""
    if evidence.ownership is not Ownership.OWNED or evidence.is_clock_sure:
        return False
    return evidence.is_clock_behind or _is_past_timeout(evidence, policy, evidence.coordinator_age_ms)


def _is_past_timeout(evidence: Evidence, policy: Policy, age_ms: int | None) -> bool:
    transaction = evidence.transaction
    return (
        evidence.ownership is Ownership.OWNED
        and transaction is not None
        and transaction.timeout_ms >= 0
        and age_ms is not None
        and age_ms > transaction.timeout_ms + policy.overdue_slack_ms
    )


def is_open_within_timeout(evidence: Evidence, policy: Policy) -> bool:
    """The coordinator owns it within its timeout; or lists it as Ongoing, and it was first seen in this cycle."""
    if evidence.ownership is Ownership.OWNED:
        return not (_seems_overdue(evidence, policy) or is_clock_unverified(evidence, policy))
    return is_just_listed(evidence) and evidence.state not in COMPLETING_STATES


def is_just_listed(evidence: Evidence) -> bool:
    """Listed in an active state and not described, because it was first seen in this cycle: not a suspect yet."""
    asked_for = evidence.was_seen_before or evidence.was_asked or evidence.is_unclear
    return evidence.ownership is Ownership.LISTED_ACTIVE and not asked_for


def is_stuck_completing(evidence: Evidence, policy: Policy) -> bool:
    """True if the outcome is decided, its marker is missing here for some time, and the coordinator is confirmed."""
    is_kept_too_long = evidence.ownership is Ownership.COMPLETING and evidence.completing_ms > policy.stuck_after_ms
    return is_kept_too_long and evidence.unconfirmed is None


def is_completing(evidence: Evidence) -> bool:
    """True if the outcome is decided, and this partition's marker is not written yet."""
    if evidence.ownership is Ownership.COMPLETING:
        return True
    return is_just_listed(evidence) and evidence.state in COMPLETING_STATES


def is_marker_refused(evidence: Evidence) -> bool:
    """Completed at an older epoch than the partition's: its leader always refuses that marker."""
    transaction = evidence.transaction
    return (
        evidence.ownership is Ownership.COMPLETING
        and transaction is not None
        and transaction.producer_epoch < evidence.producer_epoch
    )


def is_replica_diverged(evidence: Evidence) -> bool:
    """The coordinator does not own it, and a follower has its marker: the leader may have lost the marker."""
    return evidence.ownership in _CONTRADICTIONS and bool(evidence.diverged_replicas)


def is_hanging_stale_epoch(evidence: Evidence) -> bool:
    """The coordinator has a newer epoch's transaction here: its marker would also complete the old records."""
    return evidence.ownership is Ownership.STALE_EPOCH


def may_be_fenced(evidence: Evidence) -> bool:
    """Ongoing one epoch ahead: fencing of this transaction that the coordinator could not write yet looks the same.

    It is not fencing if an earlier proof found the id at that epoch, or a later one, without a transaction (Kafka 3.9 and
    4.0 raise the epoch in memory before they write the fence, and retry the write).
    """
    transaction = evidence.transaction
    if evidence.ownership is not Ownership.STALE_EPOCH or transaction is None:
        return False
    remembered = evidence.remembered
    was_superseded = remembered is not None and remembered.superseded_epoch == evidence.producer_epoch
    return transaction.producer_epoch == evidence.producer_epoch + 1 and not was_superseded


def is_hanging_not_in_transaction(evidence: Evidence) -> bool:
    """The id is known, and its transaction is completed or does not include this partition."""
    return evidence.ownership is Ownership.NOT_IN_TRANSACTION


def is_hanging_no_transactional_id(evidence: Evidence) -> bool:
    """True if no coordinator knows the producer id."""
    return evidence.ownership is Ownership.UNLISTED


def missing_proof(evidence: Evidence, policy: Policy) -> InconclusiveReason | None:
    """The missing part of the proof; None if it is complete. The most useful reason comes first."""
    if is_owner_unconfirmed(evidence, policy):
        return InconclusiveReason.LEADERSHIP_UNCONFIRMED
    if is_clock_unverified(evidence, policy):
        return InconclusiveReason.CLOCK_UNVERIFIED
    if evidence.ownership is Ownership.COORDINATOR_BEHIND:
        return InconclusiveReason.COORDINATOR_BEHIND
    if evidence.ownership is Ownership.UNKNOWN_STATE:
        return InconclusiveReason.UNKNOWN_STATE
    if evidence.ownership not in _CONTRADICTIONS:
        return InconclusiveReason.ID_LISTED_NOT_DESCRIBED
    missing = _missing_by_coordinators(evidence)
    if missing is None and evidence.held_offset is not None and owners_of(evidence):
        return InconclusiveReason.OWNER_UNKNOWN
    return missing


def _missing_by_coordinators(evidence: Evidence) -> InconclusiveReason | None:
    if not evidence.was_asked:
        return InconclusiveReason.NOT_ASKED
    if evidence.proof_failure is not None:
        return InconclusiveReason(evidence.proof_failure)
    if evidence.is_unclear:
        return InconclusiveReason.CHANGED_WHILE_ASKED
    return _missing_on_partition(evidence)


def _missing_on_partition(evidence: Evidence) -> InconclusiveReason | None:
    if evidence.second_read is SecondRead.UNREAD:
        return InconclusiveReason.SECOND_READ_FAILED
    if evidence.second_read is SecondRead.UNCONFIRMED:
        return InconclusiveReason.LEADERSHIP_UNCONFIRMED
    if evidence.second_read is not SecondRead.UNCHANGED:
        return InconclusiveReason.CHANGED_BETWEEN_READS
    if evidence.silent_replicas and not evidence.diverged_replicas:
        return InconclusiveReason.REPLICA_UNREAD
    if evidence.unaware_replicas and not evidence.diverged_replicas:
        return InconclusiveReason.REPLICA_UNAWARE
    if may_be_fenced(evidence):
        return InconclusiveReason.MAY_BE_FENCED
    if evidence.is_topic_hidden and _rests_on_partitions(evidence):
        return InconclusiveReason.TOPICS_HIDDEN
    return _missing_on_ids(evidence)


def _missing_on_ids(evidence: Evidence) -> InconclusiveReason | None:
    """Returns why the id of an unlisted producer may be hidden.

    Age does not help: a completing transaction has no timeout.
    """
    if evidence.ownership is not Ownership.UNLISTED:
        return None
    return _HIDDEN_IDS[evidence.id_visibility]


def _rests_on_partitions(evidence: Evidence) -> bool:
    """True if a description without the partition is evidence against the transaction."""
    if evidence.held_offset is not None:
        return True
    transaction = evidence.transaction
    return transaction is not None and transaction.is_active
