"""Makes the plan for one transaction, and the reason for a refusal. Pure.

The marker has the values of the partition's entry: the same producer epoch, and the same coordinator epoch, or 0 if the
entry has none. A higher coordinator epoch would damage the entry: the leader would refuse the real coordinator's next
marker, and the coordinator would not retry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from exporter.evaluation.humanize import humanize_bytes
from exporter.evaluation.reasons import outcome_in_words, until_in_words
from exporter.evaluation.verdicts import InconclusiveReason, OutcomeEvidence, TransactionRow, Verdict
from exporter.kafka.collect.held_back import HeldBack
from exporter.kafka.messages.write_txn_markers import Marker
from exporter.recovery.partition import DecidingCoordinator, PartitionState
from exporter.recovery.plan_file import PlannedAbort, plan_entry
from exporter.snapshot import OneEntry, TransactionState

DROPPED: Final = "records that are dropped"
NO_COORDINATOR_EPOCH = 0
"""Kafka's own admin client sends it for an entry that never had a marker."""


class Action(Enum):
    """The commands that write a marker."""

    ABORT = "abort"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One marker for one partition, and the transaction as it was read for it."""

    action: Action
    row: TransactionRow
    marker: Marker


def plan_for(action: Action, row: TransactionRow) -> Plan:
    """The plan; `refusal` decides whether it may be carried out."""
    decided_commit = row.coordinator_state == TransactionState.PREPARE_COMMIT.value
    return Plan(
        action=action,
        row=row,
        marker=Marker(
            topic=row.topic,
            partition=row.partition,
            producer_id=row.producer_id,
            producer_epoch=row.producer_epoch,
            coordinator_epoch=max(row.coordinator_epoch, NO_COORDINATOR_EPOCH),
            commit=action is Action.COMPLETE and decided_commit,
        ),
    )


def refusal(plan: Plan, forced: Verdict | None, *, may_force: bool = True) -> str | None:
    """Returns why nothing may be written; None if the marker may be. `forced` is the verdict that the operator typed.

    Without `may_force` the sentence does not mention --force, which plan files do not support.
    """
    row, verdict = plan.row, plan.row.verdict
    if not row.has_producer:
        return f"its producer is unknown to this login: a marker needs READ on the topic {row.topic} first"
    if plan.action is Action.COMPLETE:
        return _refusal_to_complete(row)
    if forced is not None and forced is not verdict:
        return f"--force {forced.label} was typed, but the verdict is {verdict.label} now: run find-hanging again"
    if forced is not None:
        return None
    if not verdict.is_hanging:
        return f"the verdict is {verdict.label}, which is not a proof of a hang: {row.reason}{_advice(row, may_force)}"
    if row.outcome_evidence is OutcomeEvidence.COMMITTED:
        seen = "; ".join(row.outcome_seen)
        may_hide = "a commit elsewhere may be this transaction's: an abort may hide committed records"
        return f"{may_hide} ({seen}). {_COMMIT_IS_LOST}"
    if row.outcome_unsearched:
        unread = "; ".join(row.outcome_unsearched)
        return (
            f"the transaction may have been committed elsewhere, on partitions that could not be searched ({unread}). "
            f"{_SEARCH_AGAIN}"
        )
    return None


_COMMIT_IS_LOST: Final = (
    "`complete` cannot write the COMMIT marker: no coordinator is completing this transaction. The producer's next "
    "transaction on this partition ends this one too: its commit makes the records visible, its abort hides them. Ask the "
    "owner of the records first."
)
_SEARCH_AGAIN: Final = (
    "Have what is missing mended, and repeat the command: a right is granted (on topics, READ), the broker of a partition "
    "without a leader is brought back, the quota of a client that is throttled is raised."
)
_ADVICE: Final[Mapping[Verdict, str]] = {
    Verdict.REPLICA_DIVERGED: "The runbook KafkaTransactionReplicaDiverged says how to find out which replica is right.",
    Verdict.STUCK_COMPLETING: "`complete` writes the marker that its coordinator has decided.",
    Verdict.OVERDUE_AT_COORDINATOR: (
        "Its coordinator is to abort it: find out why it does not (runbook KafkaTransactionOverdueAtCoordinator)."
    ),
    Verdict.COMPLETING: "Its coordinator writes the marker by itself: wait. `complete` is for one that stays so.",
    Verdict.PREPARED_TWO_PHASE_COMMIT: (
        "The transaction manager of that application decides it: ask there. `force-terminate` refuses it, because it may "
        "be decided already."
    ),
    Verdict.OPEN_WITHIN_TIMEOUT: (
        "Whether that producer still runs is not known: if its owner says that it does not, `force-terminate` aborts the "
        "transaction now on all its partitions, and fences a producer that does run."
    ),
}


def _advice(row: TransactionRow, may_force: bool) -> str:  # noqa: FBT001 - as in `refusal`
    """Returns what to do instead; never a command that can lose records, but for an inconclusive verdict."""
    if row.verdict is Verdict.STUCK_COMPLETING and (older := _refusal_to_complete(row)) is not None:
        return f" `complete` refuses it too: {older}. Ask the owner of the records before anything is written."
    if row.verdict is Verdict.OPEN_WITHIN_TIMEOUT:
        return f" {until_in_words(row)} {_ADVICE[row.verdict]}"
    if row.verdict is not Verdict.INCONCLUSIVE:
        return f" {_ADVICE[row.verdict]}"
    if row.inconclusive_reason is InconclusiveReason.REPLICA_UNAWARE:
        return (
            " Nothing needs to be written: kafka-reassign-partitions.sh with that broker first, then "
            f"kafka-leader-election.sh --election-type PREFERRED --topic {row.topic} --partition {row.partition} (runbook "
            "KafkaTransactionInconclusive)."
        )
    mend = " Remove what prevents the proof, and repeat the command."
    if not may_force:
        return mend
    return (
        f"{mend} Only where the owner of the records confirms that no producer continues this transaction: --force "
        f"{row.verdict.label} --accept-data-loss"
    )


def _refusal_to_complete(row: TransactionRow) -> str | None:
    if row.verdict is not Verdict.STUCK_COMPLETING:
        return f"only stuck_completing can be completed, and the verdict is {row.verdict.label}"
    if row.coordinator_producer_epoch is None or row.coordinator_producer_epoch < row.producer_epoch:
        return (
            f"its coordinator is completing epoch {row.coordinator_producer_epoch}, and epoch {row.producer_epoch} is open "
            "on the partition: this may be another transaction, for which nothing is decided"
        )
    return None


def coordinated(plan: Plan) -> DecidingCoordinator | None:
    """The coordinator whose decision the plan carries out; None for an abort, which the operator decides."""
    row = plan.row
    if plan.action is not Action.COMPLETE or row.transactional_id is None or row.coordinator is None:
        return None
    return DecidingCoordinator(transactional_id=row.transactional_id, coordinator=row.coordinator)


SAME = (
    "topic_id",
    "producer_id",
    "producer_epoch",
    "start_offset",
    "coordinator_epoch",
    "last_sequence",
    "last_timestamp_ms",
)
"""Fields that identify the proved transaction: a producer that continues changes at least its last write."""


def what_changed(before: TransactionRow | PlannedAbort, now: TransactionRow) -> str | None:
    """Returns the first difference of the two, as a phrase; None if they are the same transaction in the same state."""
    for name in SAME:
        was, is_now = getattr(before, name), getattr(now, name)
        if was != is_now:
            return f"its {name.removesuffix('_ms').replace('_', ' ')} was {was!r} and is {is_now!r}"
    return None


def is_unchanged(plan: Plan, look: PartitionState) -> bool:
    """True while the planned transaction is open on the partition, without another write."""
    row = plan.row
    entry = OneEntry(
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        last_sequence=row.last_sequence,
        last_timestamp=row.last_timestamp_ms,
        coordinator_epoch=row.coordinator_epoch,
        current_txn_start_offset=row.start_offset,
    )
    return row.topic_id == look.topic_id and entry in look.entries


def is_closed(plan: Plan, look: PartitionState) -> bool:
    """True if the last stable offset is past the transaction, which is then closed.

    Deleting records moves that offset as well, up to the start of the log, and closes nothing.
    """
    start = plan.row.start_offset
    return look.last_stable_offset > start and 0 <= look.log_start_offset <= start


def is_open(plan: Plan, entries: tuple[OneEntry, ...]) -> bool:
    """True while the planned transaction is open, at any epoch."""
    return any(
        (entry.producer_id, entry.current_txn_start_offset) == (plan.row.producer_id, plan.row.start_offset)
        for entry in entries
    )


def is_unreplicated(plan: Plan, entries: tuple[OneEntry, ...], last_stable_offset: int) -> bool:
    """True if the planned transaction is closed and yet holds the last stable offset.

    A leader closes it with the append of the marker, and moves that offset once all in-sync replicas have it.
    """
    start = plan.row.start_offset
    has_other = any(0 <= entry.current_txn_start_offset <= start for entry in entries)
    return 0 <= last_stable_offset <= start and not has_other


def document(plan: Plan) -> dict[str, Any]:
    """The plan for an audit log or a plan file."""
    row, marker = plan.row, plan.marker
    return {
        "action": plan.action.value,
        **plan_entry(row),
        "outcome_evidence": row.outcome_evidence.value,
        "outcome_seen": list(row.outcome_seen),
        "reason": row.reason,
        "marker": {"commit": marker.commit, "coordinator_epoch": marker.coordinator_epoch},
    }


def which(plan: Plan) -> dict[str, Any]:
    """The transaction of a plan and the action, for a step of the audit log."""
    names = ("topic", "topic_id", "partition", "producer_id", "start_offset")
    return {"action": plan.action.value, **{name: getattr(plan.row, name) for name in names}}


def in_words(plan: Plan, records: HeldBack | None = None) -> str:
    """The question to the operator; with the numbers of records where they were counted."""
    row, marker = plan.row, plan.marker
    kind = "COMMIT" if marker.commit else "ABORT"
    nothing = f"unknown: {'no trace of it was found' if row.has_producer else 'its producer is not visible'}"
    seen = outcome_in_words(row) if row.outcome_seen else nothing
    own_epoch = "" if row.coordinator_epoch >= 0 else ", since the partition has none"
    on_disk = "" if not row.held_bytes else f"\n  bytes held on disk: about {humanize_bytes(row.held_bytes)}"
    effect = "records that become visible" if marker.commit else DROPPED
    what = (
        f"write one {kind} marker for producer {row.producer_id} at epoch {row.producer_epoch} (coordinator epoch "
        f"{marker.coordinator_epoch}{own_epoch}), closing the transaction open since offset {row.start_offset}"
    )
    if not row.has_producer:
        what = f"no marker can be written, as the producer of what is open since offset {row.start_offset} is unknown"
    return (
        f"{plan.action.value} on {row.topic}-{row.partition}: {what}.\n"
        f"  {records_in_words(row, records, effect)}{on_disk}\n"
        f"  transactional id {'unknown' if row.transactional_id is None else repr(row.transactional_id)}, "
        f"verdict {row.verdict.label}\n"
        f"  outcome elsewhere: {seen}\n"
        f"  {row.reason}"
    )


def records_in_words(row: TransactionRow, records: HeldBack | None, effect: str = DROPPED) -> str:
    """The two numbers that decide, side by side: of the transaction's own records and of those behind it."""
    lag = row.last_stable_offset_lag
    if records is None or (records.uncounted and not records.own):
        held_back = "unknown" if lag is None else f"{lag:,} in all"
        why = f" ({records.uncounted})" if records is not None and records.uncounted else ""
        return f"{effect}: not counted{why}; offsets that wait: {held_back}"
    or_more = " or more" if records.uncounted else ""
    why = f" ({records.uncounted})" if records.uncounted else ""
    open_ = f", and {records.others_open:,} of other open transactions" if records.others_open else ""
    return f"{effect}: {records.own:,}{or_more}; records of others that wait: {records.others:,}{or_more}{open_}{why}"
