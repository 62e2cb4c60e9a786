"""How the recording of the history fares: frozen, for publication."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFacts:
    """At one instant."""

    rows: int = 0
    """Observations written since the start."""
    rows_waiting: int = 0
    """In memory, to be written with the next file: what a kill would lose."""
    rows_lost: int = 0
    """Given up because too many waited."""
    files: int = 0
    """In the directory, all processes' together, as the next."""
    size_bytes: int = 0
    newest_ms: int | None = None
    """The newest cycle that is on disk; None before the first file."""
    failure: str | None = None
    """Why nothing is written, in one sentence; None while it is."""
