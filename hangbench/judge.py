"""Judges what a detector said of a scene against its truth. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from hangbench.detector import Response, Says
from hangbench.situations.words import Expected, Lacking, Truth


class Judgement(Enum):
    """The kinds of an answer."""

    RIGHT = "right"
    WEAK = "weak"
    """Nothing false, and less than can be known: unsure of what can be proved, or alarmed about what is healthy."""
    MISSED = "missed"
    """Says nothing of a transaction that needs a person."""
    FALSE = "false"
    """Calls a transaction hanging that is not: who aborts it loses data."""
    CRASHED = "crashed"
    """Ends with an error instead of an answer."""


WORST_FIRST = (Judgement.FALSE, Judgement.CRASHED, Judgement.MISSED, Judgement.WEAK, Judgement.RIGHT)
"""A false hang is worse than a crash in a later look: an operator acts on it."""


@dataclass(frozen=True, slots=True)
class Score:
    """The worst that there is to say, and every reason for it."""

    judgement: Judgement
    words: str


def score(
    responses: Sequence[Response],
    expected: Sequence[Expected],
    topics: Iterable[str],
    *,
    must_be_incomplete: bool = False,
    transactions_come_and_go: bool = False,
) -> Score:
    """A false hang counts in any look, everything else in the last one."""
    assert responses, "the detector was never asked"
    owned = set(topics)
    found: list[tuple[Judgement, str]] = [
        (Judgement.FALSE, f"FALSE HANGING: {_truth_of(expected, row)}")
        for response in responses
        for row, says in response.rows.items()
        if says is Says.HANGING and row[0] in owned and not _is_hang(expected, row)
    ]
    last = responses[-1]
    if last.death is not None:
        found.append((Judgement.CRASHED, f"crashed: {last.death}"))
    else:
        found += [judged for each in expected if (judged := _judged(each, last)) is not None]
        if must_be_incomplete and last.is_complete:
            found.append((Judgement.WEAK, "does not say that something is hidden"))
        if not transactions_come_and_go:
            found += _unexpected(expected, last, owned)
    worst = min((each[0] for each in found), key=WORST_FIRST.index, default=Judgement.RIGHT)
    return Score(worst, counted([words for _, words in found]) or Judgement.RIGHT.value)


def _judged(expected: Expected, response: Response) -> tuple[Judgement, str] | None:
    """None where there is nothing to say against it; a false hang is judged by `score`."""
    says, truth = response.says(*expected.key), expected.truth
    if says is Says.UNKNOWN:
        return (Judgement.WEAK, f"unsure of {truth.value}") if not expected.lacking else None
    if truth is Truth.HANGING:
        return _judged_hang(expected, says, response)
    if truth in {Truth.STUCK, Truth.OVERDUE}:
        return (Judgement.MISSED, f"missed {truth.value}") if says in {None, Says.OPEN} else None
    return (Judgement.WEAK, f"alarmed about {truth.value}") if says is Says.ATTENTION else None


def _judged_hang(expected: Expected, says: Says | None, response: Response) -> tuple[Judgement, str] | None:
    if says is Says.HANGING:
        return None
    if says is Says.ATTENTION:
        return Judgement.WEAK, "only a warning of hanging"
    if says is None and Lacking.TOPIC_HIDDEN in expected.lacking:
        return None
    if says is None and not expected.is_readable and not response.is_complete:
        return None
    return Judgement.MISSED, "missed hanging"


def _unexpected(expected: Sequence[Expected], response: Response, owned: set[str]) -> list[tuple[Judgement, str]]:
    known = {each.key for each in expected} | {(*each.key[:2], None) for each in expected}
    return [
        (Judgement.WEAK, "alarmed about nothing")
        for row, says in response.rows.items()
        if row[0] in owned and row not in known and says is Says.ATTENTION
    ]


def _is_hang(expected: Sequence[Expected], row: tuple[str, int, int | None]) -> bool:
    return any(
        each.truth is Truth.HANGING and row[:2] == each.key[:2] and row[2] in {None, each.key[2]} for each in expected
    )


def _truth_of(expected: Sequence[Expected], row: tuple[str, int, int | None]) -> str:
    found = {each.truth.value for each in expected if row[:2] == each.key[:2] and row[2] in {None, each.key[2]}}
    return ", ".join(sorted(found)) or "nothing is open"


def counted(words: Sequence[str]) -> str:
    """Joins the words, each once, with its number where it is several."""
    counts = {word: words.count(word) for word in dict.fromkeys(words)}
    return ", ".join(word if count == 1 else f"{count} × {word}" for word, count in counts.items())  # noqa: RUF001
