"""Formats durations and counts for people."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARKDOWN = re.compile(r"[\\`*\[\]<>|#]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that format; an underscore within a word does not (CommonMark), and most names have some."""
_QUOTED = re.compile(r"""(?<!\w)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?!\w)""")
"""Texts as repr() quotes them. An apostrophe after a letter begins none."""
_UNITS_BYTES = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def humanize_duration(duration_ms: int) -> str:
    """The two largest units: `3 h 0 min`, `45 s`, `250 ms`."""
    if duration_ms < 1000:  # noqa: PLR2004  # one second
        return f"{duration_ms} ms"
    largest = next(index for index, (_, unit_ms) in enumerate(_UNITS_MS) if duration_ms >= unit_ms)
    words = []
    for name, unit_ms in _UNITS_MS[largest : largest + 2]:
        words.append(f"{duration_ms // unit_ms} {name}")
        duration_ms %= unit_ms
    return " ".join(words)


def humanize_count(count: int, noun: str, plural: str | None = None) -> str:
    """`1 broker`, `2 brokers`, `2,500 partitions`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def humanize_bytes(count: int) -> str:
    """`1.2 GB`, `640 MB`, `17 kB`, `3 bytes`: units of a thousand."""
    for name, unit in _UNITS_BYTES:
        if count >= unit:
            # Two digits or more.
            return f"{count / unit:.1f} {name}" if count < 10 * unit else f"{count // unit:,} {name}"
    return humanize_count(count, "byte")


def humanize_names(names: Sequence[str], *, shown_max: int) -> str:
    """`a, b and 3 more`; empty without a name."""
    more = len(names) - shown_max
    return ", ".join(names[:shown_max]) + (f" and {more:,} more" if more > 0 else "")


def as_sentence(phrase: str) -> str:
    """`phrase` with a capital and a full stop; a name or a setting at its beginning stays as it is."""
    first = phrase.split(" ", 1)[0].rstrip(",:;")
    begun = f"{phrase[0].upper()}{phrase[1:]}" if first.isalpha() else phrase
    return f"{begun.removesuffix('.')}."


def without_ids(sentence: str) -> str:
    """`sentence` with `(hidden)` for each transactional id: the sentences of this project quote ids as Python does.

    Whatever else is quoted so is hidden, too: an id that nobody expected in a sentence must not be shown.
    """
    return _QUOTED.sub("(hidden)", sentence)


def printable(text: str) -> str:
    """`text` without control characters: a transactional id may contain any, and a terminal executes some."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def in_markdown(text: str) -> str:
    """Names come from brokers: one line, and no Markdown."""
    return _MARKDOWN.sub(r"\\\g<0>", printable(text))
