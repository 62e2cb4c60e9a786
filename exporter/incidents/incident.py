"""Defines an incident: suspects of one cluster that begin within minutes of each other, and what happened to them.

The pipeline makes its table of incidents by the same definition, so that both give an incident the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from enum import Enum
from typing import Final

from exporter.evaluation.humanize import without_ids
from exporter.evaluation.verdicts import Verdict
from exporter.snapshot import STATE_TOPIC, MarkerFinding, TransactionKey

_EXPLAINED: Final = frozenset(
    verdict
    for verdict in Verdict
    if verdict.is_hanging or verdict in {Verdict.STUCK_COMPLETING, Verdict.REPLICA_DIVERGED}
)
"""Final verdicts: a transaction with another one may still end by itself."""
JOINED_SECONDS: Final = 600
"""A suspect that begins within this time after the previous one belongs to its incident.

Overlap alone does not join: a hang may stay for days, and is not the cause of a suspect that begins on the third.
"""
SUSPECTS: Final = tuple(verdict.label for verdict in Verdict if verdict.is_suspect)
"""Worst first."""
HANGING: Final = tuple(verdict.label for verdict in Verdict if verdict.is_hanging)
ID_FORMAT: Final = "%Y%m%dT%H%M%S"
"""Format of the start in UTC; milliseconds and `Z` follow: `20270115T080000123Z`."""

INCIDENTS_MAX: Final = 100
"""Kept; those that ended longest ago are dropped first."""
SUSPECTS_MAX: Final = 100
"""Followed in one incident; the others are counted."""
EVENTS_MAX: Final = 500
"""Maximum of events in the time line of one incident; later ones are counted."""


class EventKind(Enum):
    FIRST_RECORD = "first_record"
    FIRST_SEEN = "first_seen"
    VERDICT = "verdict"
    GROUP_BLOCKED = "group_blocked"
    OUTCOME = "outcome"
    CAUSE = "cause"
    OPERATOR = "operator"
    """A step of a command, from the audit log on the same machine."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class IncidentEvent:
    """Line of the time line."""

    at_ms: int
    kind: EventKind
    sentence: str
    anonymous: str = ""
    """The sentence where transactional ids are hidden, if `sentence` quotes another program, which may name any id."""


def by_time(events: Iterable[IncidentEvent]) -> tuple[IncidentEvent, ...]:
    """Events of one instant stay in their order."""
    return tuple(sorted(events, key=lambda event: event.at_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One open transaction on one partition, as it was seen last. Instants in milliseconds, by this machine's clock.

    Or a transaction that its coordinator cannot complete, whose place is its partition of `__transaction_state`.
    """

    key: TransactionKey
    producer_epoch: int
    transactional_id: str | None
    suspect_at_ms: int
    """Time of the first cycle in which the transaction was a suspect."""
    start_ms: int
    """Start by the source that the duration is measured from."""
    verdict: Verdict
    worst: Verdict
    reason: str
    """The evidence, in a sentence."""
    outcome: str
    """`OutcomeEvidence`."""
    records_held_back: int | None
    """The most that were seen; None if never known."""
    groups: tuple[str, ...]
    """Every group that was seen blocked."""
    ended_at_ms: int | None = None
    """The end of the first cycle without it; None while it is open, or while its partition cannot be read."""
    cause: str = ""
    """`Cause`, as the logs show it; empty until it was searched for."""
    because: str = ""
    """The evidence of the cause, or what is missing for it."""
    markers: MarkerFinding | None = None
    """The worst that was found in the logs of what a coordinator cannot complete; None of what is open on a partition."""

    @property
    def is_critical(self) -> bool:
        """True if it hangs by proof, or a log contradicts its coordinator: records are lost, or aborted ones are read."""
        return self.worst.is_hanging or self.markers is MarkerFinding.CONTRADICTED

    @property
    def lacks_cause(self) -> bool:
        """True if the logs are to be searched for its cause, since its verdict is final, and were not."""
        return not (self.cause or self.is_at_coordinator) and self.verdict in _EXPLAINED

    @property
    def is_at_coordinator(self) -> bool:
        """True if its producer cannot start, whether or not something is open: no transaction writes to that topic."""
        return self.topic == STATE_TOPIC

    @property
    def name(self) -> str:
        """Name of the partition."""
        return f"{self.topic}-{self.partition}"

    @property
    def topic(self) -> str:
        return self.key.topic

    @property
    def partition(self) -> int:
        return self.key.partition

    @property
    def start_offset(self) -> int:
        return self.key.start_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Suspects that began together."""

    started_ms: int
    """Time at which the first suspect became one."""
    suspects: tuple[Suspect, ...]
    """Suspects in the order in which they became suspects."""
    more_suspects: int = 0
    """Number of suspects beyond SUSPECTS_MAX, which are not followed."""
    events: tuple[IncidentEvent, ...] = ()
    """Events by time."""
    more_events: int = 0
    """Number of events beyond EVENTS_MAX, which are dropped."""

    @property
    def id(self) -> str:
        """`20270115T080000123Z`."""
        start = datetime.fromtimestamp(self.started_ms // 1000, timezone.utc)
        return f"{start.strftime(ID_FORMAT)}{self.started_ms % 1000:03}Z"

    @property
    def is_of_coordinators(self) -> bool:
        """True if it is about producers that cannot start: such suspects have incidents of their own."""
        return all(suspect.is_at_coordinator for suspect in self.suspects)

    @property
    def is_over(self) -> bool:
        """True if none of its suspects is open."""
        return all(suspect.ended_at_ms is not None for suspect in self.suspects)

    @property
    def ended_ms(self) -> int | None:
        """Time at which the last suspect ended; None while one is open."""
        ends = [suspect.ended_at_ms for suspect in self.suspects if suspect.ended_at_ms is not None]
        return max(ends) if len(ends) == len(self.suspects) else None

    @property
    def last_suspect_ms(self) -> int:
        """Time at which the newest suspect became one."""
        return max(suspect.suspect_at_ms for suspect in self.suspects)

    def takes(self, suspect_ms: int) -> bool:
        """True if a suspect that began then belongs to it. After a clock was set by more, none does."""
        return abs(suspect_ms - self.last_suspect_ms) <= JOINED_SECONDS * 1000

    @property
    def worst(self) -> Verdict:
        """The worst verdict that any of its suspects had."""
        return min(suspect.worst for suspect in self.suspects)

    @property
    def is_critical(self) -> bool:
        """True if any of its suspects is."""
        return any(suspect.is_critical for suspect in self.suspects)

    @property
    def is_contradicted(self) -> bool:
        """True if a log contradicts the decision of a coordinator."""
        return any(suspect.markers is MarkerFinding.CONTRADICTED for suspect in self.suspects)

    @property
    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions, sorted."""
        return tuple(sorted({suspect.name for suspect in self.suspects}))

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups that the incident blocked, sorted."""
        return tuple(sorted({group for suspect in self.suspects for group in suspect.groups}))

    @property
    def records_held_back(self) -> int | None:
        """The maximum of each partition, added up; None if none is known."""
        most: dict[str, int] = {}
        for suspect in self.suspects:
            if suspect.records_held_back is not None:
                most[suspect.name] = max(most.get(suspect.name, 0), suspect.records_held_back)
        return sum(most.values()) if most else None


def with_events(incident: Incident, events: Sequence[IncidentEvent]) -> Incident:
    """The incident with these events in its time line, as far as there is room."""
    if not events:
        return incident
    room = EVENTS_MAX - len(incident.events)
    kept = by_time((*incident.events, *events[:room]))
    return replace(incident, events=kept, more_events=incident.more_events + max(len(events) - room, 0))


def has_room(incidents: Iterable[Incident]) -> bool:
    """True if one more incident drops none that is open."""
    return sum(not incident.is_over for incident in incidents) < INCIDENTS_MAX


def without_transactional_ids(incident: Incident) -> Incident:
    """The incident without its transactional ids, nor those that its evidence, causes and operators' steps have."""
    return replace(
        incident,
        suspects=tuple(
            replace(one, transactional_id=None, reason=without_ids(one.reason), because=without_ids(one.because))
            for one in incident.suspects
        ),
        events=tuple(
            replace(event, sentence=event.anonymous or without_ids(event.sentence)) for event in incident.events
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Incidents:
    """Incidents of one cluster, the oldest first."""

    cluster_id: str = ""
    """Empty before the first cycle."""
    all: tuple[Incident, ...] = ()

    def named(self, name: str) -> Incident | None:
        """The incident with this id."""
        return next((incident for incident in self.all if incident.id == name), None)


NO_INCIDENTS: Final = Incidents()
