"""Puts what the logs show into the order of time, each line with its source and with the clock that gave its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from operator import itemgetter

from exporter.evaluation.humanize import humanize_count, humanize_duration, humanize_names
from exporter.explain.facts import Facts
from exporter.snapshot.origin import LoggedBatch, LoggedMarker
from exporter.transaction_log.events import Event, Happening

NAMED_MAX = 4
HEADERS_MAX = 20
BATCHES_MAX = 8
"""Maximum of the producer's batches, before and from the start offset on; a last line counts the others."""


class Clock(Enum):
    """The clock of a time. Two clocks may differ; within one, the order is exact."""

    COORDINATOR = "coordinator"
    LEADER = "leader"
    CLIENT = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Line of the time line."""

    at_ms: int
    clock: Clock
    source: str
    """Source of the line: a partition and an offset, or the coordinator's log."""
    sentence: str


def timeline(facts: Facts) -> tuple[Moment, ...]:
    """Returns every moment, by time; those of one time in the order of their log."""
    source = f"__transaction_state-{facts.state.states[0].state_partition}" if facts.past.events else ""
    moments = [
        *(
            Moment(at_ms=event.at_ms, clock=Clock.COORDINATOR, source=source, sentence=_event(event))
            for event in facts.past.events
        ),
        *_of_elections(facts),
        *map(_of_marker, facts.markers),
        *_of_batches(facts),
    ]
    return tuple(sorted(moments, key=lambda moment: moment.at_ms))


def _event(event: Event) -> str:
    who = f"producer {event.producer_id} epoch {event.producer_epoch}"
    where = humanize_names(sorted(f"{topic}-{partition}" for topic, partition in event.partitions), shown_max=NAMED_MAX)
    if event.happening is Happening.INITIALIZED:
        return f"{who} took the transactional id"
    if event.happening is Happening.BEGUN:
        return f"{who} began a transaction on {where}" if where else f"{who} began a transaction"
    if event.happening is Happening.PARTITIONS_ADDED:
        return f"{who} added {where}"
    outcome = "" if event.outcome is None else f" ({event.outcome.value})"
    took = f" after {humanize_duration(event.duration_ms)}" if event.duration_ms >= 0 else ""
    if event.happening is Happening.PREPARED:
        return f"the end of the transaction was decided{outcome}{took}, on {where or 'no partition'}"
    if event.happening is Happening.COMPLETED:
        return f"every marker was written{outcome}{took}"
    return "the transactional id expired: the coordinator removed it"


def _of_elections(facts: Facts) -> Iterator[Moment]:
    """Changes of leader epochs: a new leader of the partition, or a new coordinator."""
    states = facts.state.states
    for before, after in pairwise(states):
        if 0 <= before.leader_epoch < after.leader_epoch:
            yield Moment(
                at_ms=after.written_at_ms,
                clock=Clock.COORDINATOR,
                source=f"__transaction_state-{after.state_partition} offset {after.offset}",
                sentence=f"by now the coordinator has changed: leader epoch {before.leader_epoch} to {after.leader_epoch}",
            )
    logs = facts.logs.own
    own = [(one.offset, one.leader_epoch, one.max_timestamp_ms, Clock.CLIENT) for one in logs.batches]
    own += [(one.offset, one.leader_epoch, one.timestamp_ms, Clock.LEADER) for one in logs.markers]
    own.sort(key=itemgetter(0))
    for (_, epoch, _, _), (offset, later, at_ms, clock) in pairwise(own):
        if 0 <= epoch < later:
            yield Moment(
                at_ms=at_ms,
                clock=clock,
                source=f"{facts.opened.topic}-{facts.opened.partition} offset {offset}",
                sentence=f"by now the partition has a new leader: leader epoch {epoch} to {later}",
            )


def _of_marker(marker: LoggedMarker) -> Moment:
    kind = "COMMIT" if marker.commit else "ABORT"
    return Moment(
        at_ms=marker.timestamp_ms,
        clock=Clock.LEADER,
        source=f"{marker.topic}-{marker.partition} offset {marker.offset}",
        sentence=f"{kind} marker, producer epoch {marker.producer_epoch}, coordinator epoch {marker.coordinator_epoch}",
    )


def _of_batches(facts: Facts) -> Iterator[Moment]:
    start = facts.opened.start_offset
    before = [batch for batch in facts.logs.own.batches if batch.offset < start]
    after = [batch for batch in facts.logs.own.batches if batch.offset >= start]
    for batch in (*before[-BATCHES_MAX:], *after[:BATCHES_MAX]):
        opening = _opening(facts) if batch.offset == start else ""
        written = f"{humanize_count(batch.records, 'record')}, producer epoch {batch.producer_epoch}"
        yield _of_batch(facts, batch, f"{written}, sequence {batch.base_sequence}{opening}")
    if rest := after[BATCHES_MAX:]:
        more = humanize_count(len(rest), "more batch", "more batches")
        yield _of_batch(facts, rest[0], f"{more} of the producer, at least")


def _opening(facts: Facts) -> str:
    if facts.headers is None:
        return ": it opened the transaction"
    named = humanize_names(facts.headers, shown_max=HEADERS_MAX)
    return f": it opened the transaction; {f'headers {named}' if named else 'no headers'}"


def _of_batch(facts: Facts, batch: LoggedBatch, sentence: str) -> Moment:
    return Moment(
        at_ms=batch.first_timestamp_ms,
        clock=Clock.LEADER if batch.has_log_append_time else Clock.CLIENT,
        source=f"{facts.opened.topic}-{facts.opened.partition} offset {batch.offset}",
        sentence=sentence,
    )
