"""Asks a command about one party: its question is in the environment, its answer is JSON. The README states both."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hangbench.command import AnswerError, UnreadableAnswerError, environment_for, is_number, list_in, once, printed_by
from hangbench.detector import Question
from hangbench.parties.words import Place

Held = dict[Place, "str | None"]
"""Partition on which a party stands still -> the transactional id of what holds it, or None."""

ABOUT_PARTIES: Final = ("HANGBENCH_GROUP", "HANGBENCH_TRANSACTIONAL_ID", "HANGBENCH_YOUNG_MS")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartyAnswer:
    """The response of a detector about one party."""

    held: Held
    is_complete: bool = True
    death: str | None = None
    """The sentence with which it ended instead of an answer."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PartyDetector:
    """A command that is run once for each party."""

    name: str
    command: Sequence[str]

    def ask(self, question: Question, *, group: str = "", transactional_id: str = "", young_ms: int) -> PartyAnswer:
        """A standstill counts if it lasts for longer than `young_ms`."""
        about = dict(zip(ABOUT_PARTIES, (group, transactional_id, str(young_ms)), strict=True))
        began = time.monotonic()
        try:
            with environment_for(question) as environment:
                held, is_complete = held_in(printed_by(self.command, {**environment, **about}, question))
        except AnswerError as error:
            return PartyAnswer(held={}, death=str(error), seconds=time.monotonic() - began)
        return PartyAnswer(held=held, is_complete=is_complete, seconds=time.monotonic() - began)


def held_in(printed: str) -> tuple[Held, bool]:
    """(where the party stands still, whether the detector has seen everything). Raises AnswerError."""
    rows, is_complete = list_in(printed, "held")
    return once(map(_row, itertools.count(), rows)), is_complete


def _row(number: int, said: Any) -> tuple[Place, str | None]:
    said = said if isinstance(said, dict) else {}
    topic, partition, behind = said.get("topic"), said.get("partition"), said.get("behind")
    if not (isinstance(topic, str) and is_number(partition) and (behind is None or isinstance(behind, str))):
        raise UnreadableAnswerError(
            f"held[{number}] needs a topic (text), a partition (number) and behind (text, or null)"
        )
    return (topic, partition), behind
