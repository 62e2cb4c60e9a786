"""Finds the setting that was probably meant by a name: of a key, a variable, a flag, or a property of Java's clients."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

from exporter.config.kafka_section import INSTEAD_OF

CLUSTERS: Final = "clusters"
"""The one key of the file with the clusters of a fleet."""
_CURES: Final = {**INSTEAD_OF, CLUSTERS: "the file with the clusters of a fleet is given by --clusters"}
_SIMILARITY_MIN: Final = 0.6
"""Below it another setting is a far-fetched guess."""
_SHORT_FORM_MIN: Final = 3
_WORD: Final = re.compile("[^._-]+")
_VARIABLES: Final = "kafka_transaction_exporter__"
_SECRET_WORDS: Final = frozenset({"password", "secret"})


def instead_of(name: str, known: Iterable[str]) -> str:
    """Returns the end of a sentence about an unknown setting: what to write in its place, or else the nearest name."""
    bare = name.removeprefix("--")
    cure = _CURES.get(bare) or _CURES.get(f"kafka.{bare}")
    return nearest(name, known) if cure is None else f"; {cure}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns the end of a sentence about an unknown name; empty where none is similar."""
    wanted = _words(name)
    candidates = {candidate: _words(candidate) for candidate in known}
    if wanted[-1:] != ["file"]:  # the file of a secret is meant only where the secret itself cannot be
        others = [*candidates.values()]
        candidates = {
            candidate: words
            for candidate, words in candidates.items()
            if _SECRET_WORDS.isdisjoint(words[-2:-1]) or words[:-1] not in others
        }
    variants = [wanted]
    if wanted and wanted[0] not in {words[0] for words in candidates.values()}:  # Kafka's clients have no sections
        variants.append(["kafka", *wanted])
    # Of those that are alike no password: its value would be shown, or be used as one.
    ranked = [
        (
            max(_similarity(words, each) for each in variants),
            words[-1] not in _SECRET_WORDS,
            _ratio(words, wanted),
            candidate,
        )
        for candidate, words in candidates.items()
    ]
    similarity, *_, best = max(ranked, default=(0.0, ""))
    return f"; did you mean {best}?" if similarity >= _SIMILARITY_MIN else ""


def _words(name: str) -> list[str]:
    return _WORD.findall(name.lower().removeprefix(_VARIABLES))


def _ratio(one: list[str], other: list[str]) -> float:
    return difflib.SequenceMatcher(None, " ".join(one), " ".join(other)).ratio()


def _similarity(candidate: list[str], name: list[str]) -> float:
    """Returns the similarity of what two names do not share: sections and last words are those of many settings."""
    own, other = [*candidate], [*name]
    while own and other and own[0] == other[0]:
        del own[0], other[0]
    if not other or own[-len(other) :] == other:
        return 1.0
    while len(own) > 1 and len(other) > 1 and own[-1] == other[-1]:
        del own[-1], other[-1]
    is_short_form = len(other[0]) >= _SHORT_FORM_MIN and " ".join(own).startswith(" ".join(other))
    return 1.0 if is_short_form else _ratio(own, other)
