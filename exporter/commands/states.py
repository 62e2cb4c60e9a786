"""Parses `--states`, names of transaction states."""

from __future__ import annotations

from exporter.snapshot import TransactionState

KNOWN_STATES = tuple(state.value for state in TransactionState if state is not TransactionState.UNKNOWN)
UNKNOWN = "-"
"""Shown in a table if no coordinator returned a state."""


def states(written: str | None, *, or_unknown: bool = False) -> tuple[str, ...]:
    """The states in a list such as `Ongoing,PrepareCommit`, empty for all. Raises ValueError with a sentence."""
    if written is None:
        return ()
    names = tuple(name.strip() for name in written.split(",") if name.strip())
    known = (*KNOWN_STATES, UNKNOWN) if or_unknown else KNOWN_STATES
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        named = f"names {wrong[0]!r}, a state that does not exist" if wrong else "names no state"
        raise ValueError(f"--states {named}; the states are {', '.join(known)}")
    return names
