"""Judges what a detector said of a party against the truth. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from hangbench.judge import WORST_FIRST, Judgement, Score, counted
from hangbench.parties.detector import Held, PartyAnswer

Opinion = tuple[Judgement, str]


def opinions(truth: Held, answer: PartyAnswer) -> list[Opinion]:
    """Everything that is to be said against an answer; nothing where it is right."""
    if answer.death is not None:
        return [(Judgement.CRASHED, f"crashed: {answer.death}")]
    found: list[Opinion] = []
    for place, behind in truth.items():
        if place not in answer.held:
            is_unsure = not answer.is_complete
            found.append((Judgement.WEAK, "unsure of a party") if is_unsure else (Judgement.MISSED, "missed a party"))
        elif answer.held[place] != behind:
            found.append((Judgement.WEAK, "another transaction" if answer.held[place] else "no transaction named"))
    return [*found, *((Judgement.FALSE, "FALSE PARTY") for place in answer.held if place not in truth)]


def worst_of(found: Iterable[Opinion]) -> Score:
    """The worst of all opinions on a situation, with every word."""
    opinions_found = list(found)
    worst = min((judgement for judgement, _ in opinions_found), key=WORST_FIRST.index, default=Judgement.RIGHT)
    return Score(worst, counted([words for _, words in opinions_found]) or Judgement.RIGHT.value)
