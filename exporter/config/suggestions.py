"""Finds the setting that was probably meant by a name: of a key, a variable, a flag, or a property of Java's clients."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

from exporter.config.kafka_section import INSTEAD_OF

_SIMILARITY_MIN: Final = 0.6
"""Below it another setting is a far-fetched guess."""
_SHORT_FORM_MIN: Final = 3
_WORD: Final = re.compile("[^._-]+")
_SECRET_WORDS: Final = frozenset({"password", "secret"})


def instead_of(name: str, known: Iterable[str]) -> str:
    """Returns the end of a sentence about an unknown setting: what to write in its place, or else the nearest name."""
    cure = INSTEAD_OF.get(name.removeprefix("--"))
    return nearest(name, known) if cure is None else f"; {cure}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns the end of a sentence about an unknown name; empty where none is similar."""
    wanted = _words(name)
    candidates = {candidate: _words(candidate) for candidate in known}
    if wanted[-1:] != ["file"]:  # the file of a secret is meant only where the secret itself cannot be
        others = [*candidates.values()]
        candidates = {
            each: words
            for each, words in candidates.items()
            if _SECRET_WORDS.isdisjoint(words[-2:-1]) or words[:-1] not in others
        }
    # Of those that are alike no password: its value would be shown, or be used as one.
    ranked = [(_similarity(words, wanted), words[-1] not in _SECRET_WORDS, each) for each, words in candidates.items()]
    similarity, _, best = max(ranked, default=(0.0, True, ""))
    return f"; did you mean {best}?" if similarity >= _SIMILARITY_MIN else ""


def _words(name: str) -> list[str]:
    return _WORD.findall(name.lower())


def _similarity(candidate: list[str], name: list[str]) -> float:
    """Returns the similarity of what two names do not share: sections and last words are those of many settings."""
    if candidate[: len(name)] == name:
        return 1.0
    own, other = [*candidate], [*name]
    for end in (0, -1):
        while len(own) > 1 and len(other) > 1 and own[end] == other[end]:
            del own[end], other[end]
    one, two = " ".join(own), " ".join(other)
    is_short_form = len(two) >= _SHORT_FORM_MIN and one.startswith(two)
    return 1.0 if is_short_form else difflib.SequenceMatcher(None, one, two).ratio()
