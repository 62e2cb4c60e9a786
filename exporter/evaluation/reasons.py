"""Makes the sentences for operators: the evidence about an open transaction with its sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from exporter.evaluation.evidence import Evidence
from exporter.evaluation.humanize import as_sentence, humanize_duration, humanize_names
from exporter.evaluation.memory import GroupKey, Memory
from exporter.evaluation.outcome import (
    decided_by_coordinator,
    ends,
    is_abort_seen,
    nearest,
    outcome_of,
    what_hides_a_commit,
)
from exporter.evaluation.rules import is_marker_refused, owners_of
from exporter.evaluation.verdicts import (
    InconclusiveReason,
    OutcomeEvidence,
    StartSource,
    TransactionRow,
    Verdict,
    WaitingGroup,
)
from exporter.snapshot import OFFSETS_TOPIC, UNKNOWN_OFFSET, CoordinatorTransaction, EndMarker, Ownership, Snapshot
from exporter.snapshot.coverage import ADDRESS_CAUSES
from exporter.transaction_log.events import Outcome
from exporter.transaction_log.journal import EndedTransaction

START_IN_WORDS: Final[Mapping[StartSource, str]] = {
    StartSource.COORDINATOR: "start from its coordinator",
    StartSource.FIRST_SEEN: "since first seen by this exporter",
    StartSource.LAST_WRITE: "since its last write by client clock",
    StartSource.NOT_OPEN_BEFORE: "not open before by broker clock",
    StartSource.TRANSACTION_LOG: "start from the transaction log",
}
"""The beginning from which a duration is counted, in the same words on the page and in `why`."""


def open_for_in_words(row: TransactionRow) -> str:
    """A transaction that was open when the exporter started is older than its duration says."""
    open_for = humanize_duration(row.duration_ms)
    return f"at least {open_for}" if row.start_source is StartSource.FIRST_SEEN else open_for


_UNLISTED = "no coordinator lists the producer id"
_MISSING = {
    InconclusiveReason.ID_LISTED_NOT_DESCRIBED: (
        "a coordinator lists the producer id in an active transaction, but did not describe it"
    ),
    InconclusiveReason.CHANGED_BETWEEN_READS: (
        "the producer's state, the topic or the leader of the partition changed between the two reads"
    ),
    InconclusiveReason.SECOND_READ_FAILED: (
        "the partition could not be read a second time after the coordinators responded, or its leader's address leads to "
        "another broker"
    ),
    InconclusiveReason.CHANGED_WHILE_ASKED: (
        "the producer id or the coordinator of the transactional id changed between the requests"
    ),
    InconclusiveReason.TOPICS_HIDDEN: (
        "its coordinator may leave this topic out of its response, since it did not show the topic, or DESCRIBE on the "
        "topic is missing"
    ),
    InconclusiveReason.IDS_MAY_BE_DENIED: (
        "{unlisted}, but an ACL may hide it; grant DESCRIBE on the cluster so that the ACLs can be read"
    ),
    InconclusiveReason.ACLS_NOT_LISTED: (
        "{unlisted}, and the cluster's authorizer does not list ACLs, so whether it hides the id is unknown"
    ),
    InconclusiveReason.IDS_VISIBLE_BY_NAME_ONLY: (
        "{unlisted}, but ACLs name transactional ids that are not visible to this exporter; "
        "grant DESCRIBE on every transactional id (a literal *), or remove the DENY that doctor names"
    ),
    InconclusiveReason.LEADERSHIP_UNCONFIRMED: "a broker whose response was used may be cut off from its controller{which}",
    InconclusiveReason.REPLICA_UNREAD: "an in-sync replica{which} did not respond, or shows another state of the producer",
    InconclusiveReason.REPLICA_UNAWARE: (
        "an in-sync replica{which} does not know the producer; it has the transaction's end, or the records are deleted, "
        "and in both cases the transaction ends when that replica becomes the leader"
    ),
    InconclusiveReason.MAY_BE_FENCED: (
        "its coordinator has the id Ongoing at the next epoch with this partition; this is either a newer transaction or "
        "a fence of this transaction that the coordinator cannot write yet and will complete"
    ),
    InconclusiveReason.CLOCK_UNVERIFIED: (
        "whether the transaction is past its time-out depends on the exporter's clock, which is wrong or cannot be "
        "compared with the brokers' clocks; grant DESCRIBE on the cluster"
    ),
    InconclusiveReason.COORDINATOR_BEHIND: "the partition has seen a newer producer epoch than its coordinator has",
    InconclusiveReason.UNKNOWN_STATE: (
        "its coordinator responded with a transaction state that this version of the exporter does not know"
    ),
    InconclusiveReason.TRANSACTION_STATE_HIDDEN: (
        "the topic __transaction_state is not visible; a live owner is seen with DESCRIBE on its transactional id, a hang "
        "is proved with DESCRIBE on that topic and on every transactional id"
    ),
    InconclusiveReason.TRANSACTION_STATE_ABSENT: (
        "brokers show no topic __transaction_state, so no coordinator was queried; if a proxy hides it, connect to the "
        "brokers themselves; if no producer has ever used a transactional id, create it by `kafka-transactions.sh "
        "--bootstrap-server ADDRESS describe --transactional-id any`, which then fails as there is no such id"
    ),
    InconclusiveReason.TRANSACTION_STATE_UNKNOWN: "no broker returned the leaders of the partitions of __transaction_state",
    InconclusiveReason.STATE_PARTITION_OFFLINE: "a partition of __transaction_state has no leader",
    InconclusiveReason.LOADING: "a coordinator is still loading its partition of __transaction_state",
    InconclusiveReason.TRANSACTIONAL_IDS_HIDDEN: (
        "not all transactional ids are visible; a live owner is seen with DESCRIBE on its own, a hang is proved with "
        "DESCRIBE on every transactional id"
    ),
    InconclusiveReason.COORDINATOR_UNANSWERED: "a coordinator did not respond",
    InconclusiveReason.COORDINATOR_MOVED: "a partition of __transaction_state changed its leader between the requests",
    InconclusiveReason.ADDRESS_OF_ANOTHER_BROKER: (
        f"another broker responds at the address of a coordinator ({ADDRESS_CAUSES})"
    ),
    InconclusiveReason.NOT_COORDINATOR: (
        "the leader of a partition of __transaction_state responded that it does not coordinate the ids that belong to it; "
        "the partition is moving, or partitions were added to the topic, which needs a restart of every broker"
    ),
    InconclusiveReason.TRANSACTIONS_NOT_OFFERED: (
        "a coordinator does not offer ListTransactions and DescribeTransactions, which needs Kafka 3.0 or later"
    ),
    InconclusiveReason.NOT_ASKED: "the exporter did not query the coordinators for a proof in this cycle",
    InconclusiveReason.OWNER_UNKNOWN: (
        "the producer of the open records is unknown without READ on the topic, and it may be that of an active "
        "transaction{which}"
    ),
    InconclusiveReason.NOT_EXAMINED: "more transactions are open than one cycle examines (scan.transactions_limit)",
}


def missing_in_words(reason: InconclusiveReason) -> str:
    """Names the part of a proof that is missing, for a reason that does not depend on the transaction."""
    return _MISSING[reason].format(which="", unlisted=_UNLISTED)


def outcome_seen(evidence: Evidence) -> tuple[str, ...]:
    """The sources of the outcome, and possible gaps, one phrase each."""
    seen = []
    transaction, ended = evidence.transaction, evidence.ended_in_log
    if transaction is not None and decided_by_coordinator(evidence) is not OutcomeEvidence.NONE:
        seen.append(_coordinator_said(transaction))
    if ended is not None:
        seen.append(_log_said(ended, evidence))
    for commit in (True, False):
        marker = nearest(tuple(end for end in ends(evidence) if end.commit is commit), evidence.last_timestamp_ms)
        if marker is not None:
            seen.append(_marker_said(marker, evidence.last_timestamp_ms))
    if outcome_of(evidence) is not OutcomeEvidence.NONE:
        return (*seen, *evidence.unsearched)
    if is_abort_seen(evidence):
        return (*seen, *what_hides_a_commit(evidence))
    return (*seen, *evidence.unsearched, *evidence.lost)


def outcome_in_words(row: TransactionRow) -> str:
    """Returns the outcome on other partitions, and then the evidence or the gaps, a sentence each."""
    outcome = "unknown" if row.outcome_evidence is OutcomeEvidence.NONE else row.outcome_evidence.value
    is_decided = row.verdict in {Verdict.COMPLETING, Verdict.STUCK_COMPLETING}
    if row.outcome_evidence is OutcomeEvidence.COMMITTED and not is_decided:
        outcome = "perhaps committed"  # an older client's epoch is that of many transactions
    return " ".join([f"{outcome}.", *map(as_sentence, row.outcome_seen)])


def _log_said(ended: EndedTransaction, evidence: Evidence) -> str:
    here = f"{evidence.key.topic}-{evidence.key.partition}"
    return (
        f"in the transaction log the last transaction of epoch {ended.producer_epoch} on {here} ended with "
        f"{_ENDINGS[ended.outcome]}, {_when(ended.decided_ms, evidence.last_timestamp_ms)}"
    )


_ENDINGS = {
    Outcome.COMMITTED: "a commit",
    Outcome.ABORTED: "an abort",
    Outcome.TIMED_OUT: "a time-out",
    Outcome.FENCED: "a fence by a newer producer",
}


def _marker_said(marker: EndMarker, last_write_ms: int) -> str:
    return (
        f"{'COMMIT' if marker.commit else 'ABORT'} marker at epoch {marker.producer_epoch} on "
        f"{marker.topic}-{marker.partition}, offset {marker.offset}, {_when(marker.timestamp_ms, last_write_ms)}"
    )


def _when(instant_ms: int, last_write_ms: int) -> str:
    after_ms = instant_ms - last_write_ms
    return f"{abs(after_ms) / 1000:.0f} s {'after' if after_ms >= 0 else 'before'} the last write here"


def until_in_words(row: TransactionRow) -> str:
    """Says since when the producer of a live transaction writes nothing, and when its coordinator ends it."""
    idle = "When its producer wrote last is not known."
    if row.idle_ms is not None:
        idle = f"The last write of its producer is {humanize_duration(row.idle_ms)} old, by the producer's clock."
    if not row.has_producer:
        idle = "Its producer is unknown, and a transaction that may own it is within its time-out."
    if row.ends_at_ms is None:
        return f"{idle} It ends when its owner ends it: no time-out is known."
    left_ms = max(row.ends_at_ms - row.start_ms - row.duration_ms, 0)
    return f"{idle} Its coordinator aborts it within {humanize_duration(left_ms)} unless its producer ends it before."


def waiting_groups(
    snapshot: Snapshot, evidence: Evidence, high_watermark: int, memory: Memory
) -> tuple[WaitingGroup, ...]:
    """Groups that commit offsets of the transaction's partition, and those whose offsets are on it."""
    impact, key = snapshot.impact, evidence.key
    if impact is None:
        return ()
    committing = [
        WaitingGroup(
            group=committed.group,
            committed_offset=committed.offset,
            waiting_records=None if high_watermark == UNKNOWN_OFFSET else max(high_watermark - committed.offset, 0),
            blocked_since_ms=memory.blocked_since_ms(
                GroupKey(committed.group, committed.topic, committed.partition, key.topic_id)
            ),
        )
        for committed in impact.on(key.topic, key.partition)
    ]
    residents = [
        WaitingGroup(
            group=group,
            committed_offset=None,
            waiting_records=None,
            blocked_since_ms=memory.blocked_since_ms(GroupKey(group, key.topic, key.partition, key.topic_id)),
        )
        for partition, group in (impact.residents if key.topic == OFFSETS_TOPIC else ())
        if partition == key.partition
    ]
    return tuple(
        sorted(
            [*committing, *residents],
            key=lambda group: (not group.stands_still, -(group.waiting_records or 0), group.group),
        )
    )


def sentence(evidence: Evidence, verdict: Verdict, missing: InconclusiveReason | None) -> str:
    """The evidence for a verdict with its sources, for the operator to check; `missing` is the missing part of a proof."""
    here = f"{evidence.key.topic}-{evidence.key.partition}"
    if missing is None and evidence.held_offset is not None:
        return _offset_said(evidence, verdict, here)
    if missing is not None:
        is_producer_known = evidence.held_offset is None
        unlisted = _UNLISTED if is_producer_known else f"no visible transaction includes {here}"
        return f"Unverified: {_MISSING[missing].format(which=_which(evidence, missing), unlisted=unlisted)}."
    if verdict is Verdict.REPLICA_DIVERGED:
        brokers = ", ".join(map(str, evidence.diverged_replicas))
        return (
            f"The leader of {here} shows the transaction open, but the replica on broker {brokers} has its marker: "
            "the leader may have lost the marker, and an abort could hide committed records."
        )
    if verdict is Verdict.HANGING_NO_TRANSACTIONAL_ID:
        return (
            "Every coordinator is loaded and visible, and no coordinator lists producer id "
            f"{evidence.key.producer_id}; the transaction was open on {here} before and after the coordinators were "
            f"queried.{_former_name(evidence)}"
        )
    assert evidence.transaction is not None, "every other verdict has a coordinator's response"
    said = _coordinator_said(evidence.transaction)
    if verdict.is_hanging:
        return (
            f"{said}{_contradiction(evidence, here)}; it was open there before and after the coordinator was queried."
        )
    return f"{said}{_agreement(evidence, verdict, here)}."


def _which(evidence: Evidence, missing: InconclusiveReason) -> str:
    """The brokers, or the contradiction, in parentheses."""
    if missing is InconclusiveReason.LEADERSHIP_UNCONFIRMED and evidence.unconfirmed is not None:
        return f" ({evidence.unconfirmed})"
    if missing is InconclusiveReason.OWNER_UNKNOWN:
        return f" ({_named(owners_of(evidence))})"
    if missing is InconclusiveReason.REPLICA_UNREAD:
        return f" (broker {', '.join(map(str, evidence.silent_replicas))})"
    if missing is InconclusiveReason.REPLICA_UNAWARE:
        return f" (broker {', '.join(map(str, evidence.unaware_replicas))})"
    return ""


def _offset_said(evidence: Evidence, verdict: Verdict, here: str) -> str:
    """Says what offsets show of a transaction whose producer is unknown."""
    stands = f"The last stable offset of {here} stands at {evidence.key.start_offset}"
    unknown = "READ on the topic would show its producer"
    owners = owners_of(evidence)
    if not verdict.is_hanging:
        may = f"; it may be held by {_named(owners)}" if owners else "; first seen in this cycle"
        return f"{stands}{may}. {unknown}."
    assert evidence.held_offset is not None
    others = evidence.held_offset.active
    but = (
        f" but {_named(others)}: each producer has completed a transaction there since, and the offset still stands"
        if others
        else ""
    )
    return (
        f"{stands}, below the high watermark, before and after the coordinators were queried. Every coordinator is loaded "
        f"and visible, and none has an active transaction that includes {here}{but}. {unknown}."
    )


def _named(owners: Sequence[CoordinatorTransaction]) -> str:
    """Names the first of these transactions."""
    names = [
        f"transactional id {owner.transactional_id!r} ({owner.state.value} at coordinator {owner.coordinator})"
        for owner in owners
    ]
    return humanize_names(names, shown_max=_OWNERS_NAMED_MAX)


_OWNERS_NAMED_MAX = 3


def _former_name(evidence: Evidence) -> str:
    if evidence.logged is None:
        return ""
    return f" The transaction log has this producer id under transactional id {evidence.logged.transactional_id!r}."


def _coordinator_said(transaction: CoordinatorTransaction) -> str:
    epoch = f" at epoch {transaction.producer_epoch}" if transaction.is_described else ""
    return (
        f"Coordinator {transaction.coordinator} has transactional id {transaction.transactional_id!r} "
        f"{transaction.state.value}{epoch}"
    )


def _contradiction(evidence: Evidence, here: str) -> str:
    if evidence.ownership is Ownership.STALE_EPOCH:
        return (
            f" on {here}, where the open records have epoch {evidence.producer_epoch}: the marker of the new "
            "transaction would end them too"
        )
    if evidence.transaction is not None and evidence.transaction.is_active:
        return f" without {here} among its partitions, where epoch {evidence.producer_epoch} is open"
    return f", so it has no transaction on {here}, where epoch {evidence.producer_epoch} is open"


def _agreement(evidence: Evidence, verdict: Verdict, here: str) -> str:
    if verdict in {Verdict.COMPLETING, Verdict.STUCK_COMPLETING}:
        waited = (
            f"; completing for at least {humanize_duration(evidence.completing_ms)}" if evidence.completing_ms else ""
        )
        if is_marker_refused(evidence):
            return (
                f", and {here} has seen epoch {evidence.producer_epoch} of this producer: it always refuses the "
                f"marker of the older epoch{waited}"
            )
        return f", and its marker is not on {here} yet{waited}"
    if evidence.ownership is Ownership.LISTED_ACTIVE:
        return "; first seen in this cycle, so it is not described yet"
    assert evidence.transaction is not None
    age = "" if evidence.coordinator_age_ms is None else f", {humanize_duration(evidence.coordinator_age_ms)} old"
    if verdict is Verdict.PREPARED_TWO_PHASE_COMMIT:
        return f" with {here} among its partitions{age}; prepared for two-phase commit, it has no time-out"
    timeout = f", time-out {humanize_duration(evidence.transaction.timeout_ms)}"
    return f" with {here} among its partitions{age}{timeout}"
