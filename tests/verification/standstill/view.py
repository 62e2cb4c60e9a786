"""Reads from an evaluation, and from the JSON of `why`, who stands still and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from exporter.evaluation.verdicts import Evaluation, OwnerState, TransactionRow, Verdict
from hangbench.parties.words import Cause, Standstill, Standstills

_CAUSES: Final[Mapping[str, Cause]] = {
    Verdict.STUCK_COMPLETING.label: Cause.STUCK_AT_COORDINATOR,
    Verdict.COMPLETING.label: Cause.COMPLETING,
    Verdict.OVERDUE_AT_COORDINATOR.label: Cause.OVERDUE,
    Verdict.PREPARED_TWO_PHASE_COMMIT.label: Cause.PREPARED_2PC,
    Verdict.OPEN_WITHIN_TIMEOUT.label: Cause.WITHIN_TIMEOUT,
    **{verdict.label: Cause.HANGING for verdict in Verdict if verdict.is_hanging},
}


def of_exporter(evaluation: Evaluation) -> Standstills:
    """Returns every party that this cycle shows: behind a suspect or a live transaction, and at a coordinator."""
    rows = {row.key: row for row in (*evaluation.suspects, *evaluation.blocking)}
    behind = {standstill for row in rows.values() for standstill in _behind(row)}
    stuck = {
        Standstill(each.transactional_id, (marker.topic, marker.partition), Cause.STUCK_AT_COORDINATOR, None)
        for each in evaluation.stuck
        for marker in each.markers
    }
    return frozenset(behind | stuck)


def _behind(row: TransactionRow) -> Iterator[Standstill]:
    """Yields the groups that stand still behind this row: at the last stable offset, or with a pending offset."""
    for group in row.groups:
        if group.blocked_since_ms is not None or group.committed_offset is None:
            yield Standstill(group.group, (row.topic, row.partition), _cause_of(row), row.transactional_id)


def _cause_of(row: TransactionRow) -> Cause:
    cause = _CAUSES.get(row.verdict.label, Cause.INCONCLUSIVE)
    if cause is not Cause.WITHIN_TIMEOUT:
        return cause
    return Cause.OWNER_SILENT if row.owner is OwnerState.SILENT else Cause.LIVE


def of_why(party: str, answer: Mapping[str, Any]) -> Standstills:
    """Returns where `party` stands still: a group by its holds, a producer by the transactions that are stuck."""
    if answer["lag"] is not None:
        return frozenset(_holds(party, answer, with_young=False))
    return frozenset(
        Standstill(party, (marker["topic"], marker["partition"]), Cause.STUCK_AT_COORDINATOR, None)
        for each in answer["stuck"]
        for marker in each["partitions"]
    )


def held_by(answer: Mapping[str, Any]) -> Standstills:
    """Returns the open transactions that `why --transactional-id` shows, as standstills of nobody."""
    return frozenset(_holds("", answer))


def _holds(party: str, answer: Mapping[str, Any], *, with_young: bool = True) -> Iterator[Standstill]:
    stuck = {each["transactional_id"] for each in answer["stuck"]}
    for hold in answer["holds"]:
        if hold["is_young"] and not with_young:
            continue
        row = hold["transaction"]
        place, name = (row["topic"], row["partition"]), row["transactional_id"]
        cause = _CAUSES.get(row["verdict"], Cause.INCONCLUSIVE)
        yield Standstill(party, place, Cause.STUCK_AT_COORDINATOR if name in stuck else cause, name)
