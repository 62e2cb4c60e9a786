"""Says about a live transaction when its coordinator will abort it, and whether its owner is silent.

Neither is evidence for a verdict: a silent owner may still commit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from exporter.evaluation.evidence import Evidence
from exporter.evaluation.rules import owners_of
from exporter.evaluation.silences import Silences
from exporter.evaluation.verdicts import OwnerState, Policy, Verdict
from exporter.snapshot import NULL, TIMEOUT_MS_TWO_PHASE_COMMIT, CoordinatorTransaction, Int64Column, Ownership

COORDINATOR_SCAN_MS = 10_000
"""Default of `transaction.abort.timed.out.transaction.cleanup.interval.ms`, which hardly anybody changes."""
_UNKNOWN_AFTER_MS = 15 * 60 * 1000
"""An owner of which nothing is known is silent after this time, but at least a quarter and at most three quarters of its
time-out: one with checkpoints every ten minutes often has a time-out of 15, and may write nothing between two."""
_USUAL_TIMES = 2
"""A silence may last for so many usual ones: where a checkpoint fails, Flink commits with the next one."""


def ends_at_ms(evidence: Evidence, verdict: Verdict) -> int | None:
    """Time by which its coordinator aborts it, if nobody ends it before; None if that is unknown, or it never does."""
    if verdict is not Verdict.OPEN_WITHIN_TIMEOUT:
        return None
    if evidence.held_offset is not None:  # by then, whichever of them owns it
        ends = [coordinator_ends_at_ms(owner) for owner in owners_of(evidence)]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None
    if evidence.ownership is not Ownership.OWNED:
        return None
    return None if evidence.transaction is None else coordinator_ends_at_ms(evidence.transaction)


def coordinator_ends_at_ms(transaction: CoordinatorTransaction) -> int | None:
    """Time by which the coordinator aborts an ongoing transaction by its time-out; None if it never does."""
    if transaction.start_ms is None or transaction.timeout_ms >= TIMEOUT_MS_TWO_PHASE_COMMIT:
        return None
    return transaction.start_ms + transaction.timeout_ms + COORDINATOR_SCAN_MS


def silent_ms(producer_id: Int64Column, evidence: Sequence[Evidence]) -> Int64Column:
    """(N,) time for which this process has seen no write of the producer on any partition with an open transaction of it.

    NULL where it is unknown, as for those that were not examined, the last rows.
    """
    silent: Int64Column = np.full(len(producer_id), NULL, dtype=np.int64)
    if not evidence:
        return silent
    _, producer = np.unique(producer_id[: len(evidence)], return_inverse=True)
    own = np.array([NULL if e.silent_ms is None else e.silent_ms for e in evidence], dtype=np.int64)
    least: Int64Column = np.full(int(producer.max()) + 1, np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(least, producer, own)
    silent[: len(evidence)] = least[producer]
    return silent


def owner_state(
    evidence: Evidence,
    verdict: Verdict,
    policy: Policy,
    silent_ms: int,
    *,
    is_usual: bool | None,
    silences: Silences,
) -> OwnerState | None:
    """Returns whether the owner of a live transaction writes; None if that is unknown, and for every other verdict.

    `is_usual`: it is open for no longer than is usual for its id; None if that is unknown. `silences`: those of all owners.
    """
    transaction = evidence.transaction
    if verdict is not Verdict.OPEN_WITHIN_TIMEOUT or transaction is None or not transaction.is_described:
        return None
    if silent_ms == NULL:
        return None
    after_ms = _silent_after_ms(
        evidence.transactional_id, transaction.timeout_ms, policy, is_usual=is_usual, silences=silences
    )
    if after_ms is not None and silent_ms >= after_ms:
        return OwnerState.SILENT
    # It wrote while this process watched it, which may be less time than it has to be silent for.
    return OwnerState.WRITING if silent_ms < evidence.watched_ms else None


def _silent_after_ms(
    transactional_id: str | None, timeout_ms: int, policy: Policy, *, is_usual: bool | None, silences: Silences
) -> int | None:
    """Returns how long a silence must last; None while no silence counts, since its duration is usual.

    A silence that its owner has ended before is the best measure, in this transaction or in earlier ones.
    """
    least_ms = policy.owner_silent_after_ms
    usual_ms = silences.usual_ms(transactional_id)
    ended_ms = max(usual_ms or 0, silences.ended_by_write_ms(transactional_id))
    more_ms = ended_ms * _USUAL_TIMES + least_ms
    if usual_ms is not None:
        return more_ms
    if is_usual is None:
        return max(more_ms, timeout_ms // 4, min(_UNKNOWN_AFTER_MS, timeout_ms * 3 // 4))
    return None if is_usual else more_ms
