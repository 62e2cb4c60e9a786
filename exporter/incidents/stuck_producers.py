"""Takes producers that cannot start into the incidents: their coordinators cannot complete a transaction.

Nothing may be open on any partition, so such a suspect has its place at its coordinator. Its incidents have no other
suspects: the pipeline names incidents likewise, from a history that has open transactions alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from exporter.evaluation.stuck import stuck_evidence
from exporter.evaluation.stuck_transaction import StuckTransaction
from exporter.evaluation.verdicts import Evaluation, OutcomeEvidence, Verdict
from exporter.incidents.incident import (
    SUSPECTS_MAX,
    EventKind,
    Incident,
    IncidentEvent,
    Suspect,
    has_room,
    with_events,
)
from exporter.snapshot import STATE_TOPIC, UNKNOWN_OFFSET, CompletingId, MarkerFinding, Snapshot, TransactionKey


def with_stuck_producers(incidents: tuple[Incident, ...], evaluation: Evaluation) -> tuple[Incident, ...]:
    """The incidents with what coordinators cannot complete in this evaluation, and what they have completed."""
    stuck = {_key(each): each for each in evaluation.stuck}
    after = [
        _after(incident, stuck, evaluation) if incident.is_of_coordinators and not incident.is_over else incident
        for incident in incidents
    ]
    known = {suspect.key for incident in after for suspect in incident.suspects if suspect.ended_at_ms is None}
    new = [each for key, each in stuck.items() if key not in known and not _is_open(each)]
    return _with_new(after, new, evaluation) if new else tuple(after)


def _key(stuck: StuckTransaction) -> TransactionKey:
    return TransactionKey(STATE_TOPIC, stuck.state_partition, stuck.producer_id, UNKNOWN_OFFSET)


def _is_open(stuck: StuckTransaction) -> bool:
    """True if a partition has it open, and its suspect there tells the whole story: no marker contradicts the decision."""
    return stuck.markers_state is MarkerFinding.MISSING


def _after(incident: Incident, stuck: dict[TransactionKey, StuckTransaction], evaluation: Evaluation) -> Incident:
    suspects, events = [], []
    for suspect in incident.suspects:
        now, after = stuck.get(suspect.key), suspect
        if suspect.ended_at_ms is not None:
            suspects.append(suspect)
            continue
        if now is not None and _is_news(now, suspect):
            after = replace(suspect, reason=stuck_evidence(now), markers=now.markers_state)
            if after.reason != suspect.reason:
                events.append(_evidence(after, evaluation.snapshot.taken_at_ms))
        elif now is None and _is_completed(suspect, evaluation.snapshot):
            ended_at_ms = evaluation.snapshot.finished_at_ms  # it may have been completed during the cycle
            after = replace(suspect, ended_at_ms=ended_at_ms)
            sentence = f"{suspect.name}: the transaction is not completing any more: a producer with its id can start"
            events.append(IncidentEvent(ended_at_ms, EventKind.ENDED, sentence))
        suspects.append(after)
    return with_events(replace(incident, suspects=tuple(suspects)), events)


def _is_news(now: StuckTransaction, known: Suspect) -> bool:
    """False where a contradiction is not found again: the partition forgets its producer, and what is lost stays lost."""
    return known.markers is not MarkerFinding.CONTRADICTED or now.markers_state is MarkerFinding.CONTRADICTED


def _is_completed(suspect: Suspect, snapshot: Snapshot) -> bool:
    """True if its coordinator is there, every coordinator has responded, and none lists it as completing."""
    row = snapshot.partitions.row(*suspect.key[:2])
    if row is not None and snapshot.partitions.is_unread[row]:
        return False
    identity = CompletingId(suspect.transactional_id or "", suspect.key.producer_id)
    are_all_known = bool(snapshot.coordinators) and all(each.failure is None for each in snapshot.coordinators)
    return are_all_known and identity not in snapshot.completing.listed


def _with_new(
    incidents: list[Incident], new: Iterable[StuckTransaction], evaluation: Evaluation
) -> tuple[Incident, ...]:
    """Each goes to the newest incident of its kind, or is the first of a new one."""
    now_ms = evaluation.snapshot.taken_at_ms
    at = next((at for at, one in reversed([*enumerate(incidents)]) if one.is_of_coordinators), -1)
    if at < 0 or not (incidents[at].takes(now_ms) or (not incidents[at].is_over and not has_room(incidents))):
        at = len(incidents)
        incidents.append(Incident(started_ms=_free_start_ms(now_ms, incidents), suspects=()))
    not_followed = 0
    for stuck in new:
        if len(incidents[at].suspects) >= SUSPECTS_MAX:
            not_followed += 1
            continue
        suspect = _suspect(stuck, evaluation)
        began = f"{suspect.name}: the transaction began, by its coordinator"
        events = [IncidentEvent(suspect.start_ms, EventKind.FIRST_RECORD, began), _evidence(suspect, now_ms)]
        incidents[at] = with_events(replace(incidents[at], suspects=(*incidents[at].suspects, suspect)), events)
    incidents[at] = replace(incidents[at], more_suspects=max(incidents[at].more_suspects, not_followed))
    return tuple(incidents)


def _free_start_ms(now_ms: int, incidents: Iterable[Incident]) -> int:
    """An incident is named by its start, and another one may have begun in the same cycle."""
    taken = {incident.started_ms for incident in incidents}
    while now_ms in taken:
        now_ms += 1
    return now_ms


def _suspect(stuck: StuckTransaction, evaluation: Evaluation) -> Suspect:
    return Suspect(
        key=_key(stuck),
        producer_epoch=stuck.producer_epoch,
        transactional_id=stuck.transactional_id,
        suspect_at_ms=stuck.since_ms - evaluation.snapshot.clock_offset_ms,
        start_ms=stuck.start_ms - evaluation.snapshot.clock_offset_ms,
        verdict=Verdict.STUCK_COMPLETING,
        worst=Verdict.STUCK_COMPLETING,
        reason=stuck_evidence(stuck),
        outcome=OutcomeEvidence.NONE.value,
        records_held_back=None,
        groups=(),
        markers=stuck.markers_state,
    )


def _evidence(suspect: Suspect, now_ms: int) -> IncidentEvent:
    return IncidentEvent(now_ms, EventKind.VERDICT, f"{suspect.name}: {suspect.reason}")
