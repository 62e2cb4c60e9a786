"""Declares the vocabulary: a situation, its truth, and what nobody can know of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

Key = tuple[str, int, int]
"""(topic, partition, producer id)."""

PlantT = TypeVar("PlantT", bound=Callable[..., Any])


class Truth(Enum):
    """The state of one transaction, as its planter knows it."""

    HANGING = "hanging"
    """Open, and no coordinator will ever end it with its own marker."""
    LIVE = "live"
    """Open, Ongoing at its coordinator, which lists the partition."""
    FENCED = "live, being fenced"
    """Its coordinator has raised the epoch to abort it, and cannot write that yet."""
    COMPLETING = "completing"
    """Decided; its marker will come when what holds it back is gone."""
    STUCK = "stuck"
    """Decided, and its marker will never come: the coordinator gave up."""
    JUST_PAST = "live, just past its time-out"
    """Ongoing past its own time-out, and its coordinator may not have checked yet."""
    OVERDUE = "overdue"
    """Ongoing past its own time-out: the coordinator should have ended it."""
    CLOSED = "closed"
    """Nothing is open."""


WANTS_A_PERSON = frozenset({Truth.HANGING, Truth.STUCK, Truth.OVERDUE})


class Lacking(Enum):
    """Evidence that is not there: whoever has looked at all that can be seen must say that the answer is unknown."""

    MAY_BE_FENCED = "a coordinator that is about to abort it at the next epoch (KIP-360) would look the same"
    TRANSACTIONAL_IDS_HIDDEN = "no DESCRIBE on transactional ids: one that owns it would be hidden"
    IDS_VISIBLE_BY_NAME_ONLY = "DESCRIBE on some transactional ids: one that owns it may be hidden"
    IDS_MAY_BE_DENIED = "ACLs cannot be read: a DENY on the id that owns it cannot be ruled out"
    TRANSACTION_STATE_HIDDEN = "no DESCRIBE on __transaction_state: nobody knows which coordinators there are"
    TRANSACTION_STATE_ABSENT = "no __transaction_state is shown: nobody knows which coordinators there are"
    COORDINATOR_UNANSWERED = "a coordinator does not respond, and may own it"
    STATE_PARTITION_OFFLINE = "a partition of __transaction_state has no leader, and its coordinator may own it"
    COORDINATOR_MOVED = "its coordinator moves"
    LEADERSHIP_UNCONFIRMED = "whoever responded may no longer be the leader"
    REPLICA_UNREAD = "an in-sync replica that may have its marker does not respond"
    REPLICA_UNAWARE = "an in-sync replica does not know the producer: after an election the transaction is gone"
    ADDRESS_OF_ANOTHER_BROKER = "the broker that responds is not the one that was meant"
    CHANGED_BETWEEN_READS = "it changed in the middle of the look: only a further one can say what it is now"
    LOADING = "its coordinator has not loaded its state yet"
    READ_DENIED = "no READ on its topic: DescribeProducers is refused"
    NO_LEADER = "its partition has no leader"
    TOPIC_HIDDEN = "no DESCRIBE on its topic: brokers do not say that it exists"


PASSING = frozenset({Lacking.CHANGED_BETWEEN_READS, Lacking.LOADING})
"""Of the one look in which it happens: the next one sees everything."""
UNREADABLE = frozenset({Lacking.READ_DENIED, Lacking.NO_LEADER, Lacking.TOPIC_HIDDEN})
"""Of a partition: no producer on it can be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One transaction of a situation: what is true of it, and what can be known of it."""

    key: Key
    truth: Truth
    producer_epoch: int
    transactional_id: str | None
    lacking: frozenset[Lacking] = frozenset()
    """Evidence of which at least one piece is missing; empty: everything can be seen."""
    may_be_known: bool = False
    """True where the lack depends on the moment of the look."""

    @property
    def is_known(self) -> bool:
        """Whether the evidence can be complete."""
        return not self.lacking or self.may_be_known

    @property
    def is_readable(self) -> bool:
        return not self.lacking & UNREADABLE


@dataclass(frozen=True, slots=True)
class Situation:
    """Where it is planted, and how."""

    stage: str
    name: str
    sentence: str
    plant: Callable[..., Any]
    since: str
    """The first version of Kafka for which it is; empty: all."""
    before: str
    """The first one for which it is no more; empty: none."""
    is_racy: bool
    """True where the answer of a detector depends on the moment at which it happens to ask."""
    issue: str = ""
    """The issue of Apache Kafka that it shows: brokers with that fault leave a hang behind, mended ones do not."""

    def is_for(self, version: str) -> bool:
        is_old_enough = not self.before or _numbers(version) < _numbers(self.before)
        return is_old_enough and _numbers(version) >= _numbers(self.since or "0")

    @property
    def versions(self) -> str:
        """`from 4.0`, `before 4.0`; empty: all."""
        named = (f"{word} {version}" for word, version in (("from", self.since), ("before", self.before)) if version)
        return ", ".join(named)


def _numbers(version: str) -> tuple[int, ...]:
    """Of a release, or of a release candidate of it."""
    return tuple(map(int, re.findall(r"\d+", version.partition("-")[0])))


@dataclass(slots=True)
class Collection:
    """The situations of one stage, in the order in which they were written down."""

    stage: str
    situations: list[Situation] = field(default_factory=list)

    def add(
        self, *, since: str = "", before: str = "", is_racy: bool = False, issue: str = ""
    ) -> Callable[[PlantT], PlantT]:
        """Take a function as a situation: its name, and the first sentence of its docstring."""

        def take(plant: PlantT) -> PlantT:
            assert plant.__doc__, f"{plant.__name__} needs a sentence"
            sentence = " ".join(plant.__doc__.split("\n\n")[0].split())
            name = plant.__name__.replace("_", " ")
            self.situations.append(Situation(self.stage, name, sentence, plant, since, before, is_racy, issue))
            return plant

        return take
