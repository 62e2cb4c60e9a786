"""Pairs the decisions of one marker epoch with the markers of this epoch on one partition: pure.

Under TransactionVersion 2 each transaction has an epoch of its own, so that a marker belongs to one decision. Before it,
all transactions of an epoch are compared in their order, and where that is not enough by the brokers' clocks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from exporter.audit.decisions import Decision
from exporter.audit.log_transactions import LogTransaction, MarkerKind
from exporter.audit.verdicts import CLOCKS_APART_MS, Horizon

CELLS_MAX: Final = 50_000_000
"""Pairs of a decision and a marker that are weighed for one epoch on one partition; beyond it nothing is sure."""
ANCHOR: Final = 64
"""Number of consecutive pairs, exact to the millisecond, that are not apart by one."""

Pairs = list[tuple[Decision, LogTransaction]]


def align(
    decisions: Sequence[Decision],
    in_log: Sequence[LogTransaction],
    still_open: LogTransaction | None,
    horizon: Horizon,
) -> tuple[Pairs, bool]:
    """Pairs decisions of one marker epoch with the markers of this epoch on one partition, both in their order.

    False where another pairing is possible. An epoch of one transaction needs no clock. Otherwise all agree in their order,
    or the pairing with the least contradictions is taken. `still_open` has the records after the last marker.
    """
    if not decisions or not in_log:
        return [], True
    its_own = _first_sent(decisions[0], in_log) if len(decisions) == 1 and decisions[0].has_own_epoch else None
    if its_own is not None:
        return ([(decisions[0], its_own)] if may_pair(decisions[0], its_own) else []), True
    repeated = [_repeats(in_log, number) for number in range(len(in_log))]
    in_order = list(zip(decisions, in_log, strict=False))
    agreed = _agreed(in_order, repeated)
    if agreed == len(in_order):
        is_sure = _is_sure(in_order)
        if len(decisions) == len(in_log) or (is_sure and _is_late(decisions[agreed:], in_log[agreed:], horizon)):
            return in_order, is_sure
    begin = _anchored(in_order[:agreed])
    far = _alone_at_ends(decisions[begin:], in_log[begin:], -_NEAR_MS)
    left = decisions[begin + far.first_decisions : len(decisions) - far.last_decisions]
    marked = slice(begin + far.first_markers, len(in_log) - far.last_markers)
    is_open = still_open is not None and has_epoch_of(decisions[-1], still_open) and not far.last_decisions
    found = _cheapest(left, in_log[marked], repeated[marked], _OPEN if is_open else _UNMARKED)
    pairs = in_order[:begin] + (found or [])
    is_sure = found is not None and _is_sure(pairs) and not _may_be_apart(decisions, in_log, repeated, pairs)
    return pairs, is_sure


def _first_sent(decision: Decision, in_log: Sequence[LogTransaction]) -> LogTransaction | None:
    """The marker that ended the records, of one that its coordinator has sent several times; None if others are there.

    It sends one again to the next leader if the response is lost, with the same epochs, and changes nothing.
    """
    if len(in_log) == 1:
        return in_log[0]
    with_records = [each for each in in_log if each.has_records]
    first = with_records[0] if with_records else in_log[0]
    are_alike = len(with_records) <= 1 and all(is_as_decided(decision, each) for each in in_log)
    return first if are_alike and misfit_ms(decision, first) <= CLOCKS_APART_MS else None


def _is_late(decisions: Sequence[Decision], in_log: Sequence[LogTransaction], horizon: Horizon) -> bool:
    """True if the counterparts of all may come later: they are not read yet."""
    return not any(map(horizon.is_settled, decisions)) and all(map(horizon.is_newer, in_log))


def _agreed(in_order: Pairs, repeated: Sequence[bool]) -> int:
    """The number of pairs before the first one that is not as decided."""
    for number, (decision, each) in enumerate(in_order):
        if repeated[number] or not may_pair(decision, each) or not is_as_decided(decision, each):
            return number
    return len(in_order)


def _is_sure(pairs: Pairs) -> bool:
    return all(misfit_ms(decision, each) <= CLOCKS_APART_MS for decision, each in pairs)


def _anchored(agreed: Pairs) -> int:
    """The number of pairs before the last stretch that leaves no doubt; what follows may be apart by one."""
    exact = 0
    anchored = 0
    for number, pair in enumerate(agreed):
        exact = exact + 1 if misfit_ms(*pair) == 0 else 0
        if exact >= ANCHOR:
            anchored = number + 1 - ANCHOR
    return anchored


def _may_be_apart(
    decisions: Sequence[Decision], in_log: Sequence[LogTransaction], repeated: Sequence[bool], pairs: Pairs
) -> bool:
    """True if decisions and markers are left, which belong together where a clock is wrong."""
    paired = {decision for decision, _ in pairs}
    marked = {each.marker_offset for _, each in pairs}
    return any(decision not in paired and decision.completed_ms is not None for decision in decisions) and any(
        each.marker_offset not in marked and not repeated[number] for number, each in enumerate(in_log)
    )


OPPOSITE, OLDER, MISFIT_MAX, NEVER = 1500, 100, 3000, 1 << 40
_UNMARKED, _OPEN, _SURPLUS, _REPEATED = 800, 400, 1200, 100
"""Costs, of which a misfit has one for each millisecond: two left alone cost more than a pair of opposites, and as much as
a pair two seconds apart. The last decision may well have no marker where its records are open."""


def may_pair(decision: Decision, each: LogTransaction) -> bool:
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


def _repeats(in_log: Sequence[LogTransaction], number: int) -> bool:
    """True if it is the marker before, sent again by a newer coordinator."""
    each, before = in_log[number], in_log[number - 1]
    return (
        number > 0
        and not each.has_records
        and each.marker == before.marker
        and (each.coordinator_epoch or 0) > (before.coordinator_epoch or 0)
    )


@dataclass(frozen=True, slots=True)
class _AloneAtEnds:
    """Numbers of decisions that are older or newer than all markers, and of markers that are so of all decisions."""

    first_decisions: int = 0
    first_markers: int = 0
    last_decisions: int = 0
    last_markers: int = 0


def _alone_at_ends(decisions: Sequence[Decision], in_log: Sequence[LogTransaction], tolerance_ms: int) -> _AloneAtEnds:
    """Counts also those that overlap by less than the tolerance; a negative one leaves out what is as near as that."""
    if not decisions or not in_log:
        return _AloneAtEnds()
    first_ms, last_ms = _instant(in_log[0]), _instant(in_log[-1])
    begin_ms, end_ms = _decided_ms(decisions[0]), _ended_ms(decisions[-1])
    return _AloneAtEnds(
        first_decisions=_count(_ended_ms(each) < first_ms + tolerance_ms for each in decisions),
        first_markers=_count(_instant(each) < begin_ms + tolerance_ms for each in in_log),
        last_decisions=_count(_decided_ms(each) > last_ms - tolerance_ms for each in reversed(decisions)),
        last_markers=_count(_instant(each) > end_ms - tolerance_ms for each in reversed(in_log)),
    )


def _count(flags: Iterable[bool]) -> int:
    """The number of those before the first that is false."""
    return sum(1 for _ in takewhile(bool, flags))


def _instant(each: LogTransaction) -> int:
    return each.marker_timestamp_ms or 0


def _decided_ms(decision: Decision) -> int:
    return _or_zero(decision.decided_ms if decision.decided_ms is not None else decision.start_ms)


def _ended_ms(decision: Decision) -> int:
    return _decided_ms(decision) if decision.completed_ms is None else decision.completed_ms


def _cheapest(
    decisions: Sequence[Decision], in_log: Sequence[LogTransaction], repeated: Sequence[bool], last_unmarked: int
) -> Pairs | None:
    """The pairing with the least cost (an alignment as of Needleman and Wunsch, in a band); None if it is too wide."""
    if not decisions or not in_log:
        return []
    skew = len(in_log) - len(decisions)
    alone = _alone_at_ends(decisions, in_log, CLOCKS_APART_MS)
    low = min(0, skew, -alone.first_decisions, skew - alone.last_markers) - _MARGIN
    high = max(0, skew, alone.first_markers, skew + alone.last_decisions) + _MARGIN
    width = high - low + 1
    if len(decisions) * width > CELLS_MAX:
        return None
    markers = MarkerColumns.of(in_log)
    # Column c of row i is the marker j = i + low + c; the costs of markers that are left over are summed up to j.
    left_over = np.concatenate([[0], np.cumsum(np.where(repeated, _REPEATED, _SURPLUS))])
    places = np.arange(low, high + 1)
    best = np.where((places >= 0) & (places <= len(in_log)), left_over[np.clip(places, 0, len(in_log))], NEVER)
    steps = np.full((len(decisions) + 1, width), _LEFT_OVER, dtype=np.uint8)
    for i, decision in enumerate(decisions, start=1):
        places = places + 1
        is_there = (places >= 0) & (places <= len(in_log))
        unmarked = np.append(best[1:], NEVER) + (last_unmarked if i == len(decisions) else _UNMARKED)
        paired = np.where(places >= 1, best + markers.costs(decision, np.clip(places - 1, 0, len(in_log) - 1)), NEVER)
        either = np.where(is_there, np.minimum(unmarked, paired), NEVER)
        sums = left_over[np.clip(places, 0, len(in_log))]
        best = np.where(is_there, np.minimum.accumulate(either - sums) + sums, NEVER)
        steps[i] = np.where(either > best, _LEFT_OVER, np.where(paired <= unmarked, _PAIRED, _ALONE))
    return _steps_back(decisions, in_log, steps, low)


_MARGIN: Final = 16
_NEAR_MS: Final = 10_000
"""Decisions and markers that are farther from all others are left alone."""
_ALONE, _LEFT_OVER, _PAIRED = range(3)


def _steps_back(
    decisions: Sequence[Decision], in_log: Sequence[LogTransaction], steps: NDArray[np.uint8], low: int
) -> Pairs:
    pairs: Pairs = []
    i, j = len(decisions), len(in_log)
    while i or j:
        step = steps[i, j - i - low] if i else _LEFT_OVER
        i, j = i - (step != _LEFT_OVER), j - (step != _ALONE)
        if step == _PAIRED:
            pairs.append((decisions[i], in_log[j]))
    return pairs[::-1]


@dataclass(frozen=True, slots=True)
class MarkerColumns:
    """Columns of markers, to weigh them all at once."""

    at_ms: NDArray[np.int64]
    commits: NDArray[np.bool_]
    is_gone: NDArray[np.bool_]
    first_epoch: NDArray[np.int64]
    """One that is never too low where there is no record."""
    last_epoch: NDArray[np.int64]

    @classmethod
    def of(cls, in_log: Sequence[LogTransaction]) -> MarkerColumns:
        return cls(
            at_ms=np.array([each.marker_timestamp_ms or 0 for each in in_log], dtype=np.int64),
            commits=np.array([each.marker == MarkerKind.COMMIT.value for each in in_log]),
            is_gone=np.array([each.marker == MarkerKind.GONE.value for each in in_log]),
            first_epoch=np.array([NEVER if each.first_epoch is None else each.first_epoch for each in in_log]),
            last_epoch=np.array([-1 if each.last_epoch is None else each.last_epoch for each in in_log]),
        )

    def costs(self, decision: Decision, places: NDArray[Any]) -> NDArray[Any]:
        """The costs to pair the decision with the markers in these places.

        They follow from what `misfit_ms`, `is_as_decided`, `has_older_records` and `may_pair` say of one.
        """
        at_ms, is_opposite = self.at_ms[places], self.commits[places] != decision.commit
        from_ms = np.where(is_opposite, _or_zero(decision.start_ms), _or_zero(decision.decided_ms))
        known = np.where(is_opposite, decision.start_ms is not None, decision.decided_ms is not None)
        early = np.where(known, from_ms - at_ms, 0)
        late = np.zeros_like(at_ms) if decision.completed_ms is None else at_ms - decision.completed_ms
        misfit = np.clip(np.maximum(early, late), 0, MISFIT_MAX)
        cost = misfit + OPPOSITE * (is_opposite & ~self.is_gone[places])
        cost += OLDER * (self.first_epoch[places] < decision.oldest_epoch)
        return np.where(self.last_epoch[places] > decision.newest_epoch, NEVER, cost)


def _or_zero(instant_ms: int | None) -> int:
    return 0 if instant_ms is None else instant_ms


class MatchedBefore:
    """Finds the newest marker that was certainly written before one of another decision."""

    def __init__(self, matched: Mapping[int, Decision]) -> None:
        """Decisions by the offsets of their markers."""
        by_log: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for offset, decision in matched.items():
            if decision.completed_offset is not None:
                by_log[decision.log_partition].append((decision.completed_offset, decision.completed_ms or 0, offset))
        self._by_log: dict[int, tuple[list[int], list[int], list[int]]] = {}
        for number, rows in by_log.items():
            completed, instants, offsets = zip(*sorted(rows), strict=True)
            self._by_log[number] = (list(completed), list(accumulate(instants, max)), list(accumulate(offsets, max)))

    def offset(self, decision: Decision, by_ms: int) -> int | None:
        """Offset of a marker whose decision was completed by then, and before this one."""
        completed, instants, offsets = self._by_log.get(decision.log_partition, ([], [], []))
        count = min(bisect_left(completed, decision.completed_offset or 0), bisect_right(instants, by_ms))
        return offsets[count - 1] if count else None


def is_as_decided(decision: Decision, each: LogTransaction) -> bool:
    return (each.marker == MarkerKind.COMMIT.value) == decision.commit


def has_epoch_of(decision: Decision, each: LogTransaction) -> bool:
    return each.last_epoch is not None and decision.oldest_epoch <= each.last_epoch <= decision.newest_epoch


def has_older_records(decision: Decision, each: LogTransaction) -> bool:
    """True if the marker has ended records of an epoch before that of its transaction."""
    return each.first_epoch is not None and each.first_epoch < decision.oldest_epoch
