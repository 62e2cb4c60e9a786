"""Finds the outcome of an unverified transaction from its coordinator, the transaction log, and markers in partitions.

Any evidence of a commit that may be this transaction's counts as a commit. `aborted` is a proof: the
epoch of the open records is this transaction's alone, it was aborted, and every log that could hold its commit was read.
"""

from __future__ import annotations

from exporter.evaluation.evidence import Evidence
from exporter.evaluation.verdicts import OutcomeEvidence
from exporter.snapshot import EndMarker, TransactionState
from exporter.transaction_log.events import Outcome

_COMMITTED = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.PREPARE_COMMIT})
_ABORTED = frozenset({TransactionState.COMPLETE_ABORT, TransactionState.PREPARE_ABORT})


def outcome_of(evidence: Evidence) -> OutcomeEvidence:
    """COMMITTED with any evidence of a commit that may be this one's, ABORTED if that is proved, otherwise NONE."""
    if is_commit_seen(evidence):
        return OutcomeEvidence.COMMITTED
    if is_abort_seen(evidence) and what_hides_a_commit(evidence) == ():
        return OutcomeEvidence.ABORTED
    return OutcomeEvidence.NONE


def is_commit_seen(evidence: Evidence) -> bool:
    """True if the coordinator, the transaction log or a marker shows a commit that may be this transaction's."""
    return OutcomeEvidence.COMMITTED in {decided_by_coordinator(evidence), decided_in_log(evidence)} or any(
        marker.commit for marker in ends(evidence)
    )


def is_abort_seen(evidence: Evidence) -> bool:
    """True if an abort of this transaction is proved."""
    return OutcomeEvidence.ABORTED in {decided_by_coordinator(evidence), decided_in_log(evidence)} or any(
        not marker.commit for marker in ends(evidence)
    )


def what_hides_a_commit(evidence: Evidence) -> tuple[str, ...]:
    """Returns why an abort proves nothing, one sentence each; empty if it is proved to be this transaction's."""
    if not evidence.was_searched:
        return ("the logs were not searched for the transaction's marker",)
    if not has_its_own_epoch(evidence):
        shared = (
            f"other transactions may have used epoch {evidence.producer_epoch} too, so the ABORT may be of another "
            "transaction"
        )
        return (shared, *evidence.unsearched, *evidence.lost)
    return (*evidence.unsearched, *evidence.lost)


def has_its_own_epoch(evidence: Evidence) -> bool:
    """True if the previous transaction was committed and its commit began this epoch.

    Only TransactionVersion 2 does that, and then every transaction of the producer has an epoch of its own. Before, they
    share one, and what ended on this partition alone, where its marker is missing, left no trace anywhere. A marker at the
    very epoch of the records that it ended is of no such producer: it is an older client's, or an administrator's.
    """
    epoch = evidence.producer_epoch
    if any(marker.producer_epoch == marker.ended_epoch == epoch for marker in evidence.end_markers):
        return False
    return any(
        marker.commit and marker.producer_epoch == epoch and marker.ended_epoch == epoch - 1
        for marker in evidence.end_markers
    )


def ends(evidence: Evidence) -> tuple[EndMarker, ...]:
    """The markers that may be this transaction's, in the order of time."""
    epoch, is_alone = evidence.producer_epoch, has_its_own_epoch(evidence)
    return tuple(
        marker
        for marker in evidence.end_markers
        # If the epoch is its own, a marker of that epoch belongs to the previous transaction.
        if marker.may_end(epoch) and not (is_alone and marker.ended_epoch is None and marker.producer_epoch == epoch)
    )


def nearest(markers: tuple[EndMarker, ...], last_timestamp_ms: int) -> EndMarker | None:
    """The first marker after the last write on this partition, or the last marker: the likeliest, if the clocks agree."""
    after = [marker for marker in markers if marker.timestamp_ms >= last_timestamp_ms]
    return after[0] if after else markers[-1] if markers else None


def decided_by_coordinator(evidence: Evidence) -> OutcomeEvidence:
    """The coordinator's decision at this epoch, or at the next: TransactionVersion 2 bumps it with the decision."""
    transaction = evidence.transaction
    if transaction is None or not 0 <= transaction.producer_epoch - evidence.producer_epoch <= 1:
        return OutcomeEvidence.NONE
    if transaction.producer_epoch == evidence.producer_epoch and has_its_own_epoch(evidence):
        return OutcomeEvidence.NONE  # the transaction before
    if transaction.state in _COMMITTED:
        return OutcomeEvidence.COMMITTED
    return OutcomeEvidence.ABORTED if transaction.state in _ABORTED else OutcomeEvidence.NONE


def decided_in_log(evidence: Evidence) -> OutcomeEvidence:
    """The newest transaction of this epoch on this partition in the transaction log."""
    ended = evidence.ended_in_log
    if ended is None:
        return OutcomeEvidence.NONE
    return OutcomeEvidence.COMMITTED if ended.outcome is Outcome.COMMITTED else OutcomeEvidence.ABORTED
