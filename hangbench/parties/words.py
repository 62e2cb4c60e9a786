"""Declares the vocabulary of the bench: a party that stands still, the cause, a situation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

Place = tuple[str, int]
"""A topic and a partition."""
Steps = Generator[None, None, None]
"""The steps of a situation, which yields where detectors are asked."""


OF_PARTIES = "parties"
"""The stage of these situations in results and lists."""


class Cause(Enum):
    """The reason why a party stands still."""

    HANGING = "hanging"
    OWNER_SILENT = "owner_silent"
    LIVE = "live"
    """The owner writes, or was seen a short time ago."""
    STUCK_AT_COORDINATOR = "stuck_at_coordinator"
    PREPARED_2PC = "prepared_2pc"
    WITHIN_TIMEOUT = "within_timeout"
    """`owner_silent` or `live`: one look has not watched the owner."""
    COMPLETING = "completing"
    """No situation has this truth; a detector may say so."""
    OVERDUE = "overdue"
    INCONCLUSIVE = "inconclusive"

    @property
    def for_one_look(self) -> Cause:
        """The same cause as one look can know it."""
        return Cause.WITHIN_TIMEOUT if self in {Cause.OWNER_SILENT, Cause.LIVE} else self


@dataclass(frozen=True, slots=True)
class Standstill:
    """A party that stands still on a partition: a group behind a transaction, or a producer that cannot start."""

    party: str
    """A group, a share group, or a transactional id."""
    place: Place
    cause: Cause
    behind: str | None
    """The transactional id of the transaction that holds it; None if no coordinator knows an id."""

    @property
    def where(self) -> tuple[str, Place]:
        """The party and the partition, without the cause."""
        return self.party, self.place

    @property
    def for_one_look(self) -> Standstill:
        """The same as one look can know it."""
        return Standstill(self.party, self.place, self.cause.for_one_look, self.behind)


Standstills = frozenset[Standstill]
NOBODY: Standstills = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A name, its sentence for the table, and how it is made."""

    name: str
    sentence: str
    make: Callable[..., Steps]
    versions: tuple[str, ...] | None
    """None: all."""
    not_offered: str
    """The reason why the other versions cannot play it."""
    quick: bool
    """True for a selection that takes a minute or two."""
    alone: bool
    """True if it restarts the broker, so that it is played after all others."""
    patient: bool
    """True if only a standstill of ten minutes counts in it, not of a second."""
    late: bool
    """True if its transaction has a short time-out, so that it is made last and judged first."""

    def is_for(self, version: str) -> bool:
        """True if this version of Kafka can play it."""
        return self.versions is None or version in self.versions


MakeT = TypeVar("MakeT", bound=Callable[..., Steps])


@dataclass(slots=True)
class Collection:
    """The situations of one file, in their order."""

    situations: list[Situation] = field(default_factory=list)

    def add(
        self, *, versions: Iterable[str] | None = None, not_offered: str = "", **flags: bool
    ) -> Callable[[MakeT], MakeT]:
        """Takes a function as a situation: its name, and the first paragraph of its docstring."""

        def take(make: MakeT) -> MakeT:
            assert make.__doc__, f"{make.__name__} needs a sentence"
            given: dict[str, Any] = {"quick": False, "alone": False, "patient": False, "late": False, **flags}
            self.situations.append(
                Situation(
                    name=make.__name__.replace("_", " "),
                    sentence=" ".join(make.__doc__.split("\n\n")[0].split()),
                    make=make,
                    versions=None if versions is None else tuple(versions),
                    not_offered=not_offered,
                    **given,
                )
            )
            return make

        return take
