"""Declares the vocabulary: a situation, its truth, the allowed verdicts, and how results are scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from exporter.evaluation.verdicts import InconclusiveReason, Verdict

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One transaction of a situation: what is true of it, and what may be said of it."""

    key: Key
    truth: Truth
    producer_epoch: int
    transactional_id: str | None
    verdicts: frozenset[Verdict]
    """The exporter's verdict in the last cycle; empty where no row may be shown."""
    first: frozenset[Verdict]
    """The exporter's verdict in the first cycle; empty where every verdict except a false hanging is right."""
    reasons: frozenset[InconclusiveReason]
    """Where inconclusive: why."""
    unread: str | None
    """Why its partition cannot be read, INVISIBLE if its topic is not visible; None if it can be read."""


INVISIBLE = "invisible"


@dataclass(frozen=True, slots=True)
class Situation:
    """Where it is planted, and how."""

    stage: str
    name: str
    sentence: str
    plant: Callable[..., Any]
    versions: tuple[str, ...] | None
    """None: all."""
    is_racy: bool
    """True where the answer of Kafka's tool depends on the moment at which it happens to ask."""

    def is_for(self, version: str) -> bool:
        return self.versions is None or version in self.versions


@dataclass(slots=True)
class Collection:
    """The situations of one stage, in the order in which they were written down."""

    stage: str
    situations: list[Situation] = field(default_factory=list)

    def add(self, *, versions: Iterable[str] | None = None, is_racy: bool = False) -> Callable[[PlantT], PlantT]:
        """Take a function as a situation: its name, and the first sentence of its docstring."""

        def take(plant: PlantT) -> PlantT:
            assert plant.__doc__, f"{plant.__name__} needs a sentence"
            sentence = " ".join(plant.__doc__.split("\n\n")[0].split())
            only = None if versions is None else tuple(versions)
            name = plant.__name__.replace("_", " ")
            self.situations.append(Situation(self.stage, name, sentence, plant, only, is_racy))
            return plant

        return take


@dataclass(frozen=True, slots=True)
class Score:
    """An answer, and whether it is right."""

    is_right: bool
    words: str
