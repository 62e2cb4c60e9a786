"""Pairs the decisions of one marker epoch with the markers of this epoch on one partition: pure.

Under TransactionVersion 2 each transaction has an epoch of its own, so that a marker belongs to one decision. Before it,
all transactions of an epoch are compared in their order, and where that is not enough by the brokers' clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from exporter.audit.decisions import Decision
from exporter.audit.log_transactions import LogTransaction, MarkerKind
from exporter.audit.verdicts import CLOCKS_APART_MS

_BAND: Final = 64
"""Transactions of one epoch are aligned where the numbers of decisions and markers differ by less than that."""


Pairs = list[tuple[Decision, LogTransaction]]


def align(
    decisions: Sequence[Decision], in_log: Sequence[LogTransaction], still_open: LogTransaction | None = None
) -> tuple[Pairs, bool]:
    """Pairs decisions of one marker epoch with the markers of this epoch on one partition, both in their order.

    False where another pairing is possible. An epoch of one transaction needs no clock. Otherwise all agree in their order,
    or the pairing with the least contradictions is taken. `still_open` has the records after the last marker.
    """
    if not decisions or not in_log:
        return [], True
    if len(decisions) == len(in_log) == 1 and decisions[0].has_own_epoch:
        return ([(decisions[0], in_log[0])] if _may_pair(decisions[0], in_log[0]) else []), True
    pairs = list(zip(decisions, in_log, strict=False))
    is_plain = len(decisions) == len(in_log) and not any(_repeats(in_log, number) for number in range(len(in_log)))
    is_agreed = is_plain and all(_may_pair(*pair) and is_as_decided(*pair) for pair in pairs)
    if not is_agreed:
        first, last = _near(decisions, in_log)
        is_open = still_open is not None and has_epoch_of(decisions[-1], still_open)
        found = _cheapest(decisions, in_log[first:last], _OPEN if is_open else _UNMARKED)
        if found is None:
            return [], False
        pairs = found
    is_sure = all(misfit_ms(decision, each) <= CLOCKS_APART_MS for decision, each in pairs)
    return pairs, is_sure and not _may_be_apart(decisions, in_log, pairs)


def _may_be_apart(decisions: Sequence[Decision], in_log: Sequence[LogTransaction], pairs: Pairs) -> bool:
    """True if decisions and markers are left, which belong together where a clock is wrong."""
    paired = {decision for decision, _ in pairs}
    marked = {each.marker_offset for _, each in pairs}
    return any(decision not in paired and decision.completed_ms is not None for decision in decisions) and any(
        each.marker_offset not in marked and not _repeats(in_log, number) for number, each in enumerate(in_log)
    )


_OPPOSITE, _OLDER, _PER_SECOND, _MISFIT_MAX = 15.0, 1.0, 10.0, 30.0
_UNMARKED, _OPEN, _SURPLUS, _REPEATED = 8.0, 4.0, 12.0, 1.0
"""Costs: two left alone cost more than a pair of opposites, and as much as a pair two seconds apart. The last decision
may well have no marker where its records are open."""
_NEAR_MS: Final = 10_000


def _may_pair(decision: Decision, each: LogTransaction) -> bool:
    """False if the marker has ended records that are newer than the transaction."""
    return each.last_epoch is None or each.last_epoch <= decision.newest_epoch


def misfit_ms(decision: Decision, each: LogTransaction) -> int:
    """Returns the time between the marker and the interval in which it can have been written.

    A coordinator has it written after its decision. The opposite of it is written by a hand, while the transaction is open.
    """
    at_ms = each.marker_timestamp_ms or 0
    from_ms = decision.decided_ms if is_as_decided(decision, each) else decision.start_ms
    early = 0 if from_ms is None else from_ms - at_ms
    late = 0 if decision.completed_ms is None else at_ms - decision.completed_ms
    return max(early, late, 0)


def _cost(decision: Decision, each: LogTransaction) -> float:
    if not _may_pair(decision, each):
        return float("inf")
    cost = min(_PER_SECOND * misfit_ms(decision, each) / 1000, _MISFIT_MAX)
    if each.marker != MarkerKind.GONE.value and not is_as_decided(decision, each):
        cost += _OPPOSITE
    return cost + (_OLDER if has_older_records(decision, each) else 0)


def _repeats(in_log: Sequence[LogTransaction], number: int) -> bool:
    """True if it is the marker before, sent again by a newer coordinator."""
    each, before = in_log[number], in_log[number - 1]
    return (
        number > 0
        and not each.has_records
        and each.marker == before.marker
        and (each.coordinator_epoch or 0) > (before.coordinator_epoch or 0)
    )


def _near(decisions: Sequence[Decision], in_log: Sequence[LogTransaction]) -> tuple[int, int]:
    """The markers that are not long before all decisions, or long after them."""
    first_ms = decisions[0].decided_ms
    last_ms = decisions[-1].completed_ms
    first, last = 0, len(in_log)
    if first_ms is not None:
        while first < last and (in_log[first].marker_timestamp_ms or 0) < first_ms - _NEAR_MS:
            first += 1
    if last_ms is not None:
        while last > first and (in_log[last - 1].marker_timestamp_ms or 0) > last_ms + _NEAR_MS:
            last -= 1
    return first, last


def _cheapest(decisions: Sequence[Decision], in_log: Sequence[LogTransaction], last_unmarked: float) -> Pairs | None:
    """The pairing with the least cost (an alignment as of Needleman and Wunsch, in a band); None if it is too wide."""
    skew = len(in_log) - len(decisions)
    if abs(skew) > _BAND:
        return None
    low, high = min(skew, 0) - _MARGIN, max(skew, 0) + _MARGIN
    best: dict[tuple[int, int], tuple[float, int]] = {}
    for i in range(len(decisions) + 1):
        for j in range(max(i + low, 0), min(i + high, len(in_log)) + 1):
            choices = [] if i or j else [(0.0, 0)]
            if i and (i - 1, j) in best:
                choices.append((best[i - 1, j][0] + (last_unmarked if i == len(decisions) else _UNMARKED), 1))
            if j and (i, j - 1) in best:
                choices.append((best[i, j - 1][0] + (_REPEATED if _repeats(in_log, j - 1) else _SURPLUS), 2))
            if i and j and (i - 1, j - 1) in best:
                choices.append((best[i - 1, j - 1][0] + _cost(decisions[i - 1], in_log[j - 1]), 3))
            best[i, j] = min(choices)
    pairs: Pairs = []
    i, j = len(decisions), len(in_log)
    while i or j:
        step = best[i, j][1]
        i, j = i - (step != 2), j - (step != 1)  # noqa: PLR2004 - as above
        if step == 3:  # noqa: PLR2004
            pairs.append((decisions[i], in_log[j]))
    return pairs[::-1]


_MARGIN: Final = 8


def is_as_decided(decision: Decision, each: LogTransaction) -> bool:
    return (each.marker == MarkerKind.COMMIT.value) == decision.commit


def has_epoch_of(decision: Decision, each: LogTransaction) -> bool:
    return each.last_epoch is not None and decision.oldest_epoch <= each.last_epoch <= decision.newest_epoch


def has_older_records(decision: Decision, each: LogTransaction) -> bool:
    """True if the marker has ended records of an epoch before that of its transaction."""
    return each.first_epoch is not None and each.first_epoch < decision.oldest_epoch
