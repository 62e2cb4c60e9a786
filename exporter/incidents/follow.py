"""Takes one evaluation into the incidents: new suspects, changed verdicts, blocked groups, ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from exporter.evaluation.humanize import humanize_count, humanize_duration
from exporter.evaluation.verdicts import Evaluation, OutcomeEvidence, StartSource, TransactionRow, Verdict
from exporter.incidents.incident import (
    INCIDENTS_MAX,
    SUSPECTS_MAX,
    EventKind,
    Incident,
    IncidentEvent,
    Incidents,
    Suspect,
    has_room,
    with_events,
)
from exporter.incidents.stuck_producers import with_stuck_producers
from exporter.snapshot import NO_PRODUCER_ID, TransactionKey

_BEGAN = {
    StartSource.COORDINATOR: "began, by its coordinator",
    StartSource.TRANSACTION_LOG: "began, by the transaction log",
    StartSource.NOT_OPEN_BEFORE: "was not open before, by a broker's clock; its last write is older by its client's clock",
    StartSource.LAST_WRITE: "was last written to, by the client's clock",
}
_START_DIFFERS_MS = 1000
"""Less is a clock that was read again."""


def follow(before: Incidents, evaluation: Evaluation) -> Incidents:
    """The incidents after this evaluation; the same object if nothing has changed."""
    cluster_id = evaluation.snapshot.cluster_id
    if before.cluster_id != cluster_id:
        before = Incidents(cluster_id=cluster_id)
    if not evaluation.suspects and not evaluation.stuck and all(incident.is_over for incident in before.all):
        return before
    before = _with_producers(before, evaluation)
    known = {suspect.key for incident in before.all for suspect in incident.suspects if suspect.ended_at_ms is None}
    with_producer = {key.place: key for key in known}
    rows = {with_producer.get(row.key, row.key): row for row in evaluation.suspects}
    others = _others(known - rows.keys(), with_producer, evaluation)
    followed_ = [
        incident if incident.is_over or incident.is_of_coordinators else _after(incident, rows, others, evaluation)
        for incident in before.all
    ]
    new = [row for key, row in rows.items() if key not in known]
    kept = with_stuck_producers(_with_new(followed_, new, evaluation) if new else tuple(followed_), evaluation)
    return before if kept == before.all else Incidents(cluster_id=cluster_id, all=_newest(kept))


def _with_producers(before: Incidents, evaluation: Evaluation) -> Incidents:
    """Adds producers that were unknown, as since READ is granted: what is open at an offset stays the same transaction."""
    unknown = {
        suspect.key
        for incident in before.all
        for suspect in incident.suspects
        if suspect.ended_at_ms is None and suspect.key.producer_id == NO_PRODUCER_ID and not suspect.is_at_coordinator
    }
    if not unknown:
        return before
    now = {evidence.key.place: evidence.key for evidence in evaluation.evidence if evidence.key.place in unknown}

    def known(suspect: Suspect) -> Suspect:
        return replace(suspect, key=now[suspect.key]) if suspect.key in unknown & now.keys() else suspect

    incidents = (replace(each, suspects=tuple(map(known, each.suspects))) for each in before.all)
    return replace(before, all=tuple(incidents))


def new_suspects(before: Incidents, after: Incidents) -> list[TransactionKey]:
    """The open transactions that are followed since the last evaluation."""
    known = {suspect.key for incident in before.all for suspect in incident.suspects}
    return [
        suspect.key
        for incident in after.all
        for suspect in incident.suspects
        if suspect.key not in known and not suspect.is_at_coordinator
    ]


def with_sentences(incidents: Incidents, sentences: Mapping[TransactionKey, str], now_ms: int) -> Incidents:
    """Adds a line about the first record of each of these transactions."""
    if not sentences:
        return incidents

    def events(incident: Incident) -> list[IncidentEvent]:
        about = [suspect for suspect in incident.suspects if suspect.key in sentences]
        return [IncidentEvent(now_ms, EventKind.FIRST_RECORD, f"{one.name}: {sentences[one.key]}") for one in about]

    return replace(incidents, all=tuple(with_events(incident, events(incident)) for incident in incidents.all))


def unexplained(incidents: Incidents) -> list[Suspect]:
    """The open ones whose verdict is final, and for whose cause nobody has searched."""
    return [
        suspect
        for incident in incidents.all
        for suspect in incident.suspects
        if suspect.ended_at_ms is None and suspect.lacks_cause
    ]


def causes_of(incidents: Incidents) -> Mapping[TransactionKey, str]:
    """The causes of the open suspects, as far as they were searched for."""
    suspects = (suspect for incident in incidents.all for suspect in incident.suspects)
    return {suspect.key: suspect.cause for suspect in suspects if suspect.cause and suspect.ended_at_ms is None}


def with_causes(incidents: Incidents, causes: Mapping[TransactionKey, tuple[str, str]], now_ms: int) -> Incidents:
    """Adds (cause, evidence) of each of these transactions."""
    return replace(incidents, all=tuple(_with_causes(incident, causes, now_ms) for incident in incidents.all))


def _with_causes(incident: Incident, causes: Mapping[TransactionKey, tuple[str, str]], now_ms: int) -> Incident:
    suspects, events = [], []
    for suspect in incident.suspects:
        cause, because = causes.get(suspect.key, ("", ""))
        suspects.append(replace(suspect, cause=cause, because=because) if cause else suspect)
        if cause:
            sentence = f"the cause of the suspect on {suspect.name} is {cause}: {because}"
            events.append(IncidentEvent(now_ms, EventKind.CAUSE, sentence))
    return with_events(replace(incident, suspects=tuple(suspects)), events) if events else incident


def _others(
    wanted: set[TransactionKey], with_producer: Mapping[TransactionKey, TransactionKey], evaluation: Evaluation
) -> Mapping[TransactionKey, tuple[Verdict, str | None]]:
    """(verdict, transactional id) of these transactions, as far as they are open.

    `with_producer` has the key of a suspect whose producer is not visible in this cycle, by its place.
    """
    if not wanted:
        return {}
    return {
        key: (verdict, evidence.transactional_id)
        for evidence, verdict in evaluation.examined_verdicts()
        if (key := with_producer.get(evidence.key, evidence.key)) in wanted
    }


def _after(
    incident: Incident,
    rows: Mapping[TransactionKey, TransactionRow],
    others: Mapping[TransactionKey, tuple[Verdict, str | None]],
    evaluation: Evaluation,
) -> Incident:
    suspects, events = [], []
    for suspect in incident.suspects:
        if suspect.ended_at_ms is not None:
            suspects.append(suspect)
            continue
        row = rows.get(suspect.key)
        if row is not None:
            after, new = _seen(suspect, row, evaluation)
        elif suspect.key in others:
            after, new = _no_suspect(suspect, *others[suspect.key], evaluation)
        else:
            after, new = _missing(suspect, evaluation)
        suspects.append(after)
        events += new
    return with_events(replace(incident, suspects=tuple(suspects)), events)


def _seen(before: Suspect, row: TransactionRow, evaluation: Evaluation) -> tuple[Suspect, list[IncidentEvent]]:
    """Updates a suspect that is still open."""
    now_ms = evaluation.snapshot.taken_at_ms
    after = replace(
        before,
        producer_epoch=max(row.producer_epoch, before.producer_epoch),
        transactional_id=row.transactional_id or before.transactional_id,
        verdict=row.verdict,
        worst=min(before.worst, row.verdict),
        reason=row.reason,
        outcome=row.outcome_evidence.value,
        records_held_back=max(
            (lag for lag in (before.records_held_back, row.last_stable_offset_lag) if lag is not None), default=None
        ),
        groups=tuple(sorted({*before.groups, *_blocked(row)})),
    )
    events = []
    start_ms = _own_start_ms(row, evaluation)
    if start_ms + _START_DIFFERS_MS <= before.start_ms:  # a proof counts from the last write, not from the first cycle
        after = replace(after, start_ms=start_ms)
        events += _began(row, start_ms)
    if row.verdict is not before.verdict:
        events.append(_verdict(row, now_ms))
    events += _groups_blocked(row, _blocked(row).keys() - set(before.groups), evaluation)
    if after.outcome not in {before.outcome, OutcomeEvidence.NONE.value}:
        events.append(_outcome(row, now_ms))
    return after, events


def _no_suspect(
    before: Suspect, verdict: Verdict, transactional_id: str | None, evaluation: Evaluation
) -> tuple[Suspect, list[IncidentEvent]]:
    before = replace(before, transactional_id=transactional_id or before.transactional_id)
    if verdict is before.verdict:
        return before, []
    sentence = f"the transaction on {before.name} is not a suspect any more: {verdict.label}"
    return replace(before, verdict=verdict), [
        IncidentEvent(evaluation.snapshot.taken_at_ms, EventKind.VERDICT, sentence)
    ]


def _missing(before: Suspect, evaluation: Evaluation) -> tuple[Suspect, list[IncidentEvent]]:
    """Handles a suspect that is not open: ended if its partition was read; otherwise nothing is known."""
    key, now_ms = before.key, evaluation.snapshot.finished_at_ms  # its marker may have come during the cycle
    partitions = evaluation.snapshot.partitions
    if partitions.row(key.topic, key.partition) is None:  # its topic is gone, or was made again with fewer partitions
        if key.topic in evaluation.snapshot.visibility.hidden_topics:
            return before, []
        if evaluation.snapshot.shows_every_topic:
            sentence = f"partition {before.name} does not exist any more"
        elif key in evaluation.memory.transactions:
            return before, []
        else:  # also forgotten
            sentence = f"partition {before.name} is not visible any more: its transaction is not followed any longer"
    elif not partitions.shows(key) or _is_unexamined(key, evaluation):
        return before, []
    else:
        sentence = f"{before.name}: the transaction from offset {key.start_offset} is no longer open"
    return replace(before, ended_at_ms=now_ms), [IncidentEvent(now_ms, EventKind.ENDED, sentence)]


def _is_unexamined(key: TransactionKey, evaluation: Evaluation) -> bool:
    """Open, but beyond the number that a cycle examines."""
    transactions = evaluation.memory.transactions
    place = transactions.place(key)
    return place is not None and place >= transactions.examined_count


def _with_new(
    incidents: list[Incident], rows: Iterable[TransactionRow], evaluation: Evaluation
) -> tuple[Incident, ...]:
    """Each new suspect goes to the incident of its producer or to the newest one, or is the first of a new one.

    An open incident with suspects that are not followed takes all: whether one of them is new is not known. Where no
    incident can be dropped for a new one, the newest open one takes them.
    """
    now_ms = evaluation.snapshot.taken_at_ms
    at_of_producer = {
        (suspect.key.producer_id, suspect.producer_epoch): at
        for at, incident in reversed(list(enumerate(incidents)))
        for suspect in incident.suspects
        if suspect.ended_at_ms is None
    }
    of_open = [(at, incident) for at, incident in enumerate(incidents) if not incident.is_of_coordinators]
    newest = of_open[-1][0] if of_open else -1
    if newest >= 0 and not incidents[newest].takes(now_ms):
        newest = next((at for at, incident in of_open if incident.more_suspects and not incident.is_over), -1)
    if newest < 0 and not has_room(incidents):
        newest = next((at for at, incident in reversed(of_open) if not incident.is_over), -1)
    not_followed: Counter[int] = Counter()
    for row in rows:
        at = at_of_producer.get((row.producer_id, row.producer_epoch), newest)
        if at < 0:
            at = newest = len(incidents)
            incidents.append(Incident(started_ms=now_ms, suspects=()))
        if len(incidents[at].suspects) < SUSPECTS_MAX:
            suspect, events = _first_seen(row, evaluation)
            incidents[at] = with_events(replace(incidents[at], suspects=(*incidents[at].suspects, suspect)), events)
            at_of_producer.setdefault((row.producer_id, row.producer_epoch), at)
        else:
            not_followed[at] += 1
    for at, count in not_followed.items():
        if count > incidents[at].more_suspects:
            incidents[at] = replace(incidents[at], more_suspects=count)
    return tuple(incidents)


def _first_seen(row: TransactionRow, evaluation: Evaluation) -> tuple[Suspect, list[IncidentEvent]]:
    key, now_ms = row.key, evaluation.snapshot.taken_at_ms
    start_ms = _own_start_ms(row, evaluation)
    suspect = Suspect(
        key=key,
        producer_epoch=row.producer_epoch,
        transactional_id=row.transactional_id,
        suspect_at_ms=now_ms,
        start_ms=start_ms,
        verdict=row.verdict,
        worst=row.verdict,
        reason=row.reason,
        outcome=row.outcome_evidence.value,
        records_held_back=row.last_stable_offset_lag,
        groups=tuple(sorted(_blocked(row))),
    )
    events = _began(row, start_ms)
    remembered = evaluation.memory.transactions.get(key)
    seen_ms = now_ms if remembered is None else remembered.first_seen_ms - remembered.clock_offset_ms
    sentence = f"the transaction on {suspect.name} is seen open for the first time"
    events += [IncidentEvent(seen_ms, EventKind.FIRST_SEEN, sentence), _verdict(row, now_ms)]
    events += _groups_blocked(row, _blocked(row), evaluation)
    if row.outcome_evidence is not OutcomeEvidence.NONE:
        events.append(_outcome(row, now_ms))
    return suspect, events


def _verdict(row: TransactionRow, now_ms: int) -> IncidentEvent:
    sentence = f"the transaction on {row.topic}-{row.partition} is {row.verdict.label}: {row.reason}"
    return IncidentEvent(now_ms, EventKind.VERDICT, sentence)


def _own_start_ms(row: TransactionRow, evaluation: Evaluation) -> int:
    """The start by this machine's clock."""
    remembered = evaluation.memory.transactions.get(row.key)
    if row.start_source is StartSource.FIRST_SEEN and remembered is not None:
        return remembered.first_seen_ms - remembered.clock_offset_ms
    return _by_own_clock(row.start_ms, row.key, evaluation)


def _by_own_clock(instant_ms: int, key: TransactionKey, evaluation: Evaluation) -> int:
    """An instant of the cluster's clock by this machine's clock.

    Both may have been set since: an instant before this cycle is converted as when the transaction was first seen.
    """
    snapshot, remembered = evaluation.snapshot, evaluation.memory.transactions.get(key)
    if remembered is None or instant_ms == snapshot.cluster_time_ms:
        return instant_ms - snapshot.clock_offset_ms
    return instant_ms - remembered.clock_offset_ms


def _began(row: TransactionRow, start_ms: int) -> list[IncidentEvent]:
    if row.start_source not in _BEGAN:
        return []
    sentence = f"the transaction from offset {row.start_offset} {_BEGAN[row.start_source]}"
    return [IncidentEvent(start_ms, EventKind.FIRST_RECORD, f"{row.topic}-{row.partition}: {sentence}")]


def _blocked(row: TransactionRow) -> Mapping[str, int]:
    """Returns the start of each group's block, by the cluster's clock."""
    return {group.group: group.blocked_since_ms for group in row.groups if group.blocked_since_ms is not None}


def _groups_blocked(row: TransactionRow, groups: Iterable[str], evaluation: Evaluation) -> list[IncidentEvent]:
    wanted = set(groups)
    events = []
    for group in row.groups:
        if group.group in wanted and group.blocked_since_ms is not None:
            since_ms = _by_own_clock(group.blocked_since_ms, row.key, evaluation)
            waiting = ""
            if group.waiting_records is not None:
                later_ms = evaluation.snapshot.taken_at_ms - since_ms
                later = f" {humanize_duration(later_ms)} later" if later_ms > 0 else ""
                waiting = f", lag {humanize_count(group.waiting_records, 'offset')}{later}"
            sentence = f"group {group.group} is blocked on {row.topic}-{row.partition}{waiting}"
            events.append(IncidentEvent(since_ms, EventKind.GROUP_BLOCKED, sentence))
    return events


def _outcome(row: TransactionRow, now_ms: int) -> IncidentEvent:
    seen = f" ({'; '.join(row.outcome_seen)})" if row.outcome_seen else ""
    of = f"{row.topic}-{row.partition}"
    was = "may have been committed" if row.outcome_evidence is OutcomeEvidence.COMMITTED else "was aborted"
    return IncidentEvent(now_ms, EventKind.OUTCOME, f"by the evidence the transaction on {of} {was}{seen}")


def _newest(incidents: tuple[Incident, ...]) -> tuple[Incident, ...]:
    """Returns at most INCIDENTS_MAX: those that are not over, and of the others those that ended last."""
    too_many = len(incidents) - INCIDENTS_MAX
    if too_many <= 0:
        return incidents
    over = sorted((one for one in incidents if one.is_over), key=lambda one: one.ended_ms or 0)
    dropped = {incident.started_ms for incident in over[:too_many]}
    return tuple(incident for incident in incidents if incident.started_ms not in dropped)[-INCIDENTS_MAX:]
