"""Finds the start of an open transaction, and the source of it: duration and lateness are measured from there."""

from __future__ import annotations

import numpy as np

from exporter.evaluation.evidence import Evidence
from exporter.evaluation.memory import Facts
from exporter.evaluation.rules import owners_of
from exporter.evaluation.verdicts import StartSource, Verdict
from exporter.snapshot import CLOCKS_AGREE_WITHIN_MS, NULL, Int8Column, Int64Column, Ownership

OWNED = frozenset({Ownership.OWNED, Ownership.COMPLETING})
"""The coordinator's transaction is this very one."""
_OF_THE_CLIENT = frozenset({StartSource.LAST_WRITE, StartSource.NOT_OPEN_BEFORE})


def start_of(evidence: Evidence, verdict: Verdict, now_ms: int) -> tuple[int, StartSource]:
    """The start of each transaction, in milliseconds, and its source.

    The start is the coordinator's while it owns the transaction. Otherwise it is the earliest that was known since the
    transaction is open: what is known in this cycle, what was known in an earlier one, or the first cycle with it.
    """
    transaction, before = evidence.transaction, evidence.remembered
    if evidence.held_offset is not None:
        return _start_by_offsets(evidence, verdict, open_at_ms(evidence, now_ms))
    if evidence.ownership in OWNED and transaction is not None and transaction.start_ms is not None:
        return transaction.start_ms, StartSource.COORDINATOR
    start = _start_in_this_cycle(evidence, verdict, now_ms)
    if before is None or before.start_ms is None or before.start_source is None:
        return start
    earlier = _not_before(before.start_ms, StartSource(before.start_source), evidence)
    return earlier if earlier[0] < start[0] else start


def _start_by_offsets(evidence: Evidence, verdict: Verdict, open_ms: int) -> tuple[int, StartSource]:
    """The earliest start of those that may own it; of a hang the first cycle with it."""
    owners = () if verdict.is_hanging else owners_of(evidence)
    start_ms = min((owner.start_ms for owner in owners if owner.start_ms is not None), default=open_ms)
    return (start_ms, StartSource.COORDINATOR) if start_ms < open_ms else (open_ms, StartSource.FIRST_SEEN)


def _not_before(start_ms: int, source: StartSource, evidence: Evidence) -> tuple[int, StartSource]:
    """The start, or the instant at which it is known not to have been open, if its client's clock says that it was."""
    not_open_ms = evidence.not_open_at_ms
    if source in _OF_THE_CLIENT and not_open_ms is not None and start_ms < not_open_ms:
        return not_open_ms, StartSource.NOT_OPEN_BEFORE
    return start_ms, source


def _start_in_this_cycle(evidence: Evidence, verdict: Verdict, now_ms: int) -> tuple[int, StartSource]:
    """The start by the sources of this cycle.

    In this order: the coordinator that last owned this transaction; the transaction log, if it is open there; for a proved
    hang the timestamp of its last write: a client's clock alone never makes a live transaction late. It is never later than
    the first cycle with it.
    """
    remembered, open_ms = evidence.remembered, open_at_ms(evidence, now_ms)
    start_ms, source = open_ms, StartSource.FIRST_SEEN
    if (
        remembered is not None
        and remembered.coordinator_start_ms is not None
        and remembered.producer_epoch == evidence.producer_epoch
    ):
        start_ms, source = remembered.coordinator_start_ms, StartSource.COORDINATOR
    elif evidence.log_start_ms is not None and not verdict.is_hanging:
        start_ms, source = evidence.log_start_ms, StartSource.TRANSACTION_LOG
    elif verdict.is_hanging and evidence.last_timestamp_ms > 0:
        start_ms, source = _not_before(evidence.last_timestamp_ms, StartSource.LAST_WRITE, evidence)
    return (start_ms, source) if start_ms < open_ms else (open_ms, StartSource.FIRST_SEEN)


def open_at_ms(evidence: Evidence, now_ms: int) -> int:
    """The first cycle with it, by the cluster's clock of now.

    That clock may have been ahead then, or is set back since: the monotonic clock bounds it.
    """
    if evidence.remembered is None:
        return now_ms
    first_seen_ms, watched_since_ms = evidence.remembered.first_seen_ms, now_ms - evidence.watched_ms
    # A smaller difference changes nothing, because the cluster's clock is read again and again.
    return watched_since_ms if watched_since_ms < first_seen_ms - CLOCKS_AGREE_WITHIN_MS else first_seen_ms


def starts_without_evidence(facts: Facts) -> tuple[Int64Column, Int8Column]:
    """(N,) the starts of transactions that this cycle did not examine, and their sources, `StartSource`.

    Each is the earliest that was known while it was examined, otherwise the first cycle with it.
    """
    start_ms = facts["first_seen_ms"]
    source = np.full(len(start_ms), int(StartSource.FIRST_SEEN), dtype=np.int8)
    by_coordinator = facts["coordinator_start_ms"] != NULL
    start_ms = np.where(by_coordinator, facts["coordinator_start_ms"], start_ms)
    source[by_coordinator] = int(StartSource.COORDINATOR)
    is_earlier = (facts["start_ms"] != NULL) & (facts["start_ms"] < start_ms)
    source[is_earlier] = facts["start_source"][is_earlier]
    return np.where(is_earlier, facts["start_ms"], start_ms), source
